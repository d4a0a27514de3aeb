"""Synthetic Monte Carlo of maps: skies with a beam, white noise, weights; no time streams."""

from dataclasses import fields, replace
from functools import cache

import numpy as np

from petamap.montecarlo.realizations import Realizations
from petamap.montecarlo.store import Store, StoreLayout, create_store
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


def write(path, made, failed=(), left=0, theory=True, fixed=None, **attributes):
    """Write the file of a Monte Carlo; failed and remaining realizations follow the finished ones.

    `fixed` are the pseudo-spectra of signals that were added to ``both``.
    """
    rows = {f"pseudo/{part}": values for part, values in made.pseudo.items()}
    rows |= {name: getattr(made, name) for name in ("input", "iterations") if getattr(made, name) is not None}
    common = {"weights": made.weights}
    if theory:
        common["theory"] = np.zeros((len(made.names), L_MAX + 1))
        common["theory"][[made.names.index(name) for name in ("TT", "EE", "BB", "TE")]] = spectra()
    choices = {field.name: getattr(made.choices, field.name) for field in fields(made.choices)}
    texts = {"unit": made.unit, "ordering": "ring", "name": "made", "run_id": "0123", "frame": "galactic"}
    n_side = made.pixelization.n_side
    first = int(made.numbers.max()) + 1
    groups = {"choices": {k: v for k, v in choices.items() if v is not None and k != "n_threads"}}
    computed = {}
    if fixed is not None:
        groups["fixed"] = {"added": "both"}
        computed = {"fixed/pseudo": (fixed.shape, fixed.dtype), "fixed/status": ((1,), np.uint8)}
    layout = StoreLayout(
        numbers=np.concatenate((made.numbers, first + np.arange(len(failed) + left))),
        rows={name: (values.shape[1:], values.dtype) for name, values in rows.items()}
        | {"error": ((), "S240")},
        common=common,
        computed=computed,
        attributes={**texts, "n_side": n_side, "names": made.names} | attributes,
        groups=groups,
    )
    create_store(path, layout)
    with Store(path) as store:
        for row, number in enumerate(made.numbers):
            store.write(int(number), {name: values[row] for name, values in rows.items()})
        for row, why in enumerate(failed):
            store.fail(first + row, why)
        if fixed is not None:
            store.write_once({"fixed/pseudo": fixed})
    return path
