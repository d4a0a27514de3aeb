"""Hits and Stokes weights of pixels, in one pass by the kernels, beside NumPy; inputs that are expanded."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from small_systems import compressed, make_system, numbered, recorded

from petamap.mapmaking import binning
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.healpix import Healpix

SKY = Healpix(8, nest=True)


def scanned(flagged=0.1, **changes):
    return compressed(np.random.default_rng(4), 3000, 4, 8, flagged=flagged, **changes)


def twin(system, weights):
    """Return hits, and float sums of w p p^T, of what the blocks give out."""
    projection, n = system.projection, system.projection.stokes.n
    hits = np.zeros(projection.n_local, np.int64)
    sums = np.zeros((projection.n_local, n, n))
    for number, block in enumerate(projection.local.blocks):
        samples = projection.outputs(number)
        good = samples.pixels >= 0
        turns = samples.angles[good] * (2 * np.pi / 2**32)
        intensity = np.full(good.sum(), samples.intensity)
        response = np.stack(
            [intensity, samples.efficiency * np.cos(turns), samples.efficiency * np.sin(turns)]
        )
        if samples.gains is not None:
            response *= samples.gains[good]
        np.add.at(hits, samples.pixels[good], 1)
        np.add.at(sums, samples.pixels[good], weights[block[5]] * np.einsum("it,jt->tij", response, response))
    rows, columns = np.triu_indices(n)
    return hits, sums[:, rows, columns]


@pytest.mark.parametrize("pointing", ["keep", "recompute"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_weights_of_threads_are_those_of_numpy(pointing, n_threads):
    system = make_system([scanned()], SKY, n_lag=8, pointing=pointing, n_threads=n_threads)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(system.projection.local.segments))
    hits, found = binning.hits_and_weights(system.projection, system.shared.pixels, weights)
    wanted_hits, wanted = twin(system, weights)
    np.testing.assert_array_equal(hits, wanted_hits)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_weights_of_samples_with_gains():
    made = recorded(np.random.default_rng(3), 3, 900, gains=0.4, flagged=0.1, outside=0.1)
    system = make_system([made], numbered(), n_lag=5)
    weights = np.array([1.0, 2.0, 0.5])
    hits, found = binning.hits_and_weights(system.projection, system.shared.pixels, weights)
    wanted_hits, wanted = twin(system, weights)
    np.testing.assert_array_equal(hits, wanted_hits)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("n_samp", [3 * 4095, 3 * 4096, 40_000])
def test_terms_have_as_many_bits_as_hits_leave_room_for(n_samp, n_threads):
    rng = np.random.default_rng(2)
    made = recorded(rng, 1, n_samp, 3, 2)
    pixels = (np.arange(n_samp) % 3).astype(np.int32)[None]
    made = replace(made, pointing=RecordedPixels(pixels, numbered(3), intensities=[0.7]))
    system = make_system([made], numbered(3), n_lag=2, stokes="I", n_threads=n_threads)
    weight = 1 / 3
    hits, found = binning.hits_and_weights(system.projection, system.shared.pixels, np.array([weight]))
    assert hits.max() == -(-n_samp // 3)
    scale = math.ldexp(1.0, binning.term_bits(int(hits.max())) - math.frexp(weight)[1])
    assert (scale < 2.0**51) == (hits.max() > 4095)
    intensity = float(system.projection.responses[0, 0])
    term = int(np.rint(weight * intensity * intensity * scale))
    assert [float(int(n) * term) / scale for n in hits] == found[:, 0].tolist()


@pytest.mark.parametrize("flags", ["exact", "levels", "cut"])
def test_inputs_that_are_expanded_are_those_that_are_kept(flags):
    made = [scanned(uid=1), scanned(0.0, uid=2, name="whole")]
    kept, anew = (
        make_system(made, SKY, n_lag=8, pointing=how, flags=flags).projection for how in ("keep", "recompute")
    )
    assert kept.kept is not None and anew.kept is None
    for number in range(len(kept.local.blocks)):
        for one, other in (
            (kept.inputs(number), anew.inputs(number)),
            (kept.outputs(number), anew.outputs(number)),
        ):
            np.testing.assert_array_equal(one.pixels, other.pixels)
            good = one.pixels >= 0
            np.testing.assert_array_equal(one.angles[good], other.angles[good])
            assert (one.intensity, one.efficiency) == (other.intensity, other.efficiency)
