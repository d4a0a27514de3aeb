"""Streams with too few good samples take the noise of the nearest streams, on any number of ranks."""

import gc
import tempfile
import weakref
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from mpi import run_ranks
from small_runs import run_on, sha_of
from small_systems import Bad, Models, spinning

from petacomm.base.errors import DataError
from petamap.data.observation import Observation
from petamap.mapmaking import noise_estimate
from petamap.mapmaking.unmeasured_noise import NearestStreams, describe_substitutes
from petamap.noise.model import EstimatedPsd, OneOverF, TabulatedPsd
from petamap.simulation.noise import SimulatedNoise

N_DET, N_SAMP, RATE = 6, 6000, 10.0
EDGES = (0, 2500, 5960, 6000)  # of the last interval, 40 samples are too few
MODEL = OneOverF(1.0, 0.2, 1e-3, -1.5)


def scan(name="long", uid=3, detectors="abcdef", edges=EDGES, bad=(), shared=False):
    """Return noise of detectors that spin; 9 of 10 samples of `bad`, (detector, interval), are flagged."""
    intervals = tuple(pairwise(edges))
    bare = Observation(
        name=name, uid=uid, n_samp=edges[-1], sample_rate=RATE, detectors=tuple(detectors),
        intervals=intervals, pointing=spinning(edges[-1], 0.31, len(detectors), 4), frame="galactic",
        noise=Models(((MODEL,) * len(intervals),) * len(detectors)),
    )  # fmt: skip
    flags = np.zeros((len(detectors), edges[-1]), bool)
    for detector, interval in bad:
        start, stop = intervals[interval]
        flags[detector, start : stop - (stop - start) // 10] = True
    signals = [SimulatedNoise(bare, bare.noise, 5, 0)]
    if shared:
        signals.append(Shared(edges[-1]))
    return replace(bare, signals=tuple(signals), flags=(Bad(flags),), noise=None)


class Shared:
    """Slow noise that all detectors have."""

    any_order = True

    def __init__(self, n_samp):
        self.values = 0.3 * np.cumsum(np.random.default_rng(4).standard_normal(n_samp))
        self.values -= np.linspace(self.values[0], self.values[-1], n_samp)

    def add_signal(self, detector, start, stop, out):
        out += self.values[start:stop]


def psd(level):
    return EstimatedPsd(np.array([0.1, 1.0]), np.array([9.0, level]), np.array([0.1, 0.1]))


def test_nearest_of_the_detector_then_the_median():
    named = (("abc", (0, 10, 20, 30)), ("bcd", (0, 10, 20)), ("xyz", (0, 9)))
    observations = [scan(str(k), k, *one) for k, one in enumerate(named)]
    spectra = {(0, 0, 0): psd(1), (0, 0, 2): psd(2), (0, 1, 1): psd(5), (0, 2, 1): psd(3), (1, 1, 0): psd(4)}
    unknown = TabulatedPsd(np.ones(1), np.ones(1))
    nearest = NearestStreams(observations, spectra | {(1, 2, 0): unknown, (2, 0, 0): unknown})
    assert nearest.of((0, 0, 1)) == (0, 0, 0), "the earlier of two"
    assert nearest.of((0, 1, 0)) == (0, 1, 1)
    assert nearest.of((1, 0, 1)) == (0, 1, 1), "b of another observation"
    assert nearest.of((0, 2, 2)) == (0, 2, 1) and nearest.of((1, 1, 1)) == (1, 1, 0)
    assert nearest.of((1, 2, 0)) == (1, 1, 0), "d was measured nowhere"
    assert nearest.of((2, 1, 0)) == (1, 1, 0)
    assert NearestStreams(observations[:1], {(0, 0, 0): unknown}).of((0, 1, 0)) is None
    two = NearestStreams(observations, {(0, 0, 1): psd(3), (0, 1, 1): psd(1), (0, 2, 1): psd(2)})
    assert two.of((1, 2, 0)) == (0, 2, 1), "the median"


def test_some_are_named():
    observations = [scan("one", 0, "abc", (0, 10, 20)), scan("two", 1, "abd", (0, 9))]
    substitutes = {(0, 1, 0): (0, 1, 1), (1, 0, 0): (0, 0, 1), (1, 2, 0): (0, 2, 1)}
    text = describe_substitutes(substitutes, observations)
    assert "of 3 streams" in text and "observation one, detector b, interval 0 from interval 1" in text
    assert "observation two, detector a, interval 0 from observation one, interval 1" in text
    assert (
        "detector d, interval 0 from observation one, detector c, interval 1" in text and "more" not in text
    )
    assert "and 1 more" in describe_substitutes(substitutes | {(0, 0, 0): (0, 0, 1)}, observations)


BAD = ((1, 0), (4, 0), (4, 1))


def run_alone(folder, shared, comm=None):
    chosen = {"kernel": "estimate", "n_lag": 50, "n_modes": int(shared), "max_rounds": 3}
    return run_on([scan(bad=BAD, shared=shared)], folder, comm, noise=chosen, solver={"tolerance": 1e-3})


def print_bits(comm):
    folder = comm.bcast(tempfile.mkdtemp())
    found = [run_alone(folder + str(shared), shared, comm) for shared in (False, True)]
    if comm.rank == 0:
        print("FOUND", *map(sha_of, found))


def test_same_maps_on_any_number_of_ranks(tmp_path):
    found = []
    for shared in (False, True):
        summary = run_alone(tmp_path / str(shared), shared)
        found.append(sha_of(summary))
        (text,) = [text for text in summary.warnings if "too few good samples" in text]
        # all of the last interval, b in the first, e in both before
        assert "of 9 streams" in text and "detector b, interval 0 from interval 1" in text
        assert summary.totals.samples_used > 0.75 * N_DET * N_SAMP
    assert f"FOUND {' '.join(found)}" in run_ranks(print_bits, 3).out


@pytest.mark.parametrize("shared", [False, True])
def test_a_round_is_freed_before_the_next(tmp_path, monkeypatch, shared):
    """Without a cycle that the garbage collector would find some rounds later: a system is large."""
    systems, alive, whole = [], [], noise_estimate.set_up

    def set_up(*words, **options):
        alive.append(sum(one() is not None for one in systems))
        system = whole(*words, **options)
        systems.append(weakref.ref(system))
        return system

    monkeypatch.setattr(noise_estimate, "set_up", set_up)
    gc.collect()
    gc.disable()
    try:
        run_alone(tmp_path, shared)
    finally:
        gc.enable()
    assert len(alive) > 1 and not any(alive)


def test_none_can_be_measured(tmp_path):
    made = scan(edges=(0, 40, 80))
    with pytest.raises(DataError, match="too few to estimate noise"):
        run_on([made], tmp_path, noise={"kernel": "estimate", "n_lag": 5})


def test_samples_that_do_not_vary_are_no_noise(tmp_path):
    made = replace(scan(), signals=())
    with pytest.raises(DataError, match="do not vary"):
        run_on([made], tmp_path, noise={"kernel": "estimate", "n_lag": 5})
