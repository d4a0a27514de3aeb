"""Products of finished runs, read back: each is what its run has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray
from petamap.data.run_summary import Product, Summary, pixels_sha256
from petamap.sky.healpix import Healpix
from petamap.sky.image import ImagePixels
from petamap.sky.map_file import read_map
from petamap.sky.map_header import file_origin
from petamap.sky.sky_map import SkyMap

_MEND = "put back the file that the run has written, or run it again with --force"


def read_product(folder: Path, summary: Summary, product: Product) -> SkyMap:
    """Return a map that a run has written.

    Parameters
    ----------
    folder : Path
        That of the run.
    summary : Summary
        Of the run.
    product : Product
        One of its entries.

    Raises
    ------
    DataError
        If the file is missing or damaged, or is not that map: it names another run or another kind of
        product, or its pixels are not those of which the summary has the SHA-256.
    """
    path = folder / product.file
    found = read_map(path)
    run_id, kind = file_origin(path)
    if run_id and run_id != summary.run_id:
        raise DataError(f"is of run {run_id}, not of {summary.run_id}", where=str(path), mend=_MEND)
    if kind and kind != product.kind:
        raise DataError(f"is a product of kind {kind}, not {product.kind}", where=str(path), mend=_MEND)
    pixels = found.pixelization
    # An image has pixels beside those that were numbered; FITS has a checksum of them.
    if not isinstance(pixels, ImagePixels) or pixels.n_pix == summary.totals.pixels:
        require_pixels(path, product, found.values, *_in_other_order(found))
    return found


def require_pixels(path: Path, product: Product, *values: AnyArray) -> None:
    """Raise a DataError if no array of values is that of which a summary has the SHA-256."""
    if not any(pixels_sha256(one) == product.sha256 for one in values):
        what = "is not the file that the run has written: summary.json has the SHA-256 of other pixels"
        raise DataError(what, where=str(path), mend=_MEND)


def _in_other_order(found: SkyMap) -> list[AnyArray]:
    """Return the values in the order of the run, nested, where the file is in that of rings."""
    pixels = found.pixelization
    if not isinstance(pixels, Healpix) or pixels.nest:
        return []
    nested = Healpix(pixels.n_side, nest=True)
    return [found.values[:, nested.reordered(np.arange(pixels.n_pix))]]
