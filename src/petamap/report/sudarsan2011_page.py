"""Page of the reproduced figures of Sudarsan et al. 2011."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.report.page import write_page
from petamap.papers.sudarsan2011.figures import Sudarsan2011Results
from petamap.papers.sudarsan2011.overlaps import RankOverlaps
from petamap.papers.sudarsan2011.text import sudarsan2011_json

_SCRIPTS = ("text.js", "parts.js", "lines.js", Path(__file__).with_name("page") / "paper.js")
_POINTS = 512  # largest number of points of a curve


def write_paper_page(figures: Sudarsan2011Results, path: str | os.PathLike[str]) -> Path:
    """Write the page of the figures, and return its path.

    Raises
    ------
    ResourceError
        If the page cannot be written.
    """
    data = sudarsan2011_json(figures) | {"overlaps": [_curve(overlaps) for overlaps in figures.overlaps]}
    return write_page(
        path,
        "The figures of Sudarsan et al. 2011",
        "petamap",
        "what <code>petamap plan paper --json</code> writes",
        data,
        _SCRIPTS,
    )


def _curve(overlaps: RankOverlaps) -> dict[str, Any]:
    """Return the numbers of keys shared with other ranks, thinned logarithmically to `_POINTS` ranks."""
    others = np.arange(1, overlaps.size)
    if len(others) > _POINTS:
        others = np.unique(np.geomspace(1, overlaps.size - 1, _POINTS).astype(np.int64))
    return {
        "ranks": overlaps.size,
        "keys": int(overlaps.counts[0]),
        "points": np.stack([others, overlaps.counts[others]], axis=1).tolist(),
    }
