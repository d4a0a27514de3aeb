"""A user's arrays of samples: read where they are, with errors that name argument, detector and sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.arguments import real_array, require_plain
from petacomm.base.errors import DataError, printable
from petacomm.base.typing import AnyArray, FloatArray, UInt8Array
from petacomm.base.units import plain_values

# what samples of kinds of types are given as
_TYPES = {
    "biu": "give True, or not zero, where a sample is bad: bool or integers",
    "iu": "give integers, as of healpy.ang2pix; -1 is no pixel",
    "fiu": "give real numbers",
}
_FLAG = "flag such samples: flags=~numpy.isfinite({0})"


def host_array(values: Any, where: str, dimension: str | None = None) -> AnyArray:
    """Return what a user gives as an array of NumPy; those of JAX, torch or CuPy through DLPack, not copied.

    Parameters
    ----------
    values : array
    where : str
        The argument, for errors.
    dimension : str, optional
        What quantities of astropy are converted to the unit of, which copies them if theirs is another;
        without it they are refused, unless dimensionless.

    Raises
    ------
    DataError
        If the array is in the memory of an accelerator, or of a type that NumPy lacks, or has masked values
        or a unit.
    ConfigError
        If the unit is not of the dimension.
    """
    if dimension is not None:
        values = plain_values(values, dimension, where)
    require_plain(values, where)
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        return np.asarray(values)
    try:
        return np.asarray(np.from_dlpack(values))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(
            f"is an array of {type(values).__module__} that NumPy cannot see: {error}", where=where,
            mend="bring it to the host: jax.device_get(array), tensor.detach().cpu(), cupy.asnumpy(array)",
        ) from None  # fmt: skip


@dataclass(frozen=True, eq=False)
class SampleArrays:
    """Signal and flags of detectors, as arrays (implements `Signal` and `Flags`). Nothing is copied.

    Attributes
    ----------
    signal : (n_det, n_samp)
        Of any strides.
    flags : (n_det, n_samp), optional
        Not zero, or True, is bad.
    detectors : tuple of str
    factor : float
        From the unit of the array to that of the observation.
    """

    signal: AnyArray
    flags: AnyArray | None
    detectors: tuple[str, ...]
    factor: float = 1.0

    @property
    def any_order(self) -> bool:
        """Whether samples are had as quickly in any order: not if they are on disk."""
        return self.in_memory

    @property
    def in_memory(self) -> bool:
        """Whether samples are had for a copy of memory: not if they are on disk."""
        return not isinstance(self.signal, np.memmap)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of detectors and samples."""
        return len(self.detectors), self.signal.shape[1]

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`."""
        values = self.signal[detector, start:stop]
        out += values if self.factor == 1.0 else self.factor * values

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out` to 1 for samples of [start, stop) that are flagged."""
        if self.flags is not None:
            out |= self.flags[detector, start:stop] != 0

    def of_samples(
        self, name: str, values: Any, kinds: str = "fiu", dimension: str | None = None
    ) -> AnyArray:
        """Return an argument as (n_det, n_samp), a view of it: (n_samp,) and (n_det, 1) are broadcast.

        Raises
        ------
        DataError
            If it has another shape, or is not of numbers of the kinds.
        """
        array = host_array(values, name, dimension)
        if array.dtype.kind not in kinds:
            raise DataError(
                f"is of type {array.dtype}, which does not belong here", where=name, mend=_TYPES.get(kinds)
            )
        try:
            return np.broadcast_to(array, self.shape)
        except ValueError:
            raise DataError(
                f"has the shape {array.shape}, the signal {self.shape}", where=name,
                mend="give (n_det, n_samp), or (n_samp,) if it is the same for all detectors",
            ) from None  # fmt: skip

    def of_detectors(
        self, name: str, values: Any, default: float, dimension: str | None = None
    ) -> FloatArray:
        """Return a number for each detector, (n_det,), of an argument that may be one number or None.

        Raises
        ------
        DataError
            If it has another shape, or one is not finite.
        """
        array = real_array(default if values is None else host_array(values, name, dimension), name)
        if array.shape not in ((), self.shape[:1]):
            raise DataError(f"has the shape {array.shape} for {self.shape[0]} detectors", where=name)
        bad = np.flatnonzero(~np.isfinite(np.atleast_1d(array)))
        if len(bad):
            raise DataError(f"is {np.atleast_1d(array)[bad[0]]}", where=self.place(name, int(bad[0])))
        return np.broadcast_to(array, self.shape[:1])

    def require_between(self, name: str, values: AnyArray, low: float, high: float, what: str) -> None:
        """Raise an error unless all samples that are not flagged are finite, and within bounds.

        Parameters
        ----------
        name : str
            The argument.
        values : (n_det, n_samp)
        low, high : float
        what : str
            What is wrong with a value beyond them; and the mend, after a bar.

        Raises
        ------
        DataError
            Naming detector and sample.
        """
        for detector in range(1 if values.strides[0] == 0 and self.flags is None else len(values)):
            self.require_row_between(name, detector, values[detector], low, high, what)

    def require_row_between(
        self, name: str, detector: int, row: AnyArray, low: float, high: float, what: str
    ) -> None:
        """Raise the error of `require_between` for the samples of one detector."""
        if len(row) and low <= float(row.min()) and float(row.max()) <= high:
            return
        with np.errstate(invalid="ignore", over="ignore"):
            bad = ~((row >= low) & (row <= high))
        if self.flags is not None:
            bad &= self.flags[detector] == 0
        if bad.any():
            sample = int(bad.argmax())
            said, _, mend = what.partition("|")
            if not np.isfinite(row[sample]):
                said, mend = "", _FLAG.format(name)
            raise DataError(
                f"is {row[sample]:.6g}{said}", where=self.place(name, detector, sample), mend=mend
            )

    def place(self, name: str, detector: int, sample: int | None = None) -> str:
        """Return argument, detector and sample, for messages."""
        where = f"{name}, detector {self.detectors[detector]}"
        return where if sample is None else f"{where}, sample {sample}"


def sample_arrays(signal: Any, flags: Any, detectors: Sequence[str] | None, factor: float) -> SampleArrays:
    """Return signal and flags as arrays of detectors and samples; masked samples are flagged.

    Raises
    ------
    DataError
        If shapes or types do not fit.
    """
    signal, mask = _without_mask(signal)
    array = host_array(signal, "signal")
    if array.dtype.kind not in "fiu" or array.ndim not in (1, 2) or 0 in array.shape:
        raise DataError(
            f"is an array {array.shape} of {array.dtype}", where="signal",
            mend="give numbers (n_det, n_samp), or (n_samp,) of one detector",
        )  # fmt: skip
    array = np.atleast_2d(array)
    names = _numbered(len(array)) if detectors is None else _names(detectors)
    if len(names) != len(array):
        raise DataError(f"{len(names)} names for {len(array)} detectors", where="detectors")
    samples = SampleArrays(array, None, names, factor)
    bad = None if flags is None else samples.of_samples("flags", flags, "biu")
    if mask is not None:
        masked = np.atleast_2d(mask)
        bad = masked if bad is None else (bad != 0) | masked
    return samples if bad is None else SampleArrays(array, bad, names, factor)


def _without_mask(values: Any) -> tuple[Any, AnyArray | None]:
    """Return an array without its mask, and the mask; None if nothing is masked."""
    mask = getattr(values, "mask", None) if isinstance(values, np.ndarray) else None
    if mask is None or not np.any(mask):
        return values, None
    plain = np.ma.getdata(values) if isinstance(values, np.ma.MaskedArray) else values.unmasked
    return plain, np.broadcast_to(np.asarray(mask, np.bool_), plain.shape)


def _names(detectors: Any) -> tuple[str, ...]:
    """Return names of detectors, which are texts."""
    names = tuple(detectors) if np.iterable(detectors) and not isinstance(detectors, str) else ()
    if not all(isinstance(name, str) for name in names) or not names:
        what = f"must be a sequence of names, not {printable(repr(detectors))[:60]}"
        raise DataError(what, where="detectors", mend="give a text for each detector, or leave it away")
    return names


def _numbered(n: int) -> tuple[str, ...]:
    width = len(str(n - 1))
    return tuple(f"d{number:0{width}d}" for number in range(n))
