"""Boresight of the telescope: quaternions at uniform knots, interpolation, and its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass
from itertools import accumulate, pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from petacomm.base.display import Displayed
from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.base.units import ARCSEC
from petamap.pointing import _pointing, quaternion
from petamap.pointing.unit_knots import LARGEST_STEP, align_knots, unit_knots, unit_quaternions

Order = Literal["slerp", "cubic"]

_PARTS = "knots", "n_samp", "spacing", "offset", "order"
# arguments of the kernels for no half-wave plate
NO_PLATE = (0, 0, 0, np.zeros(0), 1.0, 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Boresight(Displayed):
    """Boresight quaternions at uniform knots, with interpolation between them.

    "slerp" is a rotation at constant rate about a fixed axis between two knots; its error is
    h^2 |d omega/dt| / 8 for knots h seconds apart. "cubic" interpolates the rotation vectors of the four
    nearest knots by a cubic polynomial; its error is at most 3/128 h^4 |d^3 omega/dt^3| in the interior, and
    1/24 h^4 |d^3 omega/dt^3| in the first and last interval. Both are exact for a constant rotation.

    Parameters
    ----------
    knots : (n_knots, 4) float64
        Quaternions (x, y, z, w) from the telescope frame (Z the line of sight) to the sky frame; normalized
        by the constructor.
    n_samp : int
        Number of samples of the observation.
    spacing : float
        Distance of knots in samples; need not be an integer.
    offset : float
        Position of knot 0 in samples, at most 0.
    order : "slerp" or "cubic"
        "cubic" falls back to "slerp" for fewer than 4 knots.
    overwrite : bool
        Whether normalized knots may take the place of those given, which then need no memory of their own.

    Raises
    ------
    DataError
        If a quaternion is zero or not finite, if consecutive knots are 90 degrees or more apart (naming the
        knot), or if knots do not cover all samples.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> half = 0.005 * np.arange(11)  # a rotation about Z, a knot every 10 samples
    >>> knots = np.stack([0 * half, 0 * half, np.sin(half), np.cos(half)], axis=1)
    >>> boresight = petamap.Boresight(knots, n_samp=101, spacing=10.0)
    >>> boresight.quaternions(50, 52).shape
    (2, 4)
    """

    knots: FloatArray
    n_samp: int
    spacing: float = 1.0
    offset: float = 0.0
    order: Order = "cubic"
    overwrite: InitVar[bool] = False

    def _facts(self) -> dict[str, object]:
        return {
            "n_samp": f"{self.n_samp:,}",
            "knots": f"{len(self.knots):,}",
            "spacing": f"{self.spacing:g} samples",
            "order": self.order,
        }

    def __post_init__(self, overwrite: bool) -> None:
        if self.n_samp < 1:
            raise DataError("an observation needs at least one sample")
        if not (np.isfinite(self.spacing) and self.spacing > 0 and np.isfinite(self.offset)):
            raise DataError(f"knots at offset {self.offset} with spacing {self.spacing} are not increasing")
        knots = unit_quaternions(self.knots, overwrite=overwrite)
        if len(knots) == 1:
            knots = np.repeat(knots, 2, axis=0)
        self._check_coverage(len(knots))
        align_knots(knots)
        knots.flags.writeable = False
        object.__setattr__(self, "knots", knots)

    def _check_coverage(self, n_knots: int) -> None:
        first, last = self.offset, self.offset + (n_knots - 1) * self.spacing
        slack = 1e-6 * self.spacing
        if first > slack or last < self.n_samp - 1 - slack:
            raise DataError(
                f"knots reach from sample {first:g} to {last:g}, the observation from 0 to {self.n_samp - 1}",
                mend="give a knot at or beyond each end",
            )

    @property
    def degree(self) -> int:
        """Polynomial degree of the interpolation: 1 or 3."""
        return 3 if self.order == "cubic" and len(self.knots) >= 4 else 1

    def rotated(self, rotation: FloatArray) -> Boresight:
        """Return the boresight in another sky frame.

        Parameters
        ----------
        rotation : float64 (4,)
            Quaternion from this frame to the other, by which all knots are multiplied from the left.

        Returns
        -------
        Boresight
        """
        return Boresight(
            quaternion.multiply(rotation, self.knots), self.n_samp, self.spacing, self.offset, self.order
        )

    def quaternions(self, start: int, stop: int) -> FloatArray:
        """Return the interpolated quaternions of samples [start, stop).

        Parameters
        ----------
        start, stop : int
            Range of samples.

        Returns
        -------
        float64 (stop - start, 4)

        Raises
        ------
        DataError
            If the samples lie outside the observation.
        """
        return _interpolate(self, start, stop)

    def decimated(self, stride: int, first: int = 0) -> Boresight:
        """Return the boresight of every `stride`-th sample.

        Parameters
        ----------
        stride : int
            Distance of the samples.
        first : int
            First sample that is kept.

        Returns
        -------
        Boresight
            With the same knots.
        """
        n_samp = (self.n_samp - 1 - first) // stride + 1
        offset = (self.offset - first) / stride
        return Boresight(self.knots, n_samp, self.spacing / stride, offset, self.order)

    @property
    def pieces(self) -> tuple[Boresight, ...]:
        """The boresight itself, as the only piece."""
        return (self,)


@dataclass(frozen=True, eq=False)
class PiecewiseBoresight:
    """Boresights of consecutive ranges of samples, each with knots of its own.

    No knots of one piece are used in another, so that interpolation keeps its order where the acceleration
    jumps, as at the turn-arounds of a telescope.

    Parameters
    ----------
    pieces : sequence of Boresight
        Their samples follow each other; `offset` of each is relative to its own first sample.

    Raises
    ------
    DataError
        If there are no pieces.
    """

    pieces: Sequence[Boresight]

    def __post_init__(self) -> None:
        if not self.pieces:
            raise DataError("an observation needs at least one sample")
        object.__setattr__(self, "pieces", tuple(self.pieces))

    @property
    def n_samp(self) -> int:
        """Number of samples of the observation."""
        return sum(piece.n_samp for piece in self.pieces)

    def rotated(self, rotation: FloatArray) -> PiecewiseBoresight:
        """Return the boresight in another sky frame, as `Boresight.rotated` does."""
        knots = np.concatenate([piece.knots for piece in self.pieces])
        bounds = np.cumsum([0, *(len(piece.knots) for piece in self.pieces)]).tolist()
        turned = quaternion.multiply(rotation, knots)
        return piecewise_boresight(
            [turned[begin:end] for begin, end in pairwise(bounds)],
            [(piece.n_samp, piece.spacing, piece.offset, piece.order) for piece in self.pieces],
        )

    def quaternions(self, start: int, stop: int) -> FloatArray:
        """Return the interpolated quaternions of samples [start, stop), as `Boresight.quaternions` does."""
        return _interpolate(self, start, stop)

    def decimated(self, stride: int) -> PiecewiseBoresight:
        """Return the boresight of every `stride`-th sample, as `Boresight.decimated` does."""
        starts = [0, *accumulate(piece.n_samp for piece in self.pieces)]
        firsts = [-start % stride for start in starts]
        kept = [(one, k) for one, k in zip(self.pieces, firsts, strict=False) if k < one.n_samp]
        return piecewise_boresight(
            [piece.knots for piece, _ in kept],
            [
                ((p.n_samp - 1 - k) // stride + 1, p.spacing / stride, (p.offset - k) / stride, p.order)
                for p, k in kept
            ],
        )


AnyBoresight: TypeAlias = Boresight | PiecewiseBoresight


def piecewise_boresight(
    knots: Sequence[FloatArray], places: Sequence[tuple[int, float, float, Order]]
) -> PiecewiseBoresight:
    """Return pieces with the bits that `Boresight` gives each, made at once: knots that cover their samples.

    Parameters
    ----------
    knots : sequence of float64 (n_knots, 4)
    places : sequence of (int, float, float, str)
        `n_samp`, `spacing`, `offset` and `order` of each.
    """
    pieces = []
    for unit, place in zip(unit_knots(knots), places, strict=True):
        piece = object.__new__(Boresight)
        for name, value in zip(_PARTS, (unit, *place), strict=True):
            object.__setattr__(piece, name, value)
        pieces.append(piece)
    return PiecewiseBoresight(pieces)


def boresight_arguments(boresight: AnyBoresight) -> tuple[FloatArray, Int64Array, FloatArray]:
    """Return the arguments of the C++ ``Boresight`` (see ``bindings/petamap/pointing_views.h``).

    Returns
    -------
    knots : float64 (n_knots, 4)
        Of all pieces.
    ranges : int64 (n_pieces + 1, 2)
        First sample and first knot of each piece; the last row holds the numbers of samples and knots.
    interpolation : float64 (n_pieces, 3)
        Spacing and offset of the knots in samples, the offset from the first sample of the piece, and the
        degree of interpolation (1 or 3).
    """
    pieces = boresight.pieces
    ranges = np.zeros((len(pieces) + 1, 2), np.int64)
    ranges[1:] = np.cumsum([(piece.n_samp, len(piece.knots)) for piece in pieces], axis=0)
    knots = pieces[0].knots if len(pieces) == 1 else np.concatenate([piece.knots for piece in pieces])
    rows = [(piece.spacing, piece.offset, piece.degree) for piece in pieces]
    return knots, ranges, np.array(rows, np.float64)


def _interpolate(boresight: AnyBoresight, start: int, stop: int) -> FloatArray:
    if not 0 <= start <= stop <= boresight.n_samp:
        raise DataError(f"samples [{start}, {stop}) lie outside [0, {boresight.n_samp})")
    # one detector along the boresight, which is its sight, with no turn and efficiency 1
    detector, sight = np.array([[0.0, 0.0, 0.0, 1.0]]), np.zeros(1, np.int64)
    turn, efficiency = np.zeros(1, np.uint32), np.ones(1)
    out = np.empty((stop - start, 4))
    arguments = (*boresight_arguments(boresight), detector, detector, sight, turn, *NO_PLATE, efficiency)
    _pointing.quaternions(arguments, 0, start, out)
    return out


@dataclass(frozen=True)
class PointingError:
    """Error of interpolated against full-rate pointing, in the line of sight and in roll about it.

    Attributes
    ----------
    max_arcsec : float
        Largest error of the line of sight.
    max_roll_arcsec : float
        Largest error of the rotation about the line of sight.
    """

    max_arcsec: float
    max_roll_arcsec: float

    def combined(self, other: PointingError) -> PointingError:
        """Return the larger errors of two."""
        return PointingError(
            max(self.max_arcsec, other.max_arcsec), max(self.max_roll_arcsec, other.max_roll_arcsec)
        )

    @property
    def max_total_arcsec(self) -> float:
        """Bound of the angle of rotation, and so of the error of any detector's line of sight."""
        return math.hypot(self.max_arcsec, self.max_roll_arcsec)


