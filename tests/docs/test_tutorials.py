"""Tutorials: the shortest are run; `make test-tutorials` runs all, as notebooks."""

import ast
import sys
from pathlib import Path

import pytest
from commands import run_command

TUTORIALS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.py"))
SHORTEST = ("2_own_arrays", "7_placing_ranks")
OF_TOAST = "3_toast_in_memory"  # which `make test-interop` runs


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_each_begins_with_a_title_and_compiles(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# %% [markdown]\n# # ")
    ast.parse(text)


@pytest.mark.parametrize("name", [*SHORTEST, OF_TOAST])
def test_the_shortest_run(tmp_path, name):
    pytest.importorskip("matplotlib")
    if name == OF_TOAST:
        pytest.importorskip("toast", reason="no TOAST: make test-interop has one")
    (path,) = (one for one in TUTORIALS if one.stem == name)
    code = f"import matplotlib; matplotlib.use('Agg'); exec(open({str(path)!r}).read())"
    run_command([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=300)
