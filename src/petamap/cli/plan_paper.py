"""``petamap plan paper``: reproduction of the figures of Sudarsan et al. 2011."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from petacomm.base.errors import ConfigError
from petamap.cli.configuration_words import configuration_path, split_words
from petamap.examples import TO_PLAN

if TYPE_CHECKING:
    from petamap.data.config import RunConfig
    from petamap.papers.sudarsan2011.measurements import Measurements

_EXAMPLE = "planck-year"


def reproduce_figures(arguments: argparse.Namespace) -> int:
    """Reproduce the figures, print them as tables or JSON, and write their page."""
    if arguments.machine is not None:
        raise ConfigError("--machine with 'paper'", mend="its machines are those of the source")
    from petacomm.mpi import collective_errors, world

    comm = world()
    with collective_errors(comm):
        config = _configuration(arguments)
        from petamap.papers.sudarsan2011.figures import TIME_MAJOR
        from petamap.papers.sudarsan2011.measurements import measure_setup

        measured = measure_setup(config, comm, TIME_MAJOR)
        if comm.rank == 0:
            _write_results(arguments, config, measured)
    return 0


def _write_results(arguments: argparse.Namespace, config: RunConfig, measured: Measurements) -> None:
    from petacomm.cli.progress import progress_listener
    from petamap.papers.sudarsan2011 import figures as paper
    from petamap.papers.sudarsan2011.published import published_sudarsan2011
    from petamap.papers.sudarsan2011.text import sudarsan2011_json, sudarsan2011_table
    from petamap.report.sudarsan2011_page import write_paper_page

    with progress_listener(0) as progress:
        results = paper.reproduce_sudarsan2011(
            config, with_detectors(config, published_sudarsan2011().overlaps["detectors"]), measured,
            timings=arguments.timings, max_cores=arguments.ranks or 16384, sample=arguments.sample,
            progress=progress,
        )  # fmt: skip
    path = write_paper_page(results, arguments.out or Path("paper.html"))
    print(
        json.dumps(sudarsan2011_json(results))
        if arguments.json
        else f"{sudarsan2011_table(results)}\n\npage: {path}"
    )


def with_detectors(config: RunConfig, n_det: int) -> RunConfig:
    """Return a run whose simulated scans have `n_det` detectors; other sources do not change."""
    sources = []
    for source in config.sources:
        options = source.options
        if hasattr(options, "n_det"):
            options = dataclasses.replace(options, n_det=n_det)
        sources.append(dataclasses.replace(source, options=options))
    return dataclasses.replace(config, sources=tuple(sources))


def _configuration(arguments: argparse.Namespace) -> RunConfig:
    from petamap.data.config import load_config

    file, settings = split_words(arguments.words[1:])
    example = arguments.example or (None if file else _EXAMPLE)
    return load_config(configuration_path(file, example, TO_PLAN), settings)
