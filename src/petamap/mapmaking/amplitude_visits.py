"""Visits of pixels in the functions of amplitudes: what the model's pixels see of templates.

U = T^T W P is summed over the samples of each amplitude in each pixel. Its entries are kept as visits are
(`petamap.mapmaking.visits`), with amplitudes as knots, so that the same kernels make U m and U^T a.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petamap.data.template import TemplateTerm

# Columns of the table of blocks.
_ROW, _AMPLITUDE, _SUMS = range(3)


def stream_functions(terms: Sequence[TemplateTerm], start: int, stop: int) -> Any:
    """Return the functions of samples [start, stop) of an interval, sparse (stop - start, n_amplitudes)."""
    from scipy import sparse

    return sparse.hstack([term.matrix(start, stop) for term in terms], "csr")


def amplitude_visits(functions: Any, rows: Int32Array, responses: FloatArray) -> Int32Array:
    """Return what pixels have of the functions of a block's samples, a table (n, 2 + n_stokes).

    Parameters
    ----------
    functions : sparse matrix (n_samp, n_amplitudes)
    rows : int32 (n_samp,)
        Row of each sample's pixel, negative in gaps.
    responses : float64 (n_samp, n_stokes)
        With the weight of samples.

    Returns
    -------
    int32 (n, 2 + n_stokes)
        Row of the pixel, amplitude, then as the bits of float32 the sum for each Stokes parameter; by
        amplitude, then row.
    """
    numbers = np.repeat(np.arange(len(rows)), np.diff(functions.indptr))
    good = rows[numbers] >= 0
    numbers, amplitudes, values = numbers[good], functions.indices[good], functions.data[good]
    n_rows, n_stokes = int(rows.max(initial=0)) + 1, responses.shape[1]
    keys, entry = np.unique(amplitudes * np.int64(n_rows) + rows[numbers], return_inverse=True)
    table = np.empty((len(keys), 2 + n_stokes), np.int32)
    table[:, _AMPLITUDE], table[:, _ROW] = np.divmod(keys, n_rows)
    for k in range(n_stokes):
        sums = np.bincount(entry, values * responses[numbers, k], len(keys))
        table[:, _SUMS + k] = _bits(np.asarray(sums, np.float64))
    return table


def join_blocks(table: Int32Array, places: Int64Array, n_stokes: int) -> tuple[Int32Array, Int64Array]:
    """Return visits as kernels take them, one for each pixel and amplitude, and the place of its amplitude.

    Parameters
    ----------
    table : int32 (n, 2 + n_stokes)
        Of blocks in the order of time (`amplitude_visits`).
    places : int64 (n,)
        Number of each one's amplitude among those of all streams.
    n_stokes : int

    Returns
    -------
    table : int32 (n_visits, 2 + n_stokes)
        By amplitude (`VisitRows`), at the time of the knot before.
    places : int64 (n_visits,)
    """
    n_rows = int(table[:, _ROW].max(initial=0)) + 1
    keys, visit = np.unique(places * n_rows + table[:, _ROW], return_inverse=True)
    values = table[:, _SUMS:].view(np.float32).astype(np.float64)
    sums = [np.bincount(visit, column, len(keys)).astype(np.float64) for column in values.T]
    out = np.zeros((len(keys), 2 + n_stokes), np.int32)
    out[:, 0] = keys % n_rows
    for k, one in enumerate(sums):
        out[:, 2 + k] = _bits(one)
    return out, keys // n_rows


def _bits(values: FloatArray) -> Int32Array:
    bits: Int32Array = values.astype(np.float32).view(np.int32)
    return bits
