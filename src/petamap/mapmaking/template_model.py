"""Templates in the model of the noise of preconditioners: amplitudes of whole streams, solved with baselines.

A template's functions T are those that baselines answer for, F c, and a rest R. With b' = b + c a in the
place of the baselines b, of prior C, and W zero in gaps, the normal equations are (`BaselineModel`)::

    (C^-1 + F^T W F) b' = F^T W (d - P m) + E a,        E = C^-1 c - F^T W R
    G a = R^T W d - (U - c^T B) m + E^T b',             G = c^T C^-1 c + R^T W R + S^-1

where S is the amplitudes' own prior, if they have one, and U = T^T W P
(`petamap.mapmaking.amplitude_visits`). They hold for any c. With c = (C^-1 + F^T W F)^-1 F^T W T the
baselines are eliminated from G, and E is left where c, of few knots about each function, is cut off. T is
zero in gaps, R is not, and their unknowns hold R a too: with r_a - R^T r_g in the place of r_a they are
g + R a.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array
from petamap.data.template import TemplateTerm
from petamap.mapmaking.amplitude_visits import stream_functions
from petamap.mapmaking.linear_operators import Preconditioner
from petamap.mapmaking.pseudo_inverse import regularized_inverse
from petamap.mapmaking.stream_terms import SelectedTerms, StreamTerms
from petamap.mapmaking.transfer import NuisanceTransfer
from petamap.mapmaking.vectors import MAX_WIDTH, SharedUnknowns, Unknowns
from petamap.mapmaking.visits import StreamNoises

# Amplitudes of a stream up to which what baselines answer for is computed, and inverses are dense.
_MOST_COUPLED, _MOST_DENSE = 512, 512
# Amplitudes of all streams of a group up to which they are eliminated from its common modes.
_MOST_SHARED = 1024
# What is added to matrices of amplitudes, relative to their diagonals: some directions may not be determined.
_LEAST = 1e-6
# Columns of c computed at once, and what is left out of c, functions being at most 1, and of E.
_COLUMNS, _NOTHING = 64, 1e-9
# Knots of a stream up to which c is looked for in all of them, and those about the samples of a function
# else: it hardly depends on others, but in gaps longer than these.
_WHOLE, _REACH = 1 << 14, 64
# Sets of amplitudes that predict the next one under their prior, in the model.
_PRIOR_ORDER = 8
# Intervals whose functions are held.
_CACHED = 4


def _answered_by_baselines(products: Any, sums: Any, prior: FloatArray) -> Any:
    """Return c = (F^T W F + C^-1)^-1 F^T W T, sparse (n_knots, n), of F^T W F and F^T W T."""
    from scipy import sparse
    from scipy.linalg import solveh_banded

    sums = sums.tocsc()
    band = np.zeros((len(prior), products.shape[0])) + prior[:, None]
    band[0] += products.diagonal()
    band[1, :-1] += products.diagonal(1)
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


class TemplateModel:
    """E and G^-1 of the streams that a rank models; with baselines, what eliminates them.

    Parameters
    ----------
    terms : StreamTerms or SelectedTerms
    noises : StreamNoises
    gap_keys : int64
        Positions among all samples of those that have no weight, increasing.

    Attributes
    ----------
    keys : int64 (n,)
        Of the amplitudes; streams that share some have the same.
    shares : float64 (n,)
        One divided by the number of streams that share an amplitude.
    functions_sum : int
        What functions of a stream add up to at most in a sample.
    """

    def __init__(
        self, terms: StreamTerms | SelectedTerms, noises: StreamNoises, gap_keys: Int64Array
    ) -> None:
        from scipy import sparse

        self.noises, self._terms = noises, terms
        self._functions = lru_cache(_CACHED)(self._make_functions)
        keys, shares = [np.zeros(0, np.int64)], [np.zeros(0)]
        self.functions_sum, couplings, rests = 0, [], []
        self._matrices: list[Any] = []
        for number, stream in enumerate(noises.streams.tolist()):
            if not terms.of(stream):
                n_knots = int(noises.knots[number + 1] - noises.knots[number])
                coupling, matrix = sparse.csr_matrix((n_knots, 0)), sparse.csr_matrix((0, 0))
                rest = coupling, sparse.csr_matrix((len(self._gaps_of(number, gap_keys)), n_knots))
            else:
                coupling, matrix, rest = self._stream(number, gap_keys)
            keys += terms.shared_keys(stream)
            present = (1 if term.functions == "bins" else term.n_functions for term in terms.of(stream))
            self.functions_sum = max(self.functions_sum, sum(present))
            shares += [
                np.full(term.n_amplitudes, 1 / len(terms.group(stream, k)))
                for k, term in enumerate(terms.of(stream))
            ]
            couplings.append(coupling)
            rests.append(rest)
            self._matrices.append(matrix)
        self.keys, self.shares = np.concatenate(keys), np.concatenate(shares)
        self._coupling: Any = sparse.block_diag(couplings, "csr") if couplings else sparse.csr_matrix((0, 0))
        self._transposed: Any = self._coupling.T.tocsr()
        self._held, self._hats = (
            sparse.block_diag(parts, "csr") if parts else sparse.csr_matrix((0, 0))
            for parts in ([rest[k] for rest in rests] for k in range(2))
        )
        self._firsts = np.concatenate([[0], np.cumsum([len(m) for m in map(_diagonal, self._matrices)])])
        self._sizes = [_diagonal(matrix) for matrix in self._matrices]
        self._inverse = _Inverses(self._matrices, self._sizes)
        self._reduced = self._inverse

    def couple(self, solve: Callable[[FloatArray], FloatArray]) -> None:
        """Take the baselines' (C^-1 + F^T W F)^-1, of (n_knots, width), into what eliminates amplitudes."""
        matrices: list[Any] = list(self._matrices)
        sizes = np.diff(self._firsts)
        few = np.flatnonzero((sizes > 0) & (sizes <= _MOST_COUPLED))
        ranges = [(int(self._firsts[number]), int(self._firsts[number + 1])) for number in few]
        answers = self._squares(ranges, lambda x: self._transposed @ solve(self._coupling @ x))
        for number, answer in zip(few, answers, strict=True):
            matrices[number] = matrices[number].toarray() - answer
        self._eliminated = matrices
        self._reduced = _Inverses(matrices, self._sizes)

    def eliminate_from_modes(
        self,
        groups: Sequence[slice],
        answer: Callable[[FloatArray], FloatArray],
        solve: Callable[[FloatArray], FloatArray],
    ) -> Callable[[FloatArray], FloatArray]:
        """Return the answer of common modes to baselines with the amplitudes of their streams eliminated.

        With e = c + (C^-1 + F^T W F)^-1 E, what baselines answer for of functions, and G' the matrix of
        amplitudes with baselines eliminated, the answer M becomes M + M e (G' - e^T M e)^-1 e^T M, in groups
        of few amplitudes (`ModeModel`).

        Parameters
        ----------
        groups : sequence of slice
            Streams.
        answer, solve : callable
            Return M and (C^-1 + F^T W F)^-1 of (n_knots, width).
        """
        from scipy import sparse

        def times_e(amplitudes: FloatArray) -> FloatArray:
            more = solve(self._coupling @ amplitudes) if self._coupling.nnz else 0.0
            return self.to_baselines(amplitudes) + more

        def times_e_transposed(knots: FloatArray) -> FloatArray:
            more = self._transposed @ solve(knots) if self._coupling.nnz else 0.0
            return np.asarray(self.from_knots(knots) + more, np.float64)

        chosen = [one for one in groups if self._are_few(one)]
        ranges = [(int(self._firsts[one.start]), int(self._firsts[one.stop])) for one in chosen]
        squares = self._squares(ranges, lambda x: times_e_transposed(answer(times_e(x))))
        blocks, done = [], 0
        for one, (begin, end), square in zip(chosen, ranges, squares, strict=True):
            matrix = sparse.block_diag(self._eliminated[one]).toarray() - square
            inverse = regularized_inverse(matrix, np.concatenate(self._sizes[one]), _LEAST)
            blocks += [sparse.csr_matrix((begin - done,) * 2), sparse.csr_matrix(inverse)]
            done = end
        rest = int(self._firsts[-1]) - done
        inverses = sparse.block_diag([*blocks, sparse.csr_matrix((rest, rest))], "csr")

        def eliminated(knots: FloatArray) -> FloatArray:
            out = answer(knots)
            if chosen:
                out += answer(times_e(np.asarray(inverses @ times_e_transposed(out), np.float64)))
            return out

        return eliminated

    def _are_few(self, group: slice) -> bool:
        """Return whether the amplitudes of a group of streams are eliminated from its modes."""
        sizes = np.diff(self._firsts)[group]
        return bool(0 < sizes.sum() <= _MOST_SHARED and sizes.max() <= _MOST_COUPLED)

    def _squares(
        self, ranges: Sequence[tuple[int, int]], product: Callable[[FloatArray], FloatArray]
    ) -> list[FloatArray]:
        """Return the blocks on the diagonal of a product with amplitudes, of ranges that do not mix in it."""
        squares = [np.empty((end - begin,) * 2) for begin, end in ranges]
        for first in range(0, max(map(len, squares), default=0), MAX_WIDTH):
            units = np.zeros((int(self._firsts[-1]), MAX_WIDTH))
            for begin, end in ranges:
                columns = np.arange(max(0, min(MAX_WIDTH, end - begin - first)))
                units[begin + first + columns, columns] = 1.0
            back = product(units)
            for (begin, end), square in zip(ranges, squares, strict=True):
                n = max(0, min(MAX_WIDTH, end - begin - first))
                square[:, first : first + n] = back[begin:end, :n]
        return [(square + square.T) / 2 for square in squares]

    def correct(self, knots: FloatArray, solve: Callable[[FloatArray], FloatArray]) -> None:
        """Make (C^-1 + F^T W F)^-1 x, (n_knots, width), that of which the amplitudes are eliminated."""
        knots += solve(self._coupling @ self._reduced(self._transposed @ knots))

    def alone(self, knots: FloatArray, residuals: FloatArray | None) -> FloatArray:
        """Return baselines x, (n_knots, width), without c a: x + c G^-1 (r - E^T x) of residuals r."""
        left = -np.asarray(self._transposed @ knots, np.float64)
        if residuals is not None:
            left += residuals
        return knots + self.to_baselines(self._inverse(left))

    def beside(self, shared: FloatArray) -> FloatArray:
        """Return (1 - E G^-1 c^T) of what streams share of T^-1 x, (n_knots, width)."""
        out: FloatArray = shared - self._coupling @ self._inverse(self.from_knots(shared))
        return out

    def residuals(self, amplitudes: FloatArray, gaps: FloatArray) -> FloatArray:
        """Return r_a - R^T r_g of residuals of amplitudes, (n, width), and gaps, (n_gaps, width)."""
        return amplitudes + np.asarray(self._held.T @ (self._hats.T @ gaps), np.float64)

    def in_gaps(self, amplitudes: FloatArray) -> FloatArray:
        """Return R a in gaps, (n_gaps, width), of amplitudes, (n, width)."""
        return -np.asarray(self._hats @ self.to_baselines(amplitudes), np.float64)

    def to_knots(self, residuals: FloatArray) -> FloatArray:
        """Return E G^-1 of residuals of amplitudes, (n, width)."""
        return np.asarray(self._coupling @ self._inverse(residuals), np.float64)

    def amplitudes(self, residuals: FloatArray, knots: FloatArray) -> FloatArray:
        """Return G^-1 (r - E^T x) of residuals of amplitudes, (n, width), and baselines x."""
        return self._inverse(residuals - self._transposed @ knots)

    def to_baselines(self, amplitudes: FloatArray) -> FloatArray:
        """Return c a of amplitudes, (n, width)."""
        return np.asarray(self._held @ amplitudes, np.float64)

    def from_knots(self, knots: FloatArray) -> FloatArray:
        """Return c^T of values at knots, (n, width)."""
        return np.asarray(self._held.T @ knots, np.float64)

    def blocks(self) -> Callable[[FloatArray], FloatArray]:
        """Return (T^T N^-1 T)^-1 of each stream under the noise N of the model: G^-1, E being nearly zero."""
        return self._inverse

    def _stream(self, number: int, gap_keys: Int64Array) -> tuple[Any, Any, tuple[Any, Any]]:
        """Return E, G, and c with F in gaps of a stream, sparse."""
        from scipy import sparse

        (hats, functions), noises = self._functions_of(number), self.noises
        n_samp, n_knots = hats.shape
        weights = np.full(n_samp, noises.weights[number])
        gaps, prior = self._gaps_of(number, gap_keys), noises.inverse_priors[number]
        weights[gaps] = 0.0
        lags = [lag for lag in range(-len(prior) + 1, len(prior)) if abs(lag) < n_knots]
        inverse: Any = sparse.diags([np.full(n_knots - abs(lag), prior[abs(lag)]) for lag in lags], lags)
        functions = sparse.diags((weights > 0).astype(np.float64)) @ functions
        weighted = (sparse.diags(weights) @ hats).T.tocsr()
        products, mixed = (weighted @ hats).tocsr(), (weighted @ functions).tocsr()
        c = _answered_by_baselines(products, mixed, prior)
        cross, squares = c.T @ mixed, noises.weights[number] * (functions.T @ functions)
        rest = squares - cross - cross.T + c.T @ (products @ c)  # R^T W R; R has as many entries as samples
        matrix = (c.T @ (inverse @ c) + rest + self._inverse_covariance(number)).tocsr()
        coupling = ((inverse + products) @ c - mixed).tocoo()
        sizes = np.sqrt(_diagonal(inverse + products)[coupling.row] * _diagonal(matrix)[coupling.col])
        coupling.data[np.abs(coupling.data) <= _NOTHING * sizes] = 0.0
        coupling.eliminate_zeros()
        return coupling.tocsr(), matrix, (c, hats[gaps])

    def _inverse_covariance(self, number: int) -> Any:
        """Return S^-1 of the amplitudes of a stream, sparse; zero where nothing is known of them."""
        from scipy import sparse

        stream, weight = int(self.noises.streams[number]), float(self.noises.units[number]) ** 2
        parts = []
        priors = self._terms.priors(stream, _PRIOR_ORDER)
        for k, (term, process) in enumerate(zip(self._terms.of(stream), priors, strict=True)):
            if process is None:
                parts.append(sparse.csr_matrix((term.n_amplitudes, term.n_amplitudes)))
            else:
                functions = sparse.identity(term.n_functions) / len(self._terms.group(stream, k))
                parts.append(weight * sparse.kron(process.inverse_covariance(term.n_sets), functions))
        return sparse.block_diag(parts, "csr")

    def _gaps_of(self, number: int, gap_keys: Int64Array) -> Int64Array:
        """Return the positions of the gaps in a stream."""
        stream, keys = self.noises.streams[number], self._terms.layout.sample_keys
        begin, end = np.searchsorted(gap_keys, keys[stream : stream + 2])
        return np.asarray(gap_keys[begin:end] - keys[stream], np.int64)

    def _functions_of(self, number: int) -> tuple[Any, Any]:
        """Return F and T of a stream."""
        own = int(self.noises.streams[number])
        stream = self._terms.layout.streams[own]
        n_samp = stream.stop - stream.start
        return self._functions(self._terms.of(own), n_samp, int(self.noises.steps[number]))

    def _make_functions(self, terms: tuple[TemplateTerm, ...], n_samp: int, step: int) -> tuple[Any, Any]:
        """Return F and T of a stream of `n_samp` samples, margins included, with these terms."""
        margin = self._terms.layout.margin
        return _hats(n_samp, step), stream_functions(terms, -margin, n_samp - margin)


