"""From the products of a run to the layers of its report."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.data.run_summary import Product, Summary
from petamap.report.embedding import Layer, Sheet
from petamap.sky.map_file import SkyMap, read_map

Reader: TypeAlias = Callable[[Product], SkyMap]

# The products that are pictures, in the order of the page. The residual of a run is the binned map less the
# maximum-likelihood map; where it was not kept, their difference is shown in its place.
_SHOWN = ("map", "binned", "residual", "hits", "rcond")


def read_sheets(summary: Summary, folder: Path) -> list[Sheet]:
    """Return the maps that the report shows; those with the same pixels stand on one sheet.

    Two files at most are in memory at any time.

    Raises
    ------
    DataError
        If a file is missing or no map.
    """
    shown = [product for product in summary.products if product.kind in _SHOWN]
    shown.sort(key=lambda product: _SHOWN.index(product.kind))
    read = lru_cache(maxsize=2)(lambda product: read_map(folder / product.file))
    sheets: dict[str, Sheet] = {}
    for product in shown:
        sky = read(product)
        sheet = sheets.setdefault(_key(sky), Sheet(sky.pixelization, sky.frame or "", []))
        sheet.layers.extend(_layers(product, sky, read))
        alone = not any(other.kind == "residual" for other in shown)
        if product.kind == "binned" and alone and shown[0].kind == "map" and _alike(read(shown[0]), sky):
            sheet.layers.extend(_difference(shown[0], product, read))
    return list(sheets.values())


def _key(sky: SkyMap) -> str:
    return f"{sky.pixelization.describe()} {sky.frame}"


def _alike(one: SkyMap, other: SkyMap) -> bool:
    return _key(one) == _key(other) and one.names == other.names


def _layers(product: Product, sky: SkyMap, read: Reader) -> list[Layer]:
    """Return a layer for each column; a single column that is no Stokes parameter needs no name."""
    named = len(sky.names) > 1 or (sky.stokes is not None and product.kind not in ("hits", "rcond"))
    # a pixel that nobody looked at has no hits and no condition; it is not part of the map
    empty = 0.0 if product.kind in ("hits", "rcond") else math.nan

    def values(column: int) -> FloatArray:
        found = read(product).values[column]
        kept: FloatArray = np.where(found == empty, np.nan, found)
        return kept

    return [
        Layer(product.name, product.kind, name if named else "", product.unit, partial(values, column))
        for column, name in enumerate(sky.names)
    ]


def _difference(first: Product, second: Product, read: Reader) -> list[Layer]:
    def values(column: int) -> FloatArray:
        difference: FloatArray = read(first).values[column] - read(second).values[column]
        return difference

    name = f"{first.name} − {second.name}"
    return [
        Layer(name, "difference", component, first.unit, partial(values, column))
        for column, component in enumerate(read(first).names)
    ]
