"""``petamap scaling``: a run on several numbers of cores, measured and predicted."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from petacomm.base.console import inform
from petacomm.base.errors import ConfigError, ConvergenceError, DataError, ResourceError
from petacomm.base.jobs import run_to_end
from petamap.cli.configuration_words import add_configuration_arguments, configuration_path, split_words

if TYPE_CHECKING:
    from petamap.data.config import RunConfig
    from petamap.planning.scaling import MeasuredRun, ScalingJob

_DESCRIPTION = """\
Make a run on each number of cores and tell what it took: calculation, communication, and data in and out, as
Figures 4 to 6 of Sudarsan et al. 2011 do, beside what the planner predicts from the row of the fewest cores.
With --versions, for four reductions, and for ranks of one core and of several threads, of which each kind is
predicted from its own row of the fewest cores. A trial with the first of the samples tells what each rank
does once, whatever its samples. With --weak, an option such as the duration grows with the
cores. With --predict, numbers of cores of another machine are predicted. The maps of all rows have the same
bits, which is checked, but for those of --weak."""

_EPILOG = """\
examples:
  petamap scaling run.toml --ranks 1,2,4,8
  petamap scaling run.toml --ranks 1,2,4,8 --versions --out scaling
  petamap scaling run.toml --ranks 1,2,4 --weak source.satellite.duration="6 h"
  petamap scaling run.toml --ranks 1,2 --predict 1024,16384 --machine jaguar
