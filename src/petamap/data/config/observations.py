"""From a configuration to its observations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from petacomm.base.errors import ConfigError, DataError
from petamap.data.config.model import RunConfig, SourceConfig
from petamap.data.observation import Observation, Signal
from petamap.data.source import Context, Source, source_class


@dataclass(frozen=True)
class Drawing:
    """A source that draws another signal in each realization.

    Attributes
    ----------
    part : {"sky", "noise"}
    config : SourceConfig
    context : Context
    seen : sequence of Observation
        The observations as the source finds them, without signals.
    """

    part: str
    config: SourceConfig
    context: Context
    seen: Sequence[Observation]

    def source(self, realization: int) -> Source:
        """Return the source as it is in a realization."""
        context = replace(self.context, realization=realization)
        return source_class(self.config.kind)(self.config.options, context)

    def signals(self, source: Source) -> dict[str, tuple[Signal, ...]]:
        """Return what a source of some realization adds, by observation."""
        return {one.name: one.signals for one in source.extend(self.seen)}


@dataclass(frozen=True)
class Parts:
    """The signals of observations, sorted by whether realizations draw them.

    Attributes
    ----------
    fixed : dict of str to tuple of Signal
        Those that do not change from realization to realization, by observation.
    drawings : tuple of Drawing
        The sources of the others, in their order.
    """

    fixed: dict[str, tuple[Signal, ...]]
    drawings: tuple[Drawing, ...]


def open_sources(config: RunConfig) -> list[Observation]:
    """Apply the sources in order and return the observations; headers are read, no samples.

    Raises
    ------
    ConfigError
        If the sources give no observation.
    DataError
        If a file is wrong, or gives a name that could lead out of a folder, or gives one twice.
    """
    return _opened(config, lambda *_: None)


def open_parts(config: RunConfig) -> tuple[list[Observation], Parts]:
    """Return the observations as `open_sources` does, and their signals sorted.

    A source draws if it has an attribute ``part`` that is not None.
    """
    fixed: dict[str, tuple[Signal, ...]] = {}
    drawings: list[Drawing] = []

    def watch(
        number: int, source: Source, context: Context, before: list[Observation], after: list[Observation]
    ) -> None:
        part = getattr(source, "part", None)
        if part is not None:
            seen = tuple(replace(one, signals=()) for one in before)
            drawings.append(Drawing(part, config.sources[number], context, seen))
            return
        had = {one.name: len(one.signals) for one in before}
        for one in after:
            fixed[one.name] = (*fixed.get(one.name, ()), *one.signals[had.get(one.name, 0) :])

    return _opened(config, watch), Parts(fixed, tuple(drawings))


_Watch = Callable[[int, Source, Context, list[Observation], list[Observation]], None]


def _opened(config: RunConfig, watch: _Watch) -> list[Observation]:
    context = Context(config.folder, config.run.seed, config.run.realization)
    found: list[Observation] = []
    for number, chosen in enumerate(config.sources):
        source = source_class(chosen.kind)(chosen.options, context)
        before, found = found, source.extend(found)
        watch(number, source, context, before, found)
    if not found:
        mend = "a source of pointing and time must come first"
        raise ConfigError("the sources give no observation", where=_place(config), mend=mend)
    _check_names(found)
    return found


def _place(config: RunConfig) -> str | None:
    return f"{config.file}:{config.sources[0].line}" if config.file and config.sources else None


def _check_names(observations: list[Observation]) -> None:
    seen: set[str] = set()
    for observation in observations:
        if observation.name in seen:
            raise DataError(f"two observations are called '{observation.name}'", mend="rename one")
        seen.add(observation.name)
        for name in (observation.name, *observation.detectors):
            if not _is_harmless(name):
                what = f"the name {name!a} could lead out of a folder"
                raise DataError(what, where=f"observation {observation.name!a}", mend="rename it")


def _is_harmless(name: str) -> bool:
    """Tell whether a name from a file can be part of a file name; files may say more than configurations."""
    return bool(name) and name.isprintable() and name[0] != "." and not set(name) & set("/\\")
