"""``petamap sweep``: a run for each combination of options."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.console import inform
from petacomm.base.errors import ConfigError, ConvergenceError, Interruption
from petacomm.cli.parser import add_output_arguments
from petacomm.cli.progress import format_duration
from petamap.cli.configuration_words import (
    add_configuration_arguments,
    configuration_path,
    split_words,
)
from petamap.cli.run import add_stop_arguments, job_settings, require_free, run_job

if TYPE_CHECKING:
    from petacomm.base.stop_request import StopRequest
    from petacomm.mpi import Communicator
    from petamap.data.config import RunConfig
    from petamap.data.run_summary import Summary

_DESCRIPTION = """\
Make a run for each combination of the values that options are given, KEY=A,B,C, each in a folder of OUT,
and write a table of all, OUT/sweep.csv. All configurations are judged before the first run. The same command
again goes on where it was stopped, and adds the runs that are missing. A value with a comma stands in
brackets or quotes, as TOML has them."""

_EPILOG = """\
examples:
  petamap sweep run.toml solver.preconditioner=block-diagonal,two-level
  petamap sweep run.toml map.n_side=64,128,256 noise.n_lag=256,1024,4096 --out lags
  petamap sweep --example spire source.madmap1.detectors='["PSWE4"],["PSWE4", "PSWE5"]'
