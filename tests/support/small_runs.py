"""Whole runs on observations held in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from small_systems import Bad, Models, Samples, recorded, spinning

from petamap.data.config import (
    CommOptions,
    MapOptions,
    NoiseOptions,
    ProductOptions,
    ResourceOptions,
    RunConfig,
    RunOptions,
    SolverOptions,
)
from petamap.data.observation import Observation
from petamap.mapmaking.run import run
from petamap.noise.model import OneOverF
from petamap.simulation.noise import SimulatedNoise
from petamap.sky.numbered import NumberedPixels

_SECTIONS = {
    "run": RunOptions, "map": MapOptions, "noise": NoiseOptions, "solver": SolverOptions,
    "comm": CommOptions, "resources": ResourceOptions, "products": ProductOptions,
}  # fmt: skip


def config(splits=(), bands=(), components=(), **changes):
    """Return a run configuration; ``solver=dict(tolerance=...)`` changes a section."""
    chosen = {
        "run": {"name": "small"},
        "map": {"n_side": 8},
        "noise": {"n_lag": 64},
        "solver": {"tolerance": 1e-8},
        "resources": {"threads": 1},
        "products": {},
    }
    for name, section in changes.items():
        chosen[name] = chosen.get(name, {}) | section
    if chosen["map"].get("pixelization"):
        chosen["map"].pop("n_side", None)
    sections = {name: _SECTIONS[name](**section) for name, section in chosen.items()}
    return RunConfig(**sections, splits=splits, bands=bands, components=components)


def run_on(observations, out, ranks=None, resume=False, stop=None, **changes):
    """Run on observations in memory, on the communicator `ranks`, and return the summary."""
    return run(config(**changes), out=out, observations=observations, comm=ranks, resume=resume, stop=stop)


def sha_of(summary, kind="map"):
    """Return the SHA-256 of a product's pixels."""
    return next(product.sha256 for product in summary.products if product.kind == kind)


def noisy_scans(n_samp=4500, n_det=4, flagged=0.01):
    """Return two observations of the sky with 1/f noise, white noise of different detectors, and flags."""
    made = []
    for uid, (name, n) in enumerate([("one", n_samp), ("two", n_samp // 3)]):
        rng = np.random.default_rng(uid)
        models = Models(tuple((OneOverF(1.0 + 0.4 * d, 0.05, 1e-4, -1.7),) for d in range(n_det)))
        bad = rng.random((n_det, n)) < flagged
        bad[:, n // 2 : n // 2 + 200] = True
        bare = Observation(
            name=name, uid=uid, n_samp=n, sample_rate=5.0, detectors=tuple(f"d{d}" for d in range(n_det)),
            intervals=((0, n // 2 + 77), (n // 2 + 77, n)), pointing=spinning(n, 0.21, n_det, 5),
            frame="galactic", flags=(Bad(bad),), noise=models,
        )  # fmt: skip
        sky = Samples(np.cumsum(rng.standard_normal((n_det, n)), axis=1) * 0.01)
        made.append(replace(bare, signals=(sky, SimulatedNoise(bare, models, 5, 0))))
    return made


def recorded_with_gains(n_samp=4000, n_det=3):
    """Return an observation of recorded pixels with gains; some pixels are seen at one angle alone."""
    rng = np.random.default_rng(77)
    made = recorded(
        rng, n_det, n_samp, 300, 20, ((0, n_samp // 2), (n_samp // 2, n_samp)), 3.0, 0.05, 0.02,
        (1.0, 0.3, 0.01),
    )  # fmt: skip
    return [made]


def one_detector(values, pixels, flags=None, n_pix=4, angles=None, noise=None, **changes):
    """Return an observation of one detector with given samples."""
    values = np.atleast_2d(np.asarray(values, float))
    made = recorded(np.random.default_rng(0), len(values), values.shape[1], n_pix, 0)
    kept = np.atleast_2d(pixels).astype(np.int32)
    pointing = type(made.pointing)(kept, NumberedPixels(n_pix), angles=angles)
    return replace(
        made, pointing=pointing, signals=(Samples(values),), flags=() if flags is None else (Bad(flags),),
        noise=noise or made.noise, **changes,
    )  # fmt: skip
