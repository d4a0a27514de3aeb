"""Conjugate gradients on a lattice, plain and pipelined: against dense algebra, and bits of one process."""

import functools

import numpy as np
import pytest
from cases import cases
from lattices import dense_apply, made_links, whole_field
from mpi import run_ranks

from petacomm.base.errors import ConfigError, ConvergenceError
from petacomm.collectives.persistent import PersistentCollective
from petacomm.mpi import SerialCommunicator
from petacomm.redistribution import CG_VARIANTS, HALO_METHODS, Lattice, StaggeredOperator, solve_cg
from petacomm.redistribution.array_layout import DatatypeError

SHAPE, MASS = (4, 4, 6, 4), 0.3
GRIDS = {1: (1, 1, 1, 1), 2: (1, 1, 2, 1), 3: (1, 1, 3, 1), 4: (2, 1, 1, 2), 5: (1, 1, 5, 1), 6: (2, 1, 3, 1)}


def system(comm, method="auto", shape=SHAPE, grid=None, mass=MASS):
    """Return the operator on this rank, and its part of a right-hand side."""
    lattice = Lattice(shape, grid or GRIDS[comm.size], comm.rank)
    mine = np.stack([lattice.local_rows(link)[: lattice.n_sites] for link in made_links(shape)])
    rhs = lattice.local_rows(whole_field(shape, 3))[lattice.sites(0)].copy()
    return StaggeredOperator(comm, lattice, mine, mass, method), rhs


def whole(operator, vector):
    """Return a field of a single process on the whole lattice."""
    rows = np.zeros((operator.lattice.n_rows, 3), complex)
    rows[operator.lattice.sites(0)] = vector
    return rows[operator.lattice.index]


@functools.cache
def dense_matrix(shape, mass):
    """Return the operator as a matrix on the even sites, and which numbers of a field these have."""
    even = np.broadcast_to((np.indices(shape).sum(axis=0) % 2 == 0)[..., None], (*shape, 3))
    units = np.eye(even.size, dtype=complex)[even.reshape(-1)]
    columns = [dense_apply(made_links(shape), mass, unit.reshape(*shape, 3)) for unit in units]
    return np.stack([column[even] for column in columns], axis=1), even


@pytest.mark.parametrize("variant", CG_VARIANTS)
@pytest.mark.parametrize("mass", [1.0, 0.05])
def test_solutions_are_those_of_dense_algebra(variant, mass):
    shape = (4, 2, 4, 2)
    matrix, even = dense_matrix(shape, mass)
    expected = np.linalg.solve(matrix, whole_field(shape, 3)[even])
    operator, rhs = system(SerialCommunicator(), shape=shape, mass=mass)
    found = solve_cg(operator, rhs, 1e-10, variant=variant)
    solution = whole(operator, found.vector)
    assert not solution[~even].any()
    # The error is at most the residual times the condition. Without rounding, iterations end with the rank.
    condition = np.linalg.cond(matrix)
    bound = 2e-10 * condition * np.linalg.norm(expected)
    assert np.linalg.norm(solution[even] - expected) < bound
    assert 3 < len(found.residuals) < 2 * len(expected)


def test_pipelined_iterations_converge_as_plain_ones():
    for mass in (1.0, 0.3, 0.05):
        operator, rhs = system(SerialCommunicator(), mass=mass)
        plain, pipelined = (solve_cg(operator, rhs, 1e-9, variant=name) for name in CG_VARIANTS)
        more = len(pipelined.residuals) - len(plain.residuals)
        assert abs(more) <= 1 + 0.03 * len(plain.residuals)
        # Equal but for rounding, which later iterations amplify.
        np.testing.assert_allclose(pipelined.residuals[:20], plain.residuals[:20], rtol=1e-9)
        left = whole(operator, rhs) - dense_apply(made_links(SHAPE), mass, whole(operator, pipelined.vector))
        assert np.linalg.norm(left) <= 1.001e-9 * np.linalg.norm(rhs)


