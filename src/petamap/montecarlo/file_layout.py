"""Layout of the file of a Monte Carlo."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petamap import __version__
from petamap.data.config import (
    CommOptions,
    MonteCarloOptions,
    ProductOptions,
    ResourceOptions,
    RunConfig,
    to_toml,
)
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.target import map_frame
from petamap.montecarlo.draws import Draws
from petamap.montecarlo.store import ERROR_BYTES, HASH_BYTES, StoreLayout
from petamap.spectra.measure import SpectraChoices
from petamap.spectra.pseudo_cl import PseudoClEstimator

# parts whose spectra are written
_PARTS = {"apart": ("sky", "noise", "both"), "together": ("both",), "sky": ("sky",), "noise": ("noise",)}
FILTER_AND_BIN, UNFILTERED = "filter-and-bin", "unfiltered"
_FREE = ("realizations", "first", "batch", "groups")


def montecarlo_file_name(config: RunConfig) -> str:
    """Return the name of the file of a Monte Carlo."""
    return f"{config.run.name}_mc.h5"


def relevant_configuration(config: RunConfig) -> str:
    """Return the configuration as TOML, without the options that realizations do not depend on."""
    free: dict[str, Any] = {name: getattr(MonteCarloOptions(), name) for name in _FREE}
    weights = ProductOptions(binned_weights=config.products.binned_weights)
    return to_toml(
        replace(
            config,
            comm=CommOptions(),
            resources=ResourceOptions(),
            products=weights,
            montecarlo=replace(config.montecarlo, **free),
        )
    )


def run_id(config: RunConfig) -> str:
    """Return an identifier of the version and of all options that realizations depend on."""
    return hashlib.sha256(f"{__version__}\n{relevant_configuration(config)}".encode()).hexdigest()[:16]


def make_file_layout(
    config: RunConfig,
    stage: RunSetup,
    draws: Draws,
    estimator: PseudoClEstimator,
    weights: FloatArray,
    pixels: Int64Array | None,
    choices: SpectraChoices,
    numbers: Int64Array,
    fixed: str,
) -> StoreLayout:
    """Return the layout of the file of a run, right on rank 0.

    `weights`, (2, n), are whole on rank 0 and have the pixels of the maps of the file, whose numbers are
    `pixels`, or None where these are all. `fixed` is the treatment of signals common to realizations.
    """
    parts = _PARTS[config.montecarlo.parts]
    spectra = ((len(estimator.names), estimator.l_max + 1), np.float64)
    maps = ((estimator.n_stokes, weights.shape[1]), np.float64)
    solved = (len(draws.solved),)
    rows: dict[str, tuple[tuple[int, ...], Any]] = {f"pseudo/{part}": spectra for part in parts}
    if config.montecarlo.estimator == FILTER_AND_BIN and "sky" in parts:
        rows[f"pseudo/{UNFILTERED}"] = spectra
    if draws.has_known_input and "noise" not in parts[:1]:
        rows["input"] = spectra
    rows |= {
        "iterations": (solved, np.int64),
        "residual": (solved, np.float64),
        "error_bound": (solved, np.float64),
        "hash": (solved, f"S{HASH_BYTES}"),
        "error": ((), f"S{ERROR_BYTES}"),
    }
    if config.montecarlo.maps:
        rows |= {f"maps/{part}": maps for part in parts}
    computed = {"fixed/map": maps, "fixed/pseudo": spectra, "fixed/status": ((1,), np.uint8)}
    groups = {"choices": _choices(choices), "fixed": {"added": "both" if fixed == "add" else ""}}
    if fixed == "leave":
        computed, groups = {}, {"choices": groups["choices"]}
    return StoreLayout(
        numbers=numbers,
        rows=rows,
        common=_common(draws, estimator, weights, pixels),
        computed=computed,
        attributes=_attributes(config, stage, draws, estimator, parts),
        groups=groups,
    )


def _common(
    draws: Draws, estimator: PseudoClEstimator, weights: FloatArray, pixels: Int64Array | None
) -> dict[str, AnyArray]:
    common: dict[str, AnyArray] = {"weights": weights}
    if pixels is not None:
        common["pixels"] = pixels
    if draws.theory is not None:
        names = tuple(name for name in estimator.names if name in draws.theory)
        common["theory"] = np.zeros((len(estimator.names), len(draws.theory.multipoles)))
        for name in names:
            common["theory"][estimator.names.index(name)] = draws.theory[name]
    return common


def _attributes(
    config: RunConfig, stage: RunSetup, draws: Draws, estimator: PseudoClEstimator, parts: tuple[str, ...]
) -> Mapping[str, Any]:
    return {
        "petamap": __version__,
        "run_id": run_id(config),
        "configuration": relevant_configuration(config),
        "name": config.run.name,
        "names": estimator.names,
        "parts": parts,
        "estimator": config.montecarlo.estimator,
        "solved": draws.solved,
        "l_max": estimator.l_max,
        "unit": f"{stage.unit}^2",
        "n_side": estimator.pixelization.n_side,
        "ordering": "ring",
        "stokes": config.map.stokes,
        "frame": map_frame(config.map, stage.observations) or "",
    }


def _choices(choices: SpectraChoices) -> Mapping[str, Any]:
    """Return the choices of `SpectraChoices` by name, without those that are None."""
    values = {field.name: getattr(choices, field.name) for field in fields(choices)}
    values["mask"] = None if choices.mask is None else choices.mask.name
    return {name: value for name, value in values.items() if value is not None and name != "n_threads"}
