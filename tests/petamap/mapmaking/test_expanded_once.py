"""Tests that pointing is expanded once where it is kept, and maps are the same where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import noisy_scans, recorded_with_gains, run_on, sha_of

from petacomm.base.errors import ResourceError
from petamap.data.formats.lazy import LazyPointing
from petamap.data.formats.volume import VolumeOptions, VolumeSource
from petamap.data.formats.volume_write import write_volume
from petamap.data.source import SourceContext
from petamap.mapmaking import memory
from petamap.mapmaking import system as systems
from petamap.pointing.compressed import CompressedPointing
from petamap.sky.healpix import Healpix

KEPT, ANEW = {"pointing": "keep"}, {"pointing": "recompute"}


@pytest.fixture
def expanded(monkeypatch):
    """Count the samples that are expanded."""
    counts, expand = [], CompressedPointing.expand

    def counted(self, grid, detector, start, stop, *arrays):
        counts.append(stop - start)
        expand(self, grid, detector, start, stop, *arrays)

    monkeypatch.setattr(CompressedPointing, "expand", counted)
    return counts


def test_kept_pointing_is_expanded_once(expanded, tmp_path):
    given = noisy_scans(4500, 2)
    run_on(given, tmp_path / "kept", resources=KEPT)
    once = sum(expanded)
    halos = 2 * 64 * sum(one.n_det * len(one.intervals) for one in given)
    assert once <= sum(one.n_samp * one.n_det for one in given) + halos
    expanded.clear()
    run_on(given, tmp_path / "anew", resources=ANEW)
    assert sum(expanded) > 1.5 * once


@pytest.mark.parametrize("given", [noisy_scans(4500, 2), recorded_with_gains()], ids=["compressed", "gains"])
def test_same_map_without_room_at_first(given, tmp_path, monkeypatch):
    changes = {} if len(given) > 1 else {"map": {"pixelization": "numbered"}}
    found = run_on(given, tmp_path / "room", resources=KEPT, **changes)
    monkeypatch.setattr(systems, "_room_for_pointing", lambda options, comm: 0)
    other = run_on(given, tmp_path / "none", resources=KEPT, **changes)
    for kind in ("hits", "covariance", "binned", "map"):
        assert sha_of(found, kind) == sha_of(other, kind)


def test_pointing_that_is_kept_early_is_planned_once(tmp_path, monkeypatch):
    """It is among the bytes that the process has already."""
    monkeypatch.setattr(memory, "resident_bytes", lambda: 10**9)
    given = noisy_scans(4500, 2)
    early = run_on(given, tmp_path / "room", resources=KEPT).memory.predicted_bytes
    monkeypatch.setattr(systems, "_room_for_pointing", lambda options, comm: 0)
    late = run_on(given, tmp_path / "none", resources=KEPT).memory.predicted_bytes
    assert late - early == pytest.approx(8 * sum(one.n_samp * one.n_det for one in given), rel=0.1)


def test_too_little_memory_is_told_as_before(tmp_path):
    with pytest.raises(ResourceError, match="this needs"):
        run_on(noisy_scans(), tmp_path, resources=KEPT | {"memory": 1000.0})


def test_pointing_of_files_leaves_memory_and_comes_back(tmp_path):
    given = noisy_scans(900, 2)
    write_volume(tmp_path / "a.h5", given)
    source = VolumeSource(VolumeOptions(path="a.h5"), SourceContext(tmp_path))
    read = source.extend([])
    run_on(read, tmp_path / "maps", resources=KEPT, products={"maps": False})
    for one, original in zip(read, given, strict=True):
        assert isinstance(one.pointing, LazyPointing) and "detectors" not in vars(one.pointing)
        turned = one.pointing.rotated([0.0, 0.0, 1.0, 0.0]).of_detectors([1])
        assert "detectors" not in vars(one.pointing)
        for pointing, expected in (
            (one.pointing.of_detectors([1]), original.pointing),
            (turned, original.pointing.rotated([0.0, 0.0, 1.0, 0.0])),
        ):
            assert np.array_equal(pixels(pointing, 0, one.n_samp), pixels(expected, 1, one.n_samp))


def pixels(pointing, detector, n_samp):
    out = np.empty(n_samp, np.int32)
    pointing.expand(Healpix(64, True), detector, 0, n_samp, out, None)
    return out
