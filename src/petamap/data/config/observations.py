"""From a configuration to its observations."""

from __future__ import annotations

from petamap.base.errors import ConfigError, DataError
from petamap.data.config.model import RunConfig
from petamap.data.observation import Observation
from petamap.data.source import Context, source_class


def open_sources(config: RunConfig) -> list[Observation]:
    """Apply the sources in order and return the observations; headers are read, no samples.

    Raises
    ------
    ConfigError
        If the sources give no observation.
    DataError
        If a file is wrong, or gives a name that could lead out of a folder, or gives one twice.
    """
    context = Context(config.folder, config.run.seed, config.run.realization)
    found: list[Observation] = []
    for source in config.sources:
        found = source_class(source.kind)(source.options, context).extend(found)
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
