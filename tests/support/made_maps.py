"""Folders of finished runs with a map that is known."""

from dataclasses import replace

import numpy as np

from petamap.data.run_summary import Product, pixels_sha256
from petamap.simulation.random_keys import Purpose, random_stream
from petamap.simulation.sky_spectra import gaussian_alm, read_spectra, smooth_alm, synthesize
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map

N_SIDE, FWHM, SKY = 32, np.radians(3.0), Healpix(32)
UP = SKY.directions_of(np.arange(SKY.n_pix))[:, 2]


def sky(seed=0):
    """I, Q, U of a CMB seen by a beam of FWHM, no pixel window, float64 (3, n_pix)."""
    words = np.stack([random_stream(Purpose.SKY, seed, 0, detector=k) for k in range(3)])
    return synthesize(smooth_alm(gaussian_alm(read_spectra("planck2018"), words, 95), 95, FWHM), 95, N_SIDE)


def write_run(folder, summary, values, variances=None, hits=None, names="IQU", sky_pixels=SKY):
    """Write maps and a summary; variances are of I and of Q, U."""
    folder.mkdir(exist_ok=True)
    products = []

    def write(kind, columns, column_names, unit):
        path = folder / f"{kind}.fits"
        write_map(
            path, columns, sky_pixels, names=column_names, unit=unit, run_id=summary.run_id, frame="galactic"
        )
        stokes = names if kind == "map" else ""
        digest = pixels_sha256(columns)
        products.append(
            Product(name=kind, file=path.name, kind=kind, unit=unit, stokes=stokes, sha256=digest)
        )

    write("map", values, list(names), "K_CMB")
    if variances is not None:
        zero = np.zeros(sky_pixels.n_pix)
        rows = [variances[0], zero, zero, variances[1], zero, variances[1]]
        write("covariance", np.array(rows), ["II", "IQ", "IU", "QQ", "QU", "UU"], "K_CMB^2")
    if hits is not None:
        write("hits", hits[None], ["HITS"], "")
    replace(summary, products=tuple(products), name="made").write(folder)
    return folder
