"""Transforms some orders at a time, on any number of ranks, against those of ducc0 at once: the same bits."""

import threading

import ducc0
import numpy as np
import pytest
from cases import cases
from mpi import check_same_on_ranks, run_ranks

from petacomm.base.threads import Cancelled, map_threads
from petacomm.mpi import SerialCommunicator
from petamap.sky import ring_distribution, ring_transforms
from petamap.sky.harmonics import analyse, multipoles, synthesise
from petamap.sky.ring_distribution import RingDistribution
from petamap.sky.ring_transforms import adjoint_synthesis, synthesis, synthesis_by_rings
from petamap.sky.sparse_map import SparseMap
from petamap.sky.submaps import Submaps

L_MAX = 255  # rows of 4096 bytes, which are kept apart by more


@pytest.fixture(params=[1 << 14, 1 << 20, 1 << 40])
def part(request, monkeypatch):
    monkeypatch.setattr(ring_transforms, "PART", request.param)
    return request.param


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("spin", [0, 1, 2])
def test_bits_are_those_of_ducc0(part, spin, n_threads):
    rings = RingDistribution(128)
    rng, n = np.random.default_rng(spin), 1 + (spin > 0)
    maps = rng.standard_normal((n, rings.n_pix))
    whole = {"spin": spin, "lmax": L_MAX, "mmax": L_MAX, "theta": rings.theta, **rings.rings}
    alm = adjoint_synthesis(maps, rings, L_MAX, spin, n_threads)
    assert np.array_equal(alm, ducc0.sht.adjoint_synthesis(map=maps, **whole))
    out = np.empty_like(maps)
    assert synthesis(alm, rings, L_MAX, spin, n_threads, out) is out
    assert np.array_equal(out, ducc0.sht.synthesis(alm=alm, **whole))


