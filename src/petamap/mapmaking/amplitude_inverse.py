"""Inverses of the matrices of amplitudes, of which streams may have some in common.

Of streams with matrices G of their amplitudes, and R that gives each stream those that it has, this is
R (R^T G R)^-1 R^T. A stream's own amplitudes are eliminated first. The Schur complements of those in common
are added over the streams of all ranks, as integers, so that no order matters; each rank inverts the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.mpi import Communicator
from petamap.mapmaking.block_diagonal import BlockMatrixBuilder
from petamap.mapmaking.pseudo_inverse import regularized_inverse
from petamap.mapmaking.stream_elimination import Entries
from petamap.mapmaking.transfer import GroupSums

# Own amplitudes of a stream up to which inverses are dense.
_MOST_DENSE = 512
_SUM_BITS = 62


class AmplitudeInverse:
    """R (R^T G R)^-1 R^T of amplitudes, on the directions that they determine. Collective.

    Parameters
    ----------
    matrices : sequence of matrices
        G of each stream, or of several together, dense or sparse.
    sizes : sequence of float64
        Of their rows, of the numbers that G is a difference of.
    keys : int64 (n,)
        Of all amplitudes; equal for those in common.
    common : bool (n,)
        Which of them another stream may have too.
    comm : Communicator
    least : float
        What is added to the matrices, relative to their sizes.
    n_threads : int, optional
    """

    def __init__(
        self,
        matrices: Sequence[Any],
        sizes: Sequence[FloatArray],
        keys: Int64Array,
        common: BoolArray,
        comm: Communicator,
        least: float,
        n_threads: int = 1,
    ) -> None:
        self._least = least
        self._common = np.flatnonzero(common)
        self._factors: list[tuple[Int64Array, Any]] = []
        inverses, answers, complements = BlockMatrixBuilder(), BlockMatrixBuilder(), []
        n = n_common = 0
        for matrix, size in zip(matrices, sizes, strict=True):
            rows = np.arange(n, n + len(size))
            shared = common[rows]
            own, outer = np.flatnonzero(~shared), np.flatnonzero(shared)
            columns = np.arange(n_common, n_common + len(outer))
            solve = self._eliminate(matrix, size, own, rows[own], inverses)
            answer = np.zeros((len(own), len(outer)))
            if len(outer):
                dense = as_dense(matrix[outer])
                with single_blas_thread():
                    answer = solve(dense[:, own].T.copy())
                    complement = dense[:, outer] - dense[:, own] @ answer
                complements.append((columns, (complement + complement.T) / 2, size[outer]))
            answers.add(Entries.of(answer).at(own, np.arange(len(outer))), len(size), len(outer))
            n, n_common = n + len(size), n_common + len(outer)
        self._own, self._answers = inverses.matrix(n_threads), answers.matrix(n_threads)
        self._of_all = None
        if comm.max(n_common) > 0:
            self._of_all = _CommonInverse(keys[self._common], complements, comm, least, n_threads)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the product with values, (n, width). Collective if amplitudes are in common."""
        out = self._own @ values
        for rows, factor in self._factors:
            out[rows] = factor.solve(np.ascontiguousarray(values[rows]))
        if self._of_all:
            left = values[self._common] - self._answers.transposed_times(values)
            solved = self._of_all(left)
            out[self._common] = solved
            out -= self._answers @ solved
        return out

    def _eliminate(
        self, matrix: Any, size: FloatArray, own: Int64Array, rows: Int64Array, inverses: BlockMatrixBuilder
    ) -> Any:
        """Keep the inverse of a stream's own amplitudes; return what applies it to columns."""
        matrix = matrix if len(own) == len(size) else matrix[own][:, own]
        if len(own) > _MOST_DENSE and not isinstance(matrix, np.ndarray):
            factor = _factor(matrix, self._least)
            self._factors.append((rows, factor))
            inverses.add(Entries.none(), len(size), len(size))
            return factor.solve
        inverse = regularized_inverse(as_dense(matrix), size[own], self._least)
        inverses.add(Entries.of(inverse).at(own, own), len(size), len(size))
        return inverse.__matmul__