def pointing_error(boresight: AnyBoresight, quaternions: npt.ArrayLike, start: int = 0) -> PointingError:
    """Return the error of a boresight against full-rate quaternions.

    Parameters
    ----------
    boresight : Boresight or PiecewiseBoresight
    quaternions : (n, 4)
        Exact quaternions of samples `start`, `start` + 1, ...
    start : int
        First sample.

    Raises
    ------
    DataError
        If the samples lie outside the observation.
    """
    exact = unit_quaternions(quaternions, "sample")
    worst, roll, chunk = 0.0, 0.0, 1 << 18
    for begin in range(0, len(exact), chunk):
        part = exact[begin : begin + chunk]
        given = boresight.quaternions(start + begin, start + begin + len(part))
        difference = quaternion.multiply(quaternion.conjugate(part), given)
        x, y, z, w = difference.T
        offset = 2 * np.arctan2(np.hypot(x, y), np.hypot(z, w)) / ARCSEC
        worst = max(worst, float(offset.max()))
        roll = max(roll, 2 * float(np.arctan2(np.abs(z), np.abs(w)).max()) / ARCSEC)
    return PointingError(worst, roll)


def compress_boresight(quaternions: npt.ArrayLike, tolerance_arcsec: float) -> Boresight:
    """Return a boresight of fewer knots.

    The distance of knots is the largest power of two (up to 1024 samples) for which the line of sight and the
    roll of all samples are within `tolerance_arcsec`, or slightly less so that both ends are knots. If there
    is none, all samples are kept, without error.

    Parameters
    ----------
    quaternions : (n_samp, 4)
        Full-rate boresight.
    tolerance_arcsec : float
    """
    exact = quaternion.align_signs(unit_quaternions(quaternions, "sample"))
    for step in (1 << k for k in range(10, 0, -1)):
        if step >= len(exact) or _widest_step(exact[::step]) >= LARGEST_STEP:
            continue
        boresight = _decimated(exact, step)
        error = pointing_error(boresight, exact)
        if max(error.max_arcsec, error.max_roll_arcsec) <= tolerance_arcsec:
            return boresight
    return Boresight(exact, len(exact))


