"""``petacomm datatypes``: benchmark packing, MPI's derived datatypes and shared memory."""

from __future__ import annotations

import argparse
import functools
from typing import Any

from petacomm.base.errors import ConfigError, did_you_mean

_EPILOG = """\
examples:
  mpiexec -n 4 petacomm datatypes bench transpose --shape 512x512
  mpiexec -n 4 petacomm datatypes bench halo --shape 8x8x8x8
"""


def add_commands(commands: Any) -> None:
    """Add ``datatypes`` to the subparsers."""
    parser = commands.add_parser(
        "datatypes",
        help="time packing, MPI's datatypes and shared memory beside each other",
        description="'bench' times all methods of redistributing an array from slabs to slabs ('transpose'), "
        "or of exchanging the faces of a periodic lattice ('halo'): packed, by derived datatypes, through "
        "memory shared by a node. Each time is shown with that of a memory copy of the same bytes, whether "
        "the result is correct, and a model fitted to all times, with the fraction of packing in it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petacomm datatypes bench [transpose|halo] [--shape AxB] [--dtype NAME] [--json]",
    )
    parser.add_argument("words", metavar="bench SUBJECT", nargs="*", help="transpose, by default, or halo")
    parser.add_argument(
        "--shape", metavar="AxB", help="of the array [512x512], or of a rank's block of the lattice [8x8x8x8]"
    )
    parser.add_argument("--dtype", metavar="NAME", default="complex128", help="of the array [complex128]")
    parser.add_argument("--turns", metavar="N", type=int, default=7, help="calls of each method [7]")
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
    parser.set_defaults(handler=_datatypes)


def _datatypes(arguments: argparse.Namespace) -> int:
    verb, *words = arguments.words or [""]
    if verb != "bench":
        what = f"unknown word '{verb}'" if verb else "nothing to do"
        raise ConfigError(what, mend=did_you_mean(verb, ["bench"]))
    if len(words) > 1:
        raise ConfigError(f"unknown argument '{words[-1]}'", mend="see petacomm datatypes --help")
    if arguments.turns < 1:
        raise ConfigError(f"--turns {arguments.turns}", mend="1 or more")
    from petacomm.mpi import collective_errors, world
    from petacomm.mpi.errors import show_error

    shape = _shape(arguments.shape)
    comm = world()
    with collective_errors(comm, functools.partial(show_error, program="petacomm")):
        from petacomm.mpi.autotuner import tuning_environment
        from petacomm.redistribution.bench import bench, benchmark_json, benchmark_table

        subject = words[0] if words else "transpose"
        timings = bench(comm, subject, shape, arguments.dtype, arguments.turns)
        where = tuning_environment(comm)
        if comm.rank == 0:
            print(benchmark_json(timings, where) if arguments.json else benchmark_table(timings, where))
    return 0


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.split("x")
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--shape {text}", mend="numbers with x between them, such as 512x512")
    return tuple(map(int, parts))
