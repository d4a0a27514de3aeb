"""Digest of a vector of the solver that does not depend on ranks."""

from __future__ import annotations

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petamap.mapmaking.vectors import SharedUnknowns, Unknowns


def vector_digest(shared: SharedUnknowns, vector: Unknowns) -> str:
    """Return a digest of the rows of a vector with their keys, in hexadecimal. Collective.

    Two sums of hashes modulo 2^64, so that no order of rows matters, and the numbers of rows. It tells data
    apart that happen to differ, not data that someone made to look the same.

    Parameters
    ----------
    shared : SharedUnknowns
    vector : Unknowns
        At the owners, (n, k).
    """
    sums, counts = np.zeros(2, np.uint64), np.zeros(2, np.uint64)
    parts = [(shared.pixels, vector.pixels), (shared.gaps, vector.gaps)]
    for kind, (rows, values) in enumerate(parts):
        if rows.comm is shared.pixels.comm:  # gaps that no rank has are not counted
            counts[kind] = len(rows.keys)
            _mapmaking.add_hashes(rows.keys, np.ascontiguousarray(values), kind, sums, rows.n_threads)
    words = shared.comm.allreduce(np.concatenate([sums, counts]))
    return "".join(f"{int(word):016x}" for word in words)
