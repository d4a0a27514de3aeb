"""``petamap mc``: Monte Carlo realizations of a run, and the spectra of their maps."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.errors import ConvergenceError
from petacomm.cli.parser import add_output_arguments
from petamap.cli.configuration_words import add_configuration_arguments
from petamap.cli.run import add_dry_run_argument, add_stop_arguments, job_configuration, run_job

if TYPE_CHECKING:
    from petacomm.base.stop_request import StopRequest
    from petacomm.mpi import Communicator
    from petamap.data.run_summary import Summary

_DESCRIPTION = """\
Make realizations of a run: draw sky and noise, map them through one system set up once, and write the spectra
of the maps into one file, OUT/NAME_mc.h5. Killed at any moment and started again, it goes on where it was."""

_EPILOG = """\
examples:
  petamap mc --example planck-lfi --realizations 50
  petamap mc run.toml --realizations 1000 --out skies
  petamap mc run.toml --first 4711 --realizations 1 --maps --out one
  mpiexec -n 16 petamap mc run.toml --realizations 1000 --groups 4 spectra.mask=galaxy.fits
"""
_FLAGS = (
    ("--realizations", "N", int, "realizations", "how many [100]"),
    ("--first", "N", int, "first", "number of the first [0]"),
    ("--parts", "P", str, "parts", "what is mapped: apart, together, sky or noise [apart]"),
    ("--batch", "N", int, "batch", "realizations at once [by memory]"),
    ("--groups", "N", str, "groups", "groups of processes, a batch each, or auto [auto]"),
)


def add_commands(commands: Any) -> None:
    """Add ``mc`` to the subparsers."""
    parser = commands.add_parser(
        "mc",
        help="make many realizations of a run and their spectra",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petamap mc CONFIG|--example NAME [--realizations N] [--out DIR] [options] [KEY=VALUE ...]",
    )
    add_configuration_arguments(parser)
    for flag, word, kind, _, help in _FLAGS:
        parser.add_argument(flag, metavar=word, type=kind, help=help)
    parser.add_argument("--maps", action="store_true", help="keep the maps, too")
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder of the file [NAME_mc]")
    parser.add_argument(
        "--threads", metavar="N", type=int, help="of each process [OMP_NUM_THREADS, or all its cores]"
    )
    parser.add_argument("--force", action="store_true", help="start anew where there is a file")
    add_dry_run_argument(parser)
    add_output_arguments(parser)
    add_stop_arguments(parser, "go on where an earlier command was stopped, as it always does")
    parser.set_defaults(handler=_simulate)


def _simulate(arguments: argparse.Namespace) -> int:
    from petacomm.base.stop_request import StopRequest

    with StopRequest().signals() as stop:
        from petacomm.mpi import collective_errors, world

        comm = world()
        with collective_errors(comm):
            if arguments.dry_run:
                if comm.rank == 0:
                    _say_what_would_be_made(arguments)
                return 0
            summary = _make(arguments, comm, stop)
    made = summary.montecarlo
    return 0 if made is None or made.failed == 0 else ConvergenceError.exit_code


def _make(arguments: argparse.Namespace, comm: Communicator, stop: StopRequest) -> Summary:
    config = job_configuration(arguments, _settings(arguments))
    out = arguments.out or Path(f"{config.run.name}_mc")
    from petamap.montecarlo.run import run_montecarlo  # imported here to report configuration errors fast

    return run_job(run_montecarlo, config, out, comm, stop, partial(_closing_lines, out))


def _say_what_would_be_made(arguments: argparse.Namespace) -> None:
    from petamap.cli.configure import describe_config
    from petamap.data.config import open_sources
    from petamap.montecarlo.file_layout import montecarlo_file_name

    config = job_configuration(arguments, _settings(arguments))
    out = arguments.out or Path(f"{config.run.name}_mc")
    chosen, path = config.montecarlo, out / montecarlo_file_name(config)
    print(describe_config(config, open_sources(config)))
    last = chosen.first + chosen.realizations - 1
    print(f"{'would make':<10} realizations {chosen.first} to {last}, {chosen.parts}")
    there = " (is there: goes on where it was)" if path.exists() and not config.products.overwrite else ""
    print(f"{'writes':<10} {path}{there}")


def _settings(arguments: argparse.Namespace) -> list[str]:
    """Return the settings that the flags stand for."""
    given = {key: getattr(arguments, flag.removeprefix("--")) for flag, _, _, key, _ in _FLAGS}
    words = {key: 0 if value == "auto" else value for key, value in given.items() if value is not None}
    settings = [f"montecarlo.{key}={word}" for key, word in words.items()]
    return settings + ["montecarlo.maps=true"] * arguments.maps


def _closing_lines(out: Path, summary: Summary, report: Path | None) -> str:
    """Return the table of results of a Monte Carlo."""
    from petacomm.cli.progress import format_duration
    from petamap.cli.closing_table import aligned_rows

    made = summary.montecarlo
    assert made is not None
    rows = [("realizations", f"{made.done} of {made.realizations} done, {made.failed} failed")]
    if made.iterations is not None:
        low, mean, high = made.iterations.min, made.iterations.mean, made.iterations.max
        rows.append(("iterations", f"{mean:.1f} a map ({low:.0f} to {high:.0f})"))
    if made.alone is not None:
        pays = f"pay after {made.vectors_pay} realizations" if made.vectors_pay else "do not pay"
        rows.append(("vectors", f"{made.vectors}, {made.alone:.1f} iterations without; {pays}"))
    if made.made:
        each = format_duration(made.seconds / made.made)
        rows.append(("time", f"{format_duration(made.seconds)} after set-up, {each} a realization"))
    rows.append(("shared out", made.why))
    rows.append(("file", str(out / made.file)))
    if report is not None:
        rows.append(("report", str(report)))
    return "\n".join(aligned_rows(rows))
