"""Fixture: folder of a finished run with WMAP maps and smooth ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from petamap.data.run_summary import Product, pixels_sha256
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map, write_map

WMAP = (
    Path(__file__).parents[3] / "../shared/data/planck_lfi_wmap/wmap_band_iqumap_r9_7yr_W_v4_udgraded32.fits"
)
N_SIDE = 32


def sky_of(z):
    if WMAP.exists():
        return read_map(WMAP).values
    return np.array([1e-4 * np.sin(9 * z), 1e-5 * np.cos(7 * z), 1e-5 * z])


@pytest.fixture
def out_dir(tmp_path, make_summary):
    """Return a folder with maps and summary.json; `out_dir.maps` has the values of the files by kind."""
    rng = np.random.default_rng(3)
    pixelization = Healpix(N_SIDE)
    z = pixelization.directions_of(np.arange(pixelization.n_pix))[:, 2]
    sky = sky_of(z)
    noise, stripes = rng.normal(0, 8e-6, (2, *sky.shape))
    maps = {
        "map": ("Maximum likelihood", sky + noise, "IQU", "K_CMB"),
        "binned": ("Binned", sky + noise + 4 * stripes, "IQU", "K_CMB"),
        "residual": ("Residual", noise, "IQU", "K_CMB"),
        "hits": ("Hits", np.floor(800 / np.sqrt(1.02 - z**2))[None], "", ""),
        "rcond": ("Reciprocal condition", (0.5 - 0.2 * np.abs(z) ** 3)[None], "", ""),
    }
    products = []
    for kind, (name, values, stokes, unit) in maps.items():
        names = list(stokes) or [kind.upper()]
        write_map(
            tmp_path / f"{kind}.fits",
            values,
            pixelization,
            names=names,
            unit=unit,
            run_id=make_summary().run_id,
            frame="galactic",
        )
        digest = pixels_sha256(values)
        products.append(
            Product(name=name, file=f"{kind}.fits", kind=kind, unit=unit, stokes=stokes, sha256=digest)
        )
    replace(make_summary(), products=tuple(products)).write(tmp_path)
    return Out(tmp_path, {kind: entry[1] for kind, entry in maps.items()})


class Out:
    def __init__(self, folder, maps):
        self.folder = folder
        self.maps = maps
