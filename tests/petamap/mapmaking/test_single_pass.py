"""Tests of binned maps that are made in one pass over the data: they have the bits of the usual way."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks
from small_runs import noisy_scans, run_on, sha_of
from small_systems import Samples, recorded

import petamap.mapmaking.system as system
from petacomm.base.errors import DataError
from petacomm.mpi import Communicator
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.numbered import NumberedPixels

WHITE = {"kernel": "white"}
KINDS = "hits", "covariance", "rcond", "binned"


class Counted:
    """A signal that counts the samples that are asked for."""

    def __init__(self, signal, n_read):
        self.signal, self.n_read = signal, n_read

    def add_signal(self, detector, start, stop, out):
        self.n_read[0] += stop - start
        self.signal.add_signal(detector, start, stop, out)


def counted(given):
    n_read = [0]
    return n_read, [replace(one, signals=tuple(Counted(s, n_read) for s in one.signals)) for one in given]


def binned(given, out, ranks=None, **changes):
    """Return the summary of a run that bins alone."""
    return run_on(given, out, ranks, noise=WHITE, solver={"binned_only": True}, **changes)


def shas(summary):
    return [sha_of(summary, kind) for kind in KINDS]


def in_the_usual_way(given, out, monkeypatch, **changes):
    """Return the summary of a run whose set-up does not read the data."""
    with monkeypatch.context() as patch:
        patch.setattr(system, "can_read_once", lambda *arguments: False)
        return binned(given, out, **changes)


@pytest.mark.parametrize("stokes", ["I", "QU", "IQU"])
@pytest.mark.parametrize("threads", [1, 3])
def test_bits_and_numbers_are_those_of_the_usual_way(stokes, threads, tmp_path, monkeypatch):
    given = noisy_scans(9000)
    changes = {"map": {"n_side": 4, "stokes": stokes}, "resources": {"threads": threads}}
    usual = in_the_usual_way(given, tmp_path / "usual", monkeypatch, **changes)
    n_read, same = counted(given)
    once = binned(same, tmp_path / "once", **changes)
    assert n_read[0] == sum(one.n_samp * one.n_det * len(one.signals) for one in given)
    assert shas(once) == shas(usual)
    assert once.totals == usual.totals and once.warnings == usual.warnings


def binned_by_ranks(comm: Communicator) -> None:
    with tempfile.TemporaryDirectory() as out:
        summary = binned(noisy_scans(9000), comm.bcast(out), comm, map={"n_side": 4})
    if comm.rank == 0:
        print(*shas(summary))


@pytest.mark.parametrize("n_ranks", cases(3, long=(2,)))
def test_ranks_do_not_change_a_bit(n_ranks, tmp_path):
    alone = binned(noisy_scans(9000), tmp_path, map={"n_side": 4})
    assert run_ranks(binned_by_ranks, n_ranks).out.split() == shas(alone)


def test_pixels_that_are_hit_often_are_binned_in_the_usual_way(tmp_path, monkeypatch):
    given = [one for one in noisy_scans(60_000) if one.name == "one"]
    n_read, same = counted(given)
    changes = {"map": {"n_side": 1}}
    once = binned(same, tmp_path / "once", **changes)
    assert n_read[0] == 2 * sum(one.n_samp * one.n_det * len(one.signals) for one in given)
    assert shas(once) == shas(in_the_usual_way(given, tmp_path / "usual", monkeypatch, **changes))


def scan(where, value, sees=range(12)):
    """Return an observation of 12 pixels, of which two are seen at one angle.

    The second detector sees the pixels `sees`, and in one of its samples of `where` has a value.
    """
    rng = np.random.default_rng(4)
    made = recorded(rng, n_samp=3000)
    pixels = np.stack([rng.integers(0, 12, 3000), rng.choice(sees, 3000)]).astype(np.int32)
    angles = np.where(pixels < 2, 0, rng.integers(0, 1 << 32, pixels.shape)).astype(np.uint32)
    signal = rng.standard_normal(pixels.shape)
    signal[1, np.flatnonzero(np.isin(pixels[1], where))[3]] = value
    looks = RecordedPixels(pixels, NumberedPixels(12), angles=angles, efficiencies=np.ones(2))
    return [replace(made, pointing=looks, signals=(Samples(signal),))]


NUMBERED = {"map": {"pixelization": "numbered"}}


@pytest.mark.parametrize("value", [np.nan, 1e300])
def test_faulty_samples_of_pixels_that_are_cut_do_no_harm(value, tmp_path):
    sound, faulty = (
        binned(scan([0, 1], one), tmp_path / name, **NUMBERED) for name, one in (("a", 0.5), ("b", value))
    )
    assert sound.totals.pixels_cut == 2
    assert shas(faulty) == shas(sound) and faulty.totals == sound.totals


@pytest.mark.parametrize("value", [np.nan, 1e300])
def test_faulty_samples_of_other_pixels_are_named(value, tmp_path):
    given = scan([7], value)
    (place,) = np.flatnonzero(~(np.abs(given[0].signals[0].values[1]) < 1e9))
    with pytest.raises(DataError, match=f"detector d1, sample {place}"):
        binned(given, tmp_path, **NUMBERED)


def test_a_detector_that_sees_cut_pixels_alone_is_warned_of(tmp_path, monkeypatch):
    given = scan([0, 1], 0.5, sees=[0, 1])
    once = binned(given, tmp_path / "once", **NUMBERED)
    assert any("no sample of detector d1 makes the map" in text for text in once.warnings)
    usual = in_the_usual_way(given, tmp_path / "usual", monkeypatch, **NUMBERED)
    assert once.warnings == usual.warnings and shas(once) == shas(usual)
