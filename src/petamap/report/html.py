"""The report of a run: one page that opens without a network."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from petamap.base.files import replacing
from petamap.base.records import to_json
from petamap.base.summary import Summary
from petamap.report.embedding import Sheet, embed

FILE_NAME = "report.html"
_PAGE = Path(__file__).with_name("page")
# in the order of use; together they are one function, so nothing leaks into the page
_SCRIPTS = (
    "sphere.js",
    "colour.js",
    "text.js",
    "parts.js",
    "layers.js",
    "viewer.js",
    "charts.js",
    "lines.js",
    "montecarlo.js",
    "maps.js",
    "page.js",
)


def write_report(out_dir: str | os.PathLike[str]) -> Path:
    """Write ``report.html`` from the summary, maps and realizations in a folder, and return its path.

    Raises
    ------
    DataError
        If the summary, a map file or that of a Monte Carlo cannot be read.
    ResourceError
        If the page cannot be written.
    """
    from petamap.report.maps import read_sheets
    from petamap.report.montecarlo import read_montecarlo

    folder = Path(out_dir)
    summary = Summary.read(folder)
    path = folder / FILE_NAME
    with replacing(path) as temporary:
        text = page(summary, read_sheets(summary, folder), read_montecarlo(folder))
        temporary.write_text(text, encoding="utf-8")
    return path


def page(summary: Summary, sheets: list[Sheet], montecarlo: dict[str, Any] | None = None) -> str:
    """Return the page; whatever names and texts say, they stay text."""
    data = {"summary": to_json(summary), "montecarlo": montecarlo} | embed(sheets)
    return assembled(
        f"{summary.title or summary.name} – petamap", "<code>summary.json</code>", data, _SCRIPTS
    )


def assembled(title: str, elsewhere: str, data: Any, scripts: Sequence[str]) -> str:
    """Return a page of data and of scripts of this room.

    Parameters
    ----------
    title : str
        Plain text.
    elsewhere : str
        HTML: where the same facts are for those without JavaScript.
    data
        What JSON can hold.
    scripts : sequence of str
        In the order of use.
    """
    return filled(
        (_PAGE / "page.html").read_text(encoding="utf-8"),
        title=html.escape(title),
        style=(_PAGE / "page.css").read_text(encoding="utf-8"),
        elsewhere=elsewhere,
        data=inert(data),
        script="\n".join((_PAGE / name).read_text(encoding="utf-8") for name in scripts),
    )


def inert(data: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def filled(template: str, **parts: str) -> str:
    """Return the template with each ``{{name}}`` replaced once; parts are never searched for more."""
    pieces = []
    rest = template
    for name, part in parts.items():
        before, _, rest = rest.partition("{{" + name + "}}")
        pieces += [before, part]
    return "".join([*pieces, rest])
