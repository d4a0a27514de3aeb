"""Tables of benchmarks that print several, each by its name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any


def row(*cells: Any) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def print_tables(tables: Mapping[str, Callable[[], None]]) -> None:
    """Print the tables that are named on the command line, or all."""
    names = sys.argv[1:] or list(tables)
    if unknown := [name for name in names if name not in tables]:
        sys.exit(f"no part '{unknown[0]}': {', '.join(tables)}")
    for name in names:
        tables[name]()
        print(flush=True)
