"""Maps of finished runs, and masks for them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import BoolArray, FloatArray
from petacomm.mpi import Communicator
from petamap.data.product_file import read_product, require_pixels
from petamap.data.run_summary import Product, Summary
from petamap.sky.covariance_file import PixelCovariance, read_pixel_covariance
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map
from petamap.sky.sky_map import SkyMap

Weighting = Literal["auto", "covariance", "hits", "uniform"]
WEIGHTINGS: tuple[Weighting, ...] = ("auto", "covariance", "hits", "uniform")


class RunMaps:
    """Maps of a finished run.

    Parameters
    ----------
    folder : Path
        With ``summary.json``.
    of : str
        Band or component whose map is meant, where the run has several.
    kind : str
        Kind of the map: that of the run ("map"), or "filtered".

    Raises
    ------
    ConfigError
        If there are maps of others alone.
    DataError
        If there is no map of HEALPix pixels.
    """

    def __init__(self, folder: Path, of: str = "", kind: str = "map") -> None:
        self.folder, self.of, self.kind = folder, of, kind
        self.summary = Summary.read(folder)
        self._require_named()
        product = self._product(kind) or (self._product("binned") if kind == "map" else None)
        if product is None:
            what, mend = "map", None
            if kind == "filtered":
                what, mend = "filter-and-bin map", "set products.filtered = true"
            raise DataError(f"the run has written no {what}", where=str(folder), mend=mend)
        self.path = folder / product.file
        self.sky = read_product(folder, self.summary, product)
        if not isinstance(self.sky.pixelization, Healpix):
            raise DataError("spectra need a HEALPix map", where=str(self.path))
        self.pixelization = self.sky.pixelization

    def _product(self, kind: str) -> Product | None:
        """Return the entry of a product; None where the run has not written it."""
        products = [product for product in self.summary.products if product.kind == kind]
        # what all have in common, as hits of components, is of none
        return next((one for of in (self.of, "") for one in products if one.of == of), None)

    def _require_named(self) -> None:
        """Raise a ConfigError if the name is not that of a map, or none is given and there are several."""
        products = self.summary.products
        names = list(dict.fromkeys(one.of for one in products if one.kind in ("map", "binned")))
        if self.of not in names and any(names):
            what = (
                f"there is no map of '{self.of}'"
                if self.of
                else "the run has a map of each band or component"
            )
            raise ConfigError(what, where=str(self.folder), mend=f"choose --of one of {', '.join(names)}")
        if self.of and not any(names):
            raise ConfigError("the run has one map", where=str(self.folder), mend="leave --of away")

    def _values(self, kind: str) -> SkyMap | None:
        product = self._product(kind)
        return None if product is None else read_product(self.folder, self.summary, product)

    @property
    def pixel_covariance(self) -> PixelCovariance | None:
        """Covariance of the map's pixels; None where the run has not written it."""
        product = self._product("pixel_covariance")
        if product is None:
            return None
        found = read_pixel_covariance(self.folder / product.file)
        require_pixels(self.folder / product.file, product, found.values)
        return found

    @property
    def seen(self) -> FloatArray:
        """1 where the map has values, else 0, float64 (n_pix,)."""
        return np.asarray(np.isfinite(self.sky.values).all(axis=0), np.float64)

    @cached_property
    def hits(self) -> FloatArray | None:
        """Samples in each pixel, float64 (n_pix,)."""
        found = self._values("hits")
        return None if found is None else np.nan_to_num(found.values[0])

    @cached_property
    def variances(self) -> dict[str, FloatArray]:
        """White variance of ``I``, and of Q and U on average, ``QU``, float64 (n_pix,); nan where unknown.

        Empty where the run has written no covariance.
        """
        found = self._values("covariance")
        if found is None:
            return {}
        columns = dict(zip(found.names, found.values, strict=True))
        variances = {"I": columns["II"]} if "II" in columns else {}
        return variances | ({"QU": 0.5 * (columns["QQ"] + columns["UU"])} if "QQ" in columns else {})

    def weights(self, choice: Weighting) -> tuple[FloatArray, FloatArray]:
        """Return weights of I and of Q and U, at most 1, each float64 (n_pix,).

        ``covariance`` are 1 / sigma^2. ``auto`` are 1 / (sigma^2 + S) with S the variance of the sky in a
        pixel, so that a map with more sky than noise is weighted evenly (Feldman, Kaiser & Peacock 1994);
        without covariance hits, without hits all alike.

        Raises
        ------
        ConfigError
            If the run has not written what the choice needs.
        """
        if choice in ("auto", "covariance") and self.variances:
            weights = [self._inverse(letters, choice == "auto") for letters in self.variances]
            return weights[0], weights[-1]
        if choice in ("auto", "hits") and self.hits is not None:
            hits = self.seen * self.hits / self.hits.max(initial=1.0)
            return hits, hits
        if choice in ("hits", "covariance"):
            raise ConfigError(
                f"the run has written no {choice}", where=str(self.folder), mend="take --weights uniform"
            )
        return self.seen, self.seen

    def _inverse(self, letters: str, with_sky: bool) -> FloatArray:
        """Return 1 / variance over its maximum; 0 where the variance is unknown."""
        variance, sky = self.variances[letters], 0.0
        known = (self.seen > 0) & (variance > 0)
        if with_sky and known.any():
            rows = self.sky.values[[self.sky.names.index(letter) for letter in letters]][:, known]
            # by medians: the Galaxy must not count
            deviation = np.median(np.abs(rows - np.median(rows, axis=1, keepdims=True))) / 0.6745
            sky = max(float(deviation**2 - np.median(variance[known])), 0.0)
        return inverse_variance(variance, known, sky)


