"""Products of finished runs, read back: each is what its run has written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray
from petamap.data.run_summary import Product, Summary, pixels_sha256
from petamap.sky.healpix import Healpix
from petamap.sky.image import ImagePixels
from petamap.sky.map_file import read_observed
from petamap.sky.map_header import file_origin
from petamap.sky.observed_map import ObservedMap
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
    return read_observed_product(folder, summary, product).sky_map


def read_observed_product(folder: Path, summary: Summary, product: Product) -> ObservedMap:
    """Return what `read_product` does, holding no pixels but those in the file."""
    path = folder / product.file
    found = read_observed(path)
    run_id, kind = file_origin(path)
    if run_id and run_id != summary.run_id:
        raise DataError(f"is of run {run_id}, not of {summary.run_id}", where=str(path), mend=_MEND)
    if kind and kind != product.kind:
        raise DataError(f"is a product of kind {kind}, not {product.kind}", where=str(path), mend=_MEND)
    pixels = found.pixelization
    # An image has pixels beside those that were numbered; FITS has a checksum of them.
    known = not isinstance(pixels, ImagePixels) or pixels.n_pix == summary.totals.pixels
    if known and product.sha256 not in _hashes(found):
        raise _other_pixels(path)
    return found


def require_pixels(path: Path, product: Product, values: AnyArray) -> None:
    """Raise a DataError if values of a table are not those of which a summary has the SHA-256."""
    if product.sha256 != pixels_sha256(values):
        raise _other_pixels(path)


def _other_pixels(path: Path) -> DataError:
    what = "is not the file that the run has written: summary.json has the SHA-256 of other pixels"
    return DataError(what, where=str(path), mend=_MEND)


def _hashes(found: ObservedMap) -> Iterator[str]:
    """Yield the hashes that the run of a map may have, also of nested order where its file has rings."""
    pixels = found.pixelization
    yield found.sha256()
    in_rings = isinstance(pixels, Healpix) and not pixels.nest
    if isinstance(pixels, Healpix) and in_rings:
        own = np.arange(pixels.n_pix) if found.pixels is None else found.pixels
        yield found.sha256(pixels.reordered(own))
    # earlier versions had one hash of all pixels, which all were in their files
    if found.pixels is None:
        yield pixels_sha256(found.values)
        if isinstance(pixels, Healpix) and in_rings:
            nested = Healpix(pixels.n_side, nest=True).reordered(np.arange(pixels.n_pix))
            yield pixels_sha256(found.values[:, nested])
