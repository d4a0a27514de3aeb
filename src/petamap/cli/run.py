"""``petamap run``: maps and report of a run configuration."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.console import inform
from petacomm.base.errors import ConfigError, ConvergenceError, ResourceError
from petacomm.base.files import require_possible
from petacomm.cli.parser import add_output_arguments
from petamap.cli.configuration_words import (
    add_configuration_arguments,
    configuration_path,
    split_words,
)

if TYPE_CHECKING:
    from petacomm.base.stop_request import StopRequest
    from petacomm.mpi import Communicator
    from petamap.data.config import RunConfig
    from petamap.data.run_summary import Summary

_EPILOG = """\
examples:
  petamap run --example spire
  petamap run run.toml --out maps --threads 4
  petamap run run.toml solver.tolerance=1e-10 source.satellite.duration="2 day"
  petamap run run.toml --out maps --dry-run
  mpiexec -n 4 petamap run run.toml --out maps
  srun petamap run run.toml --out maps --resume
"""


def add_commands(commands: Any) -> None:
    """Add ``run`` to the subparsers."""
    parser = commands.add_parser(
        "run",
        help="make maps from a run configuration or an example",
        description="Make maps as a run configuration (TOML or XML) says, and a report of the run.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petamap run CONFIG|--example NAME [--out DIR] [--threads N] [--resume|--force] [options] "
        "[KEY=VALUE ...]",
    )
    add_configuration_arguments(parser)
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder of the products [NAME of the run]")
    parser.add_argument(
        "--threads", metavar="N", type=int, help="of each process [OMP_NUM_THREADS, or all its cores]"
    )
    parser.add_argument("--force", action="store_true", help="replace the products of an earlier run")
    add_dry_run_argument(parser)
    add_output_arguments(parser)
    add_stop_arguments(parser, "go on from the checkpoint of an interrupted run, if there is one")
    parser.set_defaults(handler=_run)


def add_dry_run_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option to write nothing."""
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be done and written; read no signal"
    )


def add_stop_arguments(parser: argparse.ArgumentParser, resume_help: str) -> None:
    """Add what jobs that stop before they have finished need."""
    parser.add_argument("--resume", action="store_true", help=resume_help)
    parser.add_argument(
        "--time-limit",
        metavar="T",
        help="stop with a checkpoint before this wall clock, as '2 h' [Slurm's end]",
    )


def require_free(out: Path, overwrite: bool) -> None:
    """Check that a folder is free for the products of a run.

    Raises
    ------
    ConfigError
        If `out` is a file, or has an earlier run and not `overwrite`.
    """
    require_possible(out)
    if out.exists() and not out.is_dir():
        raise ConfigError("is a file, not a folder", where=str(out), mend="choose another --out")
    if not overwrite and (out / "summary.json").exists():
        raise ConfigError(
            "holds an earlier run", where=str(out), mend="--force replaces it; or choose another --out"
        )


def command_line(size: int) -> list[str]:
    """Return the command line that repeats this run on `size` processes, with a generic MPI launcher."""
    return [*(["mpiexec", "-n", str(size)] if size > 1 else []), "petamap", *sys.argv[1:]]


def _run(arguments: argparse.Namespace) -> int:
    from petacomm.base.stop_request import StopRequest

    with StopRequest().signals() as stop:
        from petacomm.mpi import collective_errors, world

        comm = world()
        with collective_errors(comm):
            if arguments.dry_run:
                if comm.rank == 0:
                    _say_what_would_run(arguments)
                return 0
            summary = _make_maps(arguments, comm, stop)
    solvers = (summary.solver, *(split.solver for split in summary.splits))
    converged = all(one is None or one.converged for one in solvers)
    return 0 if converged else ConvergenceError.exit_code


