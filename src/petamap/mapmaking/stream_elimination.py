"""Amplitudes of a stream's templates with its baselines eliminated: E, G and c of `TemplateModel`.

They are made of sums over samples: F^T W F, F^T W T and T^T W T, where W is the weight outside gaps and zero
in them. Detectors that see the same functions have those sums in common but for gaps, whose samples' are
subtracted. What no sample is left of is set to zero, which a difference may not be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from petacomm.base.typing import BoolArray, FloatArray, Int64Array

# Columns of c computed at once, and what is left out of c, functions being at most 1, and of E.
_COLUMNS, _NOTHING = 64, 1e-9
# Knots of a stream up to which c is looked for in all of them, and those about the samples of a function
# else: it hardly depends on others, but in gaps longer than these.
_WHOLE, _REACH = 1 << 14, 64
# Amplitudes, and values of c, up to which matrices of a stream are dense; and values of functions.
_DENSE, _DENSE_VALUES, _DENSE_FUNCTIONS = 128, 1 << 20, 1 << 18


class Entries(NamedTuple):
    """What is not zero of a matrix: rows and columns, int64 (n,), and values, float64 (n,)."""

    rows: Int64Array
    columns: Int64Array
    values: FloatArray

    @staticmethod
    def of(matrix: Any) -> Entries:
        """Return those of a matrix, dense or sparse."""
        if isinstance(matrix, np.ndarray):
            rows, columns = np.nonzero(matrix)
            return Entries(rows, columns, matrix[rows, columns])
        found = matrix.tocoo()
        found.eliminate_zeros()
        return Entries(found.row.astype(np.int64), found.col.astype(np.int64), found.data)

    def at(self, rows: Int64Array, columns: Int64Array) -> Entries:
        """Return them at other rows and columns of a larger matrix, increasing."""
        return Entries(rows[self.rows], columns[self.columns], self.values)

    def transposed(self, n_columns: int, n_rows: int) -> Any:
        """Return the transposed matrix, sparse (n_columns, n_rows)."""
        from scipy import sparse

        return sparse.csr_matrix((self.values, (self.columns, self.rows)), (n_columns, n_rows))

    @staticmethod
    def none() -> Entries:
        """Return those of an empty matrix."""
        return Entries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class StreamMatrices(NamedTuple):
    """Matrices of a stream.

    Attributes
    ----------
    coupling : Entries
        E, (n_knots, n_amplitudes).
    matrix : float64 (n_amplitudes, n_amplitudes), or sparse
        G.
    answer : Entries
        c, (n_knots, n_amplitudes).
    """

    coupling: Entries
    matrix: Any
    answer: Entries

    @staticmethod
    def none() -> StreamMatrices:
        """Return those of a stream without amplitudes."""
        return StreamMatrices(Entries.none(), np.zeros((0, 0)), Entries.none())


@dataclass(frozen=True, eq=False)
class StreamSums:
    """Sums over samples of products of a stream's hat functions F and templates T.

    Attributes
    ----------
    hats : float64 (2, n_knots)
        F^T F: its diagonal, and what is beside it.
    mixed, squares : float64, or sparse where they are large
        F^T T, (n_knots, n_amplitudes), and T^T T.
    n_between : int64 (n_knots,)
        Samples between a knot and the next.
    n_of : int64 (n_amplitudes,)
        Samples of which a function is not zero.
    """

    hats: FloatArray
    mixed: Any
    squares: Any
    n_between: Int64Array
    n_of: Int64Array

    @staticmethod
    def over(samples: Int64Array, functions: Any, step: int, n_knots: int) -> StreamSums:
        """Return the sums over increasing samples, (n,), with functions there, sparse (n, n_amplitudes)."""
        cells, after = samples // step, (samples % step + 0.5) / step
        before = 1 - after

        def sums(values: FloatArray) -> FloatArray:
            return np.bincount(cells, values, n_knots).astype(np.float64)

        diagonal = sums(before**2)
        diagonal[1:] += sums(after**2)[:-1]
        return StreamSums(
            np.stack([diagonal, sums(before * after)]),
            *_products(samples, functions, step, n_knots),
            np.bincount(cells, minlength=n_knots),
            np.bincount(functions.indices, minlength=functions.shape[1]),
        )

    def without(self, other: StreamSums) -> StreamSums:
        """Return the sums without those over some of the samples."""
        n_between, n_of = self.n_between - other.n_between, self.n_of - other.n_of
        there, has = n_between > 0, n_of > 0
        at_knot = there.copy()
        at_knot[1:] |= there[:-1]
        return StreamSums(
            (self.hats - other.hats) * np.stack([at_knot, there]),
            _kept(self.mixed - other.mixed, at_knot, has),
            _kept(self.squares - other.squares, has, has),
            n_between,
            n_of,
        )

    def eliminate(self, weight: float, prior: FloatArray, own: Any) -> StreamMatrices:
        """Return E, G and c of samples of a weight.

        Parameters
        ----------
        weight : float
        prior : float64 (n_lags,)
            C^-1 of baselines at lags 0, 1, ...
        own : sparse (n_amplitudes, n_amplitudes), optional
            S^-1, the inverse covariance of the amplitudes' own prior.
        """
        band = np.zeros((len(prior), self.hats.shape[1])) + prior[:, None]
        band[:2] += weight * self.hats
        by = self._dense if isinstance(self.mixed, np.ndarray) else self._sparse
        return by(weight, band, own)

    def _dense(self, weight: float, band: FloatArray, own: Any) -> StreamMatrices:
        from scipy.linalg import solveh_banded

        mixed = weight * self.mixed
        c = solveh_banded(band, mixed, lower=True, check_finite=False)
        c[np.abs(c) < _NOTHING] = 0.0
        answered = band[0, :, None] * c
        for lag in range(1, min(len(band), len(c))):
            beside = band[lag, :-lag, None]
            answered[lag:] += beside * c[:-lag]
            answered[:-lag] += beside * c[lag:]
        cross = c.T @ mixed
        matrix = c.T @ answered + weight * self.squares - cross - cross.T
        if own is not None:
            matrix += own.toarray()
        coupling = answered - mixed
        sizes = np.sqrt(np.maximum(np.multiply.outer(band[0], np.diag(matrix)), 0.0))
        coupling[np.abs(coupling) <= _NOTHING * sizes] = 0.0
        return StreamMatrices(Entries.of(coupling), matrix, Entries.of(c))

    def _sparse(self, weight: float, band: FloatArray, own: Any) -> StreamMatrices:
        from scipy import sparse

        mixed = weight * self.mixed
        c = _answered_by_baselines(band, mixed)
        lags = range(min(len(band), band.shape[1]))
        below: list[Any] = [band[lag, : band.shape[1] - lag] for lag in lags]
        whole: Any = sparse.diags([*below, *below[1:]], [-lag for lag in lags] + list(lags)[1:]).tocsr()
        answered, cross = whole @ c, c.T @ mixed
        matrix = c.T @ answered + weight * self.squares - cross - cross.T
        matrix = (matrix if own is None else matrix + own).tocsr()
        coupling = (answered - mixed).tocoo()
        diagonal = np.asarray(matrix.diagonal(), np.float64)
        sizes = np.sqrt(np.maximum(band[0][coupling.row] * diagonal[coupling.col], 0.0))
        coupling.data[np.abs(coupling.data) <= _NOTHING * sizes] = 0.0
        return StreamMatrices(Entries.of(coupling), matrix, Entries.of(c))


def _products(samples: Int64Array, functions: Any, step: int, n_knots: int) -> tuple[Any, Any]:
    """Return F^T T and T^T T over samples: arrays, or sparse where they are large."""
    n_samp, n_amplitudes = functions.shape
    dense = n_amplitudes <= _DENSE and n_knots <= _WHOLE and n_knots * n_amplitudes <= _DENSE_VALUES
    if not dense or n_samp * n_amplitudes > _DENSE_FUNCTIONS:
        transposed = hat_functions(samples, step).transposed(n_knots, n_samp)
        found = transposed @ functions, functions.T.tocsr() @ functions
        mixed, squares = (one.toarray() if dense else one.tocsr() for one in found)
        return mixed, squares
    values, mixed = functions.toarray(), np.zeros((n_knots, n_amplitudes))
    if n_samp:
        cells = samples // step
        firsts = np.flatnonzero(np.diff(cells, prepend=-1))
        seen, after = cells[firsts], ((samples % step + 0.5) / step)[:, None]
        mixed[seen] += np.add.reduceat((1 - after) * values, firsts)
        mixed[seen + 1] += np.add.reduceat(after * values, firsts)
    return mixed, values.T @ values


def _kept(matrix: Any, rows: BoolArray, columns: BoolArray) -> Any:
    """Return a matrix, dense or sparse, with zeros in other rows and columns."""
    if isinstance(matrix, np.ndarray):
        matrix[~rows] = 0.0
        matrix[:, ~columns] = 0.0
        return matrix
    from scipy import sparse

    left, right = (sparse.diags(mask.astype(np.float64)).tocsr() for mask in (rows, columns))
    return (left @ matrix @ right).tocsr()


def hat_functions(samples: Int64Array, step: int) -> Entries:
    """Return the hat functions about knots every `step` samples, at some, (n, n_knots).

    Samples are between knots, as in visits (`baselines.cpp`).
    """
    before, after = samples // step, (samples % step + 0.5) / step
    columns = np.stack([before, before + 1], axis=1).ravel()
    values = np.stack([1 - after, after], axis=1).ravel()
    return Entries(np.repeat(np.arange(len(samples)), 2), columns, values)


def _answered_by_baselines(band: FloatArray, sums: Any) -> Any:
    """Return c = (F^T W F + C^-1)^-1 F^T W T, sparse (n_knots, n), of the band of a matrix and F^T W T."""
    from scipy import sparse
    from scipy.linalg import solveh_banded

    sums = sums.tocsc()
    columns = [sparse.csc_matrix((sums.shape[0], 0))]
    reach = sums.shape[0] if sums.shape[0] <= _WHOLE else _REACH
    for first in range(0, sums.shape[1], _COLUMNS):
        chosen = sums[:, first : first + _COLUMNS]
        seen = chosen.indices if chosen.nnz else np.zeros(1, np.int64)
        begin, end = max(0, int(seen.min()) - reach), min(sums.shape[0], int(seen.max()) + reach)
        dense = solveh_banded(band[:, begin:end], chosen[begin:end].toarray(), lower=True)
        dense[np.abs(dense) < _NOTHING] = 0.0
        around = sparse.csc_matrix((begin, chosen.shape[1])), sparse.csc_matrix(dense)
        after = sparse.csc_matrix((sums.shape[0] - end, chosen.shape[1]))
        columns.append(sparse.vstack([*around, after], "csc"))
    return sparse.hstack(columns, "csr")
