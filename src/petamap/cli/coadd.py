"""``petamap coadd``: one map of several finished runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.console import inform
from petacomm.base.errors import ConfigError, ConvergenceError, printable
from petamap.cli.configuration_words import is_setting
from petamap.cli.run import command_line, require_free, run_job

if TYPE_CHECKING:
    from petamap.data.run_summary import Summary
    from petamap.mapmaking.coadd import CoaddedMap

_DESCRIPTION = """\
Add the maps of finished runs, weighted by the inverse covariance of the Stokes parameters of each pixel. That
is the map of all their data where noise is white. Correlated noise is weighed by --joint: it opens the data
of all runs anew and solves for one map."""

_EPILOG = """\
examples:
  petamap coadd monday tuesday wednesday -o week
  petamap coadd --joint monday tuesday -o both solver.tolerance="1% of noise"
  mpiexec -n 4 petamap coadd --joint monday tuesday -o both
"""
_CORRELATED = (
    "is correlated: weights and covariance are of its white part alone; "
    "petamap coadd --joint weighs all of it"
)


def add_commands(commands: Any) -> None:
    """Add ``coadd`` to the subparsers."""
    parser = commands.add_parser(
        "coadd",
        help="make one map of several finished runs",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petamap coadd [--joint] RUN RUN... -o OUT [--name NAME] [--force] [KEY=VALUE ...]",
    )
    add = parser.add_argument
    add("words", metavar="RUN", nargs="+", help="the --out folders of the runs, then settings as KEY=VALUE")
    add("-o", "--out", metavar="OUT", type=Path, required=True, help="folder of the coadded map")
    add("--joint", action="store_true", help="solve anew for one map of the data of all")
    add("--name", metavar="NAME", default="coadd", help="of the files [coadd]")
    add("--force", action="store_true", help="replace the products of an earlier run")
    parser.set_defaults(handler=_coadd)


def _coadd(arguments: argparse.Namespace) -> int:
    settings = [word for word in arguments.words if is_setting(word)]
    folders = [Path(word) for word in arguments.words if not is_setting(word)]
    _require_name(arguments.name, settings)
    require_free(arguments.out, arguments.force)
    if arguments.joint:
        return _joint(arguments, folders, settings)
    if settings:
        raise ConfigError(f"'{settings[0]}' is a setting of a run", mend="settings are of --joint")
    from petamap.mapmaking.coadd import coadd, data_warnings
    from petamap.mapmaking.coadd_files import write_coadd
    from petamap.report.run_page import write_report

    coadded, runs = coadd(folders)
    warnings = [*coadded.sky.warnings, *data_warnings(runs), *_warnings(runs)]
    summary = write_coadd(
        coadded, runs, arguments.out, name=arguments.name, command=command_line(1), warnings=warnings
    )
    report = write_report(arguments.out)
    inform(_table(coadded, summary, report))
    return 0


def _require_name(name: str, settings: Sequence[str]) -> None:
    """Raise the error of a name that files cannot have, or that is given as a setting, if there is one."""
    from petamap.data.config.values import is_name

    if not is_name(name):
        what = f"must be a name (at most 128 letters, digits, _ - . +; no dot first), not '{printable(name)}'"
        raise ConfigError(what, where="--name")
    named = next((one for one in settings if one.startswith("run.name=")), None)
    if named is not None:
        raise ConfigError(f"'{named}' is the name of one of the runs", mend="--name NAME")


def _warnings(runs: list[Summary]) -> list[str]:
    """Return the warning of correlated noise, if a run has it, or one that a coadded map is made of."""
    names = [run.name for run in runs if run.noise is not None and run.noise.n_lag > 1]
    names += [run.name for run in runs if any(text.endswith(_CORRELATED) for text in run.warnings)]
    return [f"the noise of {', '.join(dict.fromkeys(names))} {_CORRELATED}"] if names else []


def _table(coadded: CoaddedMap, summary: Summary, report: Path) -> str:
    from petamap.cli.closing_table import aligned_rows

    totals = summary.totals
    agree = (
        f"chi-squared {coadded.chi_squared:.1f} of {coadded.degrees_of_freedom:,} "
        f"(probability {coadded.probability:.2g}, if noise is white)"
    )
    if not coadded.degrees_of_freedom:
        agree = "no pixel is in two of them"
    rows = [
        ("coadded", summary.title.removeprefix("Coadded map: ")),
        ("maps agree", agree),
        ("samples", f"{totals.samples_used:,} used of {totals.samples:,}"),
        ("pixels", f"{totals.pixels_observed:,}"),
        ("report", str(report)),
    ]
    return "\n".join([*aligned_rows(rows), *(f"warning: {text}" for text in summary.warnings)])


def _joint(arguments: argparse.Namespace, folders: list[Path], settings: list[str]) -> int:
    from functools import partial

    from petacomm.base.stop_request import StopRequest
    from petacomm.mpi import collective_errors, world
    from petamap.cli.closing_table import closing_table
    from petamap.mapmaking.joint_run import joint_job
    from petamap.mapmaking.run import run

    with StopRequest().signals() as stop:
        comm = world()
        with collective_errors(comm):
            replaces = ["products.overwrite=true"] if arguments.force else []
            config, observations = joint_job(folders, arguments.name, [*settings, *replaces], comm)
            job = partial(run, observations=observations)
            summary = run_job(job, config, arguments.out, comm, stop, closing_table)
    return 0 if summary.solver is None or summary.solver.converged else ConvergenceError.exit_code
