"""From the products of a run to the layers of its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from petamap.base.summary import Product, Summary
from petamap.report.embedding import Layer, Sheet
from petamap.sky.mapfile import read_map

if TYPE_CHECKING:
    from petamap.sky.mapfile import SkyMap

# the products that are pictures, in the order of the page; the difference follows the binned map
_SHOWN = ("map", "binned", "residual", "hits", "rcond")


def read_sheets(summary: Summary, folder: Path) -> list[Sheet]:
    """Read the maps that the report shows; those with the same pixels stand on one sheet.

    Raises
    ------
    DataError
        If a file is missing or no map.
    """
    shown = [product for product in summary.products if product.kind in _SHOWN]
    shown.sort(key=lambda product: _SHOWN.index(product.kind))
    read = [(product, read_map(folder / product.file)) for product in shown]
    sheets: dict[str, Sheet] = {}
    for product, sky in read:
        key = f"{sky.pixelization.describe()} {sky.frame}"
        sheet = sheets.setdefault(key, Sheet(sky.pixelization, sky.frame or "", []))
        sheet.layers.extend(_layers(product.name, product.kind, product.unit, sky))
        if product.kind == "binned":
            sheet.layers.extend(_difference(read[0], product, sky))
    return list(sheets.values())


def _layers(name: str, kind: str, unit: str, sky: SkyMap) -> list[Layer]:
    components = (
        sky.names if sky.stokes is not None and kind not in ("hits", "rcond") else [""] * len(sky.names)
    )
    if len(sky.names) > 1 and not any(components):
        components = sky.names
    return [
        Layer(name, kind, component, unit, values)
        for component, values in zip(components, sky.values, strict=True)
    ]


def _difference(first: tuple[Product, SkyMap], binned: Product, sky: SkyMap) -> list[Layer]:
    """Return the maximum-likelihood map less the binned one, where there are both on the same pixels."""
    product, other = first
    same = other.pixelization.describe() == sky.pixelization.describe() and other.names == sky.names
    if product.kind != "map" or not same:
        return []
    difference = [a - b for a, b in zip(other.values, sky.values, strict=True)]
    name = f"{product.name} − {binned.name}"
    return [
        Layer(name, "difference", component, product.unit, np.asarray(values))
        for component, values in zip(sky.names, difference, strict=True)
    ]
