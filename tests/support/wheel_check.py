"""Try an installed wheel: it is complete, small, and gives the same bits under each instruction set.

python tests/support/wheel_check.py [--size WHEEL ...] [--examples NAME ...] [--tests FILE ...]
    [--suite FILE ... [--sets SET ...]]

Runs in the environment of the Python that it is started with, in which no compiler may be found, and ends
with 1 where something is wrong.
"""

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import arch_bits

HERE = Path(__file__).parent
MOST_BYTES = 10e6
_COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "clang++", "cmake", "ninja")


def faults_of(wheel):
    """Return what is wrong with a wheel, and print its size and parts."""
    size = wheel.stat().st_size
    with zipfile.ZipFile(wheel) as file:
        names = [one.filename for one in file.infolist()]
        compiled = sum(one.compress_size for one in file.infolist() if ".so" in one.filename)
    print(f"{wheel.name}: {size / 1e6:.2f} MB, {compiled / 1e6:.2f} MB of it extension modules")
    faults = [] if size < MOST_BYTES else [f"{size / 1e6:.1f} MB is more than {MOST_BYTES / 1e6:.0f}"]
    if "x86_64" in wheel.name and "macosx" not in wheel.name:
        sets = {name.split("/")[2] for name in names if name.startswith("petamap/sky/") and ".so" in name}
        faults += [] if sets == {"v2", "v3", "v4"} else [f"has kernels of {sorted(sets)} alone"]
    faults += [f"holds {name}" for name in names if name.startswith(("tests/", "cpp/", "bindings/"))]
    if not any(name.endswith("run_summary.schema.json") for name in names):
        faults.append("lacks files of data")
    return faults


def faults_of_installation():
    """Return what is wrong with the petamap of this Python."""
    import petamap
    from petacomm.base.errors import UserError
    from petamap.cuda.source import kernel_source

    faults = [f"{name} is on the PATH" for name in _COMPILERS if shutil.which(name)]
    if "site-packages" not in petamap.__file__:
        faults.append(f"{petamap.__file__} is not installed")
    try:
        kernel_source()
    except UserError as error:
        faults.append(str(error))
    return faults


def run(*words):
    """Run a Python program here, and return its exit code."""
    return subprocess.run([sys.executable, *map(str, words)], check=False, env=os.environ).returncode


def failing_sets(files, sets):
    """Run test files under each set that wheel and processor have, or those named; return which fail."""
    runnable = arch_bits.runnable_sets(sys.executable)
    failing = [name for name in sets if name not in runnable]
    for name in sets or runnable:
        os.environ["PETAMAP_ARCH"] = name
        print(f"tests under {name}", flush=True)
        words = ("-m", "pytest", "-q", "-n", "auto", "--maxprocesses", "2", "--dist", "worksteal")
        if name in runnable and run(*words, "-p", "no:cacheprovider", *files):
            failing.append(name)
    return failing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", nargs="*", default=[], metavar="WHEEL", type=Path)
    parser.add_argument("--any-path", action="store_true", help="compilers may be on the PATH")
    parser.add_argument("--examples", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--tests", nargs="*", default=[], metavar="FILE")
    parser.add_argument(
        "--suite", nargs="*", default=[], metavar="FILE", help="test files run under each set"
    )
    parser.add_argument("--sets", nargs="*", default=[], metavar="SET", help="of --suite; all by default")
    given = parser.parse_args()
    faults = [fault for wheel in given.size for fault in faults_of(wheel)]
    if given.examples or given.tests or given.suite:
        found = faults_of_installation()
        faults += [one for one in found if not (given.any_path and one.endswith("PATH"))]
        if run("-m", "petamap.cli.main", "doctor"):
            faults.append("petamap doctor fails")
        compared = given.examples or given.tests
        if compared and run(HERE / "arch_bits.py", "--examples", *given.examples, "--", *given.tests):
            faults.append("bits differ between instruction sets, or tests fail")
    if given.suite:
        faults += [f"tests fail under {name}" for name in failing_sets(given.suite, given.sets)]
    print("\n".join(faults or ["all is well"]))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
