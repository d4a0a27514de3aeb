"""Halo exchanges against the global lattice, and their datatypes."""

import itertools
import resource

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from lattices import whole_field
from mpi import run_ranks

from petacomm.base.errors import ConfigError
from petacomm.mpi import SerialCommunicator
from petacomm.mpi.datatypes import Datatypes
from petacomm.redistribution.array_layout import DatatypeError
from petacomm.redistribution.block_pattern import BlockPattern
from petacomm.redistribution.halo import HALO_METHODS, OBJECTS, LatticeField
from petacomm.redistribution.lattice import Lattice
from petacomm.redistribution.staggered import StaggeredOperator

# Shape and grid by number of ranks: even and odd parts, parts of one site, one axis and five.
CASES = {
    1: [((4, 2, 4, 6), (1, 1, 1, 1))],
    2: [((4, 4, 4, 4), (1, 1, 1, 2)), ((4, 6, 2), (1, 2, 1)), ((2,), (2,))],
    3: [((4, 4, 4, 4), (3, 1, 1, 1)), ((6, 8), (1, 3)), ((2, 2, 4, 2, 2), (1, 1, 3, 1, 1))],
    4: [((4, 4, 4, 6), (1, 2, 1, 2)), ((4, 6), (4, 1))],
    6: [((6, 4, 2, 4), (3, 1, 1, 2))],
    8: [((4, 4, 4, 2), (2, 2, 2, 1)), ((8, 2), (8, 1))],
}


def check_field(comm, shape, grid, kind, dtype, method):
    lattice = Lattice(shape, grid, comm.rank)
    field = LatticeField(comm, lattice, kind, dtype, method)
    whole = whole_field(shape, OBJECTS[kind], dtype)
    for turn in (1, 2):
        field.values[...] = lattice.local_rows(whole * turn)
        for parity in (0, 1):
            field.exchange(parity)
            neighbours = lattice.neighbours[lattice.sites(1 - parity)]
            for to in lattice.directions:
                beside = np.roll(whole * turn, -1 if to.up else 1, to.axis)
                expected = lattice.local_rows(beside)[lattice.sites(1 - parity)]
                got = field.values[neighbours[:, to.number]]
                assert np.array_equal(got, expected), (shape, grid, kind, method, to)
            comm.barrier()


def halos(comm):
    for shape, grid in CASES[comm.size]:
        for (kind, dtype), method in itertools.product(
            [("vector", "c16"), ("half", "c8"), ("matrix", "c16")], [*HALO_METHODS, "auto"]
        ):
            check_field(comm, shape, grid, kind, dtype, method)


@pytest.mark.parametrize("n_ranks", cases(1, 3, long=(2, 4, 6, 8)))
def test_ghosts_equal_the_sites_of_neighbours(n_ranks):
    run_ranks(halos, n_ranks)


def test_several_nodes_of_several_ranks(monkeypatch):
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", "2")
    run_ranks(halos, 3)


def test_a_single_process_needs_no_mpi():
    halos(SerialCommunicator())


def forty_eight(comm):
    """8 directions, 3 objects, 2 parities: each face is exactly one datatype."""
    lattice = Lattice((8, 8, 8, 8), (2, 2, 2, 2), 5)
    types, found, kinds = Datatypes(comm), 0, set()
    for to, parity in itertools.product(lattice.directions, (0, 1)):
        rows = lattice.face(to, parity)
        pattern = BlockPattern.from_rows(rows)
        kinds.add((to.axis, pattern.kind))
        for k in OBJECTS.values():
            values = np.zeros((lattice.n_rows, k), complex)
            values[:, 0] = np.arange(len(values))
            buffer = types.row_blocks(values, int(rows[0]), pattern.length, pattern.starts, pattern.loops)
            assert buffer.datatype.Get_size() == len(rows) * 16 * k
            packed = np.zeros((len(rows), k), complex)
            there = comm.mpi_comm.Irecv(packed, comm.rank)
            comm.mpi_comm.Send(buffer, comm.rank)
            there.Wait()
            np.testing.assert_array_equal(packed[:, 0].real, rows)
            found += 1
    assert found == 48
    assert kinds == {(0, "contiguous"), (1, "vector"), (2, "vector"), (3, "indexed")}
    types.free()


def test_the_faces_of_four_dimensions_are_forty_eight_datatypes():
    run_ranks(forty_eight, 2)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 60), min_size=1, unique=True), st.integers(1, 3), st.integers(1, 3))
def test_patterns_describe_all_rows(some, times, inner):
    rows = np.sort(np.array(some))
    rows = (np.arange(inner)[:, None] * 70 + rows).reshape(-1)
    rows = (np.arange(times)[:, None] * 300 + rows).reshape(-1)
    pattern = BlockPattern.from_rows(rows)
    said = np.array(pattern.starts)
    for n, stride in reversed(pattern.loops):
        said = (np.arange(n)[:, None] * stride + said).reshape(-1)
    said = (said[:, None] + np.arange(pattern.length)).reshape(-1) + rows[0]
    np.testing.assert_array_equal(said, rows)


def refusals(comm):
    good = Lattice((4, 4), (comm.size, 1), comm.rank)
    last = comm.rank == comm.size - 1
    for arguments, message in [
        ((Lattice((4, 4), (comm.size, 2), comm.rank),), "those of the communicator"),
        ((Lattice((4, 4), (comm.size, 1), 0),), "those of the communicator"),
        ((good, "spinor"), "no object"),
        ((good, "vector", float), "complex128 or complex64"),
        ((good, "vector", "c16", "quick"), "no method"),
        ((good, "half" if last else "vector"), "ranks differ"),
    ]:
        with pytest.raises(DatatypeError, match=message) as caught:
            LatticeField(comm, *arguments)
        assert len(set(comm.allgather(str(caught.value)))) == 1
    with pytest.raises(ConfigError, match="dtype: is no dtype of NumPy"):
        LatticeField(comm, good, dtype="complex46" if last else complex)
    with pytest.raises(DatatypeError, match="links of shape"):
        StaggeredOperator(comm, good, np.zeros((2, good.n_sites - last, 3, 3), complex), 0.1)
    field = LatticeField(comm, good, method="packed")
    with pytest.raises(DatatypeError, match="no halo is pending"):
        field.wait()
    with pytest.raises(ConfigError, match="parity: 2 is not between 0 and 1"):
        field.exchange(2)
    field.start(0)
    with pytest.raises(DatatypeError, match="before the last one has ended"):
        field.start(1)
    field.wait()


def test_invalid_arguments_are_errors_on_all_ranks():
    run_ranks(refusals, 2)


@pytest.mark.parametrize(
    ("shape", "grid"), [((3, 4), (1, 1)), ((4, 0), (1, 1)), ((2, 4), (3, 1)), ((4,), (1, 1))]
)
def test_invalid_lattices(shape, grid):
    with pytest.raises(DatatypeError):
        Lattice(shape, grid, 0)


@pytest.mark.parametrize("rank", [-1, 2, "0", 0.5])
def test_blocks_of_ranks_that_a_lattice_does_not_have(rank):
    with pytest.raises(ConfigError, match="rank: "):
        Lattice((4, 4), (2, 1), rank)


def many_fields(comm):
    lattice = Lattice((4, 4), (1, comm.size), comm.rank)
    for n in (200, 2000):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(n):
            LatticeField(comm, lattice, method=list(HALO_METHODS)[i % 4]).exchange(0)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 1000, f"{grown} kB more after 2000 fields"


@pytest.mark.long
def test_dropped_fields_free_their_memory():
    ended = run_ranks(many_fields, 2)
    assert "freeing" not in ended.err
