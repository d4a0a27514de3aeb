"""``petamap examples``: what comes with the package."""

from __future__ import annotations

import argparse
from typing import Any


def add_commands(commands: Any) -> None:
    """Add ``examples`` to the subparsers."""
    parser = commands.add_parser("examples", help="list the examples that come with petamap")
    parser.set_defaults(handler=_examples)


def _examples(arguments: argparse.Namespace) -> int:
    from petamap.examples import find, names, title

    for name in names():
        print(f"{name:<14} {title(name)}\n{'':<14} {find(name)}")
    print("\nrun one: petamap run --example NAME --out DIR")
    return 0
