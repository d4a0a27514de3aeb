"""``petamap simulate``: the data of a configuration as volumes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.console import inform
from petacomm.cli.parser import add_output_arguments
from petamap.cli.configuration_words import (
    add_configuration_arguments,
    add_threads_argument,
    configuration_path,
    split_words,
)

if TYPE_CHECKING:
    from petamap.data.observation import Observation

_DESCRIPTION = """\
Write the observations of a configuration's sources to files that the source 'volume' reads: simulated ones,
or those of other files in petamap's own format, with checksums. The signal is the sum of what the sources
add; a file holds pointing, signal, flags and noise models of an observation. Templates, and noise that
detectors share, are no data: a configuration that reads the files declares them again."""

_EPILOG = """\
examples:
  petamap simulate run.toml --out data
  petamap simulate --example planck-217 --out week --precision float32 source.satellite.duration="7 day"
  mpiexec -n 4 petamap simulate run.toml --out data
"""
_UNTOLD = "again where the files are read: templates, and noise that detectors share, which they do not hold"


def add_commands(commands: Any) -> None:
    """Add ``simulate`` to the subparsers."""
    parser = commands.add_parser(
        "simulate",
        help="write the data of a configuration as volumes",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petamap simulate CONFIG|--example NAME --out DIR [options] [KEY=VALUE ...]",
    )
    add_configuration_arguments(parser)
    add = parser.add_argument
    add("--out", metavar="DIR", type=Path, required=True, help="new folder, of a file an observation")
    add("--precision", choices=("float64", "float32"), default="float64", help="of the signal [float64]")
    add_threads_argument(parser)
    add_output_arguments(parser)
    parser.set_defaults(handler=_simulate)


def _simulate(arguments: argparse.Namespace) -> int:
    from petacomm.cli.progress import progress_listener
    from petacomm.mpi import collective_errors, world
    from petamap.data.config import load_config, open_sources
    from petamap.data.formats.volume_set import write_volumes

    comm = world()
    with collective_errors(comm), progress_listener(comm.rank) as progress:
        file, settings = split_words(arguments.words)
        if arguments.threads is not None:
            settings = [*settings, f"resources.threads={arguments.threads}"]
        config = load_config(configuration_path(file, arguments.example), settings)
        observations = open_sources(config, comm=comm)
        n_threads = config.resources.threads or comm.threads()
        files = write_volumes(
            arguments.out, observations, comm, progress, precision=arguments.precision, n_threads=n_threads
        )
    if comm.rank == 0:
        inform(_closing_lines(arguments.out, files, observations))
    return 0


def _closing_lines(out: Path, files: list[Path], observations: list[Observation]) -> str:
    from petamap.cli.closing_table import aligned_rows

    samples = sum(one.n_samp * one.n_det for one in observations)
    n_bytes = sum(file.stat().st_size for file in files)
    rows = [
        ("wrote", f"{out}: {len(files):,} volume{'s' * (len(files) != 1)}, {n_bytes / 1e6:.4g} MB"),
        ("samples", f"{samples:,}"),
        *([("declare", _UNTOLD)] if any(one.templates or one.common_noise for one in observations) else []),
        ("to read", f'a [[source]] of kind = "volume" and path = "{out}"'),
    ]
    return "\n".join(aligned_rows(rows))
