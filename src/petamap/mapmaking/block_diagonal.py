"""Sparse matrices of blocks on the diagonal, of which each is a stream's: threads share their products."""

from __future__ import annotations

from typing import Any

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import FloatArray, Int64Array
from petamap.mapmaking.stream_elimination import Entries


class BlockMatrix:
    """A sparse matrix of blocks on the diagonal.

    Parameters
    ----------
    matrix : CSR matrix of SciPy
        Whose arrays are taken over.
    first_rows, first_columns : int64 (n_blocks + 1,)
        Of each block, and their number.
    n_threads : int
        Of products.

    Attributes
    ----------
    nnz, nbytes : int
        Number of entries, and bytes of what is held.
    """

    def __init__(
        self, matrix: Any, first_rows: Int64Array, first_columns: Int64Array, n_threads: int
    ) -> None:
        matrix.sort_indices()
        self.nnz, self._shape, self._n_threads = int(matrix.nnz), matrix.shape, n_threads
        firsts = matrix.indptr.astype(np.int64)
        ends = firsts[first_rows]
        for column, begin, end in zip(first_columns, ends, ends[1:], strict=False):
            matrix.indices[begin:end] -= column
        columns = matrix.indices.astype(np.int32, copy=False)
        arrays = first_rows, first_columns, firsts, columns, matrix.data
        self.nbytes = sum(array.nbytes for array in arrays)
        self._kernel = _mapmaking.BlockMatrix(*arrays)

    def __matmul__(self, values: FloatArray) -> FloatArray:
        """Return the product with values, (n_columns, width)."""
        out = np.empty((self._shape[0], values.shape[1]))
        _mapmaking.multiply(self._kernel, np.ascontiguousarray(values), out, self._n_threads)
        return out

    def transposed_times(self, values: FloatArray) -> FloatArray:
        """Return the product of the transposed matrix with values, (n_rows, width)."""
        out = np.empty((self._shape[1], values.shape[1]))
        _mapmaking.multiply_transposed(self._kernel, np.ascontiguousarray(values), out, self._n_threads)
        return out


class BlockMatrixBuilder:
    """Blocks of a `BlockMatrix`, collected one after the other."""

    def __init__(self) -> None:
        self._rows, self._columns = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        self._values = [np.zeros(0)]
        self._first_rows, self._first_columns = [0], [0]

    def add(self, block: Entries, n_rows: int, n_columns: int) -> None:
        """Append a block of a shape."""
        n, m = self._first_rows[-1], self._first_columns[-1]
        self._first_rows.append(n + n_rows)
        self._first_columns.append(m + n_columns)
        # as SciPy has them
        kind = np.int32 if max(n + n_rows, m + n_columns) <= np.iinfo(np.int32).max else np.int64
        self._rows.append((n + block.rows).astype(kind))
        self._columns.append((m + block.columns).astype(kind))
        self._values.append(block.values)

    def matrix(self, n_threads: int) -> BlockMatrix:
        """Return the matrix, whose blocks are forgotten."""
        from scipy import sparse

        parts: list[Any] = []
        for one in (self._rows, self._columns, self._values):
            parts.append(np.concatenate(one))
            one.clear()  # which halves what is held meanwhile
        rows, columns, values = parts
        shape = self._first_rows[-1], self._first_columns[-1]
        firsts = np.array(self._first_rows, np.int64), np.array(self._first_columns, np.int64)
        return BlockMatrix(sparse.csr_matrix((values, (rows, columns)), shape), *firsts, n_threads)
