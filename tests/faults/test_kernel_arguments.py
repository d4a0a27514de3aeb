"""Whatever arguments the functions of the extension modules are given, they raise an exception or return."""

import os
import sys
from pathlib import Path

import pytest
import wrong_arguments
from cases import cases
from commands import run_command
from kernel_calls import right_calls
from kernel_objects import targets

SCRIPT = Path(wrong_arguments.__file__)
# threads cost address space, of which the process has little
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_STACKSIZE": "512k", "MALLOC_ARENA_MAX": "1"}


def faults(names, n_calls, seed, folder):
    """Return what goes wrong in calls of functions; a process that ends is begun anew after the call."""
    found, names = [], list(names)
    for number in range(len(names) + 1):
        if not names:
            return found
        log = folder / f"{number}.log"
        command = [sys.executable, SCRIPT, log, n_calls, seed, *names]
        done = run_command(command, timeout=600, env=os.environ | ENVIRONMENT)
        lines = log.read_text().splitlines() if log.exists() else []
        found += [line for line in lines if line.startswith("FAULT")]
        if done.returncode == 0:
            return found
        last = next((line for line in reversed(lines) if not line.startswith("FAULT")), "import")
        found.append(f"ended with {done.returncode}: {last}\n{done.stderr[-500:]}")
        names = names[names.index(last.split()[0]) + 1 :] if lines else []
    return found


def groups(n):
    """Return the names of all functions in so many groups."""
    names = list(targets())
    return [names[k::n] for k in range(n)]


def test_each_function_is_called_rightly_first():
    assert set(targets()) == set(right_calls())


@pytest.mark.parametrize("group", range(3))
def test_wrong_arguments_end_no_process(group, tmp_path):
    assert not faults(groups(3)[group], 8, 1, tmp_path)


@pytest.mark.parametrize("name", cases(long=targets()))
def test_many_wrong_arguments_of_one_function(name, tmp_path):
    assert not faults([name], 100, 2, tmp_path)