def _widest_step(q: FloatArray) -> float:
    cosines = np.abs(np.sum(q[1:] * q[:-1], axis=1))
    return float(2 * np.arccos(min(1.0, cosines.min()))) if len(cosines) else 0.0


def _decimated(exact: FloatArray, spacing: int) -> Boresight:
    last = len(exact) - 1
    steps = -(-last // spacing)
    if last % spacing == 0:
        return Boresight(exact[::spacing], len(exact), float(spacing))
    # Uniform knots from the first to the last sample lie between samples: interpolate the full-rate
    # boresight.
    knots = Boresight(exact, steps + 1, steps / last).quaternions(0, steps + 1)
    return Boresight(knots, len(exact), last / steps)


def turned_boresight(
    boresight: AnyBoresight, rotations: Callable[[FloatArray], FloatArray], tolerance_arcsec: float = 0.1
) -> PiecewiseBoresight:
    """Return a boresight in a frame that moves, with as many more knots as that needs.

    Parameters
    ----------
    boresight : Boresight or PiecewiseBoresight
    rotations : callable
        Function of positions (n,) in samples that returns quaternions (n, 4) from this frame to the other.
    tolerance_arcsec : float
        Of interpolation, in addition to that of `boresight`, unless there is a knot at every sample.
    """
    starts = accumulate((piece.n_samp for piece in boresight.pieces), initial=0)
    return PiecewiseBoresight(
        [
            _turned_piece(piece, start, rotations, tolerance_arcsec)
            for piece, start in zip(boresight.pieces, starts, strict=False)
        ]
    )


def _turned_piece(
    piece: Boresight, start: int, rotations: Callable[[FloatArray], FloatArray], tolerance_arcsec: float
) -> Boresight:
    """Return a piece turned, its knots halved in distance until interpolation meets their midpoints."""
    parts = 1
    while True:
        n = 2 * parts * (len(piece.knots) - 1) + 1
        step = piece.spacing / (2 * parts)
        positions: FloatArray = start + piece.offset + step * np.arange(n, dtype=np.float64)
        given = Boresight(piece.knots, n, 2.0 * parts, order=piece.order).quaternions(0, n)
        exact = quaternion.multiply(rotations(positions), given)
        spacing = piece.spacing / parts
        error = pointing_error(Boresight(exact[::2], n, 2.0, order=piece.order), exact)
        if error.max_total_arcsec <= tolerance_arcsec or spacing <= 1:
            return Boresight(exact[::2], piece.n_samp, spacing, piece.offset, piece.order)
        parts *= 2


def boresight_from_times(
    times: npt.ArrayLike,
    quaternions: npt.ArrayLike,
    *,
    start_time: float,
    sample_rate: float,
    n_samp: int,
) -> Boresight:
    """Return a boresight from quaternions at increasing times, interpolated by SLERP to uniform knots.

    The distance of knots is the median distance of `times`.

    Parameters
    ----------
    times : (n,) float
        Seconds, strictly increasing, from `start_time` or before to the last sample or after.
    quaternions : (n, 4)
    start_time, sample_rate, n_samp
        Sampling of the detectors: time of the first sample in seconds, Hz, number of samples.

    Raises
    ------
    DataError
        If times do not increase (naming the sample), or do not cover all samples.
    """
    times = np.asarray(times, dtype=np.float64)
    q = quaternion.align_signs(unit_quaternions(quaternions, "sample"))
    if times.shape != (len(q),):
        raise DataError(f"{times.size} times for {len(q)} quaternions")
    back = np.flatnonzero(~(np.diff(times) > 0))
    if len(back):
        raise DataError("times do not increase", where=f"sample {back[0] + 1}", mend="sort them")
    last = start_time + (n_samp - 1) / sample_rate
    slack = 0.5 / sample_rate
    if times[0] > start_time + slack or times[-1] < last - slack:
        raise DataError(f"pointing from {times[0]} to {times[-1]} s, samples from {start_time} to {last} s")
    spacing = max(1.0, float(np.median(np.diff(times))) * sample_rate)
    n_knots = max(2, int(np.ceil((n_samp - 1) / spacing)) + 1)
    wanted = np.clip(start_time + np.arange(n_knots) * (spacing / sample_rate), times[0], times[-1])
    before = np.clip(np.searchsorted(times, wanted, "right") - 1, 0, len(times) - 2)
    u = (wanted - times[before]) / (times[before + 1] - times[before])
    return Boresight(quaternion.slerp(q[before], q[before + 1], u), n_samp, spacing)
