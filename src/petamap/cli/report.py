"""``petamap report``: report of a finished run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_commands(commands: Any) -> None:
    """Add ``report`` to the subparsers."""
    parser = commands.add_parser(
        "report",
        help="write report.html of a finished run anew",
        description="Write report.html anew from summary.json and the map files of a finished run.",
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="the --out folder of the run")
    parser.set_defaults(handler=_report)


def _report(arguments: argparse.Namespace) -> int:
    from petamap.report.run_page import write_report

    print(write_report(arguments.out))
    return 0
