"""The page of the tables of Almasi et al. 2005 made again."""

from __future__ import annotations

import os
from pathlib import Path

from petacomm.base.files import replacing
from petacomm.papers.almasi2005.tables import Retelling
from petacomm.papers.almasi2005.text import as_json
from petacomm.report.page import assembled

_SCRIPTS = ("text.js", "parts.js", "lines.js", "network.js")


def write_network(found: Retelling, path: str | os.PathLike[str]) -> Path:
    """Write the page, and return its path.

    Raises
    ------
    ResourceError
        If it cannot be written.
    """
    text = assembled(
        "The tables of Almasi et al. 2005 – petacomm",
        "what <code>petacomm net paper --json</code> writes",
        as_json(found),
        _SCRIPTS,
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
