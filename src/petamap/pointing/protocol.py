"""What map-making and simulation ask of pointing."""

from __future__ import annotations

from typing import Protocol

from petacomm.base.typing import Float32Array, FloatArray, Int32Array, UInt32Array
from petamap.sky.pixelization import Pixelization


class Pointing(Protocol):
    """Where the detectors of one observation look, on request for any detector and sample range.

    The response of a detector to (I, Q, U) is ``gain * (1, e cos phi, e sin phi)``: phi is the response angle
    (twice the polarization angle without a half-wave plate) in units of a turn / 2^32, so that wrapping is
    free and a sample needs 4 bytes; e is `efficiency`, one number a detector; the gain is 1 unless
    `has_gains`. COSMO convention.
    """

    @property
    def n_samp(self) -> int:
        """Samples of the observation."""
        ...

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        ...

    @property
    def has_gains(self) -> bool:
        """Whether the intensity weight varies from sample to sample (recorded pointing weights)."""
        ...

    def efficiency(self, detector: int) -> float:
        """Return the polarization efficiency e of a detector, 0 to 1."""
        ...

    def expand(
        self,
        pixelization: Pixelization,
        detector: int,
        start: int,
        stop: int,
        pixels: Int32Array,
        angles: UInt32Array | None,
        gains: Float32Array | None = None,
    ) -> None:
        """Write pixel and response angle of samples [start, stop) into arrays of that length.

        `angles` is None where only intensity is mapped; `gains` is written where `has_gains`.
        Releases the GIL.
        """
        ...

    def directions(self, detector: int, start: int, stop: int) -> tuple[FloatArray, UInt32Array]:
        """Return unit vectors (n, 3) and response angles (n,).

        Raises
        ------
        DataError
            Where the pointing is a recorded list of pixels, which has no directions.
        """
        ...
