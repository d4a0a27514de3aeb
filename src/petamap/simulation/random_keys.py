"""Counter-based random numbers (Philox) and the keys of their streams."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from petacomm.base.typing import FloatArray, UInt32Array
from petamap.simulation import _simulation


class Purpose(IntEnum):
    """Purpose of a random stream, so that different parts of a simulation never share a stream."""

    NOISE = 1
    COMMON_MODE = 2
    COEFFICIENTS = 3
    SKY = 4
    CUTS = 5
    REGULAR = 6
    REFERENCE_NOISE = 7
    GLITCHES = 8
    STEPS = 9
    TEMPLATES = 10
    WAVES = 11


def random_streams(
    purpose: Purpose,
    seed: int,
    realization: int,
    uid: int = 0,
    detector: int = 0,
    interval: int = 0,
    n_levels: int = 1,
) -> UInt32Array:
    """Return the keys of the random streams of all levels, uint32 (n_levels, 4).

    Philox hashes (purpose, realization) with the seed as key, then the other arguments with the result as
    key. `seed` and `realization` are taken modulo 2^64, the others modulo 2^32.
    """
    first = _philox([[*_halves(realization), int(purpose), 0]], _halves(seed))[0]
    counters = [[uid, detector, interval, level] for level in range(n_levels)]
    return _philox(counters, [int(first[0]), int(first[1])])


def random_stream(
    purpose: Purpose, seed: int, realization: int, uid: int = 0, detector: int = 0, interval: int = 0
) -> UInt32Array:
    """Return the key of a random stream, uint32 (4,)."""
    words: UInt32Array = random_streams(purpose, seed, realization, uid, detector, interval)[0]
    return words


def gaussians(words: UInt32Array, n: int, first: int = 0) -> FloatArray:
    """Return the standard normal numbers `first` to `first + n - 1` of a stream, float64 (n,)."""
    group = _simulation.GROUP
    begin = first // group
    out = np.empty((-(-(first + n) // group) - begin) * group)
    _simulation.gaussians(words, begin, out)
    return out[first - begin * group : first - begin * group + n]


def uniforms(words: UInt32Array, n: int, first: int = 0) -> FloatArray:
    """Return the uniform numbers in [0, 1) `first` to `first + n - 1` of a stream, float64 (n,)."""
    index = np.arange(first, first + n, dtype=np.uint64)
    counters = np.empty((n, 4), np.uint32)
    counters[:, 0], counters[:, 1], counters[:, 2:] = index & 0xFFFFFFFF, index >> 32, words[2:]
    out = np.empty_like(counters)
    _simulation.philox4x32(counters, np.ascontiguousarray(words[:2]), out)
    bits = out[:, 0] + out[:, 1].astype(np.uint64) * 2**32
    return (bits >> 11).astype(np.float64) * 2.0**-53


def _halves(number: int) -> list[int]:
    return [number & 0xFFFFFFFF, number >> 32 & 0xFFFFFFFF]


def _philox(counters: list[list[int]], key: list[int]) -> UInt32Array:
    words = (np.array(counters, np.int64) & 0xFFFFFFFF).astype(np.uint32)
    out = np.empty_like(words)
    _simulation.philox4x32(words, np.array(key, np.uint32), out)
    return out