"""
VERSIONS = ("dense", "pairwise", "owner", "auto")
_HERE = "one-node"  # the machine of what is measured, with as many cores as are asked for
_QUANTITY = re.compile(r"\s*([0-9.eE+-]+)\s*(.*)")


def add_commands(commands: Any) -> None:
    """Add ``scaling`` to the subparsers."""
    parser = commands.add_parser(
        "scaling",
        help="make a run on several numbers of cores, beside predictions",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petamap scaling CONFIG|--example NAME --ranks N,N,... [--out DIR] [options] [KEY=VALUE ...]",
    )
    add = parser.add_argument
    add_configuration_arguments(parser)
    add("--ranks", metavar="N,N", type=_numbers, required=True, help="cores of the runs, one a rank")
    add("--versions", action="store_true", help="all reductions, ranks of one and of T cores")
    add("--threads", metavar="T", type=int, default=2, help="cores of a rank of threads [2]")
    add("--weak", metavar="KEY=VALUE", help="option that grows with the cores, VALUE on one")
    add("--predict", metavar="N,N", type=_numbers, default=[], help="further cores, predicted alone")
    add("--machine", metavar="NAME", default="one-node", help="machine of the predictions [one-node]")
    add("--out", metavar="DIR", type=Path, help="folder of all runs and of scaling.json [NAME_scaling]")
    add("--force", action="store_true", help="replace the runs of an earlier command")
    add("--json", action="store_true", help="write JSON instead of a table")
    parser.set_defaults(handler=_scaling)


def _numbers(text: str) -> list[int]:
    """Return the numbers of a list with commas, all positive."""
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text}: cores are at least 1")
    return numbers


def _scaling(arguments: argparse.Namespace) -> int:
    from petacomm.base.files import write_text
    from petacomm.base.threads import available_threads
    from petacomm.topology import load_machine
    from petamap.planning.scaling import ScalingModel, require_job, scaling_jobs, trial_jobs
    from petamap.planning.scaling_table import scaling_json, scaling_table

    if arguments.threads < 2:
        raise ConfigError(f"--threads {arguments.threads}", mend="a rank of threads has at least 2 cores")
    threads = (1, arguments.threads) if arguments.versions else (1,)
    reductions = VERSIONS if arguments.versions else VERSIONS[-1:]
    machine, study = load_machine(arguments.machine), _Study(arguments)
    jobs = scaling_jobs(sorted(set(arguments.ranks)), threads, reductions)
    if not jobs:
        raise ConfigError("no number of cores is a multiple of the threads", mend="give other --ranks")
    far = scaling_jobs(arguments.predict, threads, reductions)
    this = replace(load_machine(_HERE), cores_per_socket=max(job.cores for job in jobs))
    for job, on in [*((job, this) for job in jobs), *((job, machine) for job in far)]:
        require_job(study.config(job.cores), job, on)
    study.require_free(arguments.force)
    found = list(study.measure(jobs))
    trials = list(study.try_out(trial_jobs([*jobs, *far], available_threads())))
    here = ScalingModel(found, trials, study.config, this, available_threads())
    measured = [(one, here.predict(one.job, one.distribution)) for one in found]
    there = ScalingModel(found, trials, study.config, machine)
    predicted = [(job, there.predict(job)) for job in far]
    rows = measured, predicted, machine.name, here.references()
    text = scaling_json(*rows)
    write_text(study.out / "scaling.json", text + "\n")
    print(text if arguments.json else scaling_table(*rows))
    return 0


class _Study:
    """The runs of one command, each a job of its own in a folder of `out`."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        file, self.settings = split_words(arguments.words)
        self.path = configuration_path(file, arguments.example)
        self.weak = None if arguments.weak is None else _growing(arguments.weak)
        self.out = arguments.out or Path(f"{self.config(1).run.name}_scaling")

    def _settings(self, cores: int) -> list[str]:
        return self.settings + ([] if self.weak is None else [self.weak(cores)])

    def config(self, cores: int) -> RunConfig:
        """Return the configuration on so many cores."""
        from petamap.data.config import load_config

        return load_config(self.path, self._settings(cores))

    def require_free(self, overwrite: bool) -> None:
        """Check that the folder has no runs of an earlier command, unless they may be replaced.

        Raises
        ------
        ConfigError
            If it has.
        """
        if self.out.exists() and not overwrite and (not self.out.is_dir() or any(self.out.iterdir())):
            raise ConfigError(
                "is there already",
                where=str(self.out),
                mend="--force replaces its runs; or choose another --out",
            )

    def measure(self, jobs: Sequence[ScalingJob]) -> Iterator[MeasuredRun]:
        """Make all runs one after the other, and yield what each took.

        Raises
        ------
        ResourceError
            If a run fails, or there is no launcher.
        DataError
            If two runs of the same data have other maps.
        """
        first: MeasuredRun | None = None
        for number, job in enumerate(jobs, 1):
            inform(f"run {number} of {len(jobs)}: {job.ranks} x {job.threads}, {job.reduction}")
            folder = f"{job.ranks}x{job.threads}-{job.reduction}"
            found = self._run(job, self.out / folder)
            first = first or found
            if self.weak is None and found.hashes != first.hashes:
                raise DataError(
                    f"maps of {folder} are not those of the first run",
                    where=str(self.out),
                    mend="this is a defect of petamap: please report it",
                )
            yield found

    def try_out(self, jobs: Sequence[ScalingJob]) -> Iterator[MeasuredRun]:
        """Make a run of each job with the first of the samples.

        It is left out, with a line that says so, where it cannot be made.
        """
        from petamap.planning.scaling import TRIAL_FRACTION

        for job in jobs:
            part = self.config(job.cores).run.fraction * TRIAL_FRACTION
            inform(f"trial: {part:.3g} of the samples, {job.ranks} x {job.threads}")
            try:
                yield self._run(job, self.out / f"{job.ranks}x{job.threads}-trial", f"run.fraction={part}")
            except ResourceError as error:
                inform(f"no trial, so that nothing tells what each rank does once: {error}")

    def _run(self, job: ScalingJob, folder: Path, *more: str) -> MeasuredRun:
        from petamap.data.run_summary import Summary
        from petamap.planning.scaling import measured_run

        words = [str(self.path), *self._settings(job.cores), f"comm.reduction={job.reduction}", *more]
        words += ["--threads", str(job.threads), "--out", str(folder), "--force", "-q"]
        command = [sys.executable, "-m", "petamap.cli.main", "run", *words]
        if job.ranks > 1:
            command = [_launcher(), "-n", str(job.ranks), *command]
        with TemporaryFile("w+") as told:
            code = run_to_end(command, os.environ, stdout=told, stderr=told)
            if code not in (0, ConvergenceError.exit_code):
                told.seek(0)
                raise ResourceError(f"ended with {code}: {told.read().strip()}", where=" ".join(command))
        return measured_run(job, Summary.read(folder))


def _launcher() -> str:
    from petamap.cli.doctor import launcher_path

    launcher = launcher_path()
    if launcher is None:
        raise ResourceError("no mpiexec", mend="pip install 'petamap[mpi]', or take --ranks 1")
    return launcher


def _growing(setting: str) -> Callable[[int], str]:
    """Return what makes of a number of cores the setting of an option that grows with them."""
    key, _, value = setting.partition("=")
    match = _QUANTITY.fullmatch(value)
    if match is None:
        what = f"--weak {setting} is no KEY=VALUE of a number"
        raise ConfigError(what, mend='as source.satellite.duration="6 h"')
    number, unit = float(match[1]), match[2]
    return lambda cores: f"{key}={cores * number:g} {unit}".rstrip()
