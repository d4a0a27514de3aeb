"""The report of a run: one page that opens without a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from petacomm.base.files import replacing
from petacomm.base.records import to_json
from petacomm.report.page import assembled
from petamap.data.run_summary import Summary
from petamap.report.embedding import Sheet, embed

FILE_NAME = "report.html"
_PAGE = Path(__file__).with_name("page")
# in the order of use; together they are one function, so nothing leaks into the page
_SCRIPTS = (
    "colour.js",
    _PAGE / "sphere.js",
    "text.js",
    "parts.js",
    _PAGE / "layers.js",
    _PAGE / "viewer.js",
    _PAGE / "charts.js",
    "lines.js",
    _PAGE / "montecarlo.js",
    _PAGE / "maps.js",
    _PAGE / "page.js",
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
    from petamap.report.map_sheets import read_sheets
    from petamap.report.montecarlo_data import read_montecarlo

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
