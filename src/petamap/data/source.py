"""Interface and registry of sources, which make observations from the entries of a run configuration."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from petacomm.base.errors import require_known
from petacomm.mpi import Communicator, SerialCommunicator, make_on_nodes
from petamap.data.observation import Observation

T = TypeVar("T")


@dataclass(frozen=True)
class SourceContext:
    """Settings of a run for its sources.

    Attributes
    ----------
    folder : Path
        Folder that relative paths refer to.
    seed, realization : int
        Keys of the random numbers.
    places : mapping of str to str
        Place of each option of the source that the configuration sets, ``run.toml:7``, for messages; that of
        `kind` always.
    comm : Communicator
        Ranks that make the source and have it extend observations together. They read files by `read` and
        `once_a_node`.
    n_threads : int
        Of each rank.
    """

    folder: Path
    seed: int = 0
    realization: int = 0
    places: Mapping[str, str] = field(default_factory=dict)
    comm: Communicator = field(default_factory=SerialCommunicator, compare=False)
    n_threads: int = field(default=1, compare=False)
    _kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def place(self, *names: str) -> str | None:
        """Return the place of the first option that is set, of the source itself if none of them is."""
        return next((self.places[name] for name in (*names, "kind") if name in self.places), None)

    def once_a_node(self, reads: Sequence[Callable[[], T]]) -> list[T]:
        """Return what functions return that read files: one rank of each node calls each. Collective.

        What they return must only be read; they raise the error of the first that fails, on all ranks.
        """
        return make_on_nodes(self.comm, reads)

    def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function returns that reads a small file, for all realizations. Collective.

        See `once_a_node`. The arguments can be keys of a dictionary.
        """
        return self.keep((function, arguments), lambda: self.once_a_node([partial(function, *arguments)])[0])

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what a function makes, which is called once for all realizations."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def of_one_rank(self) -> SourceContext:
        """Return the context of a rank that makes its source alone, of what all have read."""
        return replace(self, comm=SerialCommunicator())


class Source(Protocol):
    """Entry ``[[source]]`` of a run configuration: a file format or a simulation.

    Sources are applied in order. Each gets the observations of the sources before it and returns them
    extended: with new observations, or with parts (signal, flags, noise, pointing) added to existing ones.
    Map-making makes no difference between files and simulations.

    A source whose signal differs between realizations has an attribute ``part``, which is ``"sky"`` or
    ``"noise"``. Such a source may add only signals and noise models, and only these may depend on
    `SourceContext.realization`. A source of the sky may have ``coefficients`` (see `SkySpectraSource`).

    A source that filters the signals of the sources before it has an attribute ``changes_signals``, which is
    True: it applies to the signals of each realization, too.
    """

    options: ClassVar[type]  # a frozen dataclass of `petacomm.base.options.option` fields

    def __init__(self, options: Any, context: SourceContext) -> None: ...

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations extended by this source; reads headers of files, but no samples."""


# kind in the configuration -> module:class, imported at first use to keep start-up fast
_KINDS: dict[str, str] = {
    "madmap1": "petamap.data.formats.madmap1:Madmap1Source",
    "noise-table": "petamap.data.formats.noise_table:NoiseTableSource",
    "table": "petamap.data.formats.table:TableSource",
    "toast": "petamap.data.formats.toast:ToastSource",
    "volume": "petamap.data.formats.volume:VolumeSource",
    "satellite": "petamap.simulation.virtual_scans:SatelliteSource",
    "ground": "petamap.simulation.virtual_scans:GroundSource",
    "raster": "petamap.simulation.virtual_scans:RasterSource",
    "recorded": "petamap.simulation.virtual_scans:RecordedSource",
    "sky-map": "petamap.simulation.sky_sources:SkyMapSource",
    "sky-spectra": "petamap.simulation.sky_sources:SkySpectraSource",
    "sky-pysm": "petamap.simulation.pysm:PysmSource",
    "solved-templates": "petamap.templates.solved:SolvedTemplatesSource",
    "point-sources": "petamap.simulation.point_sources:PointSourcesSource",
    "dipole": "petamap.simulation.dipole:DipoleSource",
    "moving-frame": "petamap.data.moving_frame:MovingFrameSource",
    "time-constants": "petamap.data.time_constants:TimeConstantsSource",
    "demodulation": "petamap.data.demodulation:DemodulationSource",
    "noise": "petamap.simulation.noise:NoiseSource",
    "common-mode": "petamap.simulation.noise:CommonModeSource",
    "cosmic-rays": "petamap.simulation.glitches:CosmicRaysSource",
    "steps": "petamap.simulation.glitches:StepsSource",
    "cuts": "petamap.simulation.cuts:CutsSource",
    "offsets": "petamap.templates.sources:OffsetsSource",
    "baselines": "petamap.templates.sources:BaselinesSource",
    "polynomials": "petamap.templates.sources:PolynomialsSource",
    "azimuth-synchronous": "petamap.templates.sources:AzimuthSynchronousSource",
    "plate-synchronous": "petamap.templates.sources:PlateSynchronousSource",
    "gain-drift": "petamap.templates.known_signals:GainDriftSource",
    "leakage": "petamap.templates.known_signals:LeakageSource",
}


def source_kinds() -> list[str]:
    """Return the kinds of sources, including plug-ins (entry point group ``petamap.sources``)."""
    return sorted(_registry())


def is_plug_in(kind: str) -> bool:
    """Return whether a kind of sources is one of a plug-in."""
    return kind in _plug_ins()


def source_class(kind: str) -> type[Source]:
    """Return the class of a kind of sources.

    Raises
    ------
    ConfigError
        If there is no such kind.
    """
    registry = _registry()
    require_known("unknown kind of source", kind, registry)
    module, _, name = registry[kind].partition(":")
    cls: type[Source] = getattr(import_module(module), name)
    return cls


def _registry() -> dict[str, str]:
    return _KINDS | _plug_ins()


@cache
def _plug_ins() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group="petamap.sources")}
