"""Entry point of the command ``petacomm``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from petacomm import __version__
from petacomm.cli import completion, config, datatypes, mapping, net, record, topology, tune
from petacomm.cli.parser import Parser, command_parser, run_command

_DESCRIPTION = "Communication for jobs that must scale: predicted, placed and timed."
_EPILOG = """\
start here:
  petacomm topology                        which machines are known
  petacomm net predict allreduce --machine perlmutter --ranks 4096 --bytes 1000000
  petacomm map job.toml --report job.html  where the ranks of a job should go
  petacomm record --out graph -- mpiexec -n 64 ./program
                                           which ranks of a job exchange how much
  petacomm tune --out tuning -- mpiexec -n 8
                                           faster algorithms of MPI's collectives, as rules for it
  mpiexec -n 4 petacomm datatypes bench    packing, datatypes and shared memory on this machine
  mpicc program.c $(petacomm config)       for programs in C and Fortran

exit codes: 0 done, 2 configuration, 3 input data, 5 resources, 130 interrupted, 143 terminated
"""


def build_parser() -> Parser:
    """Return the parser of the command line; it imports nothing heavy."""
    modules = net, mapping, record, tune, topology, datatypes, config, completion
    return command_parser("petacomm", __version__, _DESCRIPTION, _EPILOG, modules)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are printed on one line, without a traceback."""
    return run_command(build_parser, argv)


if __name__ == "__main__":
    sys.exit(main())
