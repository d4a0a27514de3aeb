"""Random waves on the sphere: fields of one angular scale, of intensity or polarization."""

from __future__ import annotations

import math

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.simulation.random_keys import Purpose, gaussians, random_stream

_WAVES = 48


def random_waves(directions: FloatArray, l_first: int, l_last: int, *, polarized: bool) -> FloatArray:
    """Return a random field of multipoles about l_first to l_last, the same for all who ask.

    A sum of plane waves f(k.n) = cos(l k.n + phi) in space, with directions k at random and l between the
    two; on the sphere they have the multipoles up to l, of which those below l/2 have 13% of the square.
    Those of polarization are spin-2 derivatives, Q + iU ~ f (k.e_theta + i k.e_phi)^2, of E and B alike
    (Zaldarriaga & Seljak 1997, Phys. Rev. D 55, 1830).

    Parameters
    ----------
    directions : float64 (n, 3)
        Unit vectors.
    l_first, l_last : int
    polarized : bool
        Of Q and U (COSMO) instead of I.

    Returns
    -------
    float64 (n, 1) or (n, 2)
    """
    words = random_stream(Purpose.WAVES, l_first, l_last, int(polarized))
    drawn = gaussians(words, 7 * _WAVES).reshape(_WAVES, 7)
    out = np.zeros((len(directions), 2 if polarized else 1))
    x, y, z = directions.T
    rho = np.maximum(np.hypot(x, y), 1e-300)
    for number, row in enumerate(drawn):
        k = row[:3] / math.sqrt(row[0] ** 2 + row[1] ** 2 + row[2] ** 2)
        l = l_first * (l_last / l_first) ** ((number + 0.5) / _WAVES)  # noqa: E741
        phase = l * (x * k[0] + y * k[1] + z * k[2])
        cosine, sine = np.cos(phase), np.sin(phase)
        wave = row[3] * cosine + row[4] * sine
        if not polarized:
            out[:, 0] += wave
            continue
        along = (x * k[0] + y * k[1]) / rho * z - rho * k[2]  # k.e_theta, southwards
        across = (y * -k[0] + x * k[1]) / rho  # k.e_phi, to the east
        q, u = along**2 - across**2, 2 * along * across
        other = row[5] * cosine + row[6] * sine
        out[:, 0] += wave * q - other * u
        out[:, 1] += wave * u + other * q
    return out
