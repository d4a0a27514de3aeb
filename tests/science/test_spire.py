"""The spire example: MADmap's own files, held against the maps of MADmap and HIPE."""

from __future__ import annotations

import numpy as np
import pytest
from astropy.io import fits
from science_runs import configured, maps

from petacomm.base.errors import ConfigError
from petacomm.base.progress import SilentProgress
from petamap.examples import find_example
from petamap.mapmaking.run import run


def image(path):
    with fits.open(path) as file:
        return file["image"].data.ravel()


def test_the_map_is_that_of_madmap(tmp_path):
    found = maps(configured("spire"), tmp_path)
    madmap = image(find_example("spire").parent / "madmapSpirePSW.fits.gz")
    naive = image(find_example("spire").parent / "naivemapSpirePSW.fits.gz")
    index = np.flatnonzero(np.isfinite(naive))
    best, binned = (whole_image(found[kind], index) for kind in ("map", "binned"))

    assert index.size == 61_566
    difference = best - madmap[index]  # nan would fail, so all pixels are there
    assert np.abs(difference).max() < 4e-6
    assert np.sqrt(np.mean(difference**2)) < 1e-7
    assert np.abs(best - naive[index]).max() > 1e-3  # they are not the same map
    one_ulp = np.spacing(np.abs(naive[index]))
    assert np.all(np.abs(binned - naive[index]) <= one_ulp)


def whole_image(skymap, index):
    """Return the values of the pixels in a file that may hold them alone, or the image that they are in."""
    values = skymap.values[0]
    return values if values.size == index.size else values[index]


def test_what_the_summary_says_of_it(tmp_path):
    summary = run(configured("spire"), out=tmp_path)
    best, binned = summary.comparisons
    assert (best.reference, binned.reference) == ("madmapSpirePSW.fits.gz", "naivemapSpirePSW.fits.gz")
    assert best.max_abs < best.limit == 4e-6 and best.rms < 1e-7 and best.unit == "Jy/beam"
    assert binned.max_abs < binned.limit == 3e-17
    assert summary.solver.converged and summary.totals.pixels_cut == 0


def test_a_map_of_other_pixels_cannot_be_compared_with(tmp_path):
    wmap = find_example("planck-lfi").parent / "wmap_v_n32.fits"
    config = configured("spire", f"products.compare_binned={wmap}", "solver.binned_only=true")
    with pytest.raises(ConfigError, match=r"wmap_v_n32\.fits"):
        run(config, out=tmp_path)


class Listener(SilentProgress):
    """Remembers what the solver told."""

    def __init__(self):
        super().__init__()
        self.phase, self.total, self.done, self.notes = "", None, [], []

    def begin(self, phase, total=None, unit=""):
        self.phase = phase
        if phase == "iterations":
            self.total = total

    def advance(self, amount, note=""):
        if self.phase == "iterations":
            self.done.append(amount)
            self.notes.append(note)


def test_progress_is_told_in_digits_of_the_residual(tmp_path):
    listener = Listener()
    summary = run(configured("spire", "solver.tolerance=1e-4"), out=tmp_path, progress=listener)
    assert listener.total == pytest.approx(4) and min(listener.done) >= 0
    assert sum(listener.done) == pytest.approx(4)  # not more, although the last residual is smaller
    assert listener.notes[-1].startswith(f"iteration {summary.solver.iterations}, residual ")
