"""Report of a run: a self-contained HTML page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from petacomm.base.files import write_text
from petacomm.base.records import to_json
from petacomm.report.page import assemble_page
from petamap.data.run_summary import Summary
from petamap.report.embedding import MapSheet, embed_maps

FILE_NAME = "report.html"
_PAGE = Path(__file__).with_name("page")
# in the order of use; they are joined in one function, so that nothing is global in the page
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
    """Write ``report.html`` from the summary, maps and realizations in a folder.

    Parameters
    ----------
    out_dir : path
        Folder of a finished run.

    Returns
    -------
    Path
        Path of the page.

    Raises
    ------
    DataError
        If the summary, a map file or the Monte Carlo file cannot be read.
    ResourceError
        If the page cannot be written.

    Examples
    --------
    >>> import petamap
    >>> petamap.write_report("no-such-run")
    Traceback (most recent call last):
    petacomm.base.errors.DataError: no-such-run/summary.json: cannot be read: ...
    """
    from petamap.report.amplitude_data import read_amplitude_data
    from petamap.report.map_sheets import read_sheets
    from petamap.report.montecarlo_data import read_montecarlo_data

    folder = Path(out_dir)
    summary = Summary.read(folder)
    path = folder / FILE_NAME
    amplitudes = read_amplitude_data(summary, folder)
    write_text(
        path, report_page(summary, read_sheets(summary, folder), read_montecarlo_data(folder), amplitudes)
    )
    return path


def report_page(
    summary: Summary,
    sheets: list[MapSheet],
    montecarlo: dict[str, Any] | None = None,
    amplitudes: Sequence[dict[str, Any]] = (),
) -> str:
    """Return the HTML of the report; names and texts are escaped."""
    data = {"summary": to_json(summary), "montecarlo": montecarlo, "amplitudes": [*amplitudes]}
    data |= embed_maps(sheets)
    return assemble_page(
        summary.title or summary.name, "petamap", "<code>summary.json</code>", data, _SCRIPTS
    )
