"""Weights of pixels and of samples that are no numbers: an error that says where."""

import numpy as np
import pytest
from montecarlo_runs import configured

from petacomm.base.errors import DataError
from petacomm.mpi import SerialCommunicator
from petamap.mapmaking import binning
from petamap.mapmaking.run import run

SHORT = ("source.0.duration=3 h", "solver.tolerance=1e-2")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_of_samples(value):
    weights = np.array([1.0, 2.0, value, 3.0])
    said = rf"noise of rank 0: the weight of samples of segment 2 is {value}"
    with pytest.raises(DataError, match=said):
        binning.weight_scale(weights, 50, SerialCommunicator())
    assert binning.weight_scale(weights[:2], 50, SerialCommunicator()) == 2.0**48
    assert binning.weight_scale(weights[:0], 50, SerialCommunicator()) == 2.0**50


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_of_pixels(monkeypatch, value):
    whole = binning.hits_and_weights

    def spoiled(projection, pixels, *arguments):
        hits, weights = whole(projection, pixels, *arguments)
        weights[5, 3] = value
        spoiled.pixel = int(pixels.keys[5])
        return hits, weights

    monkeypatch.setattr(binning, "hits_and_weights", spoiled)
    with pytest.raises(DataError, match=r"rank 0: the weights of pixel [0-9]+ are not finite") as caught:
        run(configured(*SHORT))
    assert f"pixel {spoiled.pixel} " in str(caught.value)
