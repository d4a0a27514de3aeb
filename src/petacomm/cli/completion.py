"""``completion``: completion of the command line by the shell, in `petacomm` and in `petamap`."""

from __future__ import annotations

import argparse
from typing import Any

from petacomm.base.errors import ConfigError, require_known

SHELLS = ("bash", "zsh", "fish")
_HOW = {
    "bash": 'eval "$({prog} completion bash)"                      in ~/.bashrc',
    "zsh": 'eval "$({prog} completion zsh)"                       in ~/.zshrc, after compinit',
    "fish": "{prog} completion fish > ~/.config/fish/completions/{prog}.fish",
}


def add_commands(commands: Any) -> None:
    """Add ``completion`` to the subparsers."""
    parser = commands.add_parser(
        "completion",
        help="print what makes a shell complete commands and options",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    prog = parser.prog.split()[0]
    parser.description = f"Print what makes the tab key of a shell complete commands and options of {prog}."
    parser.epilog = "\n".join(["examples:", *(f"  {line.format(prog=prog)}" for line in _HOW.values())])
    parser.add_argument("shell", metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(handler=lambda arguments: _completion(arguments, prog))


def _completion(arguments: argparse.Namespace, prog: str) -> int:
    require_known("no completion for the shell", arguments.shell, SHELLS)
    try:
        import argcomplete
    except ImportError:
        raise ConfigError("argcomplete is not installed", mend="pip install argcomplete") from None
    print(argcomplete.shellcode([prog], shell=arguments.shell))
    return 0
