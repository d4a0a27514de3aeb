"""Entry point of ``petamap`` and its commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from petacomm.cli import completion
from petacomm.cli.parser import Parser, command_parser, run_command
from petamap import __version__
from petamap.cli import (
    coadd,
    compare,
    configure,
    doctor,
    examples,
    mc,
    plan,
    report,
    run,
    scaling,
    simulate,
    slurm,
    spectra,
    sweep,
)

_DESCRIPTION = "Maximum-likelihood maps of the microwave sky from time streams."
_EPILOG = """\
start here:
  petamap doctor                           is everything in place?
  petamap run --example spire --out spire  a first map, from real data, in seconds
  petamap init run.toml                    a configuration to begin with
  petamap run run.toml --out maps          your own
  mpiexec -n 4 petamap run run.toml        the same bits, on more processes

exit codes: 0 done, 1 compare found a difference, 2 configuration, 3 input data, 4 not converged, 5 resources,
75 stopped with a checkpoint, to be resumed, 130 interrupted, 143 terminated
"""


def build_parser() -> Parser:
    """Return the parser of the command line, without importing expensive modules."""
    modules = (
        run,
        sweep,
        coadd,
        mc,
        configure,
        simulate,
        plan,
        scaling,
        slurm,
        report,
        spectra,
        compare,
        examples,
        doctor,
        completion,
    )
    return command_parser("petamap", __version__, _DESCRIPTION, _EPILOG, modules)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; user errors are printed without a traceback."""
    return run_command(build_parser, argv)


if __name__ == "__main__":
    sys.exit(main())
