"""Templates in the model of the noise of preconditioners: amplitudes of whole streams, solved with baselines.

A template's functions T are those that baselines answer for, F c, and a rest R. With b' = b + c a in the
place of the baselines b, of prior C, and W zero in gaps, the normal equations are (`BaselineModel`)::

    (C^-1 + F^T W F) b' = F^T W (d - P m) + E a,        E = C^-1 c - F^T W R
    G a = R^T W d - (U - c^T B) m + E^T b',             G = c^T C^-1 c + R^T W R + S^-1

where S is the amplitudes' own prior, if they have one, and U = T^T W P
(`petamap.mapmaking.amplitude_visits`). They hold for any c. With c = (C^-1 + F^T W F)^-1 F^T W T the
baselines are eliminated from G, and E is left where c, of few knots about each function, is cut off. T is
zero in gaps, R is not, and their unknowns hold R a too: with r_a - R^T r_g in the place of r_a they are
g + R a. Amplitudes that streams have in common are one unknown each, and G^-1 is that of all streams
(`petamap.mapmaking.amplitude_inverse`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.base.weak_method import weak_method
from petacomm.mpi import Communicator
from petamap.data.template import TemplateTerm
from petamap.mapmaking.amplitude_inverse import AmplitudeInverse, as_dense
from petamap.mapmaking.amplitude_visits import stream_functions
from petamap.mapmaking.block_diagonal import BlockMatrix, BlockMatrixBuilder
from petamap.mapmaking.linear_operators import Preconditioner
from petamap.mapmaking.stream_elimination import Entries, StreamMatrices, StreamSums, hat_functions
from petamap.mapmaking.stream_terms import SelectedTerms, StreamTerms
from petamap.mapmaking.transfer import NuisanceTransfer
from petamap.mapmaking.vectors import MAX_WIDTH, SharedUnknowns, Unknowns
from petamap.mapmaking.visits import StreamNoises

# Amplitudes of a stream up to which what baselines answer for is computed.
_MOST_COUPLED = 512
# Amplitudes of all streams of a group up to which they are eliminated from its common modes.
_MOST_SHARED = 1024
# What is added to G: the less the better, but for what templates do as the sky can. What is left of the map's
# matrix there is rounding, what pixels see of functions being float32, and has to stay positive.
LEAST_ADDED = 1e-7, 1e-6
# Sets of amplitudes that predict the next one under their prior, in the model.
_PRIOR_ORDER = 8
# Intervals whose functions are held.
_CACHED = 4


@dataclass(frozen=True)
class _Part:
    """Amplitudes of streams that are eliminated together, each once.

    Attributes
    ----------
    keys : int64 (n,)
    common : bool (n,)
        Which of them other streams have too.
    matrix : float64 (n, n)
        Of the streams' amplitudes with baselines eliminated.
    sizes : float64 (n,)
        Of its rows before.
    """

    keys: Int64Array
    common: BoolArray
    matrix: FloatArray
    sizes: FloatArray


class TemplateModel:
    """E and G^-1 of the streams that a rank models; with baselines, what eliminates them. Collective.

    Parameters
    ----------
    terms : StreamTerms or SelectedTerms
    noises : StreamNoises
    gap_keys : int64
        Positions among all samples of those that have no weight, increasing.
    comm : Communicator
    by_stream : bool, optional
        Make G^-1 of each stream as if it had all of its amplitudes alone.
    least : float, optional
        What is added to G, relative to its diagonal.
    n_threads : int, optional

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
        self,
        terms: StreamTerms | SelectedTerms,
        noises: StreamNoises,
        gap_keys: Int64Array,
        comm: Communicator,
        *,
        by_stream: bool = False,
        least: float = LEAST_ADDED[-1],
        n_threads: int = 1,
    ) -> None:
        self.noises, self._terms, self._comm = noises, terms, comm
        self._least, self._n_threads = least, n_threads
        self._sums = lru_cache(_CACHED)(weak_method(self._make_sums))
        keys, shares = [np.zeros(0, np.int64)], [np.zeros(0)]
        self.functions_sum = 0
        couplings, answers, hats = BlockMatrixBuilder(), BlockMatrixBuilder(), BlockMatrixBuilder()
        self._matrices: list[Any] = []
        with single_blas_thread():
            for number, stream in enumerate(noises.streams.tolist()):
                own, gaps = terms.of(stream), self._gaps_of(number, gap_keys)
                n_knots = int(noises.knots[number + 1] - noises.knots[number])
                found = self._stream(number, gaps) if own else StreamMatrices.none()
                couplings.add(found.coupling, n_knots, found.matrix.shape[0])
                answers.add(found.answer, n_knots, found.matrix.shape[0])
                in_gaps = hat_functions(gaps, int(noises.steps[number])) if own else Entries.none()
                hats.add(in_gaps, len(gaps), n_knots)
                self._matrices.append(found.matrix)
                keys += terms.shared_keys(stream)
                present = (1 if term.functions == "bins" else term.n_functions for term in own)
                self.functions_sum = max(self.functions_sum, sum(present))
                shares += [
                    np.full(term.n_amplitudes, 1 / len(terms.group(stream, k))) for k, term in enumerate(own)
                ]
        self.keys, self.shares = np.concatenate(keys), np.concatenate(shares)
        matrices = (one.matrix(n_threads) for one in (couplings, answers, hats))
        self._coupling, self._held, self._hats = matrices
        self._firsts = np.concatenate([[0], np.cumsum([len(m) for m in map(_diagonal, self._matrices)])])
        self._sizes = [_diagonal(matrix) for matrix in self._matrices]
        self._common = (self.shares < 1) & (not by_stream)
        self._inverse = self._invert(self._matrices)
        self._reduced, self._is_coupled = self._inverse, comm.max(self._coupling.nnz) > 0

    def _invert(self, matrices: Sequence[Any]) -> AmplitudeInverse:
        return AmplitudeInverse(
            matrices, self._sizes, self.keys, self._common, self._comm, self._least, self._n_threads
        )

    def couple(self, solve: Callable[[FloatArray], FloatArray]) -> None:
        """Take the baselines' (C^-1 + F^T W F)^-1, of (n_knots, width), into what eliminates amplitudes."""
        matrices: list[Any] = list(self._matrices)
        sizes = np.diff(self._firsts)
        few = np.flatnonzero((sizes > 0) & (sizes <= _MOST_COUPLED))
        ranges = [(int(self._firsts[number]), int(self._firsts[number + 1])) for number in few]
        n = int(self._firsts[-1])
        answers = self._squares(
            ranges, lambda x: self._coupling.transposed_times(solve(self._coupling @ x)), n
        )
        for number, answer in zip(few, answers, strict=True):
            matrices[number] = as_dense(matrices[number]) - answer
        self._eliminated = matrices
        if self._is_coupled:
            self._reduced = self._invert(matrices)

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
        chosen = [one for one in groups if self._are_few(one)]
        if self._comm.max(len(chosen)) == 0:
            return answer
        seen, parts = self._parts(chosen)

        def times_e(amplitudes: FloatArray) -> FloatArray:
            copies = seen @ amplitudes
            more = solve(self._coupling @ copies) if self._coupling.nnz else 0.0
            return self.to_baselines(copies) + more

        def times_e_transposed(knots: FloatArray) -> FloatArray:
            more = self._coupling.transposed_times(solve(knots)) if self._coupling.nnz else 0.0
            return seen.transposed_times(self.from_knots(knots) + more)

        ends = np.cumsum([0, *(len(part.keys) for part in parts)])
        ranges = [(int(begin), int(end)) for begin, end in itertools.pairwise(ends)]
        squares = self._squares(ranges, lambda x: times_e_transposed(answer(times_e(x))), int(ends[-1]))
        inverse = AmplitudeInverse(
            [part.matrix - square for part, square in zip(parts, squares, strict=True)],
            [part.sizes for part in parts],
            np.concatenate([np.zeros(0, np.int64), *(part.keys for part in parts)]),
            np.concatenate([np.zeros(0, np.bool_), *(part.common for part in parts)]),
            self._comm,
            self._least,
            self._n_threads,
        )

        def eliminated(knots: FloatArray) -> FloatArray:
            out = answer(knots)
            out += answer(times_e(inverse(times_e_transposed(out))))
            return out

        return eliminated

    def _parts(self, chosen: Sequence[slice]) -> tuple[BlockMatrix, list[_Part]]:
        """Return streams that are eliminated together: groups, and others that share amplitudes, alone.

        Returns
        -------
        seen : BlockMatrix (n, n_once)
            Which amplitude of a group each is; of parts that are none, and have columns too, none.
        parts : list of _Part
            Of which each has every amplitude once.
        """
        from scipy import sparse

        of_groups = [number for one in chosen for number in range(one.start, one.stop)]
        others = np.setdiff1d(np.arange(len(self._sizes)), of_groups).tolist()
        alone = [slice(k, k + 1) for k in others if self._common[self._firsts[k] : self._firsts[k + 1]].any()]
        seen, parts, end = BlockMatrixBuilder(), [], 0
        for one in sorted([*chosen, *alone], key=lambda one: one.start):
            rows = np.arange(self._firsts[one.start], self._firsts[one.stop])
            keys, number, counts = np.unique(self.keys[rows], return_inverse=True, return_counts=True)
            first: Any = sparse.csr_matrix((np.ones(len(rows)), (np.arange(len(rows)), number)))
            matrix = (first.T @ sparse.block_diag(self._eliminated[one]) @ first).toarray()
            sizes: Any = first.T @ np.concatenate(self._sizes[one])
            n_sharing = counts / np.asarray(first.T @ self.shares[rows], np.float64)
            common = (counts < np.rint(n_sharing)) & self._common[rows].any()
            parts.append(_Part(keys, common, matrix, np.asarray(sizes, np.float64)))
            seen.add(Entries.none(), int(rows[0]) - end, 0)
            entries = Entries(np.arange(len(rows)), number, np.ones(len(rows)))
            seen.add(entries if one in chosen else Entries.none(), len(rows), len(keys))
            end = int(rows[-1]) + 1
        seen.add(Entries.none(), int(self._firsts[-1]) - end, 0)
        return seen.matrix(self._n_threads), parts

    def _are_few(self, group: slice) -> bool:
        """Return whether the amplitudes of a group of streams are eliminated from its modes."""
        first, last = int(self._firsts[group.start]), int(self._firsts[group.stop])
        most = np.diff(self._firsts)[group].max()
        return bool(
            last > first and len(np.unique(self.keys[first:last])) <= _MOST_SHARED and most <= _MOST_COUPLED
        )

    def _squares(
        self, ranges: Sequence[tuple[int, int]], product: Callable[[FloatArray], FloatArray], n: int
    ) -> list[FloatArray]:
        """Return the blocks on the diagonal of a product with n values, of ranges that do not mix in it."""
        squares = [np.empty((end - begin,) * 2) for begin, end in ranges]
        for first in range(0, max(map(len, squares), default=0), MAX_WIDTH):
            units = np.zeros((n, MAX_WIDTH))
            for begin, end in ranges:
                columns = np.arange(max(0, min(MAX_WIDTH, end - begin - first)))
                units[begin + first + columns, columns] = 1.0
            back = product(units)
            for (begin, end), square in zip(ranges, squares, strict=True):
                width = max(0, min(MAX_WIDTH, end - begin - first))
                square[:, first : first + width] = back[begin:end, :width]
        return [(square + square.T) / 2 for square in squares]

    def correct(self, knots: FloatArray, solve: Callable[[FloatArray], FloatArray]) -> None:
        """Make (C^-1 + F^T W F)^-1 x, (n_knots, width), that of which the amplitudes are eliminated."""
        if self._is_coupled:
            knots += solve(self._coupling @ self._reduced(self._coupling.transposed_times(knots)))

    def alone(self, knots: FloatArray, residuals: FloatArray | None) -> FloatArray:
        """Return baselines x, (n_knots, width), without c a: x + c G^-1 (r - E^T x) of residuals r."""
        left = -self._coupling.transposed_times(knots)
        if residuals is not None:
            left += residuals
        return knots + self.to_baselines(self._inverse(left))

    def beside(self, shared: FloatArray) -> FloatArray:
        """Return (1 - E G^-1 c^T) of what streams share of T^-1 x, (n_knots, width)."""
        return shared - self._coupling @ self._inverse(self.from_knots(shared))

    def residuals(self, amplitudes: FloatArray, gaps: FloatArray) -> FloatArray:
        """Return r_a - R^T r_g of residuals of amplitudes, (n, width), and gaps, (n_gaps, width)."""
        return amplitudes + self._held.transposed_times(self._hats.transposed_times(gaps))

    def in_gaps(self, amplitudes: FloatArray) -> FloatArray:
        """Return R a in gaps, (n_gaps, width), of amplitudes, (n, width)."""
        return -(self._hats @ self.to_baselines(amplitudes))

    def to_knots(self, residuals: FloatArray) -> FloatArray:
        """Return E G^-1 of residuals of amplitudes, (n, width)."""
        return self._coupling @ self._inverse(residuals)

    def amplitudes(self, residuals: FloatArray, knots: FloatArray) -> FloatArray:
        """Return G^-1 (r - E^T x) of residuals of amplitudes, (n, width), and baselines x."""
        return self._inverse(residuals - self._coupling.transposed_times(knots))

    def to_baselines(self, amplitudes: FloatArray) -> FloatArray:
        """Return c a of amplitudes, (n, width)."""
        return self._held @ amplitudes

    def from_knots(self, knots: FloatArray) -> FloatArray:
        """Return c^T of values at knots, (n, width)."""
        return self._held.transposed_times(knots)

    def blocks(self) -> Callable[[FloatArray], FloatArray]:
        """Return (T^T N^-1 T)^-1 of each stream under the noise N of the model: G^-1, E being nearly zero."""
        return self._inverse

    def _stream(self, number: int, gaps: Int64Array) -> StreamMatrices:
        """Return E, G and c of a stream, of which some samples are gaps."""
        own, noises = int(self.noises.streams[number]), self.noises
        stream = self._terms.layout.streams[own]
        functions, sums = self._sums(
            self._terms.of(own), stream.stop - stream.start, int(noises.steps[number])
        )
        if len(gaps):
            n_knots, step = sums.hats.shape[1], int(noises.steps[number])
            sums = sums.without(StreamSums.over(gaps, functions[gaps], step, n_knots))
        prior, weight = noises.inverse_priors[number], float(noises.weights[number])
        return sums.eliminate(weight, prior, self._inverse_covariance(number))

    def _inverse_covariance(self, number: int) -> Any:
        """Return S^-1 of the amplitudes of a stream, sparse; None where nothing is known of them."""
        from scipy import sparse

        stream, weight = int(self.noises.streams[number]), float(self.noises.units[number]) ** 2
        parts: list[Any] = []
        priors = self._terms.priors(stream, _PRIOR_ORDER)
        if not any(priors):
            return None
        for k, (term, process) in enumerate(zip(self._terms.of(stream), priors, strict=True)):
            if process is None:
                parts.append(sparse.csr_matrix((term.n_amplitudes, term.n_amplitudes)))
            else:
                functions = sparse.identity(term.n_functions) / len(self._terms.group(stream, k))
                parts.append(weight * sparse.kron(process.inverse_covariance(term.n_sets), functions))
        return sparse.block_diag(parts, "csr")

    def _gaps_of(self, number: int, gap_keys: Int64Array) -> Int64Array:
        """Return the positions of the gaps in a stream."""
        streams, own = self._terms.layout.streams, self.noises.streams[number : number + 1]
        first, n_samp = int(streams.keys(own)[0]), int(streams.lengths(own)[0])
        begin, end = np.searchsorted(gap_keys, [first, first + n_samp])
        return np.asarray(gap_keys[begin:end] - first, np.int64)

    def _make_sums(self, terms: tuple[TemplateTerm, ...], n_samp: int, step: int) -> tuple[Any, StreamSums]:
        """Return T of a stream of `n_samp` samples, margins included, with these terms, and sums over all."""
        margin = self._terms.layout.margin
        functions = stream_functions(terms, -margin, n_samp - margin)
        n_knots = (n_samp - 1) // step + 2
        return functions, StreamSums.over(np.arange(n_samp), functions, step, n_knots)


def _diagonal(matrix: Any) -> FloatArray:
    return np.asarray(matrix.diagonal(), np.float64)


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
