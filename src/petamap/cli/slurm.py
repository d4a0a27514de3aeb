"""``petamap slurm``: a job script of a run, sized by the planner."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from typing import TYPE_CHECKING, Any

from petacomm.base.console import tell
from petacomm.base.errors import ConfigError
from petamap.cli.configuration_words import add_configuration_arguments, configuration_path, split_words

if TYPE_CHECKING:
    from petamap.planning.job_size import JobSize

_DESCRIPTION = """\
Write a job script for Slurm that makes a run: with the fewest nodes, in powers of two, whose memory suffices
and on which the run is predicted to end in the wanted time. The job stops with a checkpoint before its time
ends, goes back to the queue, and goes on from there."""

_EPILOG = """\
examples:
  petamap slurm run.toml --machine perlmutter --out maps > job.sh
  petamap slurm run.toml --machine perlmutter --node-memory "512 GB" --time "12 h" --account m1234
  petamap slurm run.toml --machine perlmutter --nodes 16 --sbatch constraint=cpu --sbatch qos=regular
"""
_A_CORE = 2e9  # bytes of memory that are assumed of a node, for each core


def add_commands(commands: Any) -> None:
    """Add ``slurm`` to the subparsers."""
    parser = commands.add_parser(
        "slurm",
        help="write a job script for Slurm, sized by the planner",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petamap slurm CONFIG|--example NAME --machine NAME [--out DIR] [options] [KEY=VALUE ...]",
    )
    add = parser.add_argument
    add_configuration_arguments(parser)
    add("--machine", metavar="NAME", help="a machine of the package (petamap plan --machines), or a file")
    add("--out", metavar="DIR", help="folder of the products [NAME of the run]")
    add("--nodes", metavar="N", type=int, help="nodes [the fewest that suffice]")
    add(
        "--node-memory",
        metavar="B",
        help='memory of a node, as "512 GB" [as of the machine, or 2 GB for each core]',
    )
    add("--time", metavar="T", default="2 h", help="time in which the run should end [2 h]")
    add(
        "--like", metavar="DIR",
        help="products of a run whose time and flags for a sample, and iterations, are taken",
    )  # fmt: skip
    add("--account", metavar="NAME", help="account of the job")
    add("--sbatch", metavar="K=V", action="append", default=[], help="further option of sbatch; any number")
    parser.set_defaults(handler=_slurm)


def _slurm(arguments: argparse.Namespace) -> int:
    from petacomm.base.units import parse_quantity
    from petacomm.cli.progress import progress_listener
    from petacomm.topology import load_machine
    from petamap.data.config import load_config

    if arguments.machine is None:
        raise ConfigError("--machine is missing", mend="see petamap plan --machines")
    wanted = parse_quantity(arguments.time, "time")
    for name in ("nodes", "time"):
        given = getattr(arguments, name)
        if given is not None and not (wanted > 0 if name == "time" else given > 0):
            raise ConfigError(f"--{name} {given}", mend="more than 0")
    machine = load_machine(arguments.machine)
    file, settings = split_words(arguments.words)
    config = load_config(configuration_path(file, arguments.example), settings)
    memory = machine.node_memory or _A_CORE * machine.cores
    if arguments.node_memory is not None:
        memory = parse_quantity(arguments.node_memory, "bytes")
    from petamap.data.run_summary import Summary
    from petamap.planning.job_size import size_job
    from petamap.planning.run_time import measured_times

    measured = None if arguments.like is None else measured_times(Summary.read(arguments.like))
    with progress_listener(0) as progress:
        size = size_job(config, machine, memory, wanted, arguments.nodes, progress, measured)
    seconds = min(wanted, size.wall_seconds)
    if seconds < size.wall_seconds:
        tell(
            f"petamap: warning: predicted to take {size.seconds / 3600:.2g} h: more than one job of "
            f"{arguments.time}; it goes on in the next"
        )
    out = arguments.out or config.run.name
    print(job_script(arguments, config.run.name, out, size, seconds), end="")
    return 0


def job_script(arguments: argparse.Namespace, name: str, out: str, size: JobSize, seconds: float) -> str:
    """Return the text of a job script."""
    for text in (arguments.account or "", *arguments.sbatch):
        if not text.isprintable():
            raise ConfigError(f"{text!r} is no option of sbatch", mend="give it on one line")
    hours, minutes = divmod(int(-(-seconds // 60)), 60)
    options = {
        "job-name": name,
        "nodes": size.nodes,
        "ntasks-per-node": size.ranks_per_node,
        "cpus-per-task": size.threads,
        "time": f"{hours:02d}:{minutes:02d}:00",
        "output": f"{name}-%j.log",
        "open-mode": "append",
    } | ({"account": arguments.account} if arguments.account else {})
    lines = [f"#SBATCH --{key}={value}" for key, value in options.items()]
    lines += ["#SBATCH --requeue", *(f"#SBATCH --{option}" for option in arguments.sbatch)]
    given = ["--example", arguments.example] if arguments.example else []
    command = shlex.join(["petamap", "run", *arguments.words, *given, "--out", out])
    return "\n".join(
        [
            "#!/bin/bash",
            *lines,
            "",
            *textwrap.wrap(
                _why(arguments.machine, size, arguments.like), 96, initial_indent="# ", subsequent_indent="# "
            ),
            "",
            "# Activate here the environment that petamap is installed in.",
            f"srun --cpu-bind=cores {command} --threads $SLURM_CPUS_PER_TASK --resume",
            "code=$?",
            "# 75: stopped with a checkpoint before the end of the time; the job goes on where it was",
            "if [ $code -eq 75 ]; then scontrol requeue $SLURM_JOB_ID; fi",
            "exit $code",
            "",
        ]
    )


def _why(machine: str, size: JobSize, like: str | None) -> str:
    """Return what the size of a job was chosen by."""
    from petacomm.cli.progress import format_duration, format_scaled
    from petamap.planning.run_time import ASSUMED, ITERATIONS

    memory = format_scaled(size.memory, "B")
    two_level, other = ITERATIONS["two-level"], ITERATIONS["other"]
    assumed = (
        f"Times of samples, and iterations, as the run in {like} took them."
        if like
        else f"Assumed: at most {two_level} iterations of two levels or {other} of others, "
        f"{1e9 * ASSUMED.iteration:.0f} ns a sample."
    )
    return (
        f"Predicted for {machine}: {format_duration(size.seconds)}, {memory} a node, data by "
        f"{size.distribution}, sums by {size.algorithm}. {assumed}"
    )
