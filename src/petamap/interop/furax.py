"""furax: its operators from a map to time streams as pointing, which `petamap.make_map` takes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, Float32Array, FloatArray
from petamap.pointing.angles import fractions_of_turns
from petamap.pointing.recorded import RecordedPixels
from petamap.pointing.stokes_weights import response_angles
from petamap.sky.healpix import Healpix

_DIGIT = 1 << 10  # of pixel numbers, which are exact in float32
_SAME = 2e-6  # difference of polarization efficiencies of a detector's samples


def furax_pointing(operator: Any, nest: bool = False) -> RecordedPixels:
    """Return what an operator of furax reads of a HEALPix map: a pixel and its weights for each sample.

    The operator is asked: what it makes of maps that are 1 in I, Q or U are the weights, and what it makes of
    digits of pixel numbers are pixels. So any composition serves, with half-wave plates and polarizers, that
    reads one pixel a sample. Samples that see nothing are outside of the map.

    Parameters
    ----------
    operator : AbstractLinearOperator
        From a `Stokes` map of I, QU or IQU to samples (n_det, n_samp), or to a `Stokes` of these, of which
        detectors see I + Q.
    nest : bool
        Order of the pixels of its landscape.

    Returns
    -------
    RecordedPixels
        12 bytes a sample, or 8 if the weight of I is the same for all; as ``pointing`` of
        `petamap.make_map`.

    Raises
    ------
    DataError
        If it reads other than one pixel a sample, the map is none of HEALPix, or the polarization
        efficiency of a detector changes.
    """
    asked = _Asked(operator)
    weights = {name: asked.samples({name: jnp.ones(asked.n_pix)}) for name in asked.stokes}
    pixels = asked.pixels(weights)
    intensity = weights.get("I")
    q, u = weights.get("Q"), weights.get("U")
    angles = None
    if q is not None and u is not None:
        angles = fractions_of_turns(response_angles(1.0 if intensity is None else intensity, q, u))
    polarized = None if q is None or u is None else np.hypot(q, u)
    gains = intensity if polarized is None or intensity is not None else polarized
    assert gains is not None, "maps have I, or Q and U"
    del weights
    efficiencies = [
        0.0 if polarized is None else _efficiency(row, gains[row], polarized[row], pixels[row])
        for row in range(len(pixels))
    ]
    return RecordedPixels(
        pixels, asked.pixelization(nest), gains=_kept_gains(gains, pixels), angles=angles,
        efficiencies=efficiencies, intensities=[0.0 if intensity is None else 1.0] * len(pixels),
    )  # fmt: skip


class _Asked:
    """An operator, and what it makes of maps."""

    def __init__(self, operator: Any) -> None:
        self._operator, structure = operator, operator.in_structure
        self.stokes = str(getattr(structure, "stokes", ""))
        if self.stokes not in ("I", "QU", "IQU") or len(structure.shape) != 1:
            raise DataError(
                f"furax's operator takes {structure}", mend="give one of Stokes maps of HEALPix: I, QU, IQU"
            )
        self.n_pix, self._type, self._dtype = structure.shape[0], type(structure), structure.dtype

    def pixelization(self, nest: bool) -> Healpix:
        n_side = round((self.n_pix / 12) ** 0.5)
        if 12 * n_side**2 != self.n_pix:
            raise DataError(f"{self.n_pix} pixels are no HEALPix map")
        return Healpix(n_side, nest)

    def samples(self, maps: dict[str, Any]) -> FloatArray:
        """Return what samples read of a map with these components, (n_det, n_samp)."""
        none = jnp.zeros(self.n_pix, self._dtype)
        given = {name.lower(): jnp.asarray(maps.get(name, none), self._dtype) for name in self.stokes}
        found = self._operator.mv(self._type(**given))
        if hasattr(found, "stokes"):
            parts = [getattr(found, name.lower()) for name in "IQ" if name in found.stokes]
            found = sum(parts[1:], parts[0])
        array = np.asarray(jax.device_get(found), np.float64)
        if array.ndim != 2:
            raise DataError(f"furax's operator makes {array.shape}", mend="samples are (n_det, n_samp)")
        return array

    def pixels(self, weights: dict[str, FloatArray]) -> AnyArray:
        """Return the pixel of each sample, int32 (n_det, n_samp), -1 where it sees nothing."""
        names = ["I"] if "I" in weights else ["Q", "U"]
        norm: FloatArray = np.sum([weights[name] ** 2 for name in names], axis=0)
        seen = norm > 0
        found = np.zeros(seen.shape, np.int64)
        numbers, scale = np.arange(self.n_pix), 1
        while scale < self.n_pix:
            digits = jnp.asarray(numbers // scale % _DIGIT)
            read = sum(weights[name] * self.samples({name: digits}) for name in names)
            with np.errstate(divide="ignore", invalid="ignore"):
                digit = np.where(seen, read / norm, 0.0)
            off = np.abs(digit - np.round(digit)) > 0.01
            if off.any():
                detector, sample = np.argwhere(off)[0]
                raise DataError(
                    "furax's operator reads several pixels", where=f"detector {detector}, sample {sample}",
                    mend="give it without interpolation and without beam",
                )  # fmt: skip
            found += scale * np.round(digit).astype(np.int64)
            scale *= _DIGIT
        return np.where(seen, found, -1).astype(np.int32)


def _kept_gains(gains: FloatArray, pixels: AnyArray) -> Any:
    """Return weights of I, as nothing if all are 1, or as a number of each detector."""
    seen = pixels >= 0
    first = [float(row[one.argmax()]) for row, one in zip(gains, seen, strict=True)]
    if not (np.abs(gains - np.array(first)[:, None]) <= _SAME * np.abs(gains))[seen].all():
        return gains.astype(np.float32)
    if all(abs(one - 1) <= _SAME or not some.any() for one, some in zip(first, seen, strict=True)):
        return None

    def read(detector: int, start: int, stop: int) -> Float32Array:
        return np.full(stop - start, first[detector], np.float32)

    return read


def _efficiency(detector: int, gains: FloatArray, polarized: FloatArray, pixels: AnyArray) -> float:
    """Return the polarization efficiency of a detector, which all of its samples have."""
    seen = (pixels >= 0) & (gains != 0)
    if not seen.any():
        return 0.0
    each = polarized[seen] / np.abs(gains[seen])
    if np.ptp(each) > 10 * _SAME:
        raise DataError(
            f"polarization efficiencies from {each.min():.7g} to {each.max():.7g}",
            where=f"detector {detector}", mend="one number, 0 to 1, a detector",
        )  # fmt: skip
    return float(min(np.median(each), 1.0))