"""
_LISTED = ("converged", "iterations", "residual", "map error", "samples used", "pixels", "seconds")


def add_commands(commands: Any) -> None:
    """Add ``sweep`` to the subparsers."""
    parser = commands.add_parser(
        "sweep",
        help="make a run for each combination of options",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petamap sweep CONFIG|--example NAME [--out DIR] [options] KEY=A,B,C [KEY=VALUE ...]",
    )
    add_configuration_arguments(parser, "configuration, then KEY=A,B,C")
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder of all runs [NAME_sweep]")
    parser.add_argument(
        "--threads", metavar="N", type=int, help="of each process [OMP_NUM_THREADS, or all its cores]"
    )
    parser.add_argument("--force", action="store_true", help="make all runs anew")
    parser.add_argument("--dry-run", action="store_true", help="judge all configurations and name the runs")
    add_output_arguments(parser)
    add_stop_arguments(parser, "go on where an earlier command was stopped, as it always does")
    parser.set_defaults(handler=_sweep)


@dataclass(frozen=True)
class SweptRun:
    """Run of a sweep: the values that are its own, its configuration and its folder."""

    values: dict[str, str]
    config: RunConfig
    folder: Path


def split_values(text: str) -> list[str]:
    """Return the values that commas part, but for those in brackets, braces or quotes.

    >>> split_values('8,[1, 2],"a,b"')
    ['8', '[1, 2]', '"a,b"']
    """
    values, depth, quote, begin = [], 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and not depth:
            values.append(text[begin:at])
            begin = at + 1
    return [one.strip() for one in [*values, text[begin:]]]


def swept_runs(arguments: argparse.Namespace) -> list[SweptRun]:
    """Return the runs of a sweep, in the order of the combinations, the last option the fastest.

    Raises
    ------
    ConfigError
        If no option has several values, a value is given twice, or a configuration is not valid.
    """
    from petamap.data.config import load_config

    file, given = split_words(arguments.words)
    path = configuration_path(file, arguments.example)
    choices = {}
    for setting in given:
        key, _, written = setting.partition("=")
        if key in choices:
            raise ConfigError(f"{key} is given twice", mend="give all of its values at once, KEY=A,B,C")
        choices[key] = split_values(written)
        if len(set(choices[key])) < len(choices[key]) or "" in choices[key]:
            raise ConfigError(f"{setting}: a value is empty or given twice", mend="write KEY=A,B,C")
    swept = [key for key, values in choices.items() if len(values) > 1]
    if not swept:
        raise ConfigError("no option has several values", mend="write e.g. map.n_side=64,128")
    runs: list[SweptRun] = []
    for combination in itertools.product(*choices.values()):
        values = dict(zip(choices, combination, strict=True))
        settings = [f"{key}={value}" for key, value in values.items()]
        config = load_config(path, settings + job_settings(arguments))
        out = runs[0].folder.parent if runs else arguments.out or Path(f"{config.run.name}_sweep")
        own = {key: values[key] for key in swept}
        runs.append(SweptRun(own, config, out / _folder_name(own)))
    return runs


def _folder_name(values: dict[str, str]) -> str:
    """Return a name of the values: by the last parts of their keys where these differ."""
    last = [key.rpartition(".")[2] for key in values]
    keys = last if len(set(last)) == len(last) else list(values)
    written = [re.sub(r"[^\w.+-]+", "-", value).strip("-") for value in values.values()]
    return "_".join(f"{key}={value}" for key, value in zip(keys, written, strict=True))


def _sweep(arguments: argparse.Namespace) -> int:
    from petacomm.base.stop_request import StopRequest
    from petacomm.mpi import collective_errors, world

    with StopRequest().signals() as stop:
        comm = world()
        with collective_errors(comm):
            runs = swept_runs(arguments)
            names = [run.folder for run in runs]
            if len(set(names)) < len(names):
                raise ConfigError(
                    "two runs would have the same folder", mend="write values that differ in letters"
                )
            if arguments.dry_run:
                if comm.rank == 0:
                    print("\n".join(map(str, names)))
                return 0
            summaries = list(_make(runs, comm, stop))
            if comm.rank == 0:
                _tell_results(runs, summaries)
    converged = all(one.solver is None or one.solver.converged for one in summaries)
    return 0 if converged else ConvergenceError.exit_code


def _make(runs: list[SweptRun], comm: Communicator, stop: StopRequest) -> Iterator[Summary]:
    """Make the runs that are not there yet, and yield the summaries of all. Collective."""
    from petacomm.mpi import agree_on_errors
    from petamap.mapmaking.product_set import checkpoint_folder, complete_replacement, finished_run
    from petamap.mapmaking.run import run

    for number, one in enumerate(runs, 1):
        found: Summary | None = None
        with agree_on_errors(comm):
            if comm.rank == 0:
                fresh = one.config.products.overwrite
                if not fresh:
                    complete_replacement(one.config, one.folder)
                    found = finished_run(one.config, one.folder)
                if found is None and not checkpoint_folder(one.config, one.folder).exists():
                    require_free(one.folder, fresh)
                state = "is there" if found else "begins"
                inform(f"run {number} of {len(runs)}, {one.folder}: {state}")
        summary: Summary | None = comm.bcast(found)
        if summary is None:
            if comm.max(float(stop.signal)):
                mend = "the same command goes on"
                raise Interruption(f"stopped before run {number} of {len(runs)}", mend=mend)
            job = partial(run, resume=not one.config.products.overwrite)
            summary = run_job(job, one.config, one.folder, comm, stop, _closing_line)
        yield summary


def _closing_line(summary: Summary, report: Path | None) -> str:
    row = dict(zip(_LISTED, _row(summary), strict=True))
    return ", ".join(f"{name} {row[name]}" for name in ("converged", "iterations", "seconds") if row[name])


def _row(summary: Summary) -> list[str]:
    """Return what a table of runs has of one, in the order of `_LISTED`."""
    solver, seconds = summary.solver, sum(phase.seconds.max for phase in summary.phases)
    solved = ["", "", "", ""]
    if solver is not None:
        error = "" if solver.error_bound is None else f"{solver.error_bound:.2e}"
        residual = f"{solver.relative_residual:.2e}"
        solved = ["yes" if solver.converged else "NO", str(solver.iterations), residual, error]
    used, pixels = str(summary.totals.samples_used), str(summary.totals.pixels_observed)
    return [*solved, used, pixels, f"{seconds:.3f}"]


def _tell_results(runs: list[SweptRun], summaries: list[Summary]) -> None:
    """Print a table of all runs, and write it to ``sweep.csv``."""
    import csv
    import io

    from petacomm.base.files import write_text
    from petacomm.base.text import table_lines

    keys = list(runs[0].values)
    rows = [[*run.values.values(), *_row(one)] for run, one in zip(runs, summaries, strict=True)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["folder", *keys, *_LISTED])
    writer.writerows([run.folder.name, *row] for run, row in zip(runs, rows, strict=True))
    path = runs[0].folder.parent / "sweep.csv"
    write_text(path, text.getvalue())
    for row in rows:
        row[-1] = format_duration(float(row[-1]))
    print("\n".join(table_lines([[*keys, *_LISTED], *rows], left=len(keys))))
    print(path)
