"""Transforms some orders at a time, against those of ducc0 at once: the same bits."""

import threading

import ducc0
import numpy as np
import pytest

from petacomm.base.threads import Cancelled, map_threads
from petamap.sky import ring_transforms
from petamap.sky.ring_transforms import adjoint_synthesis, healpix_rings, synthesis

L_MAX = 255  # rows of 4096 bytes, which are kept apart by more


@pytest.fixture(params=[1 << 14, 1 << 20, 1 << 40])
def part(request, monkeypatch):
    monkeypatch.setattr(ring_transforms, "_PART", request.param)
    return request.param


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("spin", [0, 1, 2])
def test_bits_are_those_of_ducc0(part, spin, n_threads):
    rings = healpix_rings(128)
    rng, n = np.random.default_rng(spin), 1 + (spin > 0)
    maps = rng.standard_normal((n, int(rings["nphi"].sum())))
    whole = {"spin": spin, "lmax": L_MAX, "mmax": L_MAX, **rings}
    alm = adjoint_synthesis(maps, rings, L_MAX, spin, n_threads)
    assert np.array_equal(alm, ducc0.sht.adjoint_synthesis(map=maps, **whole))
    out = np.empty_like(maps)
    assert synthesis(alm, rings, L_MAX, spin, n_threads, out) is out
    assert np.array_equal(out, ducc0.sht.synthesis(alm=alm, **whole))


@pytest.mark.parametrize("l_max", [0, 1, 2, 47])
@pytest.mark.parametrize("n_rings", [1, 10, 3000])
def test_parts_hold_each_order_once(monkeypatch, l_max, n_rings):
    monkeypatch.setattr(ring_transforms, "_PART", 9000)
    parts = list(ring_transforms._parts(l_max, n_rings))
    orders = np.concatenate([told["mval"] for _, told in parts])
    assert orders.tolist() == list(range(l_max + 1))
    for part, told in parts:
        assert told["mval"].tolist() == list(range(part.start, part.stop))
        assert len(told["mval"]) == 1 or (l_max + 1 - told["mval"]).sum() * n_rings <= 2 * 9000


def test_a_transform_that_nobody_waits_for_ends_amid_its_parts(monkeypatch):
    monkeypatch.setattr(ring_transforms, "_PART", 1000)
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
            adjoint_synthesis(np.ones((1, 12 * 64**2)), healpix_rings(64), 191, 0)

    with pytest.raises(KeyError):
        map_threads(work, range(2), 2)
    assert seen[-1] == "cancelled"
