"""Entry point of the command ``petacomm``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from petacomm import __version__
from petacomm.cli import datatypes, mapping, net, topology
from petacomm.cli.parser import Parser, run_command

_DESCRIPTION = "Communication for jobs that must scale: predicted, placed and timed."
_EPILOG = """\
start here:
  petacomm topology                        which machines are known
  petacomm net predict allreduce --machine perlmutter --ranks 4096 --bytes 1000000
  petacomm map job.toml --report job.html  where the ranks of a job should go
  mpiexec -n 4 petacomm datatypes bench    packing, datatypes and shared memory on this machine

exit codes: 0 done, 2 configuration, 3 input data, 5 resources, 130 interrupted
"""


def build_parser() -> Parser:
    """Return the parser of the command line; it imports nothing heavy."""
    parser = Parser(
        prog="petacomm",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"petacomm {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for module in (net, mapping, topology, datatypes):
        module.add_commands(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are printed on one line, without a traceback."""
    return run_command(build_parser, argv)


if __name__ == "__main__":
    sys.exit(main())