def inverse_variance(
    variance: FloatArray, known: BoolArray, sky: float, comm: Communicator | None = None
) -> FloatArray:
    """Return 1 / (variance + sky) over its maximum where the variance is known, else 0, float64 (n_pix,).

    The maximum is that of all ranks of `comm`. Collective on it.
    """
    inverse, inside = np.zeros(len(variance)), variance[known] + sky
    least = float(inside.min(initial=np.inf))
    inverse[known] = (least if comm is None else -comm.max(-least)) / inside
    return inverse


def require_mask(path: Path) -> None:
    """Raise a DataError unless a file has a HEALPix map."""
    if not isinstance(read_map(path).pixelization, Healpix):
        raise DataError("the mask has no HEALPix pixels", where=str(path), mend="name a HEALPix map")


def read_mask(path: Path, pixelization: Healpix, frame: str | None, threshold: float = 0.5) -> FloatArray:
    """Return a mask in the order of the pixels, float64 (n_pix,): its values, 0 where below `threshold`.

    Raises
    ------
    DataError
        If it has another n_side or frame, or is not between 0 and 1.
    """
    found = read_map(path)
    other = found.pixelization
    if not isinstance(other, Healpix) or other.n_side != pixelization.n_side:
        has = f"n_side {other.n_side}" if isinstance(other, Healpix) else "no HEALPix pixels"
        raise DataError(
            f"the mask has {has}, the map n_side {pixelization.n_side}", where=str(path),
            mend="bring the mask to the map's n_side",
        )  # fmt: skip
    if frame and found.frame and frame != found.frame:
        raise DataError(f"the mask is {found.frame}, the map {frame}", where=str(path))
    values = np.nan_to_num(found.values[0])
    if values.min() < 0 or values.max() > 1:
        raise DataError(f"is no mask: from {values.min():g} to {values.max():g}", where=str(path))
    if other.nest != pixelization.nest:
        values = values[pixelization.reordered(np.arange(pixelization.n_pix))]
    return np.where(values >= threshold, values, 0.0)
