"""HTML page of the reproduced tables of Almasi et al. 2005."""

from __future__ import annotations

import os
from pathlib import Path

from petacomm.base.files import atomic_write
from petacomm.papers.almasi2005.tables import Almasi2005Results
from petacomm.papers.almasi2005.text import almasi2005_json
from petacomm.report.page import assemble_page

_SCRIPTS = ("text.js", "parts.js", "lines.js", "network.js")


def write_almasi2005_page(results: Almasi2005Results, path: str | os.PathLike[str]) -> Path:
    """Write the page, and return its path.

    Raises
    ------
    ResourceError
        If it cannot be written.
    """
    text = assemble_page(
        "The tables of Almasi et al. 2005 – petacomm",
        "what <code>petacomm net paper --json</code> writes",
        almasi2005_json(results),
        _SCRIPTS,
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
