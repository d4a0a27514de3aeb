"""``petamap``: the parser, and how every command ends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from petamap import __version__
from petamap.base.errors import ConfigError, PetamapError, did_you_mean
from petamap.cli import configure, datatypes, doctor, examples, mapping, mc, net, plan, report, run, spectra

INTERRUPTED = 130

_DESCRIPTION = "Maximum-likelihood maps of the microwave sky from time streams."
_EPILOG = """\
start here:
  petamap doctor                           is everything in place?
  petamap run --example spire --out spire  a first map, from real data, in seconds
  petamap init run.toml                    a configuration to begin with
  petamap run run.toml --out maps          your own
  mpiexec -n 4 petamap run run.toml        the same bits, on more processes

exit codes: 0 done, 2 configuration, 3 input data, 4 not converged, 5 resources, 130 interrupted
"""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like every other error of petamap."""

    def error(self, message: str) -> NoReturn:
        """Raise `message` as an error with its mend."""
        raise ConfigError(_reworded(message), mend=f"see {self.prog} --help")


def _reworded(message: str) -> str:
    """Say 'did you mean' where a command is misspelt, instead of listing every choice."""
    word, found, choices = message.partition(": invalid choice: ")
    if not found:
        return message
    word, _, choices = choices.partition(" (choose from ")
    known = [choice.strip(" '\")") for choice in choices.split(",")]
    word = word.split(", maybe you meant")[0].strip("'")
    return f"unknown command '{word}': {did_you_mean(word, known)}"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; it imports nothing heavy."""
    parser = Parser(
        prog="petamap",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"petamap {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for room in (run, mc, configure, plan, net, mapping, datatypes, report, spectra, examples, doctor):
        room.add_commands(commands)
    return parser


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; words may stand before and after options."""
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    if rest and (rest[0].startswith("-") or not hasattr(arguments, "words")):
        parser.error(f"unknown argument '{rest[0]}'")
    if rest:
        arguments.words += rest
    if arguments.command is None:
        parser.print_help()
        raise SystemExit(0)
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error is one line, without a traceback."""
    try:
        arguments = parse(argv)
        code: int = arguments.handler(arguments)
    except PetamapError as error:
        _say(f"petamap: error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("petamap: interrupted; files already written are whole")
        return INTERRUPTED
    except BrokenPipeError:
        # `petamap examples | head`: the reader has left, and flushing at exit would complain once more.
        sys.stdout = None
        return 0
    return code


def _say(line: str) -> None:
    """Speak on the first rank alone: every rank meets the same errors of the command line."""
    ranks = (os.environ.get(name, "0") for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"))
    if all(rank == "0" for rank in ranks):
        print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