def _make_maps(arguments: argparse.Namespace, comm: Communicator, stop: StopRequest) -> Summary:
    config = job_configuration(arguments)
    out = arguments.out or Path(config.run.name)
    interrupted = False
    if arguments.resume:
        from petamap.mapmaking.product_set import checkpoint_folder

        if (finished := _finished(config, out, comm)) is not None:
            return finished
        interrupted = checkpoint_folder(config, out).exists()
    if not interrupted:
        require_free(out, config.products.overwrite)
    from petamap.cli.closing_table import closing_table
    from petamap.mapmaking.run import run  # imported here to report configuration errors fast

    return run_job(partial(run, resume=arguments.resume), config, out, comm, stop, closing_table)


def _say_what_would_run(arguments: argparse.Namespace) -> None:
    from petamap.cli.configure import describe_config
    from petamap.data.config import open_sources
    from petamap.mapmaking.map_outputs import product_files, require_products
    from petamap.mapmaking.product_set import checkpoint_folder, finished_run

    config = job_configuration(arguments)
    out = arguments.out or Path(config.run.name)
    if arguments.resume and finished_run(config, out) is not None:
        print(f"{'writes':<10} nothing: {out} holds this run, complete")
        return
    interrupted = arguments.resume and checkpoint_folder(config, out).exists()
    if not interrupted:
        require_free(out, config.products.overwrite)
    observations = open_sources(config)
    require_products(config, observations)
    print(describe_config(config, observations))
    names = [path.name for path in product_files(config, observations, out)]
    names += (
        ["maps of splits"] * bool(config.splits) + ["summary.json"] + ["report.html"] * config.products.report
    )
    if interrupted:
        print(f"{'goes on':<10} from {checkpoint_folder(config, out)}")
    print(f"{'writes':<10} {out}: {', '.join(names)}")


def _finished(config: RunConfig, out: Path, comm: Communicator) -> Summary | None:
    """Return the summary of a run that has nothing left to do but its report, and say so; else None."""
    from petacomm.mpi import agree_on_errors
    from petamap.mapmaking.product_set import complete_replacement, finished_run

    found: Summary | None = None
    with agree_on_errors(comm):
        if comm.rank == 0:
            complete_replacement(config, out)
            found = finished_run(config, out)
        if found is not None:
            if config.products.report and not (out / "report.html").exists():
                _write_page(out)
            inform(f"petamap: {out} holds this run, complete: there is nothing to resume")
    agreed: Summary | None = comm.bcast(found)
    return agreed


def _write_page(out: Path) -> Path:
    """Write the report of a run, and say what is there if that fails."""
    from petamap.report.run_page import write_report

    try:
        return write_report(out)
    except ResourceError as error:
        mend = f"all else is written: petamap report {out} writes it, too"
        raise ResourceError(error.what, where=error.where, mend=mend) from error


def job_configuration(arguments: argparse.Namespace, settings: Sequence[str] = ()) -> RunConfig:
    """Return the configuration with the changes of the command line, and these settings."""
    from petamap.data.config import load_config

    file, given = split_words(arguments.words)
    path = configuration_path(file, arguments.example)
    return load_config(path, [*given, *settings, *job_settings(arguments)])


def job_settings(arguments: argparse.Namespace) -> list[str]:
    """Return the settings that options of the command line stand for."""
    given = []
    if arguments.threads is not None:
        given.append(f"resources.threads={arguments.threads}")
    if arguments.force:
        given.append("products.overwrite=true")
    if arguments.time_limit is not None:
        given.append(f"resources.time_limit={arguments.time_limit}")
    return given


def run_job(
    job: Callable[..., Summary],
    config: RunConfig,
    out: Path,
    comm: Communicator,
    stop: StopRequest,
    closing_lines: Callable[[Summary, Path | None], str],
) -> Summary:
    """Run a job with progress; on rank 0, write its report and print its closing lines."""
    from petacomm.cli.progress import progress_listener

    with progress_listener(comm.rank) as progress:
        summary = job(
            config, out=out, comm=comm, progress=progress, command=command_line(comm.size), stop=stop
        )
    if comm.rank == 0:
        report = _write_page(out) if config.products.report else None
        inform(closing_lines(summary, report))
    return summary
