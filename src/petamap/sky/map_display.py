"""Sky maps as text and as a table of HTML: columns, units, pixels observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from petacomm.base.display import html_table

if TYPE_CHECKING:
    from petamap.sky.sky_map import SkyMap


def map_text(sky_map: SkyMap) -> str:
    """Return a line with columns, units, frame and pixels of a map."""
    if len(set(sky_map.units)) == 1:
        columns = ", ".join(sky_map.names) + (f" in {sky_map.units[0]}" if sky_map.units[0] else "")
    else:
        columns = ", ".join(
            f"{name} in {unit}" for name, unit in zip(sky_map.names, sky_map.units, strict=True)
        )
    return f"SkyMap({columns}, {_place(sky_map)})"


def map_html(sky_map: SkyMap) -> str:
    """Return a table of the columns of a map, with least, mean and greatest value."""
    rows = []
    for name, unit, column in zip(sky_map.names, sky_map.units, sky_map.values, strict=True):
        seen = column[np.isfinite(column)]
        with np.errstate(over="ignore"):
            numbers = (seen.min(), seen.mean(), seen.max(), seen.std()) if seen.size else (np.nan,) * 4
        rows.append((name, unit, f"{seen.size:,}", *(f"{number:.4g}" for number in numbers)))
    heads = ("column", "unit", "pixels observed", "least", "mean", "greatest", "standard deviation")
    return html_table(f"SkyMap: {_place(sky_map)}", rows, heads)


def _place(sky_map: SkyMap) -> str:
    n_seen, n_pix = np.count_nonzero(sky_map.observed), sky_map.values.shape[1]
    frame = "unknown frame" if sky_map.frame is None else sky_map.frame
    return f"{frame}, {sky_map.pixelization!r}, {n_seen:,} of {n_pix:,} pixels observed"
