"""Spectra of components against astropy's units and blackbody."""

import numpy as np
import pytest
from astropy import units as u
from astropy.cosmology import Planck18
from astropy.modeling.models import BlackBody
from hypothesis import given
from hypothesis import strategies as st

from petamap.sky.component_spectra import modified_blackbody, power_law, thermodynamic_conversion

FREQUENCIES = np.array([30e9, 44e9, 95e9, 150e9, 217e9, 353e9, 857e9])


def test_conversion_is_that_of_astropy():
    """K_RJ is a brightness temperature, K_CMB a difference of a blackbody's."""
    for nu, found in zip(FREQUENCIES, thermodynamic_conversion(FREQUENCIES), strict=True):
        radiance = (1 * u.K).to(u.MJy / u.sr, u.brightness_temperature(nu * u.Hz))
        expected = radiance.to(u.K, u.thermodynamic_temperature(nu * u.Hz, Planck18.Tcmb0))
        np.testing.assert_allclose(found, expected.value, rtol=1e-9)


def test_dust_is_a_blackbody_with_an_emissivity():
    def intensity(nu):
        return (nu / 1e11) ** 1.6 * BlackBody(20 * u.K)(nu * u.Hz).to(u.MJy / u.sr)

    def thermodynamic(nu):
        return intensity(nu).to(u.K, u.thermodynamic_temperature(nu * u.Hz, Planck18.Tcmb0)).value

    expected = [thermodynamic(nu) / thermodynamic(353e9) for nu in FREQUENCIES]
    np.testing.assert_allclose(modified_blackbody(FREQUENCIES, 353e9, 1.6, 20.0), expected, rtol=1e-9)


@given(st.floats(1e9, 1e13), st.floats(-5, 5), st.floats(5, 100))
def test_spectra_are_1_at_their_reference(reference, beta, temperature):
    nu = np.array([reference])
    assert power_law(nu, reference, beta)[0] == pytest.approx(1, rel=1e-12)
    assert modified_blackbody(nu, reference, beta, temperature)[0] == pytest.approx(1, rel=1e-12)


@given(st.floats(1e9, 1e12), st.floats(1e9, 1e12), st.floats(1e9, 1e12), st.floats(-5, 5))
def test_a_change_of_the_reference_is_a_factor(nu, one, other, beta):
    """s(nu; nu_1) = s(nu; nu_2) s(nu_2; nu_1): only the unit of the component's map depends on it."""
    frequency = np.array([nu])
    product = power_law(frequency, other, beta) * power_law(np.array([other]), one, beta)
    np.testing.assert_allclose(power_law(frequency, one, beta), product, rtol=1e-9)
