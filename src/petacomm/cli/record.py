"""``petacomm record``: the communication graph of a running MPI job."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.errors import ConfigError
from petacomm.base.files import check_writable
from petacomm.cli.progress import progress_listener

if TYPE_CHECKING:
    from petacomm.recording import Recording

_EPILOG = """\
examples:
  petacomm record --out graph -- mpiexec -n 64 ./program     run it, and write graph.npz
  petacomm record --out graph.mtx -- srun -n 512 ./program   as Matrix Market, too
  petacomm record --out graph --json -- mpiexec -n 64 ./program | jq .messages
                                                             JSON alone: the program prints to stderr
  petacomm record show graph.npz                             what was sent, once more
  petacomm record show graph.npz --algorithms alltoall=pairwise --out pairs.csv
  petacomm record show trace/traces.otf2 --out graph         a trace of Score-P, as graph.npz
  petacomm record show job.ipm.xml                           a profile of IPM
  petacomm record show job.mpiP --halos 16x8 --out h.csv     a report of mpiP, as halos

docs/petacomm/recording.md says what is counted, profilers.md what files of other tools tell.
"""
_RECORDED, _MPIP = ".npz", ".mpiP"
_STDERR = 2  # file descriptor


def add_commands(commands: Any) -> None:
    """Add ``record`` to the subparsers."""
    parser = commands.add_parser(
        "record",
        help="record the communication graph of a running MPI job",
        description="Run a job with a library before MPI that counts messages and bytes by pair of ranks, "
        "communicator, call, size and phase, and write what all ranks sent into one file, which "
        "'petacomm map' reads. Collectives become messages by their schedules. The program is not changed; "
        "it must be linked to MPI dynamically.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petacomm record --out FILE [...] -- LAUNCHER ... PROGRAM ...\n"
        "       petacomm record show FILE [--out FILE] [...]",
    )
    parser.add_argument("words", metavar="COMMAND", nargs="*", help="of the launcher, after '--'; or 'show'")
    parser.add_argument(
        "--out", metavar="FILE", type=Path,
        help="the recording, a .npz; with the ending .csv, .mtx or .graph its graph in this format, too",
    )  # fmt: skip
    parser.add_argument(
        "--algorithms", metavar="A=B,C=D",
        help="of collectives, such as allreduce=ring,alltoall=pairwise [as MPICH chooses by size]",
    )  # fmt: skip
    parser.add_argument("--phase", metavar="N", type=int, help="of 'show', one phase alone [all]")
    parser.add_argument(
        "--halos", metavar="SHAPE",
        help="of 'show' of a report of mpiP, which does not tell partners: --out is the graph if each rank "
        "sent equal parts to its neighbours in a periodic grid of ranks, like 16x8x8",
    )  # fmt: skip
    parser.add_argument("--mpicc", metavar="PATH", help="compiler of the program's MPI [beside the launcher]")
    parser.add_argument(
        "--folder", metavar="DIR", type=Path, help="for files of ranks, seen by all nodes [that of --out]"
    )
    parser.add_argument(
        "--json", action="store_true",
        help="write JSON instead of tables; what the job prints goes to standard error",
    )  # fmt: skip
    parser.set_defaults(handler=_record)


def _record(arguments: argparse.Namespace) -> int:
    from petacomm.recording import read_recording, run_recorded

    algorithms = _algorithms(arguments.algorithms)
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if words[:1] == ["show"]:
        if len(words) != 2:
            what = "no recording" if len(words) < 2 else f"unknown argument '{words[2]}'"
            raise ConfigError(what, mend="write petacomm record show FILE.npz")
        _refuse(arguments, ("mpicc", "folder"), "is of a job that is run, and 'show' runs none")
        if Path(words[1]).suffix == _MPIP:
            _show_mpip(arguments, words[1])
            return 0
        _refuse(arguments, ("halos",), "is for reports of mpiP: a recording has the partners")
        with progress_listener(0) as progress:
            recording = _of_phase(read_recording(words[1], progress), arguments.phase)
        _show(arguments, recording, algorithms)
        return 0
    _refuse(arguments, ("halos",), "is for reports of mpiP: petacomm record show FILE.mpiP")
    if arguments.out is None:
        raise ConfigError("--out is missing", mend="write --out graph before --")
    if arguments.phase is not None:
        raise ConfigError("--phase without 'show'", mend="all phases are recorded: petacomm record show")
    path = _recording_path(arguments.out)
    if arguments.folder is not None:  # else files of ranks are written there, too
        check_writable(path.parent)
    folder, output = arguments.folder or path.parent, _STDERR if arguments.json else None
    with progress_listener(0) as progress:
        recording, code = run_recorded(words, folder, arguments.mpicc, progress, output)
        recording.save(path)
        if code:
            progress.warn(f"the job ended with exit code {code}; all ranks had called MPI_Finalize")
    _show(arguments, recording, algorithms, path)
    return code


def _algorithms(text: str | None) -> dict[str, str]:
    from petacomm.recording.collective_messages import require_algorithms

    pairs = [pair.partition("=") for pair in text.split(",")] if text is not None else []
    if not all(separator for _, separator, _ in pairs):
        raise ConfigError(f"--algorithms {text}", mend="write allreduce=ring,alltoall=pairwise")
    algorithms = {call: name for call, _, name in pairs}
    if len(algorithms) < len(pairs):
        raise ConfigError(f"--algorithms {text}", mend="name each collective once")
    require_algorithms(algorithms)
    return algorithms


def _recording_path(out: Path) -> Path:
    """Return the path of the recording, and raise an error now if a file cannot be written later."""
    from petacomm.mapping.graph_writers import require_writable_format

    if out.is_dir():
        raise ConfigError("is a folder", where=str(out), mend=f"write --out {out / 'graph'}")
    if out.suffix not in ("", _RECORDED):
        require_writable_format(out)
    path = out.with_suffix(_RECORDED)
    if path.is_dir():
        raise ConfigError("is a folder", where=str(path), mend="choose another --out")
    return path


def _of_phase(recording: Recording, phase: int | None) -> Recording:
    if phase is None:
        return recording
    if phase not in recording.phases:
        known = ", ".join(map(str, recording.phases))
        raise ConfigError(f"no phase {phase}", mend=f"there are {known}")
    return recording.of_phase(phase)


def _show(
    arguments: argparse.Namespace,
    recording: Recording,
    algorithms: dict[str, str],
    written: Path | None = None,
) -> None:
    """Print a recording, write its graph if asked to, and say which files there are."""
    from petacomm.recording.recording_table import recording_json, recording_table

    notes = [f"recording: {written}"] if written else []
    if arguments.out is not None and arguments.out.suffix not in ("", _RECORDED):
        from petacomm.mapping.graph_writers import write_graph
        from petacomm.mapping.recorded_graph import recording_graph

        notes.append(f"graph: {write_graph(recording_graph(recording, algorithms), arguments.out)}")
    elif arguments.out is not None and not written:
        recording.save(_recording_path(arguments.out))
        notes.append(f"recording: {_recording_path(arguments.out)}")
    if arguments.json:
        print(json.dumps(recording_json(recording, algorithms), indent=2))
    else:
        print("\n".join([recording_table(recording, algorithms), *([""] if notes else []), *notes]))


def _refuse(arguments: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if getattr(arguments, name) is not None:
            raise ConfigError(f"--{name} {why}", mend=f"leave --{name} away")


def _show_mpip(arguments: argparse.Namespace, path: str) -> None:
    """Print a report of mpiP, and write the graph of halos if a grid is given."""
    from petacomm.recording.mpip import read_mpip
    from petacomm.recording.mpip_table import mpip_json, mpip_table

    _refuse(arguments, ("phase", "algorithms"), "is for recordings: mpiP tells neither phases nor messages")
    if (arguments.out is None) != (arguments.halos is None):
        raise ConfigError(
            "a report of mpiP does not tell to which ranks was sent",
            where=path,
            mend="give --out and --halos 16x8, the grid of ranks that exchange halos; or record the job",
        )
    report = read_mpip(path)
    notes = []
    if arguments.out is not None:
        from petacomm.mapping.graph_writers import write_graph
        from petacomm.mapping.recorded_graph import halo_graph
        from petacomm.topology.torus import parse_shape

        graph = halo_graph(report, parse_shape(arguments.halos))
        notes = ["", f"graph: {write_graph(graph, arguments.out)}"]
    print(
        json.dumps(mpip_json(report), indent=2) if arguments.json else "\n".join([mpip_table(report), *notes])
    )
