"""The real sky: WMAP's W and V maps behind WMAP's mask against the spectra that HEALPix's anafast finds."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from petamap.sky.map_file import read_map
from petamap.sky.power_spectra import cl_to_dl_factor
from petamap.sky.spectrum_file import read_spectrum_file
from petamap.spectra.cross_spectra import pseudo_spectra
from petamap.spectra.masks import sky_fraction, subtract_monopole
from petamap.spectra.transforms import weighted_harmonics

MAPS = Path(str(files("petamap.examples") / "planck_lfi"))
DATA = Path(__file__).parent / "data"
CROSS = "cl_wmap_band_iqumap_r9_7yr_WVxspec_v4_udgraded32_II_lmax64_rmmono_3iter.fits"
AUTO = "cl_wmap_band_iqumap_r9_7yr_W_v4_udgraded32_IQU_lmax64_rmmono_3iter.fits"


@pytest.fixture(scope="module")
def sky():
    mask = (read_map(MAPS / "wmap_mask_n32.fits").values[0] > 0.5).astype(float)
    seen = []
    for band in "wv":
        found = read_map(
            MAPS / f"wmap_{band}_n32.fits", unit="mK_CMB", frame="galactic", polarization="COSMO"
        )
        values = np.vstack((subtract_monopole(found.values[0], mask, None), found.values[1:]))
        seen.append(weighted_harmonics(values, found.pixelization, mask, l_max=64))
    return mask, *seen


def test_w_times_v(sky):
    mask, w, v = sky
    found = pseudo_spectra(w, v)["TT"]
    expected = read_spectrum_file(DATA / CROSS, unit="mK^2")["TT"]
    # the file has eight digits
    np.testing.assert_allclose(found[2:], expected[2:], rtol=1e-6)
    power = found * cl_to_dl_factor(np.arange(65)) / sky_fraction(mask) * 1e12
    assert power[10:31].mean() == pytest.approx(783, abs=1)


def test_w_alone_in_all_six(sky):
    _, w, _ = sky
    found, expected = pseudo_spectra(w), read_spectrum_file(DATA / AUTO, unit="mK^2")
    for name in ("TT", "EE", "BB", "TE", "EB", "TB"):
        np.testing.assert_allclose(
            found[name], expected[name], rtol=0, atol=2e-7 * np.abs(expected[name]).max()
        )
