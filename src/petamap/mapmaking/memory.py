"""What a run needs of memory: told before the vectors are made, and measured afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from petamap.base.machine import resident_bytes
from petamap.mapmaking.slabs import slab_bytes

if TYPE_CHECKING:
    from petamap.comm.reduction import OwnedRows
    from petamap.mapmaking.projection import Projection


# astropy's FITS, first imported when maps are written
_FITS_BYTES = 20 << 20


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that this rank will have resident.

    Attributes
    ----------
    keep : bool
        Whether pointing is kept.
    base : int
        The process with its libraries, pixel index, reduction plan and sources, as it is.
    samples : int
        What grows with the samples.
    maps : int
        What grows with the pixels and gaps, at its peak.
    n_samp : int
        Samples held.
    """

    keep: bool
    base: int
    samples: int
    maps: int
    n_samp: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.base + self.samples + self.maps

    @property
    def bytes_per_sample(self) -> float:
        """Resident bytes for each sample held."""
        return self.samples / max(self.n_samp, 1)

    def in_words(self) -> str:
        """Return one line for the user."""
        how = "kept" if self.keep else "recomputed"
        return (
            f"pointing {how}: {self.bytes_per_sample:.2f} bytes a sample, "
            f"{self.total / 1e6:.0f} MB a process in all"
        )


def plan_memory(projection: Projection, pixels: OwnedRows, keep: bool) -> MemoryPlan:
    """Return what a run will need once it is known who owns its pixels."""
    n_gaps, threads, n_stokes = projection.gaps.count(), projection.n_threads, projection.stokes.n
    n, triangle = pixels.n_owned, n_stokes * (n_stokes + 1) // 2
    owned = 8 * (n * n_stokes + n_gaps)
    held = 8 * (pixels.n_held * n_stokes + n_gaps)
    # alone, vectors are lent as they are, and the keys are there already
    lent, keys, at_owners = (held, 8 * n, 4 * owned) if pixels.comm.size > 1 else (0, 0, 0)
    always = keys + 8 * n * (2 + triangle) + 8 * n_gaps + n  # hits, rcond, covariance; what is dead
    # two right-hand sides of two words each for every thread, and at the owners; the sums made of them
    reading = 4 * threads * held + at_owners + 3 * owned
    # right-hand sides, binned map, x, r, p, q; what is lent; the sums of each thread
    solving = 8 * owned + lent + threads * held
    # right-hand sides, binned map, x; the widest product, and this rank's part in writing it
    slab = slab_bytes(projection.pixelization.n_pix, triangle, pixels.comm.size, n)
    writing = 4 * owned + lent + 8 * n * triangle + slab + _FITS_BYTES
    samples = (projection.bytes_to_keep if keep else 0) + projection.share.n_held // 8
    # the bits of the gaps are there already
    base = resident_bytes() - projection.share.n_held // 8
    return MemoryPlan(keep, base, samples, always + max(reading, solving, writing), projection.share.n_held)
