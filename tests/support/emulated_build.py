"""Build petamap for aarch64 in a folder, with a Python that runs it on this processor by QEMU.

python tests/support/emulated_build.py FOLDER

Needs Debian's g++-aarch64-linux-gnu and qemu-user, and cmake and ninja beside the Python that runs this. The
Python for aarch64 is Debian's, its packages are PyPI's: FOLDER/bin/python starts it.
"""

import os
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
_DEBIAN = """
libbz2-1.0 libc6 libcrypt1 libdb5.3 libexpat1 libffi8 libgcc-s1 libgomp1 liblzma5 libncursesw6 libnsl2
libpython3.11-dev libpython3.11-minimal libpython3.11-stdlib libreadline8 libsqlite3-0 libssl3 libstdc++6
libtinfo6 libtirpc3 libuuid1 python3.11 python3.11-minimal zlib1g
"""
_TESTS = ("healpy", "hypothesis", "nanobind", "pytest")
_TOOLCHAIN = """
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;{root}")
set(Python_EXECUTABLE {root}/usr/bin/python3.11)
set(Python_INCLUDE_DIR {root}/usr/include/python3.11)
set(NB_SUFFIX .cpython-311-aarch64-linux-gnu.so)
set(CMAKE_CXX_FLAGS -I{root}/usr/include)
"""
_PYTHON = """#!/bin/sh
PYTHONPATH={site}:$PYTHONPATH exec qemu-aarch64 -L {root} {root}/usr/bin/python3.11 "$@"
"""
_STARTED = "import sys\nsys.executable = {python!r}  # by QEMU, as the processes that it starts\n"


def unpack_debian(folder, root):
    """Unpack Debian's packages for aarch64, by an apt of this folder alone."""
    (folder / "lists/partial").mkdir(parents=True)
    apt = ["apt-get", "-q", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64"]
    apt += [
        "-o",
        f"Dir::State::Lists={folder}/lists",
        "-o",
        f"Dir::Cache={folder}",
        "-o",
        "APT::Sandbox::User=root",
    ]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", *_DEBIAN.split()], check=True, cwd=folder)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True)


def install_packages(site):
    """Install what petamap and its tests need, in the versions of this environment where there are wheels."""
    named = [Requirement(one) for one in requires("petamap")]
    names = [one.name for one in named if not one.marker or one.marker.evaluate({"extra": ""})]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", site, "--only-binary=:all:"]
    pip += [
        "--python-version=3.11",
        *(f"--platform=manylinux_{one}_aarch64" for one in ("2_17", "2_27", "2_28")),
    ]
    wanted = [f"{name}=={version(name)}" for name in (*names, *_TESTS) if name != "ducc0"]
    # before 0.42, whose coefficients depend on where memory lies, it has no wheels for aarch64
    subprocess.run([*pip, *wanted, "ducc0"], check=True)


def build(folder, root, site):
    """Compile the kernels and bindings, and put them beside the modules of Python."""
    toolchain = folder / "toolchain.cmake"
    toolchain.write_text(_TOOLCHAIN.format(root=root))
    environment = {**os.environ, "PYTHONPATH": str(site), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    for words in (
        ["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder / "build", f"-DCMAKE_INSTALL_PREFIX={site}",
         f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DPETAMAP_WERROR=ON"],
        ["ninja", "-C", folder / "build", "install"],
    ):  # fmt: skip
        subprocess.run(words, check=True, env=environment)
    subprocess.run(["cp", "-rs", ROOT / "src/petamap", ROOT / "src/petacomm", site], check=True)
    for information in Path(BIN.parent).glob("lib/python3*/site-packages/petamap-*.dist-info"):
        subprocess.run(["cp", "-r", information, site], check=True)


def main(folder):
    """Make the folder."""
    root, site, python = folder / "root", folder / "site", folder / "bin/python"
    python.parent.mkdir(parents=True)
    unpack_debian(folder / "debian", root)
    install_packages(site)
    (site / "sitecustomize.py").write_text(_STARTED.format(python=str(python)))
    build(folder, root, site)
    python.write_text(_PYTHON.format(root=root, site=site))
    python.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
