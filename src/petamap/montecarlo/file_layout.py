"""What the file of a run's realizations holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petamap import __version__
from petamap.data.config import (
    CommOptions,
    MonteCarloOptions,
    ProductOptions,
    ResourceOptions,
    RunConfig,
    to_toml,
)
from petamap.mapmaking.setup import Stage
from petamap.montecarlo.draws import Draws
from petamap.montecarlo.store import ERROR_BYTES, HASH_BYTES, Layout
from petamap.spectra.measure import Choices
from petamap.spectra.pseudo_cl import Sight

_PARTS = {"apart": ("sky", "noise", "both"), "together": ("both",), "sky": ("sky",), "noise": ("noise",)}
_FREE = ("realizations", "first", "batch", "groups")


@dataclass(frozen=True)
class FileLayout(Layout):
    """The layout of a run's file.

    Attributes
    ----------
    parts : tuple of str
        Whose spectra it holds.
    """

    parts: tuple[str, ...] = ()


def file_of(config: RunConfig) -> str:
    """Return the name of the file."""
    return f"{config.run.name}_mc.h5"


def configuration(config: RunConfig) -> str:
    """Return the configuration, as TOML, less what no realization depends on."""
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
    """Return a name for all that a realization depends on."""
    return hashlib.sha256(f"{__version__}\n{configuration(config)}".encode()).hexdigest()[:16]


def layout_of(
    config: RunConfig,
    stage: Stage,
    draws: Draws,
    sight: Sight,
    choices: Choices,
    numbers: Int64Array,
    fixed: str,
) -> FileLayout:
    """Return the layout of the file of a run; `fixed`: what becomes of signals that no realization draws."""
    n_pix, parts = sight.pixelization.n_pix, _PARTS[config.montecarlo.parts]
    spectra = ((len(sight.names), sight.l_max + 1), np.float64)
    maps = ((sight.n_stokes, n_pix), np.float64)
    solved = (len(draws.solved),)
    rows: dict[str, tuple[tuple[int, ...], Any]] = {f"pseudo/{part}": spectra for part in parts}
    if draws.tells_input and "noise" not in parts[:1]:
        rows["input"] = spectra
    rows |= {
        "iterations": (solved, np.int64),
        "residual": (solved, np.float64),
        "hash": (solved, f"S{HASH_BYTES}"),
        "error": ((), f"S{ERROR_BYTES}"),
    }
    if config.montecarlo.maps:
        rows |= {f"maps/{part}": maps for part in parts}
    later = {"fixed/map": maps, "fixed/pseudo": spectra, "fixed/status": ((1,), np.uint8)}
    groups = {"choices": _choices(choices), "fixed": {"added": "both" if fixed == "add" else ""}}
    if fixed == "leave":
        later, groups = {}, {"choices": groups["choices"]}
    return FileLayout(
        numbers=numbers,
        rows=rows,
        whole=_whole(draws, sight),
        later=later,
        attributes=_attributes(config, stage, draws, sight, parts),
        groups=groups,
        parts=parts,
    )


def _whole(draws: Draws, sight: Sight) -> dict[str, AnyArray]:
    whole: dict[str, AnyArray] = {"weights": sight.weights}
    if draws.theory is not None:
        names = tuple(name for name in sight.names if name in draws.theory)
        whole["theory"] = np.zeros((len(sight.names), len(draws.theory.multipoles)))
        for name in names:
            whole["theory"][sight.names.index(name)] = draws.theory[name]
    return whole


def _attributes(
    config: RunConfig, stage: Stage, draws: Draws, sight: Sight, parts: tuple[str, ...]
) -> Mapping[str, Any]:
    return {
        "petamap": __version__,
        "run_id": run_id(config),
        "configuration": configuration(config),
        "name": config.run.name,
        "names": sight.names,
        "parts": parts,
        "solved": draws.solved,
        "l_max": sight.l_max,
        "unit": f"{stage.unit}^2",
        "n_side": sight.pixelization.n_side,
        "ordering": "ring",
        "stokes": config.map.stokes,
        "frame": config.map.frame,
    }


def _choices(choices: Choices) -> Mapping[str, Any]:
    """Return how spectra are measured, by the names of `Choices`; what is None is left out."""
    found = {field.name: getattr(choices, field.name) for field in fields(choices)}
    found["mask"] = None if choices.mask is None else choices.mask.name
    return {name: value for name, value in found.items() if value is not None and name != "n_threads"}
