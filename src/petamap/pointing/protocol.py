"""Interface of pointing for map-making and simulation."""

from __future__ import annotations

from typing import Protocol

from petacomm.base.typing import Float32Array, FloatArray, Int32Array, UInt32Array
from petamap.sky.pixelization import Pixelization


class Pointing(Protocol):
    """Pointing of the detectors of one observation, computed on demand for any detector and sample range.

    The response of a detector to (I, Q, U) is ``gain * (w, e cos phi, e sin phi)``. The weight w of I is 1,
    but 0 of streams of polarization alone, as demodulation makes them. The response angle phi (twice the
    polarization angle without a half-wave plate) is in units of 2 pi / 2^32, so that uint32 arithmetic wraps
    it. e is the polarization efficiency of the detector. The gain is 1 unless `has_gains`.
    Angles follow the COSMO convention.
    """

    @property
    def n_samp(self) -> int:
        """Number of samples of the observation."""

    @property
    def n_det(self) -> int:
        """Number of detectors."""

    @property
    def has_gains(self) -> bool:
        """Whether the intensity weight varies from sample to sample (recorded pointing weights)."""

    def intensity(self, detector: int) -> float:
        """Return the intensity weight w of a detector, 0 to 1: 1 for a detector, 0 for a stream of Q or U."""

    def efficiency(self, detector: int) -> float:
        """Return the polarization efficiency e of a detector, 0 to 1."""

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
        """Write pixel numbers and response angles of samples [start, stop) to arrays of that length.

        `angles` is None if only intensity is mapped; `gains` is needed if `has_gains`. Releases the GIL.
        """

    def directions(self, detector: int, start: int, stop: int) -> tuple[FloatArray, UInt32Array]:
        """Return unit vectors (n, 3) and response angles (n,).

        Raises
        ------
        DataError
            If the pointing is recorded as pixel numbers, which have no directions.
        """