def bits(comm):
    """Residuals and solutions have the bits of one process, whatever the variant and the method of halos."""
    for variant in CG_VARIANTS:
        alone, rhs = system(SerialCommunicator(), grid=GRIDS[1])
        expected = solve_cg(alone, rhs, 1e-9, variant=variant)
        assert 5 < len(expected.residuals) < 100
        for method in [*HALO_METHODS, "auto"]:
            operator, rhs = system(comm, method)
            found = solve_cg(operator, rhs, 1e-9, variant=variant)
            assert found.residuals == expected.residuals, "residuals have other bits"
            rows = np.zeros((operator.lattice.n_rows, 3), complex)
            rows[operator.lattice.sites(0)] = found.vector
            box = operator.lattice.layout.box(comm.rank)
            assert np.array_equal(rows[operator.lattice.index], whole(alone, expected.vector)[box])


@pytest.mark.parametrize("n_ranks", cases(1, 2, 3, long=(4, 5, 6)))
def test_bits_are_those_of_one_process(n_ranks):
    run_ranks(bits, n_ranks)


class Recorder:
    """An operator that records when it is applied, and when sums begin, go on and end."""

    def __init__(self, operator, monkeypatch):
        self.operator, self.comm, self.events = operator, operator.comm, []
        for name in ("start", "test", "wait"):
            monkeypatch.setattr(PersistentCollective, name, self.recorded(name))

    def recorded(self, name):
        original = getattr(PersistentCollective, name)

        def call(collective, *arguments):
            self.events.append(name)
            return original(collective, *arguments)

        return call

    def apply(self, vector, out, meanwhile=None):
        self.events.append("apply")
        self.operator.apply(vector, out, meanwhile)


def test_sums_travel_while_the_operator_is_applied(monkeypatch):
    operator, rhs = system(SerialCommunicator(), mass=1.0)
    recorder = Recorder(operator, monkeypatch)
    found = solve_cg(recorder, rhs, 1e-6, variant="pipelined")
    # Two halos an operator, and four parts of the inner sites of each.
    one = ["start", "apply", *["test"] * 8, "wait"]
    n = len(found.residuals)
    # The first A r, and in the end the residual of x.
    assert n < 50 and recorder.events == ["apply", *one * n, "apply"]


def test_digits_that_recurrences_lose_are_computed_anew(monkeypatch):
    """Of a small mass, recurrences alone do not come to a residual of 10^-10 in as many iterations."""
    operator, rhs = system(SerialCommunicator(), mass=0.01)
    plain, found = (solve_cg(operator, rhs, 1e-10, 2000, variant) for variant in CG_VARIANTS)
    left = np.empty_like(rhs)
    operator.apply(found.vector, left)
    assert np.linalg.norm(rhs - left) <= 1.001e-10 * np.linalg.norm(rhs)
    assert found.n_replaced > 5 and len(found.residuals) < 1.1 * len(plain.residuals)
    monkeypatch.setattr("petacomm.redistribution.lattice_cg._PERIOD", 10**9)
    with pytest.raises(ConvergenceError):
        solve_cg(operator, rhs, 1e-10, len(found.residuals), "pipelined")


def test_a_residual_below_rounding_is_an_error():
    operator, rhs = system(SerialCommunicator(), mass=1.0)
    with pytest.raises(ConvergenceError, match=r"pipelined recurrences reach a residual of .*e-1") as caught:
        solve_cg(operator, rhs, 1e-25, variant="pipelined")
    assert "'plain'" in caught.value.mend


@pytest.mark.parametrize("variant", CG_VARIANTS)
def test_what_cannot_be_solved(variant):
    operator, rhs = system(SerialCommunicator())
    assert not solve_cg(operator, np.zeros_like(rhs), variant=variant).vector.any()
    with pytest.raises(ConvergenceError, match="after 3 iterations"):
        solve_cg(operator, rhs, 1e-9, n_iterations=3, variant=variant)


def differing_variants(comm):
    operator, rhs = system(comm)
    with pytest.raises(DatatypeError, match="ranks differ"):
        solve_cg(operator, rhs, variant=CG_VARIANTS[comm.rank == comm.size - 1])


def test_wrong_variants_are_errors():
    operator, rhs = system(SerialCommunicator())
    with pytest.raises(
        ConfigError, match=r"no variant of conjugate gradients 'pipelind' \(did you mean 'pipelined'"
    ):
        solve_cg(operator, rhs, variant="pipelind")
    run_ranks(differing_variants, 2)
