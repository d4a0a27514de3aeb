"""Opening of the sources of a run configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from petacomm.base.errors import ConfigError, DataError
from petacomm.mpi import Communicator, SerialCommunicator
from petamap.data.config.model import RunConfig, SourceConfig
from petamap.data.kelvin import in_kelvin
from petamap.data.observation import Observation, Signal
from petamap.data.selection import first_samples
from petamap.data.source import Source, SourceContext, source_class


@dataclass(frozen=True)
class RandomSource:
    """Source with a signal that is drawn anew in each realization.

    Attributes
    ----------
    part : {"sky", "noise"}
    config : SourceConfig
    context : SourceContext
    observations : sequence of Observation
        Observations of the sources before, without signals.
    later : tuple of Source
        Sources after it that filter its signals.
    """

    part: str
    config: SourceConfig
    context: SourceContext
    observations: Sequence[Observation]
    later: tuple[Source, ...] = ()

    def source(self, realization: int) -> Source:
        """Return the source for a realization."""
        context = replace(self.context, realization=realization)
        return source_class(self.config.kind)(self.config.options, context)

    def signals(self, source: Source) -> dict[str, tuple[Signal, ...]]:
        """Return the signals that the source of a realization adds, by name of the observation."""
        observations = source.extend(self.observations)
        for other in self.later:
            observations = other.extend(observations)
        return {observation.name: observation.signals for observation in observations}


@dataclass(frozen=True)
class SignalParts:
    """Signals of the observations, separated into fixed and random ones.

    Attributes
    ----------
    fixed : dict of str to tuple of Signal
        Signals that are equal in all realizations, by name of the observation.
    random_sources : tuple of RandomSource
        Sources of the other signals, in order.
    """

    fixed: dict[str, tuple[Signal, ...]]
    random_sources: tuple[RandomSource, ...]


def open_sources(
    config: RunConfig, given: Sequence[Observation] = (), comm: Communicator | None = None
) -> list[Observation]:
    """Return the observations of all sources, applied in order; headers of files are read, but no samples.

    Collective where there is a communicator: each file is opened once on each node.

    Parameters
    ----------
    config : RunConfig
    given : sequence of Observation
        Observations in memory, which the sources extend.
    comm : Communicator, optional
        Ranks that open the sources together.

    Raises
    ------
    ConfigError
        If the sources give no observation.
    DataError
        If a file is not valid, or a name is not unique or could lead out of a folder.
    """
    return open_signal_parts(config, given, comm)[0]


def open_signal_parts(
    config: RunConfig, given: Sequence[Observation] = (), comm: Communicator | None = None
) -> tuple[list[Observation], SignalParts]:
    """Return the observations of all sources, and their signals separated into fixed and random ones.

    A source is random if it has an attribute ``part`` that is not None. See `open_sources`.
    """
    observations: list[Any] = [given] if isinstance(given, Observation) else list(given)
    for number, observation in enumerate(observations):
        if not isinstance(observation, Observation):
            raise ConfigError(
                f"observation {number} is a {type(observation).__name__}",
                mend="of arrays, petamap.array_observation makes one",
            )
    if not (observations or config.sources):
        raise ConfigError(
            "there is no source: nothing says where the data come from",
            where=None if config.file is None else str(config.file),
            mend="add a [[source]]; in Python, observations= may give the data",
        )
    observations = in_kelvin(observations)
    fixed = {observation.name: observation.signals for observation in observations}
    random_sources: list[RandomSource] = []
    ranks, read = comm or SerialCommunicator(), dict[Any, Any]()
    n_threads = config.resources.threads or ranks.threads()
    for entry in config.sources:
        run = config.run
        context = SourceContext(
            config.folder, run.seed, run.realization, entry.places, ranks, n_threads, read
        )
        source = source_class(entry.kind)(entry.options, context)
        before, observations = observations, source.extend(observations)
        part = getattr(source, "part", None)
        if part is not None:
            without_signals = tuple(replace(observation, signals=()) for observation in before)
            random_sources.append(RandomSource(part, entry, context.of_one_rank(), without_signals))
            continue
        if getattr(source, "changes_signals", False):
            fixed = _filtered(source, before, fixed)
            random_sources = [replace(one, later=(*one.later, source)) for one in random_sources]
            continue
        observations = in_kelvin(observations)
        n_before = {observation.name: len(observation.signals) for observation in before}
        for observation in observations:
            name = observation.name
            fixed[name] = (*fixed.get(name, ()), *observation.signals[n_before.get(name, 0) :])
    if not observations:
        where = f"{config.file}:{config.sources[0].line}" if config.file and config.sources else None
        mend = "a source of pointing and time must come first"
        raise ConfigError("the sources give no observation", where=where, mend=mend)
    _check_names(observations)
    if config.run.fraction < 1:
        observations = first_samples(observations, config.run.fraction)
    return observations, SignalParts(fixed, tuple(random_sources))


def _filtered(
    source: Source, observations: Sequence[Observation], fixed: dict[str, tuple[Signal, ...]]
) -> dict[str, tuple[Signal, ...]]:
    """Return the fixed signals of observations behind a source that filters signals."""
    alone = [replace(one, signals=fixed.get(one.name, ())) for one in observations]
    return {one.name: one.signals for one in source.extend(alone)}


def _check_names(observations: list[Observation]) -> None:
    names: set[str] = set()
    checked: set[int] = set()  # tuples of detectors, of which many observations have one
    for observation in observations:
        if observation.name in names:
            raise DataError(f"two observations are called '{observation.name}'", mend="rename one")
        names.add(observation.name)
        detectors = observation.detectors if id(observation.detectors) not in checked else ()
        checked.add(id(observation.detectors))
        for name in (observation.name, *detectors):
            if not _is_harmless(name):
                what = f"the name {name!a} could lead out of a folder"
                raise DataError(what, where=f"observation {observation.name!a}", mend="rename it")


def _is_harmless(name: str) -> bool:
    """Return whether a name from a file can be part of a file name; configurations are more restrictive."""
    return bool(name) and name.isprintable() and name[0] != "." and not set(name) & set("/\\")
