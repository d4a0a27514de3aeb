"""The examples of the package, made smaller, and what came out of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np

from petamap.data.config import RunConfig, load_config
from petamap.data.source import SourceContext
from petamap.examples import find_example
from petamap.mapmaking.run import run
from petamap.simulation.sky_sources import SkySpectraSource
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import SkyMap, read_map

# Four of the twelve radiometers; the Sun goes round in two days, so that 30 hours show the whole sky.
PLANCK = ("source.0.detectors=LFI18,LFI23", "source.0.year=2 day", "source.0.precession_period=1 day",
          "source.0.duration=30 h")  # fmt: skip
# A sixth of the detectors and a third of the time.
GROUND = (
    "source.0.n_det=8",
    "source.0.duration=12 min",
    "source.0.n_observations=2",
    "source.7.detectors=0001A",
)


def configured(example: str, *changes: str, without: tuple[str, ...] = ()) -> RunConfig:
    """Return an example with values changed, and without the sources of some kinds."""
    config = load_config(find_example(example), changes)
    kept = tuple(source for source in config.sources if source.kind not in without)
    return dataclasses.replace(config, sources=kept)


def maps(config: RunConfig, out: Path) -> dict[str, SkyMap]:
    """Run, and return the products by kind."""
    run(config, out=out)
    products = json.loads((out / "summary.json").read_text())["products"]
    return {product["kind"]: read_map(out / product["file"]) for product in products}


def planck_sky(config: RunConfig, n_side: int) -> np.ndarray:
    """Return the I, Q, U that the planck-lfi example looks at, (3, n_pix) in nested order."""
    sky_map, spectra = (
        next(source.options for source in config.sources if source.kind == kind)
        for kind in ("sky-map", "sky-spectra")
    )
    wmap = read_map(config.folder / sky_map.map, unit="mK_CMB", polarization="COSMO", frame="galactic")
    cmb = SkySpectraSource(
        spectra, SourceContext(config.folder, config.run.seed, config.run.realization)
    ).make()
    ring = wmap.values + cmb
    nested = ring[:, Healpix(32, nest=True).reordered(np.arange(ring.shape[1]))]
    return np.repeat(nested, (n_side // 32) ** 2, axis=1)
