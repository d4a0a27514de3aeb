"""``petamap examples``: list of the examples in the package."""

from __future__ import annotations

import argparse
from typing import Any


def add_commands(commands: Any) -> None:
    """Add ``examples`` to the subparsers."""
    parser = commands.add_parser("examples", help="list the examples that come with petamap")
    parser.set_defaults(handler=_examples)


def _examples(arguments: argparse.Namespace) -> int:
    from petamap.examples import example_names, example_title, find_example

    for name in example_names():
        print(f"{name:<14} {example_title(name)}\n{'':<14} {find_example(name)}")
    print("\nrun one: petamap run --example NAME --out DIR\n")
    for name in example_names(("plan.toml",)):
        print(f"{name:<14} {example_title(name)}")
    print("\nplan one, too large to be run: petamap plan --example NAME --ranks N --machine NAME")
    return 0
