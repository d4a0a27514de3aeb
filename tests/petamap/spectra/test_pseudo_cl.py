"""Pseudo-spectra of maps that are dealt to ranks: the bits of one process, and errors on all ranks."""

from unittest import mock

import numpy as np
import pytest
from cases import cases
from mpi import check_same_on_ranks

from petacomm.base.errors import DataError
from petacomm.mpi import SerialCommunicator
from petamap.sky.healpix import Healpix
from petamap.sky.ring_distribution import RingDistribution
from petamap.sky.sky_map import SkyMap
from petamap.spectra import pseudo_cl
from petamap.spectra.cross_spectra import pseudo_spectra
from petamap.spectra.masks import apodize, subtract_monopole
from petamap.spectra.measure import SpectraChoices, coefficients
from petamap.spectra.pseudo_cl import PseudoClEstimator

SKY = Healpix(8)


def _made():
    """Return a map of which a part was not seen, and its weights, the same on all ranks."""
    rng, z = np.random.default_rng(7), SKY.directions_of(np.arange(SKY.n_pix))[:, 2]
    soft = apodize((z > -0.3).astype(float), SKY, 0.7, "smooth", band_limited=True)
    weights = np.stack((soft * rng.random(SKY.n_pix), soft))
    return np.where(z > -0.3, rng.standard_normal((3, SKY.n_pix)) + 5, np.nan), weights


def spectra_of_parts(comm):
    """Return pseudo-spectra of maps whose pixels are dealt to ranks."""
    values, weights = _made()
    rings, found = RingDistribution(SKY.n_side, comm), []
    own = rings.pixels
    whole, polarization = slice(0, 3), slice(1, 3)
    for rows, keep_dipole, pure in (
        (whole, False, ""), (slice(0, 1), True, ""), (polarization, False, "B"), (whole, False, "EB")
    ):  # fmt: skip
        part = np.ascontiguousarray(values[rows, own])
        estimator = PseudoClEstimator(SKY, weights[:, own], len(part), keep_dipole, pure, rings=rings)
        found.append(estimator.pseudo(part).values.tobytes())
    return found


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_bits_do_not_depend_on_ranks(n_ranks):
    check_same_on_ranks(spectra_of_parts, n_ranks)


def test_estimator_is_that_of_the_maps_of_runs():
    values, weights = _made()
    for pure in ("", "B"):
        estimator = PseudoClEstimator(SKY, weights, 3, pure=pure)
        sky = SkyMap(values, SKY, ("I", "Q", "U"), ("K_CMB",) * 3)
        expected = pseudo_spectra(coefficients(sky, SKY, weights, SpectraChoices(pure=pure)))
        assert np.array_equal(estimator.pseudo(values).values, expected.values)


def refused_on_all(comm):
    """Return the errors of a pixel without a value, and of a weight, that one rank has."""
    values, weights = _made()
    rings, found = RingDistribution(SKY.n_side, comm), []
    own, pixel = rings.pixels, int(np.flatnonzero(weights[0] > 0)[-1])
    for of_map in (True, False):
        holes, bad = values.copy(), weights.copy()
        (holes if of_map else bad)[0, pixel] = np.nan
        with pytest.raises(DataError, match=f"pixel {pixel}") as caught:
            PseudoClEstimator(SKY, bad[:, own], 3, rings=rings).pseudo(np.ascontiguousarray(holes[:, own]))
        found.append(str(caught.value))
    return found


def test_errors_of_one_rank_reach_all():
    check_same_on_ranks(refused_on_all, 3)


def test_fit_of_the_dipole_is_that_of_all_pixels():
    values, weights = _made()
    directions = SKY.directions_of(np.arange(SKY.n_pix))
    whole = subtract_monopole(values[0], weights[0], directions)
    order = np.random.default_rng(2).permutation(SKY.n_pix)
    again = subtract_monopole(values[0, order], weights[0, order], directions[order], SerialCommunicator())
    assert np.array_equal(again, whole[order], equal_nan=True)


def spectra_of_few_pixels(comm):
    """Return pseudo-spectra of maps of which a rank has the pixels alone that were seen."""
    values, weights = _made()
    z = SKY.directions_of(np.arange(SKY.n_pix))[:, 2]
    seen, weights = z > 0.4, np.where(z > 0.6, weights, 0)
    rings, found = RingDistribution(SKY.n_side, comm), []
    places = np.flatnonzero(seen[rings.pixels])
    for rows in slice(0, 3), slice(0, 1), slice(1, 3):
        own = [np.ascontiguousarray(one[:, rings.pixels]) for one in (values[rows], weights)]
        whole = PseudoClEstimator(SKY, own[1], len(own[0]), rings=rings).pseudo(own[0]).values
        part = PseudoClEstimator(SKY, own[1][:, places], len(own[0]), rings=rings, places=places)
        assert np.array_equal(part.pseudo(own[0][:, places]).values, whole)
        found.append(whole.tobytes())
        with mock.patch.object(pseudo_cl, "_FEW", 0):
            dense = PseudoClEstimator(SKY, own[1], len(own[0]), rings=rings)
        assert np.array_equal(dense.pseudo(own[0]).values, whole)
    bad, pixel = values.copy(), int(np.flatnonzero(weights[0])[5])
    bad[0, pixel] = np.nan
    estimator = PseudoClEstimator(SKY, weights[:, rings.pixels][:, places], 3, rings=rings, places=places)
    with pytest.raises(DataError, match=f"I of pixel {pixel} has a weight and no value"):
        estimator.pseudo(bad[:, rings.pixels][:, places])
    return found


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_maps_of_few_pixels_have_the_bits_of_whole_maps(n_ranks):
    check_same_on_ranks(spectra_of_few_pixels, n_ranks)
