"""``petacomm config``: what compilers of programs in C and Fortran are given."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from petacomm.cli.progress import progress_listener

_EPILOG = """\
examples:
  mpicc program.c $(petacomm config) -o program
  cmake -B build -Dpetacomm_DIR=$(petacomm config --cmake)

docs/petacomm/c.md has programs and what they call.
"""


def add_commands(commands: Any) -> None:
    """Add ``config`` to the subparsers."""
    parser = commands.add_parser(
        "config",
        help="words for the compiler of a program in C or Fortran",
        description="Print what is to be written after 'mpicc program.c' to build a program that uses "
        "petacomm.h: the source of the library, which your MPI's compiler compiles, and this Python.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--cmake", action="store_true", help="the folder of petacommConfig.cmake instead")
    one.add_argument("--fortran", action="store_true", help="the source of the Fortran module instead")
    parser.set_defaults(handler=_config)


def _config(arguments: argparse.Namespace) -> int:
    from petacomm.capi import cmake_folder, compile_words, fortran_module

    if arguments.cmake:
        print(cmake_folder())
    elif arguments.fortran:
        print(fortran_module())
    else:
        words = compile_words()
        with progress_listener(0) as progress:
            if shlex.join(words) != " ".join(words):
                progress.warn('a path has spaces: write eval "mpicc program.c $(petacomm config) -o program"')
        print(shlex.join(words))
    return 0