class _CommonInverse:
    """The inverse of the sum over streams of the complements of amplitudes in common. Collective.

    It is made of a dense block for each set that streams connect, and every rank has it.

    Parameters
    ----------
    keys : int64 (n,)
        Of the streams' amplitudes in common, one after the other.
    complements : sequence of tuples
        Rows of a stream's among these, its matrix, and its rows' sizes.
    comm : Communicator
    least : float
        What is added to the sum, relative to its sizes.
    n_threads : int
    """

    def __init__(
        self,
        keys: Int64Array,
        complements: Sequence[tuple[Int64Array, FloatArray, FloatArray]],
        comm: Communicator,
        least: float,
        n_threads: int,
    ) -> None:
        self._sums = GroupSums(comm, keys)
        numbers, n = self._sums.numbers, self._sums.n
        of_streams = [numbers[rows] for rows, _, _ in complements]
        labels = _connected(of_streams, n, comm)
        _, sets, counts = np.unique(labels, return_inverse=True, return_counts=True)
        order = np.argsort(sets, kind="stable")
        places = np.empty(n, np.int64)
        places[order] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        firsts = np.cumsum(counts**2) - counts**2
        # powers of two near the square roots of the largest sizes: terms are at most 1, and sums exact
        units, largest = np.ones(n), np.zeros(n)
        for found, (_, _, size) in zip(of_streams, complements, strict=True):
            np.maximum.at(largest, found, size)
        largest = comm.allreduce(largest, "max")
        units[largest > 0] = np.exp2(np.ceil(np.log2(largest[largest > 0]) / 2))
        scale = 2.0 ** (_SUM_BITS - comm.sum(len(keys)).bit_length())
        sums, sizes = np.zeros(int((counts**2).sum()), np.int64), np.zeros(n, np.int64)
        for found, (_, matrix, size) in zip(of_streams, complements, strict=True):
            at = firsts[sets[found], None] + places[found, None] * counts[sets[found], None] + places[found]
            np.add.at(sums, at, _integers(matrix / units[found] / units[found, None], scale))
            np.add.at(sizes, found, _integers(size / units[found] ** 2, scale))
        total, diagonal = comm.allreduce(sums) / scale, comm.allreduce(sizes) / scale
        inverses = BlockMatrixBuilder()
        ends = np.cumsum(counts)
        for first, count, end in zip(firsts.tolist(), counts.tolist(), ends.tolist(), strict=True):
            rows = order[end - count : end]
            block = total[first : first + count**2].reshape(count, count)
            inverse = regularized_inverse(block, diagonal[rows], least)
            inverses.add(Entries.of(inverse / units[rows] / units[rows, None]), count, count)
        self._inverse, self._order = inverses.matrix(n_threads), order
        self._places = np.argsort(order)[numbers]

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return for what streams have, (n, width), what solves the sum of all. Collective."""
        solved = self._inverse @ self._sums(values[:, None])[self._order, 0]
        return np.asarray(solved[self._places], np.float64)


def _connected(members: Sequence[Int64Array], n: int, comm: Communicator) -> Int64Array:
    """Return the least number of each set that members of lists on all ranks connect, (n,). Collective."""
    labels = np.arange(n)
    every = np.concatenate([np.zeros(0, np.int64), *members])
    counts = np.array([len(one) for one in members], np.int64)
    firsts = np.cumsum(counts) - counts
    while True:
        before = labels.copy()
        if len(every):
            np.minimum.at(labels, every, np.repeat(np.minimum.reduceat(labels[every], firsts), counts))
        labels = comm.allreduce(labels, "min")
        if np.array_equal(labels, before):
            return labels


def _integers(values: FloatArray, scale: float) -> Int64Array:
    integers: Int64Array = np.rint(values * scale).astype(np.int64)
    return integers


def as_dense(matrix: Any) -> FloatArray:
    """Return a matrix that is dense or sparse as an array."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray(), np.float64)


def _factor(matrix: Any, least: float) -> Any:
    from scipy import sparse
    from scipy.sparse.linalg import splu

    diagonal = np.asarray(matrix.diagonal(), np.float64)
    ridge = np.where(diagonal > 0, least * diagonal, 1.0)
    return splu((matrix + sparse.diags(ridge)).tocsc())
