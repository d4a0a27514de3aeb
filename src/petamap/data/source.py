"""Sources: what a run configuration names, and what builds observations from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol

from petacomm.base.errors import ConfigError, did_you_mean
from petamap.data.observation import Observation


@dataclass(frozen=True)
class Context:
    """What a source may know of the run: where paths start, and what keys the random numbers."""

    folder: Path
    seed: int = 0
    realization: int = 0


class Source(Protocol):
    """One ``[[source]]`` of a run configuration.

    Sources are applied in order; each sees the observations so far and returns them extended: new ones
    appended, or parts (signal, flags, noise, pointing) added to those that have the same name. So a file and
    a simulator cannot be told apart by map-making, and sources add up.

    A source whose signal is another one in each realization says by an attribute ``part`` whether that is of
    the ``"sky"`` or of the ``"noise"``; it must then do nothing but add signals and noise models, and alone
    of `Context.realization` may they depend. One of the sky may have ``coefficients``, as `SkySpectraSource`.
    """

    options: ClassVar[type]  # a frozen dataclass of `petacomm.base.options.option` fields

    def __init__(self, options: Any, context: Context) -> None: ...

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with this source's part; opens files, reads headers, no samples."""
        ...


# kind in the configuration -> module:class; imported when first asked for, so that start-up stays quick
_KINDS: dict[str, str] = {
    "madmap1": "petamap.data.formats.madmap1:Madmap1Source",
    "toast": "petamap.data.formats.toast:ToastSource",
    "volume": "petamap.data.formats.volume:VolumeSource",
    "satellite": "petamap.simulation.virtual_scans:SatelliteSource",
    "ground": "petamap.simulation.virtual_scans:GroundSource",
    "raster": "petamap.simulation.virtual_scans:RasterSource",
    "recorded": "petamap.simulation.virtual_scans:RecordedSource",
    "sky-map": "petamap.simulation.sky:SkyMapSource",
    "sky-spectra": "petamap.simulation.sky:SkySpectraSource",
    "point-sources": "petamap.simulation.sky:PointSourcesSource",
    "noise": "petamap.simulation.noise:NoiseSource",
    "common-mode": "petamap.simulation.noise:CommonModeSource",
    "cuts": "petamap.simulation.cuts:CutsSource",
}


def kinds() -> list[str]:
    """Return the kinds of source known, plug-ins (entry point group ``petamap.sources``) included."""
    return sorted(_all())


def source_class(kind: str) -> type[Source]:
    """Return the class behind a kind.

    Raises
    ------
    ConfigError
        If there is no such kind.
    """
    table = _all()
    if kind not in table:
        raise ConfigError(f"unknown kind of source '{kind}'", mend=did_you_mean(kind, list(table)))
    module, _, name = table[kind].partition(":")
    found: type[Source] = getattr(import_module(module), name)
    return found


def _all() -> dict[str, str]:
    return _KINDS | _plug_ins()


@cache
def _plug_ins() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group="petamap.sources")}
