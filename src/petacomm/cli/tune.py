"""``petacomm tune``: algorithms of the MPI library's collectives, measured and chosen."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.errors import ConfigError
from petacomm.cli.progress import progress_listener

if TYPE_CHECKING:
    from petacomm.tuning import Tuning

_EPILOG = """\
examples:
  petacomm tune --out tuning -- mpiexec -n 8                 measure, and write rules into tuning/
  . tuning/environment.sh; mpiexec -n 8 ./program            run a program with them
  petacomm tune --out tuning --collectives allreduce,bcast --sizes 8,1024,65536 -- mpiexec -n 8
  petacomm tune --out tuning --ranks 2,4,8 -- mpiexec -n 8   communicators of 2, of 4 and of 8 ranks
  petacomm tune --out tuning --graph graph.npz -- mpiexec -n 8
                                                             what they save of a recorded job

docs/petacomm/tuning.md says what is measured, and what the files are.
"""
TABLE, MEASUREMENTS, ENVIRONMENT = "table.txt", "measurements.json", "environment.sh"


def add_commands(commands: Any) -> None:
    """Add ``tune`` to the subparsers."""
    parser = commands.add_parser(
        "tune",
        help="measure the algorithms of MPI's collectives, and write rules that choose the better ones",
        description="Time the algorithms that MPICH or Open MPI have for each collective beside its own "
        "choice, on the ranks of a launcher; choose others where they are faster beyond the noise; and "
        "write the rules that the library reads. Rules are checked in jobs of their own, and those not "
        "confirmed are withdrawn.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petacomm tune --out DIR [...] -- LAUNCHER ...",
    )
    parser.add_argument("words", metavar="LAUNCHER", nargs="*", help="and its arguments, after '--'")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="for rules and measurements, seen by all nodes"
    )
    parser.add_argument("--collectives", metavar="A,B", help="to be tuned [all of seven]")
    parser.add_argument("--sizes", metavar="N,N", help="bytes of vectors or blocks [8 to 1048576]")
    parser.add_argument(
        "--ranks", metavar="N,N", help="of communicators, each of consecutive ranks [all ranks]"
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=float,
        default=2.0,
        help="for each collective, size and communicator [2]",
    )
    parser.add_argument(
        "--commutative", action="store_true",
        help="promise that all operations of the programs commute, as MPI's own do: of Open MPI, whose rules "
        "do not ask, then also algorithms that combine out of the order of ranks",
    )  # fmt: skip
    parser.add_argument("--graph", metavar="FILE", type=Path, help="a recording of 'petacomm record'")
    parser.add_argument("--force", action="store_true", help="replace an earlier tuning in DIR")
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    parser.set_defaults(handler=_tune)


def _tune(arguments: argparse.Namespace) -> int:
    from petacomm.recording import read_recording
    from petacomm.tuning.measurement import COLLECTIVES
    from petacomm.tuning.tuning_job import SIZES, tune_collectives
    from petacomm.tuning.tuning_table import job_savings, saving_table, tuning_table

    out = _folder(arguments)
    with progress_listener(0) as progress:
        recording = read_recording(arguments.graph, progress) if arguments.graph else None
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    collectives = arguments.collectives.split(",") if arguments.collectives is not None else COLLECTIVES
    sizes = _numbers("sizes", arguments.sizes, "bytes, such as 8,1024,65536") or list(SIZES)
    ranks = _numbers("ranks", arguments.ranks, "numbers of ranks, such as 2,4,8")
    with progress_listener(0) as progress:
        promised = arguments.commutative
        tuning = tune_collectives(
            words, out, collectives, sizes, arguments.seconds, progress, promised, ranks
        )
    text, found = tuning_table(tuning), tuning.as_json()
    if recording is not None:
        savings = job_savings(tuning, recording)
        text += f"\n\nof {arguments.graph}:\n\n{saving_table(savings)}"
        found["savings"] = {"recording": str(arguments.graph), **savings}
    notes = _write(tuning, out, text, found)
    print(json.dumps(found, indent=2) if arguments.json else "\n".join([text, "", *notes]))
    return 0


def _folder(arguments: argparse.Namespace) -> Path:
    if arguments.out is None:
        raise ConfigError("--out is missing", mend="write --out tuning before --")
    if not arguments.seconds > 0:
        raise ConfigError(f"--seconds {arguments.seconds:g}", mend="give a time above 0")
    out = Path(arguments.out)
    if (out / MEASUREMENTS).exists() and not arguments.force:
        raise ConfigError("has a tuning", where=str(out), mend="give --force to replace it")
    return out


def _numbers(name: str, text: str | None, mend: str) -> list[int]:
    """Return the numbers of an option, none where it is not given."""
    try:
        return [int(word) for word in text.split(",")] if text is not None else []
    except ValueError:
        raise ConfigError(f"--{name} {text}", mend=f"write {mend}") from None


def _write(tuning: Tuning, out: Path, text: str, found: dict[str, Any]) -> list[str]:
    """Write the files of a tuning, that which marks it complete last, and return lines that name them."""
    from petacomm.base.files import write_text
    from petacomm.tuning.tuning_job import remove_rules, write_rules
    from petacomm.tuning.tuning_table import environment_text

    remove_rules(out)
    notes = []
    if tuning.chosen:
        variables = write_rules(tuning, out)
        write_text(out / ENVIRONMENT, environment_text(tuning, variables))
        notes = [f"rules: {list(variables.values())[-1]}", f"to use them: . {_sourced(out / ENVIRONMENT)}"]
    else:
        (out / ENVIRONMENT).unlink(missing_ok=True)
        notes = ["no rules: nothing is faster than the library's own choice beyond the noise"]
    write_text(out / TABLE, text + "\n")
    write_text(out / MEASUREMENTS, json.dumps(found, indent=1) + "\n")
    return [*notes, f"measurements: {out / MEASUREMENTS}"]


def _sourced(path: Path) -> str:
    """Return a path as shells read it: one without a slash is looked for elsewhere."""
    return shlex.quote(str(path) if len(path.parts) > 1 else f"./{path}")
