"""HTML page of the reproduced tables of Almasi et al. 2005."""

from __future__ import annotations

import os
from pathlib import Path

from petacomm.papers.almasi2005.tables import Almasi2005Results
from petacomm.papers.almasi2005.text import almasi2005_json
from petacomm.report.page import write_page

_SCRIPTS = ("text.js", "parts.js", "lines.js", "network.js")


def write_almasi2005_page(results: Almasi2005Results, path: str | os.PathLike[str]) -> Path:
    """Write the page, and return its path.

    Raises
    ------
    ResourceError
        If it cannot be written.
    """
    return write_page(
        path,
        "The tables of Almasi et al. 2005",
        "petacomm",
        "what <code>petacomm net paper --json</code> writes",
        almasi2005_json(results),
        _SCRIPTS,
    )