def test_bits_do_not_depend_on_threads_nor_on_where_memory_lies():
    """In 3 of 5 processes, one of such transforms by ducc0 0.42.0 differed."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        n_side, spin = int(rng.choice([8, 16, 32, 64])), int(rng.choice([0, 0, 2]))
        l_max = int(rng.integers(n_side, 3 * n_side))
        maps = rng.standard_normal((1 + (spin > 0), 12 * n_side**2))
        rings = RingDistribution(n_side)
        one, two = (adjoint_synthesis(maps, rings, l_max, spin, n_threads) for n_threads in (1, 2))
        assert np.array_equal(one, two), (n_side, l_max, spin)


@pytest.mark.parametrize("l_max", [0, 1, 2, 47])
@pytest.mark.parametrize("n_rings", [1, 10, 3000])
def test_parts_hold_each_order_once(monkeypatch, l_max, n_rings):
    monkeypatch.setattr(ring_transforms, "PART", 9000)
    for size, least in (1, 1), (1, 32), (7, 32):
        parts = list(ring_transforms._bounds(l_max, n_rings, size, least))
        orders = [np.arange(first, last) for first, last in parts]
        assert np.concatenate(orders).tolist() == list(range(l_max + 1))
        for part in orders:
            assert len(part) == 1 or (l_max + 1 - part).sum() * n_rings <= 2 * 9000 * size


def test_a_transform_that_nobody_waits_for_ends_amid_its_parts(monkeypatch):
    monkeypatch.setattr(ring_transforms, "PART", 1000)
    begun, seen = threading.Event(), []
    parts = ring_transforms._parts

    def noted(*arguments):
        try:
            for one in parts(*arguments):
                seen.append(one)
                begun.set()
                yield one
        except Cancelled:
            seen.append("cancelled")
            raise

    monkeypatch.setattr(ring_transforms, "_parts", noted)

    def work(item):
        if item == 0:
            begun.wait(10)
            raise KeyError
        while True:
            adjoint_synthesis(np.ones((1, 12 * 64**2)), RingDistribution(64), 191, 0)

    with pytest.raises(KeyError):
        map_threads(work, range(2), 2)
    assert seen[-1] == "cancelled"


def _chosen(n_side, l_max):
    """Return maps and coefficients that are the same on all ranks."""
    rng = np.random.default_rng(n_side)
    maps = rng.standard_normal((2, 12 * n_side**2))
    alm = rng.standard_normal((2, len(multipoles(l_max)), 2)).view(np.complex128)[..., 0]
    return maps, np.where(multipoles(l_max) < 2, 0, alm)


def distributed_transforms(comm):
    """Return the digests of transforms whose parts are put together, and check what a rank holds."""
    ring_transforms.PART, found = 1 << 16, []
    for n_side, l_max in ((1, 2), (2, 3), (8, 31), (16, 47)):
        rings = RingDistribution(n_side, comm)
        maps, alm = _chosen(n_side, l_max)
        order = np.concatenate([np.arange(l_max + 1)[part] for part in rings._parts(l_max + 1)])
        begins = np.searchsorted(np.repeat(np.arange(l_max + 1), l_max + 1 - np.arange(l_max + 1)), order)
        taken = np.concatenate([np.arange(b, b + l_max + 1 - m) for b, m in zip(begins, order, strict=True)])
        own = np.isin(np.repeat(order, l_max + 1 - order), rings.orders(l_max))
        assert abs(rings.n_pix - 12 * n_side**2 / comm.size) <= 4 * n_side
        for spin in (0, 1, 2):
            rows = slice(0, 1 + (spin > 0))
            part = np.ascontiguousarray(maps[rows, rings.pixels])
            whole = np.empty((len(part), len(taken)), np.complex128)
            coefficients = analyse(part, rings, l_max, spin, 2)
            whole[:, taken] = comm.allgather_rows(np.ascontiguousarray(coefficients.T))[0].T
            back = synthesise(np.ascontiguousarray(alm[rows, taken[own]]), rings, l_max, spin)
            pixels, _ = comm.allgather_rows(rings.pixels)
            assert np.array_equal(rings.rows_of(pixels), np.arange(len(pixels)))
            again = np.empty((len(part), len(pixels)))
            again[:, pixels] = comm.allgather_rows(np.ascontiguousarray(back.T))[0].T
            found += [whole.tobytes(), again.tobytes()]
    return found


@pytest.mark.parametrize("n_ranks", cases(2, 3, long=(5, 8)))
def test_bits_do_not_depend_on_ranks(n_ranks):
    check_same_on_ranks(distributed_transforms, n_ranks)


def multipole_tables(comm):
    """Return values of all multipoles, after those of coefficients that were dealt by order."""
    rings, found = RingDistribution(4, comm), []
    for last in (0, 1, 11):
        mine = rings.orders(last)
        values = [complex(m, degree) for m in mine for degree in range(m, last + 1)]
        expected = [complex(m, degree) for m in range(last + 1) for degree in mine if degree >= m]
        assert rings.to_multipoles(np.array([values], complex), last)[0].tolist() == expected
        found.append(rings.gather_multipoles(np.array([mine**2.0]), last).tolist())
    assert found[-1] == [[degree**2 for degree in range(12)]]
    return found


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_coefficients_of_orders_become_those_of_multipoles(n_ranks):
    check_same_on_ranks(multipole_tables, n_ranks)


@pytest.mark.parametrize("spin", [0, 2])
def test_analysis_of_few_pixels_is_that_of_the_map(part, spin, monkeypatch):
    rng, rings = np.random.default_rng(spin), RingDistribution(32)
    places = np.flatnonzero(rng.random(rings.n_pix) < 0.1)
    few = SparseMap(places, rng.standard_normal((1 + spin // 2, len(places))))
    maps = few.between(0, rings.n_pix)
    assert np.array_equal(maps[:, places], few.values) and np.count_nonzero(maps) == few.values.size
    area = 4 * np.pi / rings.n_pix
    expected = area * adjoint_synthesis(maps, rings, 60, spin)
    for _ in range(2):
        expected += area * adjoint_synthesis(maps - synthesis(expected, rings, 60, spin), rings, 60, spin)
    for at_once in 100, 1 << 40:
        monkeypatch.setattr(ring_transforms, "PIXELS", at_once)
        for one in maps, few:
            assert np.array_equal(analyse(one, rings, 60, spin, 2), expected)


def check_part_of_the_rings(comm):
    """Check that rings of some submaps have the bits that they have in the whole map, some at a time."""
    n_side, l_max = 256, 600
    rng, whole = np.random.default_rng(4), RingDistribution(n_side)
    m = np.repeat(np.arange(l_max + 1), l_max + 1 - np.arange(l_max + 1))
    for spin, n, at_once in (0, 1, 1000), (2, 2, 1 << 40):
        alm = rng.standard_normal((n, len(m))) + 1j * rng.standard_normal((n, len(m)))
        expected = synthesis(alm, whole, l_max, spin)
        for first in 100_000, 700_000:
            held = np.zeros(12 * n_side**2 // 4, np.bool_)
            held[[first // 4, first // 4 + 700, first // 4 + 3000]] = True
            submaps = Submaps(held, 4)
            rings = RingDistribution(n_side, comm, submaps)
            assert len(rings.theta) < len(whole.theta)
            own = alm[:, np.isin(m, rings.orders(l_max))]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ring_transforms, "PIXELS", at_once)
                parts = list(synthesis_by_rings(own, rings, l_max, spin))
            for some, values in parts:
                assert np.array_equal(values, expected[:, rings.pixels_of(some)])
            numbers = np.concatenate([rings.pixels_of(some) for some, _ in parts] or [np.empty(0, np.int64)])
            assert np.array_equal(numbers, rings.pixels)
            assert comm.sum(len(np.intersect1d(numbers, submaps.pixels))) == submaps.n_rows


@pytest.mark.parametrize("n_ranks", cases(1, 3, long=[2, 5]))
def test_part_of_the_rings_has_the_bits_of_the_whole(n_ranks):
    run_ranks(check_part_of_the_rings, n_ranks)


def test_bits_of_rings_depend_on_those_beside_them(monkeypatch):
    # why a part of the rings is not made of these alone
    monkeypatch.setattr(ring_distribution, "_SIDE_BY_SIDE", 0)
    with pytest.raises(AssertionError):
        check_part_of_the_rings(SerialCommunicator())
