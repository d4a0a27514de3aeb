"""Compare bits: what kernels return in their tests, and example maps, under each instruction set and build.

python tests/support/arch_bits.py [--builds PYTHON ...] [--examples NAME ...] [TESTS ...]

Each build is the Python of an environment with petamap. Tests run with one thread, so that threads' parts of
sums are the same in each run. Ends with 1 where a test fails or bits differ. With --foreign, a build for
another architecture is compared: as its libraries give tests other numbers, functions must return the same
where their arguments are.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

from commands import run_command

ROOT = Path(__file__).parents[2]
_SETS = "from petacomm.base.instruction_set import *; print(*set(built_sets()) & set(processor_sets()))"

_OF_THE_MACHINE = {"petacomm.base.built_sets", "petacomm.base.processor_sets"}

_SECONDS = 3600.0  # that no tests of a set and no example need


def runnable_sets(python):
    """Return the sets of a build that this processor can run."""
    return sorted(run_command([python, "-c", _SETS], check=True).stdout.split())


def kernel_digests(python, name, tests, folder):
    """Return the SHA-256 of what each compiled function returns in each test, by 'test function'."""
    found = run_tests(python, name, tests, folder, "--digests")
    return {
        f"{test} {function}": sha for test, functions in found.items() for function, sha in functions.items()
    }


def run_tests(python, name, tests, folder, of):
    """Run tests with a set of kernels, and return what the plugin `kernel_digests` writes for an option."""
    files = {option: Path(folder) / f"{option[2:]}.json" for option in {"--digests", of}}
    command = [python, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "kernel_digests"]
    path = os.pathsep.join(filter(None, [str(ROOT / "tests/support"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PETAMAP_ARCH": name, "OMP_THREAD_LIMIT": "1", "PYTHONPATH": path}
    command += [word for option in files.items() for word in option] + [*tests]
    done = run_command(command, _SECONDS, cwd=ROOT, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"the tests fail for {name}:\n{done.stdout}{done.stderr}")
    return json.loads(files[of].read_text(encoding="utf-8"))


def compare_calls(first, other):
    """Print how many calls of each function two builds have in common, and return whether any differs."""
    failed = False
    for function in sorted(first.keys() & other.keys() - _OF_THE_MACHINE):
        common = first[function].keys() & other[function].keys()
        differ = sum(first[function][key] != other[function][key] for key in common)
        print(f"{function}: {len(common)} calls in common, {differ} differ", flush=True)
        failed |= differ > 0
    return failed


def example_digests(python, name, examples, folder):
    """Return the SHA-256 of each product of examples."""
    found = {}
    for example in examples:
        out = Path(folder) / f"{example}-{name}"
        command = [python, "-m", "petamap.cli.main", "run", "--example", example, "--out", out, "--force"]
        environment = {**os.environ, "PETAMAP_ARCH": name}
        run_command(command, _SECONDS, check=True, cwd=folder, env=environment)
        summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
        assert summary["environment"]["kernels"] == name
        found |= {f"{example} {one['file']}": one["sha256"] for one in summary["products"]}
    return found


def differences(first, other):
    """Return the keys under which two dictionaries differ."""
    return sorted(key for key in first.keys() | other.keys() if first.get(key) != other.get(key))


def _short(digests):
    """Return the first digits of the SHA-256 of all digests, and how many there are."""
    sha = hashlib.sha256("".join(f"{key} {value}\n" for key, value in sorted(digests.items())).encode())
    return f"{sha.hexdigest()[:16]} of {len(digests)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--builds", nargs="+", default=[sys.executable], metavar="PYTHON")
    parser.add_argument("--examples", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--foreign", metavar="PYTHON")
    parser.add_argument("tests", nargs="*", type=Path)
    given = parser.parse_args()
    first, failed = None, False
    with tempfile.TemporaryDirectory() as folder:
        if given.foreign:
            calls = [
                run_tests(python, runnable_sets(python)[-1], given.tests, folder, "--calls")
                for python in map(os.path.abspath, (given.builds[0], given.foreign))
            ]
            return int(compare_calls(*calls))
        for python in map(os.path.abspath, given.builds):
            for name in runnable_sets(python):
                found = [
                    kernel_digests(python, name, given.tests, folder) if given.tests else {},
                    example_digests(python, name, given.examples, folder),
                ]
                build = Path(python).parents[1].name
                print(f"{build} {name}: kernels {_short(found[0])}, examples {_short(found[1])}", flush=True)
                first = first or found
                for one, other in zip(first, found, strict=True):
                    for key in differences(one, other):
                        failed = True
                        print(f"    differs: {key}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
