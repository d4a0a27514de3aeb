"""Spectra of the components of the microwave sky, as factors in K_CMB between two frequencies.

A component whose map at the reference frequency nu_0 is m, in K_CMB, is s(nu) m at the frequency nu,

    s(nu) = f(nu) / f(nu_0) * u(nu) / u(nu_0),   u(nu) = (exp(x) - 1)^2 / (x^2 exp(x)),  x = h nu / (k T_CMB),

with f its spectrum in Rayleigh-Jeans temperature and u the K_CMB of one K_RJ (Planck 2015 results X, A&A 594,
A10, table 4; Planck 2013 results IX, A&A 571, A9, section 3.2). Frequencies are single ones: that of a wide
band is its effective one, by the spectrum of the component.
"""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import FloatArray

# J s, and J / K: exact (SI 2019); K (Fixsen 2009, ApJ 707, 916).
PLANCK, BOLTZMANN, CMB_TEMPERATURE = 6.62607015e-34, 1.380649e-23, 2.7255


def thermodynamic_conversion(frequencies: FloatArray) -> FloatArray:
    """Return u: the K_CMB of one K_RJ at frequencies in Hz, (n,)."""
    x = PLANCK * np.asarray(frequencies, np.float64) / (BOLTZMANN * CMB_TEMPERATURE)
    return np.asarray((2 * np.sinh(x / 2) / x) ** 2)


def power_law(frequencies: FloatArray, reference: float, beta: float) -> FloatArray:
    """Return s, (n,), of a power law, f = nu^beta: of synchrotron or free-free emission.

    Parameters
    ----------
    frequencies : float64 (n,)
        Hz.
    reference : float
        nu_0, Hz.
    beta : float
    """
    nu = np.asarray(frequencies, np.float64)
    units = thermodynamic_conversion(nu) / thermodynamic_conversion(np.array(reference))
    return np.asarray((nu / reference) ** beta * units)


def modified_blackbody(
    frequencies: FloatArray, reference: float, beta: float, temperature: float
) -> FloatArray:
    """Return s, (n,), of thermal dust, f = nu^(beta + 1) / (exp(h nu / (k T)) - 1).

    Parameters
    ----------
    frequencies : float64 (n,)
        Hz.
    reference : float
        nu_0, Hz.
    beta : float
        Of the emissivity.
    temperature : float
        T of the dust, K.
    """
    per_hertz = PLANCK / (BOLTZMANN * temperature)
    nu = np.asarray(frequencies, np.float64)
    planck = np.expm1(per_hertz * reference) / np.expm1(per_hertz * nu)
    return np.asarray(power_law(nu, reference, beta + 1) * planck)
