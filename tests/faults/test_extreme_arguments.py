"""Extreme arguments of each public function and class: an error that says what is wrong, or a result."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import cases
from commands import run_command
from extreme_arguments import public_names

PROGRAM = Path(__file__).parents[1] / "support" / "extreme_arguments.py"
NAMES = public_names()


@pytest.mark.parametrize(("name", "step"), cases(("all", 151), long=[(name, 1) for name in NAMES]))
def test_arguments(name, step, tmp_path, outcomes):
    names = NAMES if name == "all" else [name]
    words = [sys.executable, PROGRAM, tmp_path, step, *names]
    said = run_command(words, 1800, stdin=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    ended = [line for line in lines if len(line) > 1]
    assert len(lines) == 2 * len(ended) > 0 and said.returncode == 0, (lines[-1:], said.stderr)
    for call, outcome, words, _ in ended:
        outcomes.count(outcome, f"{call}: {words}")
    assert not outcomes.bad, outcomes.bad[0]
