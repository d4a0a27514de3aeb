"""Low-pass filters beside SciPy's."""

import numpy as np
import pytest
from scipy.signal import firwin, kaiser_beta, kaiserord

from petamap.data.low_pass import design_low_pass


@pytest.mark.parametrize("attenuation", [30.0, 45.0, 50.0, 80.0, 150.0])
@pytest.mark.parametrize(
    ("bandwidth", "stop", "sample_rate"), [(1.0, 2.0, 20.0), (3.0, 3.2, 50.0), (0.1, 0.7, 200.0)]
)
def test_a_low_pass_is_that_of_kaisers_window(attenuation, bandwidth, stop, sample_rate):
    found = design_low_pass(bandwidth, stop, sample_rate, attenuation, 1).filter
    n = kaiserord(attenuation, 2 * (stop - bandwidth) / sample_rate)[0] // 2 * 2 + 1
    window = "kaiser", kaiser_beta(attenuation)
    taps = firwin(n, (bandwidth + stop) / 2, window=window, fs=sample_rate)
    np.testing.assert_allclose(found.taps, taps, rtol=0, atol=1e-15 * taps.max())


@pytest.mark.parametrize("attenuation", [30.0, 80.0, 150.0])
def test_a_low_pass_keeps_its_band_and_rejects_what_is_beyond(attenuation):
    found = design_low_pass(1.0, 2.0, 20.0, attenuation, 1)
    most = 1.7 * 10 ** (-attenuation / 20)  # Kaiser's length is an estimate
    assert found.gain_error < most
    assert found.rejection < most
