"""``petamap plan paper``: the figures of the source made again."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from petacomm.base.errors import ConfigError
from petamap.cli.run import configuration_path, split_words

if TYPE_CHECKING:
    from petamap.data.config import RunConfig

_EXAMPLE = "planck-year"


def retell(arguments: argparse.Namespace) -> int:
    """Make the figures again, print them, and write their page."""
    if arguments.machine is not None:
        raise ConfigError("--machine with 'paper'", mend="its machines are those of the source")
    from petacomm.mpi import collective_errors, world

    comm = world()
    with collective_errors(comm):
        config = _configuration(arguments)
        from petamap.papers.sudarsan2011.figures import TIME_MAJOR
        from petamap.papers.sudarsan2011.measurements import measure

        measured = measure(config, comm, TIME_MAJOR)
        if comm.rank == 0:
            _tell(arguments, config, measured)
    return 0


def _tell(arguments: argparse.Namespace, config: RunConfig, measured: object) -> None:
    from petacomm.cli.progress import listening
    from petamap.papers.sudarsan2011 import figures as paper
    from petamap.papers.sudarsan2011.measurements import Measured
    from petamap.papers.sudarsan2011.published import published
    from petamap.papers.sudarsan2011.text import as_json, table
    from petamap.report.sudarsan2011_page import write_paper

    assert isinstance(measured, Measured)
    with listening(0) as progress:
        found = paper.retell(
            config, with_detectors(config, published().overlaps["detectors"]), measured,
            timings=arguments.timings, most_cores=arguments.ranks or 16384, sample=arguments.sample,
            progress=progress,
        )  # fmt: skip
    path = write_paper(found, arguments.out or Path("paper.html"))
    print(json.dumps(as_json(found)) if arguments.json else f"{table(found)}\n\npage: {path}")


def with_detectors(config: RunConfig, n_det: int) -> RunConfig:
    """Return a run whose simulated scans have `n_det` detectors; others stay as they are."""
    sources = []
    for source in config.sources:
        options = source.options
        if hasattr(options, "n_det"):
            options = dataclasses.replace(options, n_det=n_det)
        sources.append(dataclasses.replace(source, options=options))
    return dataclasses.replace(config, sources=tuple(sources))


def _configuration(arguments: argparse.Namespace) -> RunConfig:
    from petamap.data.config import load

    file, settings = split_words(arguments.words[1:])
    example = arguments.example or (None if file else _EXAMPLE)
    return load(configuration_path(file, example, ("plan.toml", "run.toml")), settings)
