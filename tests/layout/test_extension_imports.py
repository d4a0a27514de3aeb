"""Importing an extension module runs no Python but that of the import itself.

A handler of a signal may raise wherever Python runs, and nanobind ends the process if that is amid the making
of a module.
"""

import subprocess
import sys

from kernel_objects import MODULES

_IMPORT = """
import importlib, sys
from importlib.machinery import ExtensionFileLoader

MAKING = {ExtensionFileLoader.create_module.__code__, ExtensionFileLoader.exec_module.__code__}
made, run = set(), []

def note(frame, event, _):
    if event != "call" or "importlib" in frame.f_code.co_filename and frame.f_code not in MAKING:
        return
    outer = frame
    while outer and outer.f_code not in MAKING:
        if outer.f_code.co_filename == "<internal>":  # of nanobind, which drops what is raised there
            return
        outer = outer.f_back
    if outer is frame:
        made.add(frame.f_locals["self"].name)
    elif outer and outer.f_locals["self"].name in sys.argv:
        run.append(f"{outer.f_locals['self'].name}: {frame.f_code.co_filename}:{frame.f_lineno}")

sys.setprofile(note)
for name in sys.argv[1:]:
    importlib.import_module(name)
sys.setprofile(None)
assert made.issuperset(sys.argv[1:]), made
assert not run, run
"""


def test_nothing_runs_where_a_signal_would_end_the_process():
    command = [sys.executable, "-c", _IMPORT, *MODULES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
