"""Tests of transfer functions: known filters, simulated skies, errors."""

from dataclasses import replace

import numpy as np
import pytest
from coupled_spectra import coupled
from made_realizations import L_MAX, NAMES, realizations

from petacomm.base.errors import DataError
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.transfer import bin_indices, transfer_function
from petamap.sky.power_spectra import Spectra
from petamap.spectra.coupling import WINDOWS, coupling_of_windows
from petamap.spectra.multipole_bins import Binning

RNG = np.random.default_rng(2)
BINS = Binning.linear(2, 31, 6)
WINDOW = {name: np.exp(-0.002 * np.arange(L_MAX + 1)) for name in NAMES}


def coupling():
    windows = {kind: 3 * RNG.random(12) / (1 + np.arange(12)) ** 3 for kind in WINDOWS}
    return coupling_of_windows(windows, L_MAX)


@pytest.mark.parametrize("own", [("TT", "EE"), ("TT", "EE", "BB"), ("TT", "BB")])
def test_known_filters(own):
    """Without scatter, F is recovered to rounding, including E-to-B leakage."""
    matrices, n = coupling(), 6
    true = np.abs(RNG.standard_normal((n, len(NAMES), L_MAX + 1))) + 1
    levels = {name: RNG.uniform(0.3, 1.2, BINS.n) for name in own}
    of_b = levels.get("BB", levels.get("EE"))
    left = {name: np.ones(L_MAX + 1) for name in NAMES}
    left |= {"TT": levels["TT"], "EE": levels.get("EE", of_b), "BB": of_b}
    left = {
        name: (row[bin_indices(BINS, L_MAX)] if len(row) == BINS.n else row) for name, row in left.items()
    }
    transfer = {name: left[name] * WINDOW[name] for name in NAMES}
    pseudo = np.stack([coupled(matrices, Spectra(row, NAMES), transfer).values for row in true])
    found = transfer_function(pseudo, true, NAMES, matrices, WINDOW, BINS, own)
    for name, row in zip(found.names, found.values, strict=True):
        np.testing.assert_allclose(row, levels[name], rtol=1e-10)
    assert found.errors.max() < 1e-9
    rows = found.at_multipoles(NAMES, L_MAX)
    np.testing.assert_allclose(rows["BB"], left["BB"], rtol=1e-10)
    np.testing.assert_allclose(rows["TE"], np.sqrt(left["TT"] * left["EE"]), rtol=1e-10)
    assert rows["TT"][0] == rows["TT"][2] and rows["TT"][L_MAX] == rows["TT"][31]


def test_simulated_skies():
    """F is 1 without a filter, and the square of its amplitude with one, within the errors."""
    plain = Calibration.from_realizations(realizations()).transfer
    assert plain.against_one.probability > 0.01 and plain.against_one.worst < 3.5
    filtered = Calibration.from_realizations(realizations(filtered=0.3)).transfer
    # bins 2-7, 8-13, 14-19 ...; the filter ends at 11, in the second
    pulls = (filtered.values - [0.49, np.nan, 1, 1, 1]) / filtered.errors
    assert np.nanmax(np.abs(pulls)) < 3.7
    assert filtered.against_one.probability < 1e-20
    assert np.all((filtered.values[:, 1] > 0.5) & (filtered.values[:, 1] < 0.95))


def test_errors_with_known_input():
    """Errors do not include cosmic variance: with the theory instead of the inputs they are larger."""
    made = realizations()
    tight = Calibration.from_realizations(made).transfer
    mean = np.broadcast_to(made.input.mean(axis=0), made.input.shape)
    loose = Calibration.from_realizations(replace(made, input=mean)).transfer
    np.testing.assert_allclose(loose.values, tight.values, rtol=1e-8)
    ratio = loose.errors / tight.errors
    assert ratio.min() > 1 and ratio.mean() > 1.3


def test_missing_transfer_functions():
    matrices = coupling()
    true = np.ones((3, len(NAMES), L_MAX + 1))
    true[:, :, 20:] = 0
    with pytest.raises(DataError, match="no power in a bin"):
        transfer_function(true, true, NAMES, matrices, WINDOW, BINS)
    true[:] = 1
    only = transfer_function(true, true, NAMES, matrices, WINDOW, BINS, ("TT",))
    with pytest.raises(DataError, match="no transfer function of B E"):
        only.at_multipoles(NAMES, L_MAX)
    with pytest.raises(DataError, match="not above 0"):
        replace(only, values=-only.values).at_multipoles(("TT",), L_MAX)
    narrow = {kind: np.ones(60) for kind in WINDOWS}  # a sky observed in a point
    with pytest.raises(DataError, match="too little sky"):
        blurred = coupling_of_windows(narrow, L_MAX)
        transfer_function(true + RNG.random(true.shape), true, NAMES, blurred, WINDOW, BINS)
