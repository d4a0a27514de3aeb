"""Extreme numbers of each option of each source and section: a typed error, or maps of numbers."""

import json
import sys
from pathlib import Path

import pytest
from cases import cases
from commands import run_command
from extreme_numbers import numbers

from petamap.data.config.source_kinds import source_kind
from petamap.data.config.template import TEMPLATES
from petamap.data.source import source_kinds

PROGRAM = Path(__file__).parents[1] / "support" / "extreme_numbers.py"
KINDS = sorted(set(source_kinds()) & set(TEMPLATES))
KINDS = [kind for kind in KINDS if any(numbers(field) for field in source_kind(kind).fields.values())]


@pytest.mark.parametrize(
    ("kind", "step"), cases(("noise", 20), long=[(kind, 1) for kind in ["sections", *KINDS]])
)
def test_numbers(kind, step, tmp_path, outcomes):
    if kind == "sky-pysm":
        pytest.importorskip("pysm3")
    said = run_command([sys.executable, PROGRAM, tmp_path, kind, step], 1800)
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    ended = [line for line in lines if len(line) > 2]
    assert len(lines) == 2 * len(ended) > 0 and said.returncode == 0, (lines[-1], said.stderr)
    for _, override, outcome, words, _ in ended:
        outcomes.count(outcome, f"{override}: {words}")
    assert not outcomes.bad, outcomes.bad[0]
