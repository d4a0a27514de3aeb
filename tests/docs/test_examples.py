"""Examples that other pages do not run."""

import importlib.util
from pathlib import Path

import pytest
from mpi import run_ranks

EXAMPLES = Path(__file__).parents[2] / "examples"


def poisson(comm):
    spec = importlib.util.spec_from_file_location("finite_elements", EXAMPLES / "finite_elements.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    n_nodes, iterations, error = example.solve(comm)
    assert n_nodes == (example.N + 1) ** 2
    assert iterations < 2 * example.N
    # the five-point stencil is exact for this solution: what is left is that of the solver
    assert error < 1e-11


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_poisson_on_elements_dealt_to_ranks(n_ranks):
    run_ranks(poisson, n_ranks)


def test_arrays_are_mapped_as_the_readme_says():
    """The page runs the lines, which the tests of pages do."""
    lines = (EXAMPLES / "from_arrays.py").read_text().split('"""\n\n', 1)[1]
    assert f"```python\n{lines}```" in (EXAMPLES.parent / "README.md").read_text()
