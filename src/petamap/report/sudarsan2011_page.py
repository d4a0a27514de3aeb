"""The page of the source's figures made again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.files import replacing
from petacomm.report.page import assembled
from petamap.papers.sudarsan2011.figures import Retelling
from petamap.papers.sudarsan2011.overlaps import Overlaps
from petamap.papers.sudarsan2011.text import as_json

_SCRIPTS = ("text.js", "parts.js", "lines.js", Path(__file__).with_name("page") / "paper.js")
# Points of a curve; a page stays small.
_POINTS = 512


def write_paper(found: Retelling, path: str | os.PathLike[str]) -> Path:
    """Write the page, and return its path.

    Raises
    ------
    ResourceError
        If it cannot be written.
    """
    data = as_json(found) | {"overlaps": [_curve(overlaps) for overlaps in found.overlaps]}
    text = assembled(
        "The figures of Sudarsan et al. 2011 – petamap",
        "what <code>petamap plan paper --json</code> writes",
        data,
        _SCRIPTS,
    )
    with replacing(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def _curve(overlaps: Overlaps) -> dict[str, Any]:
    """Return the keys shared with the other ranks; of many ranks those at equal steps of the logarithm."""
    others = np.arange(1, overlaps.size)
    if len(others) > _POINTS:
        others = np.unique(np.geomspace(1, overlaps.size - 1, _POINTS).astype(np.int64))
    return {
        "ranks": overlaps.size,
        "keys": int(overlaps.counts[0]),
        "points": np.stack([others, overlaps.counts[others]], axis=1).tolist(),
    }
