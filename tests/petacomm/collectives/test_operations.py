"""What reductions combine by: places of extremes, functions of the user."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from mpi import run_ranks
from schedules import SHAPES, algorithm_names

import petacomm
from petacomm.collectives.operations import OPERATIONS
from petacomm.topology import Torus

PLACED = np.dtype([("value", np.float64), ("place", np.int64)])
VALUES = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan])


def placed(values, places):
    found = np.empty(len(values), PLACED)
    found["value"], found["place"] = values, places
    return found


def extreme(values, places, largest):
    """Return the place of the extreme by Python's own order, NaN beyond all, the lowest of equal ones."""
    sign = -1 if largest else 1
    return min(
        zip(values, places, strict=True),
        key=lambda pair: (not np.isnan(pair[0]), 0 if np.isnan(pair[0]) else sign * pair[0], pair[1]),
    )


@given(st.lists(st.tuples(VALUES, st.integers(0, 5)), min_size=1, max_size=6), st.randoms())
def test_places_of_extremes_in_any_order(pairs, chance):
    for name in ("maxloc", "minloc"):
        terms = [placed([value], [place]) for value, place in pairs]
        while len(terms) > 1:  # in any tree
            chance.shuffle(terms)
            terms.append(OPERATIONS[name](terms.pop(), terms.pop()))
        value, place = extreme(*zip(*pairs, strict=True), name == "maxloc")
        assert terms[0]["place"][0] == place
        np.testing.assert_equal(terms[0]["value"][0] + 0.0, value + 0.0)


@given(arrays.arrays(np.int64, 5), arrays.arrays(np.int64, 5))
def test_whole_numbers_have_places_too(one, other):
    dtype = np.dtype([("value", np.int64), ("place", np.int32)])
    a, b = np.empty(5, dtype), np.empty(5, dtype)
    a["value"], b["value"], a["place"], b["place"] = one, other, 0, 1
    np.testing.assert_array_equal(OPERATIONS["maxloc"](a, b)["place"], other > one)
    np.testing.assert_array_equal(OPERATIONS["minloc"](a, b)["place"], other < one)


def by_every_algorithm(comm):
    grid = Torus(SHAPES[comm.size])
    values = np.array([np.random.default_rng(rank).integers(0, 4, 37) for rank in range(comm.size)])
    mine = placed(values[comm.rank], np.full(37, comm.rank))
    complex_values = np.exp(1j * values)
    for name in algorithm_names("allreduce", comm.size, grid):
        if name in ("tree", "interrupt"):  # of integers
            continue
        given = {"algorithm": name, "grid": grid, "segment": 64}
        found = petacomm.allreduce(comm, mine, "maxloc", **given).values
        np.testing.assert_array_equal(found["value"], values.max(axis=0))
        np.testing.assert_array_equal(found["place"], values.argmax(axis=0))
        found = petacomm.reduce(comm, mine, "minloc", comm.size - 1, **{**given, "algorithm": "binomial"})
        if comm.rank == comm.size - 1:
            np.testing.assert_array_equal(found.values["place"], values.argmin(axis=0))
        product = petacomm.allreduce(comm, complex_values[comm.rank], np.multiply, **given).values
        np.testing.assert_allclose(product, complex_values.prod(axis=0), rtol=1e-12)
    total = petacomm.PersistentCollective(comm, "allreduce", mine, "maxloc")
    total.start(mine)
    np.testing.assert_array_equal(total.wait()["place"], values.argmax(axis=0))


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 6])
def test_every_algorithm(n_ranks):
    run_ranks(by_every_algorithm, n_ranks)
