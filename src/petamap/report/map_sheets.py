"""Layers of a report from the products of a run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.data.product_file import read_observed_product
from petamap.data.run_summary import Product, Summary
from petamap.report.embedding import MapLayer, MapSheet
from petamap.sky.observed_map import ObservedMap

Reader: TypeAlias = Callable[[Product], ObservedMap]

# The most maps of parts that are shown, and of bands with all that belongs to them.
_MOST_PARTS = 12
# Kinds of products that are shown, in the order of the page. The residual of a run is the binned map minus
# the maximum-likelihood map; if it was not written, their difference is shown instead.
_SHOWN = ("map", "sky", "binned", "filtered", "demodulated", "residual", "hits", "rcond", "part_map", "null")


def read_sheets(summary: Summary, folder: Path) -> list[MapSheet]:
    """Return the maps of a report, grouped by their pixels.

    At most two files are in memory at the same time.

    Raises
    ------
    DataError
        If a file is missing or not a map.
    """
    shown = [product for product in summary.products if product.kind in _SHOWN]
    if sum(product.kind == "part_map" for product in shown) > _MOST_PARTS:
        shown = [product for product in shown if product.kind not in ("part_map", "null")]
    if sum(product.kind == "map" for product in shown) > _MOST_PARTS:
        shown = [product for product in shown if product.kind == "map"]
    shown.sort(key=lambda product: _SHOWN.index(product.kind))
    kinds = {product.kind for product in shown}
    firsts = {product.of: product for product in shown if product.kind == "map"}
    subtract = "residual" not in kinds
    read = lru_cache(maxsize=2)(lambda product: read_observed_product(folder, summary, product))
    sheets: dict[str, MapSheet] = {}
    for product in shown:
        sky = read(product)
        sheet = sheets.setdefault(_key(sky), MapSheet(sky.pixelization, sky.frame or "", [], sky.pixels))
        sheet.layers.extend(_layers(product, sky, read))
        first = firsts.get(product.of)
        if product.kind == "binned" and subtract and first is not None and _match(read(first), sky):
            sheet.layers.extend(_difference(first, product, read))
    return list(sheets.values())


def _key(sky: ObservedMap) -> str:
    rows = "" if sky.pixels is None else hashlib.sha256(sky.pixels.data).hexdigest()
    return f"{sky.pixelization.describe()} {sky.frame} {rows}"


def _match(first: ObservedMap, second: ObservedMap) -> bool:
    return _key(first) == _key(second) and first.names == second.names


def _layers(product: Product, sky: ObservedMap, read: Reader) -> list[MapLayer]:
    """Return a layer for each column; a single column that is not a Stokes parameter has no name."""
    named = len(sky.names) > 1 or (sky.stokes is not None and product.kind not in ("hits", "rcond"))
    # pixels that were not observed have zero hits and zero condition
    empty = 0.0 if product.kind in ("hits", "rcond") else math.nan

    def values(column: int) -> FloatArray:
        stored = read(product).values[column]
        return np.where(stored == empty, np.nan, stored)

    return [
        MapLayer(product.name, product.kind, name if named else "", product.unit, partial(values, column))
        for column, name in enumerate(sky.names)
    ]


def _difference(first: Product, second: Product, read: Reader) -> list[MapLayer]:
    def values(column: int) -> FloatArray:
        difference: FloatArray = read(first).values[column] - read(second).values[column]
        return difference

    name = f"{first.name} − {second.name}"
    return [
        MapLayer(name, "difference", component, first.unit, partial(values, column))
        for column, component in enumerate(read(first).names)
    ]
