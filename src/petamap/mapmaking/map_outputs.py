"""What a run writes: of the map of all its data, or of the maps of bands or components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.files import check_names
from petacomm.base.typing import FloatArray
from petamap.data.config import RunConfig
from petamap.data.observation import Observation, sky_signals
from petamap.data.run_summary import Product
from petamap.mapmaking.components import ComponentSystem
from petamap.mapmaking.maps_in_memory import KeptProducts
from petamap.mapmaking.product_set import checkpoint_folder
from petamap.mapmaking.products import MapWriter, covariance_columns, covariance_names
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.target import map_frame

SHORTER = "give shorter names: run.name, and those of bands, components, splits and their parts"
# What is the same for all components.
_OF_PIXELS = ("hits", "rcond")
# Products that are not made of the maps of the run.
MADE_APART = ("amplitudes", "demodulated", "filtered", "observation_matrix", "pixel_covariance")


@dataclass(frozen=True)
class OutputName:
    """Name of what products are of, and which these are.

    Attributes
    ----------
    name : str
        Of a band or component, two of these joined by a hyphen, or empty.
    numbers : tuple of int
        Of the maps.
    only, without : tuple of str
        Kinds of products; without `only`, all others.
    """

    name: str = ""
    numbers: tuple[int, ...] = (0,)
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def has(self, kind: str) -> bool:
        """Return whether there is a product of a kind."""
        return kind in self.only if self.only else kind not in self.without


def output_names(config: RunConfig) -> list[OutputName]:
    """Return what products of a run are of, in the order in which they are written."""
    if not config.components:
        bands = [OutputName(band.name, (number,)) for number, band in enumerate(config.bands)]
        return bands or [OutputName()]
    names = [one.name for one in config.components]
    pairs = combinations(range(len(names)), 2)
    return [
        *(OutputName(name, (number,), without=_OF_PIXELS) for number, name in enumerate(names)),
        *(OutputName(f"{names[i]}-{names[j]}", (i, j), only=("covariance",)) for i, j in pairs),
        OutputName(only=_OF_PIXELS),
    ]


def product_file(folder: Path, run: str, name: str, kind: str) -> Path:
    """Return the file of a product."""
    return folder / f"{'_'.join(part for part in (run, name, kind) if part)}.fits"


def part_file(folder: Path, run: str, split: str, part: str, kind: str) -> Path:
    """Return the file of a product of a part of a split."""
    return folder / f"{run}_{split}_{part}_{kind.removeprefix('part_')}.fits"


def part_files(
    config: RunConfig, split: str, parts: Sequence[str], folder: Path
) -> Iterator[tuple[Path, str]]:
    """Yield the files of all products of a split, of parts with these names, and their kinds."""
    chosen, run = config.products, config.run.name
    for part in parts:
        for kind in part_kinds(config):
            yield part_file(folder, run, split, part, kind), kind
    for pair in pairwise(parts) if chosen.maps else ():
        yield part_file(folder, run, split, "-".join(pair), "null"), "null"


def part_kinds(config: RunConfig) -> list[str]:
    """Return the kinds of products of each part of a split."""
    chosen = config.products
    kinds = {"part_map": chosen.maps and not config.solver.binned_only, "part_binned": chosen.binned}
    return [kind for kind, wanted in {**kinds, "part_hits": chosen.hits}.items() if wanted]


def product_kinds(config: RunConfig, observations: Sequence[Observation]) -> list[str]:
    """Return the kinds of products of a run, but those of splits."""
    chosen = config.products
    kinds = [kind for kind in ("hits", "covariance", "rcond", "binned", "sky") if getattr(chosen, kind)]
    if not config.solver.binned_only:
        kinds += ["map"] * chosen.maps + ["residual"] * chosen.residual
        if any(observation.templates for observation in observations):
            kinds += ["amplitudes"] * chosen.amplitudes
    others = ("demodulated", "filtered", "observation_matrix", "pixel_covariance")
    return kinds + [kind for kind in others if getattr(chosen, kind)]


def require_products(config: RunConfig, observations: Sequence[Observation], *, files: bool = True) -> None:
    """Raise a ConfigError if a product is asked for that cannot be made, or a file cannot have its name."""
    products = config.products
    if files:
        names = [*product_files(config, observations, Path()), checkpoint_folder(config, Path())]
        check_names(names, SHORTER)
    if products.sky and not any(map(sky_signals, observations)):
        raise ConfigError("no source simulates a sky", mend="leave products.sky away, or add e.g. a sky-map")
    if products.pixel_covariance and config.solver.binned_only:
        raise ConfigError(
            "products.pixel_covariance is that of the maximum-likelihood map",
            mend="leave solver.binned_only away",
        )


def product_files(config: RunConfig, observations: Sequence[Observation], folder: Path) -> Iterator[Path]:
    """Yield the files of all products of a run, but those of splits."""
    for kind in product_kinds(config, observations):
        names = [""] if kind in MADE_APART else [one.name for one in output_names(config) if one.has(kind)]
        yield from (product_file(folder, config.run.name, name, kind) for name in names)


@dataclass(frozen=True)
class MapOutput:
    """Products of one of the maps that a run solves for. Collective.

    Attributes
    ----------
    system : MapmakingSystem
    output : OutputName
    writer : MapWriter
    rows : slice
        Of the map, among those of the system.
    """

    system: MapmakingSystem
    output: OutputName
    writer: MapWriter
    rows: slice

    def write(self, kind: str, path: Path, content: tuple[str, FloatArray, list[str], str]) -> Product | None:
        """Write a product of title, values of all maps, columns and unit; return its entry on rank 0."""
        title, values, names, unit = content
        own = self.output
        if len(own.numbers) > 1:
            values, names = self._covariance_of_both(), self._names_of_both()
        else:
            values = values[self.rows]
        title = f"{title} of {own.name}" if own.name else title
        product = self.writer.write(kind, path, title, values, names, unit)
        return None if product is None else replace(product, of=own.name)

    def _covariance_of_both(self) -> FloatArray:
        assert isinstance(self.system, ComponentSystem), "of components"
        blocks = self.system.covariance_of(*self.output.numbers)
        return np.ascontiguousarray(blocks.reshape(len(blocks), -1))

    def _names_of_both(self) -> list[str]:
        letters = self.system.projection.stokes.value
        return [one + other for one in letters for other in letters]


def map_outputs(
    system: MapmakingSystem, config: RunConfig, run_id: str, kept: KeptProducts | None = None
) -> Iterator[MapOutput]:
    """Yield the products of each map of a system, with their writers: to files or to `kept`. Collective."""
    n_pix = system.projection.sky.n_pix
    bounds = np.searchsorted(system.keys, n_pix * np.arange(len(system.map_names) + 1))
    frame = map_frame(config.map, system.projection.observations)
    for output in output_names(config):
        first = output.numbers[0]
        rows = slice(int(bounds[first]), int(bounds[first + 1]))
        keys = system.keys[rows]
        writer = MapWriter(
            system.comm, system.projection.sky, keys - first * n_pix if first else keys, frame, run_id,
            config.map.ordering, _cards(config, output), kept,
        )  # fmt: skip
        yield MapOutput(system, output, writer, rows)


def _cards(config: RunConfig, output: OutputName) -> Mapping[str, object]:
    """Return what a file says of the band or component that it is of."""
    if not output.name:
        return {}
    cards: dict[str, object] = {"COMPONEN" if config.components else "BAND": output.name}
    if len(output.numbers) > 1:
        return cards
    number = output.numbers[0]
    if not config.components:
        frequency = config.bands[number].frequency
    else:
        one = config.components[number]
        frequency = None if one.spectrum in ("cmb", "factors") else one.reference_frequency
    if frequency is not None:
        cards["FREQ"] = (frequency, "[Hz]")
    return cards


def covariance_content(system: MapmakingSystem, unit: str) -> tuple[str, FloatArray, list[str], str]:
    """Return title, values, columns and unit of the covariance of each map."""
    names = covariance_names(system.projection.stokes)
    return "covariance of the white noise", covariance_columns(system), names, f"{unit}^2"
