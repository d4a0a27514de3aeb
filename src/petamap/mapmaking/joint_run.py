"""One map of the data of several runs: their observations, opened anew, in one system of equations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from petacomm.base.errors import ConfigError
from petacomm.mpi import Communicator
from petamap.data.config import RunConfig, open_sources, parse_config
from petamap.data.observation import Observation
from petamap.data.run_summary import Summary


def joint_job(
    folders: Sequence[Path],
    name: str = "coadd",
    settings: Sequence[str] = (),
    comm: Communicator | None = None,
) -> tuple[RunConfig, list[Observation]]:
    """Return a configuration and the observations for one run over the data of several.

    Collective where there is a communicator: each file of data is opened once on each node.

    All but the sources is that of the first run.

    Parameters
    ----------
    folders : sequence of Path
        The ``--out`` folders of the runs, two or more.
    name : str
        Of the new run.
    settings : sequence of str
        ``key=value`` that replace what the first run says.
    comm : Communicator, optional
        Ranks that open the data together.

    Raises
    ------
    ConfigError
        If there are fewer than two runs, maps or noise are declared differently, or an observation is in two.
    DataError
        If data cannot be opened.
    """
    if len(folders) < 2:
        raise ConfigError("one run is no sum", mend="name two or more")
    summaries = [Summary.read(folder) for folder in folders]
    configs: list[RunConfig] = []
    for folder, summary in zip(folders, summaries, strict=True):
        if "[[source]]" not in summary.configuration:
            raise ConfigError(
                "the run has no sources that can be opened anew", where=str(folder),
                mend="coadd the runs that this is made of; data in memory are added without --joint",
            )  # fmt: skip
        place = Path(summary.folder) / "configuration.toml"
        config = parse_config(summary.configuration, place, settings)
        for section in ("map", "noise"):
            if getattr(config, section) != getattr(configs[0] if configs else config, section):
                raise ConfigError(
                    f"[{section}] is not that of {folders[0]}", where=str(folder),
                    mend=f"set it for all on the command line, as {section}.KEY=VALUE",
                )  # fmt: skip
        configs.append(config)
    opened = [open_sources(config, comm=comm) for config in configs]
    _check_once(folders, opened)
    title = "joint map: " + " + ".join(f"{one.name} ({one.run_id})" for one in summaries)
    config = replace(configs[0], sources=(), run=replace(configs[0].run, name=name, title=title))
    return config, [observation for observations in opened for observation in observations]


def _check_once(folders: Sequence[Path], opened: Sequence[Sequence[Observation]]) -> None:
    """Raise a ConfigError if an observation is in two runs."""
    known: dict[tuple[str, float], int] = {}
    for number, observations in enumerate(opened):
        for one in observations:
            other = known.setdefault((one.name, one.start_time), number)
            if other != number:
                raise ConfigError(
                    f"observation '{one.name}' is in {folders[other]}, too", where=str(folders[number]),
                    mend="data count once: leave one run away",
                )  # fmt: skip
