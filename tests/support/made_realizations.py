"""Synthetic Monte Carlo of maps: skies with a beam, white noise, weights; no time streams."""

from dataclasses import fields, replace
from functools import cache

import h5py
import numpy as np

from petamap.montecarlo.realizations import Realizations
from petamap.simulation.random_keys import Purpose, random_stream
from petamap.simulation.sky_spectra import gaussian_alm, read_spectra, smooth_alm, synthesize
from petamap.sky.healpix import Healpix
from petamap.sky.sky_map import SkyMap
from petamap.spectra.cross_spectra import pseudo_spectra, spectra_names
from petamap.spectra.masks import apodize
from petamap.spectra.measure import SpectraChoices, coefficients
from petamap.spectra.transforms import Harmonics

N_SIDE, L_MAX, FWHM = 16, 32, np.radians(4)
SKY, NAMES = Healpix(N_SIDE), spectra_names("TEB")
SIGMA = np.array([[4e-6], [1.5e-6], [1.5e-6]])
CHOICES = SpectraChoices(width=6, l_max=31, fwhm=FWHM, pixel_window=False, keep_dipole=True)


def spectra():
    """Return Planck's best fit with more B, float64 (4, L_MAX + 1)."""
    found = read_spectra("planck2018")[:, : L_MAX + 1]
    found[2] = 0.3 * found[1]
    return found


def weights():
    z = SKY.directions_of(np.arange(SKY.n_pix))[:, 2]
    mask = apodize((np.abs(z) > 0.25).astype(float), SKY, np.radians(12))
    return np.stack((mask, mask))


def draw(realization):
    """Return the coefficients of a sky, complex128 (3, n_alm)."""
    words = np.stack([random_stream(Purpose.SKY, 5, realization, detector=k) for k in range(3)])
    return gaussian_alm(spectra(), words, L_MAX)


def noise(realization):
    return SIGMA * np.random.default_rng([9, realization]).standard_normal((3, SKY.n_pix))


def seen(values):
    return coefficients(SkyMap(values, SKY, tuple("IQU"), ("K_CMB",) * 3), SKY, weights(), CHOICES, L_MAX)


def whole(alm):
    """Return the spectra of coefficients."""
    return pseudo_spectra(Harmonics(alm, "TEB", alm, L_MAX, L_MAX)).values


@cache
def realizations(n=100, filtered=0.0):
    """Return realizations 0 to n - 1; `filtered` of the amplitude is lost below l = 12."""
    rows = {part: [] for part in ("sky", "noise", "both", "input")}
    m_l = np.concatenate([np.arange(m, L_MAX + 1) for m in range(L_MAX + 1)])
    for number in range(n):
        alm = draw(number)
        left = smooth_alm(alm, L_MAX, FWHM) * np.where(m_l < 12, 1 - filtered, 1.0)
        sky, only = seen(synthesize(left, L_MAX, N_SIDE)), seen(noise(number))
        both = replace(sky, alm=sky.alm + only.alm)
        for part, coefficients_of in (("sky", sky), ("noise", only), ("both", both)):
            rows[part].append(pseudo_spectra(coefficients_of).values)
        rows["input"].append(whole(alm))
    arrays = {name: np.array(found) for name, found in rows.items()}
    true = arrays.pop("input")
    return Realizations(np.arange(n), NAMES, arrays, SKY, weights(), true, CHOICES)


def write(path, made, failed=(), left=0, theory=True, **attributes):
    """Write the file of a Monte Carlo; failed and remaining realizations follow the finished ones."""
    more = len(failed) + left
    with h5py.File(path, "w") as file:
        texts = {"format": "petamap-montecarlo", "unit": made.unit, "ordering": "ring", "name": "made"}
        texts |= {"run_id": "0123", "frame": "galactic", **attributes}
        for name, value in texts.items():
            file.attrs[name] = np.bytes_(value.encode()) if isinstance(value, str) else value
        file.attrs["version"] = attributes.get("version", 1)
        file.attrs["n_side"] = made.pixelization.n_side
        file.attrs["names"] = np.array([name.encode() for name in made.names])
        choices = file.create_group("choices")
        for field in fields(made.choices):
            value = getattr(made.choices, field.name)
            if value is not None and field.name != "n_threads":
                choices.attrs[field.name] = value
        numbers = np.concatenate((made.numbers, made.numbers.max() + 1 + np.arange(more)))
        file["numbers"] = numbers
        file["status"] = np.array([1] * made.n + [2] * len(failed) + [0] * left, np.uint8)
        file["error"] = np.array([b""] * made.n + [why.encode() for why in failed] + [b""] * left, "S240")
        file["weights"] = made.weights
        if theory:
            rows = np.zeros((len(made.names), L_MAX + 1))
            rows[[made.names.index(name) for name in ("TT", "EE", "BB", "TE")]] = spectra()
            file["theory"] = rows
        rows = {f"pseudo/{part}": values for part, values in made.pseudo.items()}
        rows |= {} if made.input is None else {"input": made.input}
        rows |= {} if made.iterations is None else {"iterations": made.iterations}
        for name, values in rows.items():
            empty = np.full((more, *values.shape[1:]), -1 if values.dtype.kind == "i" else np.nan)
            file[name] = np.concatenate((values, empty.astype(values.dtype)))
    return path
