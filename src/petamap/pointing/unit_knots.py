"""Quaternions of knots: of length 1, with signs for interpolation, and steps that are not too wide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import numeric_array
from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray

LARGEST_STEP = np.pi / 2
_AT_ONCE = 1 << 14  # knots that are normalized at once, in cache


def unit_quaternions(
    quaternions: npt.ArrayLike, what: str = "knot", *, overwrite: bool = False
) -> FloatArray:
    """Return normalized quaternions (n, 4), float64; in place if they may be overwritten.

    Raises
    ------
    DataError
        If a quaternion is zero or not finite; names the first, as a `what`.
    """
    q = np.atleast_2d(numeric_array(quaternions, f"quaternions of {what}s"))
    if q.ndim != 2 or q.shape[1] != 4 or len(q) == 0:
        raise DataError(f"quaternions of shape {q.shape} where (n, 4) is needed")
    in_place = overwrite and q.dtype == np.float64 and q.flags.carray
    unit: FloatArray = q if in_place else np.empty(q.shape)
    for begin in range(0, len(q), _AT_ONCE):
        x, y, z, w = part = np.array(q[begin : begin + _AT_ONCE].T, np.float64, order="C")
        with np.errstate(invalid="ignore", over="ignore"):
            norms = np.sqrt(x * x + y * y + z * z + w * w)
        bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 1e-6)))
        if len(bad):
            first = int(bad[0])
            values, where = part[:, first].tolist(), f"{what} {begin + first}"
            raise DataError(f"quaternion {values} is no rotation", where=where)
        unit[begin : begin + _AT_ONCE] = (part / norms).T
    return unit


def align_knots(knots: FloatArray) -> None:
    """Give knots the signs of `quaternion.align_signs`, in place, and check that steps are small."""
    sign = 1.0
    for begin in range(0, len(knots) - 1, _AT_ONCE):
        part = knots[begin : begin + _AT_ONCE + 1]
        x, y, z, w = part[1:].T * part[:-1].T
        cosines = x + y + z + w
        cosines[0] *= sign  # the first knot has its sign already
        _check_steps(np.abs(cosines), begin)
        flips = cosines < 0
        if sign < 0 or flips.any():
            signs = np.where(np.cumsum(flips) % 2 == 1, -sign, sign)
            part[1:] *= signs[:, None]
            sign = float(signs[-1])


def _check_steps(cosines: FloatArray, first: int) -> None:
    """Check steps from knot `first` on, given the cosines of half their angles."""
    wide = np.flatnonzero(~(cosines > np.cos(LARGEST_STEP / 2)))
    if len(wide):
        turn = np.degrees(2 * np.arccos(min(1.0, cosines[wide[0]])))
        raise DataError(
            f"turns by {turn:.0f} deg to the next knot",
            where=f"knot {first + wide[0]}",
            mend="give knots less than 90 deg apart",
        )


def unit_knots(pieces: Sequence[FloatArray]) -> list[FloatArray]:
    """Return the knots of pieces as they are where each is a boresight, made at once: pieces may be many.

    Raises
    ------
    DataError
        See `unit_quaternions`; a knot is named by its number among those of all pieces.
    """
    several = [np.repeat(piece, 2, axis=0) if len(piece) == 1 else piece for piece in pieces]
    bounds = np.cumsum([0, *map(len, several)])
    knots = unit_quaternions(np.concatenate(several), overwrite=True)
    x, y, z, w = knots[1:].T * knots[:-1].T
    cosines = x + y + z + w
    cosines[bounds[1:-1] - 1] = 1.0  # from one piece to the next
    _check_steps(np.abs(cosines), 0)
    flips = np.concatenate([[0], np.cumsum(cosines < 0)])
    knots[(flips - np.repeat(flips[bounds[:-1]], np.diff(bounds))) % 2 == 1] *= -1.0
    knots.flags.writeable = False
    return [knots[begin:end] for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
