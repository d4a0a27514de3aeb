"""Compile and link all extension modules for macOS, on another system, by the compiler of PyPI's ziglang.

python tests/support/macos_build.py FOLDER

Needs cmake, ninja and ziglang beside the Python that runs this. What is made cannot be run here: it says that
the sources are well for Clang, libc++ and the linker of macOS.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
TARGETS = {"arm64": "aarch64-macos.12.0", "x86_64": "x86_64-macos.12.0"}
# zig's linker reads no files of the symbols that Python has, as nanobind gives them, and makes no bundles
_TOOL = """#!/bin/sh
for word; do
  shift
  case "$word" in
    -bundle) set -- "$@" -shared ;;
    -Wl,@*) set -- "$@" -Wl,-undefined,dynamic_lookup ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec {python} -m ziglang {tool} "$@"
"""
_TOOLCHAIN = """
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR {processor})
set(CMAKE_CXX_COMPILER {folder}/c++)
set(CMAKE_AR {folder}/ar)
set(CMAKE_RANLIB {folder}/ranlib)
set(CMAKE_CROSSCOMPILING_EMULATOR /usr/bin/env)
set(NB_SUFFIX .abi3.so)
"""


def build(processor, target, folder):
    """Compile and link for a processor, and return the files of modules."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, tool in {"c++": f"c++ -target {target}", "ar": "ar", "ranlib": "ranlib"}.items():
        (folder / name).write_text(_TOOL.format(python=sys.executable, tool=tool))
        (folder / name).chmod(0o755)
    toolchain = folder / "toolchain.cmake"
    toolchain.write_text(_TOOLCHAIN.format(processor=processor, folder=folder))
    configure = [BIN / "cmake", "-G", "Ninja", "-S", ROOT, "-B", folder / "build"]
    configure += [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", "-DPETAMAP_WERROR=ON"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([BIN / "ninja", "-C", folder / "build"], check=True)
    return sorted((folder / "build").rglob("_*.so"))


def main(folder):
    """Build for all processors, and say what was made."""
    for processor, target in TARGETS.items():
        modules = build(processor, target, folder / processor)
        kinds = {one.read_bytes()[:4] for one in modules}
        assert kinds == {b"\xcf\xfa\xed\xfe"}, kinds  # Mach-O of 64 bits
        size = sum(one.stat().st_size for one in modules)
        print(f"macOS, {processor}: {len(modules)} modules, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
