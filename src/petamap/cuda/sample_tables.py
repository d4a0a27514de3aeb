"""The samples of a rank as the kernels take them: kept pixels and angles, or compressed pointing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray, Float32Array, Int32Array, Int64Array, UInt8Array, UInt32Array

WINDOW = 64  # samples that a thread expands (samples.h)

_RING, _NESTED = 0, 1  # kinds of grids (petamap.sky.pixelization)

# What ``CompressedPointing.kernel_arguments()`` returns, in order.
_ARGUMENTS = (
    "knots", "ranges", "interpolation", "detectors", "sights", "sight_of", "turns", "plate", "plate_phase",
    "plate_rate", "plate_turns", "plate_spacing", "plate_offset", "efficiency",
)  # fmt: skip
# Arrays of all observations, one behind the other: members of `Samples` in samples.h ...
_JOINED = ("knots", "ranges", "interpolation", "sights", "sight_of", "turns", "plate_turns")
# ... and in `Pointing` there, where each observation's begin.
_FIRSTS = {"first_knot": "knots", "first_range": "ranges", "first_piece": "interpolation",
           "first_sight": "sights", "first_detector": "turns", "first_turn": "plate_turns"}  # fmt: skip
_POINTING = np.dtype([
    ("first_knot", np.int64), ("first_range", np.int64), ("first_piece", np.int64), ("n_pieces", np.int64),
    ("first_sight", np.int64), ("first_detector", np.int64), ("plate", np.int64), ("plate_phase", np.uint64),
    ("plate_rate", np.uint64), ("first_turn", np.int64), ("n_turns", np.int64),
    ("plate_spacing", np.float64), ("plate_offset", np.float64),
])  # fmt: skip


@dataclass(frozen=True)
class KeptSamples:
    """Pixels and responses over all samples that the rank holds.

    Attributes
    ----------
    pixels : int32 (n_held,)
        Local numbers, or ~slot of a gap.
    angles : uint32 (n_held,), optional
    gains : float32 (n_held,), optional
    """

    pixels: Int32Array
    angles: UInt32Array | None
    gains: Float32Array | None

    def arrays(self, blocks: Int64Array) -> dict[str, AnyArray]:
        """Return the members of `Samples` that are arrays."""
        found = {"pixels": self.pixels, "angles": self.angles, "gains": self.gains}
        return {name: values for name, values in found.items() if values is not None}

    def numbers(self) -> dict[str, int]:
        """Return the members of `Samples` that are numbers."""
        return {}

    def sights(self, blocks: Int64Array) -> Int64Array | None:
        """Return None: no samples are expanded."""
        return None


@dataclass(frozen=True)
class CompressedSamples:
    """Compressed pointing on HEALPix, and where the gaps are.

    Attributes
    ----------
    pointings : sequence of tuple
        ``CompressedPointing.kernel_arguments()`` of each observation.
    grid : float64 (2,)
        ``Healpix.grid``: scheme and N_side.
    keys : int64 (n_local,)
        Pixels that are seen, increasing.
    streams : int64 (n_segment, 6)
        As of ``ExpandedTable``.
    gap_bits : uint8, optional
    gap_length : int
    """

    pointings: Sequence[tuple[Any, ...]]
    grid: AnyArray
    keys: Int64Array
    streams: Int64Array
    gap_bits: UInt8Array | None
    gap_length: int

    @staticmethod
    def supports(grid: AnyArray) -> bool:
        """Return whether kernels can expand the pixels of a grid."""
        return int(grid[0]) in (_RING, _NESTED)

    @property
    def _named(self) -> list[dict[str, Any]]:
        return [dict(zip(_ARGUMENTS, one, strict=True)) for one in self.pointings]

    def arrays(self, blocks: Int64Array) -> dict[str, AnyArray]:
        """Return the members of `Samples` that are arrays."""
        words, before = self._seen()
        found = {name: np.concatenate([one[name] for one in self._named]) for name in _JOINED}
        found |= {"streams": self.streams, "pointings": self._table(), "words": words, "before": before}
        if self.gap_bits is not None:
            n_windows = -(-blocks[:, 1] // WINDOW)
            found["gap_bits"] = self.gap_bits
            found["first_windows"] = np.concatenate([[0], np.cumsum(n_windows)[:-1]]).astype(np.int64)
            found["first_slots"] = np.zeros(int(n_windows.sum()), np.int32)
        return found

    def numbers(self) -> dict[str, int]:
        """Return the members of `Samples` that are numbers."""
        nested, n_side = int(self.grid[0]) == _NESTED, int(self.grid[1])
        order = n_side.bit_length() - 1 if nested else 0
        return {
            "n_side": n_side, "order": order, "n_pix": 12 * n_side**2, "n_cap": 2 * n_side * (n_side - 1),
            "nested": nested, "gap_length": self.gap_length,
        }  # fmt: skip

    def sights(self, blocks: Int64Array) -> Int64Array:
        """Return what the expanded samples of each block depend on, (n_block, n)."""
        streams = self.streams[blocks[:, 5]]
        sights = [one["sight_of"] for one in self._named]
        firsts = np.concatenate([[0], np.cumsum([len(one) for one in sights])])
        of = np.concatenate(sights)[firsts[streams[:, 0]] + streams[:, 1]]
        starts = blocks[:, 0] + streams[:, 2]
        return np.stack([streams[:, 0], of, starts, blocks[:, 1], streams[:, 4], streams[:, 5]], axis=1)

    def _seen(self) -> tuple[AnyArray, Int32Array]:
        """Return a bit for each pixel of the sky that is seen, and how many are before every 64."""
        n_words = -(-12 * int(self.grid[1]) ** 2 // 64)
        bits = np.zeros(64 * n_words, np.bool_)
        bits[self.keys] = True
        words = np.packbits(bits, bitorder="little").view(np.uint64)
        return words, np.searchsorted(self.keys, 64 * np.arange(n_words)).astype(np.int32)

    def _table(self) -> AnyArray:
        """Return where the arrays of each observation begin in those of all, and its wave plate."""
        named = self._named
        table = np.zeros(len(named), _POINTING)
        for member, name in _FIRSTS.items():
            table[member][1:] = np.cumsum([len(one[name]) for one in named])[:-1]
        table["n_pieces"] = [len(one["interpolation"]) for one in named]
        table["n_turns"] = [len(one["plate_turns"]) for one in named]
        for name in ("plate", "plate_phase", "plate_rate", "plate_spacing", "plate_offset"):
            table[name] = [one[name] for one in named]
        return table