def _hats(n_samp: int, step: int) -> Any:
    """Return the hat functions about knots every `step` samples, (n_samp, n_knots).

    Samples are between knots, as in visits (`baselines.cpp`).
    """
    from scipy import sparse

    positions = np.arange(n_samp)
    before, after = positions // step, (positions % step + 0.5) / step
    rows = np.repeat(positions, 2)
    columns = np.stack([before, before + 1], axis=1).ravel()
    values = np.stack([1 - after, after], axis=1).ravel()
    return sparse.csr_matrix((values, (rows, columns)), (n_samp, (n_samp - 1) // step + 2))


def _diagonal(matrix: Any) -> FloatArray:
    return np.asarray(matrix.diagonal(), np.float64)


class _Inverses:
    """Inverses of the matrices of streams, dense or sparse ones, on the directions that they determine."""

    def __init__(self, matrices: Sequence[Any], sizes: Sequence[FloatArray]) -> None:
        from scipy import sparse

        ends = np.concatenate([[0], np.cumsum([matrix.shape[0] for matrix in matrices])]).astype(np.int64)
        self._n = int(ends[-1])
        blocks, self._factors = [], []
        for number, matrix in enumerate(matrices):
            n = matrix.shape[0]
            if n <= _MOST_DENSE:
                dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
                blocks.append(sparse.csr_matrix(regularized_inverse(dense, sizes[number], _LEAST)))
            else:
                self._factors.append((slice(int(ends[number]), int(ends[number + 1])), _factor(matrix)))
                blocks.append(sparse.csr_matrix((n, n)))
        self._dense = sparse.block_diag(blocks, "csr") if blocks else sparse.csr_matrix((0, 0))

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the product with values, (n, width)."""
        out = np.asarray(self._dense @ values, np.float64)
        for own, factor in self._factors:
            out[own] = factor.solve(np.ascontiguousarray(values[own]))
        return out


def _factor(matrix: Any) -> Any:
    from scipy import sparse
    from scipy.sparse.linalg import splu

    diagonal = _diagonal(matrix)
    ridge = np.where(diagonal > 0, _LEAST * diagonal, 1.0)
    return splu((matrix + sparse.diags(ridge)).tocsc())


class AmplitudePreconditioner(Preconditioner):
    """M^-1 of pixels and gaps, beside (T^T N^-1 T)^-1 of the amplitudes of each stream. Collective.

    Parameters
    ----------
    local : Preconditioner
        Of pixels and gaps; amplitudes are zero in it.
    shared : SharedUnknowns
    transfer : NuisanceTransfer
        Of amplitudes alone.
    inverses : callable
        Returns (T^T N^-1 T)^-1 of amplitudes, (n, width).
    """

    def __init__(
        self,
        local: Preconditioner,
        shared: SharedUnknowns,
        transfer: NuisanceTransfer,
        inverses: Callable[[FloatArray], FloatArray],
    ) -> None:
        self.local, self._shared, self._transfer = local, shared, transfer
        self._inverses = inverses
        self.description = f"{local.description}, templates by stream"

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return M^-1 times vectors side by side. Collective."""
        out = self.local.apply(vectors)
        none, residuals = self._transfer.to_model(vectors.gaps)
        out.gaps[...] += self._transfer.from_model(none, self._inverses(residuals))
        return self._shared.with_ghosts(out) if self._shared.keeps_ghosts else out
