"""Krylov recycling: slow modes found on some right-hand sides, deflated for all others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.lanczos import lanczos_matrix
from petamap.mapmaking.stop_rule import SolverTolerance
from petamap.mapmaking.vectors import MAX_WIDTH, N_PARTS, Unknowns, stack, stacked_zeros

# Directions that are independent of the others by less than this are dropped.
_SAME = 1e-10
# Iterations to train on, to a fraction of the tolerance: the slowest modes are found last. Their residuals
# are kept until the space is found.
_MAX_ITERATIONS, _TOLERANCE_FACTOR = 128, 0.1
# 64-bit sums keep a sign and a bit to spare; the higher word of a term has at most 50 bits.
_SUM_BITS, _TERM_BITS = 62, 50


class Deflation:
    """A space W in which A x = b is solved directly; conjugate gradients iterate on the complement.

    With G = W^T A W, a solution starts from ``x = W G^-1 W^T b``, and every search direction is made
    A-orthogonal to W, ``p - W G^-1 (A W)^T p`` (deflated conjugate gradients: Saad, Yeung, Erhel and
    Guyomarc'h 2000, SIAM J. Sci. Comput. 21, 1909).

    Parameters
    ----------
    vectors, images : Unknowns
        W and A W side by side, at the owners of their rows: a multiple of 8, the last ones zero.
    n_vectors : int
        Dimension of the space.
    comm : Communicator
    n_threads : int

    Attributes
    ----------
    undeflated_iterations : float
        Mean iterations of the training right-hand sides without deflation; nan if it was not trained.
    """

    def __init__(
        self, vectors: Unknowns, images: Unknowns, n_vectors: int, comm: Communicator, n_threads: int
    ) -> None:
        self.n_vectors = n_vectors
        self.undeflated_iterations = math.nan
        self.comm = comm
        self.vectors = _Space(vectors, comm, n_threads)
        self.images = _Space(images, comm, n_threads)
        matrix = self.images.products(vectors, self.vectors.largest)[:n_vectors, :n_vectors]
        self._inverse = np.zeros((vectors.width, vectors.width))
        with single_blas_thread():
            self._inverse[:n_vectors, :n_vectors] = np.linalg.inv((matrix + matrix.T) / 2)

    @staticmethod
    def train(
        solver: ConjugateGradients,
        rhs: Sequence[Unknowns],
        tolerance: float | str,
        max_iterations: int,
        n_vectors: int,
        at_once: int = MAX_WIDTH,
    ) -> Deflation:
        """Return the space of the slowest modes that solving for some right-hand sides finds. Collective.

        Conjugate gradients are a Lanczos process on M^-1 A; the Ritz vectors of its smallest eigenvalues slow
        it down. Those of all right-hand sides span a space, of which the `n_vectors` slowest are kept, by
        Rayleigh-Ritz (Stathopoulos and Orginos 2010, SIAM J. Sci. Comput. 32, 439).

        Parameters
        ----------
        solver : ConjugateGradients
        rhs : sequence of Unknowns
            The space depends on these alone, to the bit.
        tolerance, max_iterations
            Of the solutions to come; training goes to a tenth of it, in at most 128 iterations.
        n_vectors : int
            Largest dimension of the space.
        at_once : int
            Right-hand sides that are solved for side by side, a matter of memory: the space is the same.

        Raises
        ------
        ConvergenceError
            If one of them cannot be solved for.
        """
        found: list[Unknowns] = []
        alone: list[int] = []
        wanted = SolverTolerance.parse(tolerance)
        for first in range(0, len(rhs), at_once):
            some = rhs[first : first + at_once]
            records = [RecordedIterations(solver) for _ in some]
            recorders, most = [one.record for one in records], min(max_iterations, _MAX_ITERATIONS)
            for solution in solver.solve_many(some, wanted * _TOLERANCE_FACTOR, most, recorders=recorders):
                if solution.error is not None:
                    raise solution.error
                alone.append(solution.iterations_to(wanted))
            while records:
                found += records.pop(0).ritz_vectors(n_vectors)
        if not found:
            nothing = stacked_zeros(rhs[0], 0)
            return Deflation(nothing, nothing, 0, solver.comm, solver.n_threads)
        vectors = stack(found, _padded(len(found)))
        found.clear()
        space = slowest_modes(solver, vectors, n_vectors)
        space.undeflated_iterations = sum(alone) / len(alone)
        return space

    @staticmethod
    def n_kept(n_rhs: int, max_iterations: int, n_vectors: int, at_once: int) -> int:
        """Return the largest number of vectors that `train` holds, for planning memory."""
        found = _padded(n_rhs * n_vectors)
        return max(
            found + min(n_rhs, at_once) * (min(max_iterations, _MAX_ITERATIONS) + MAX_WIDTH), 5 * found
        )

    def start(self, x: Unknowns, r: Unknowns) -> None:
        """Solve the part of each residual r in W: add it to x and subtract its image from r."""
        if self.n_vectors:
            amounts = self._amounts(self.vectors.products(r, r.largest(self.comm)))
            self.vectors.add(amounts, x)
            self.images.add(-amounts, r)

    def project(self, p: Unknowns, largest: FloatArray) -> FloatArray:
        """Make each p A-orthogonal to W in place; return its largest |I| + |Q| + |U| over all ranks."""
        if not self.n_vectors:
            return largest
        found = self.vectors.add(-self._amounts(self.images.products(p, largest)), p)
        return self.comm.allreduce(found, "max")

    def _amounts(self, products: FloatArray) -> FloatArray:
        """Return G^-1 products of each column, in a fixed order: that of BLAS depends on the columns."""
        amounts = np.zeros_like(products)
        for row, product in zip(self._inverse, products.T, strict=True):
            amounts += row * product[:, None]
        return amounts


@dataclass
class _Space:
    """Vectors side by side, with dot products that do not depend on ranks, threads or columns."""

    vectors: Unknowns
    comm: Communicator
    n_threads: int

    def __post_init__(self) -> None:
        self.largest = self.vectors.largest(self.comm)
        n_terms = self.comm.sum(sum(math.prod(part.shape[:2]) for part in self.vectors.owned))
        self._bits = min(_TERM_BITS, _SUM_BITS - max(n_terms, 1).bit_length())

    def products(self, given: Unknowns, largest: FloatArray) -> FloatArray:
        """Return the dot products with columns of values up to `largest`, (width, n_vectors). Collective.

        A term is two integers, multiples of 2^-bits of the largest that is possible and of 2^-bits of these:
        integers add in any order.
        """
        scales, own = np.ldexp(_scales(largest), self._bits), _scales(self.largest)
        sums = np.zeros((given.width, 2, len(own)), np.int64)
        for vectors, part in zip(self.vectors.owned, given.owned, strict=True):
            _mapmaking.space_products(vectors, part, own, scales, self._bits, sums, self.n_threads)
        high, low = np.moveaxis(self.comm.allreduce(sums), 1, 0)
        return _rounded(high, low, self._bits) / own / scales[:, None]

    def add(self, amounts: FloatArray, to: Unknowns) -> FloatArray:
        """Add the vectors times amounts, (width, n_vectors), to `to`; return its largest |I| + |Q| + |U|."""
        largest = np.zeros((N_PARTS, to.width))
        for vectors, part, most in zip(self.vectors, to, largest, strict=True):
            _mapmaking.space_add(vectors, amounts, part, most, self.n_threads)
        return np.asarray(largest.max(axis=0), np.float64)

    def combine(self, amounts: FloatArray) -> Unknowns:
        """Return linear combinations of the vectors, (n_combinations, n_vectors), side by side."""
        padded = np.zeros((_padded(len(amounts)), self.vectors.width))
        padded[: len(amounts), : amounts.shape[1]] = amounts
        out = stacked_zeros(self.vectors, len(padded))
        self.add(padded, out)
        return out


@dataclass
class RecordedIterations:
    """Record of conjugate gradients on one right-hand side: M^-1 r, eight side by side, and coefficients."""

    solver: ConjugateGradients
    directions: list[Unknowns] = field(default_factory=list)
    steps: list[tuple[float, float, float]] = field(default_factory=list)

    def record(self, r: Unknowns, norm: float, alpha: float, beta: float) -> None:
        """Store residual, squared norm, alpha and beta of an iteration."""
        column = len(self.steps) % MAX_WIDTH
        if column == 0:
            self.directions.append(stacked_zeros(r, MAX_WIDTH))
        preconditioned = self.solver.preconditioner.apply(stack([r]))
        for to, part in zip(self.directions[-1], preconditioned, strict=True):
            to[..., column] = part[..., 0]
        self.steps.append((norm, alpha, beta))

    def ritz_vectors(self, n_vectors: int) -> list[Unknowns]:
        """Return the vectors of the smallest Ritz values, of unit norm in M."""
        if not self.steps:
            return []
        norm, alpha, beta = np.array(self.steps).T
        diagonal, off = lanczos_matrix(alpha, beta)
        with single_blas_thread():
            _, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, -1))
        signs = (-1.0) ** np.arange(len(norm))
        weights = vectors[:, :n_vectors].T * (signs / np.sqrt(norm))
        padded = np.zeros((len(weights), len(self.directions) * MAX_WIDTH))
        padded[:, : weights.shape[1]] = weights
        out = stacked_zeros(self.directions[0], _padded(len(weights)))
        for number, directions in enumerate(self.directions):
            part = padded[:, number * MAX_WIDTH : (number + 1) * MAX_WIDTH]
            amounts = np.zeros((out.width, MAX_WIDTH))
            amounts[: len(part)] = part
            _Space(directions, self.solver.comm, self.solver.n_threads).add(amounts, out)
        return [out.column(number) for number in range(len(weights))]


def slowest_modes(
    solver: ConjugateGradients, found: Unknowns, n_vectors: int, least: float = 0.0
) -> Deflation:
    """Return the space of the smallest Ritz values of M^-1 A, above `least`, in the span of vectors."""
    comm, n_threads = solver.comm, solver.n_threads
    vectors = _Space(found, comm, n_threads)
    images = _Space(_by_eight(solver.operator.apply, found), comm, n_threads)
    # A M^-1 A v = value A v has the eigenvalues of M^-1 A and needs no further product with A.
    stiffness = images.products(found, vectors.largest)
    weighted = _by_eight(solver.preconditioner.apply, images.vectors)
    squares = images.products(weighted, weighted.largest(comm))
    values, combinations = _generalized(squares, stiffness)
    combinations = combinations[values > least][:n_vectors]
    return Deflation(
        vectors.combine(combinations), images.combine(combinations), len(combinations), comm, n_threads
    )


def _generalized(left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values and, as rows, vectors of  left v = value right v  by value; `right` may be singular."""
    there = np.diag(right) > 0
    vectors = np.zeros((int(there.sum()), len(right)))
    left, right = ((m[np.ix_(there, there)] + m[np.ix_(there, there)].T) / 2 for m in (left, right))
    with single_blas_thread():
        scale = 1 / np.sqrt(np.diag(right))
        sizes, axes = np.linalg.eigh(right * scale * scale[:, None])
        basis = scale[:, None] * axes[:, sizes > _SAME] / np.sqrt(sizes[sizes > _SAME])
        values, inner = np.linalg.eigh(basis.T @ left @ basis)
        vectors = vectors[: inner.shape[1]]
        vectors[:, there] = (basis @ inner).T
    return values, vectors


def _by_eight(work: Callable[[Unknowns], Unknowns], vectors: Unknowns) -> Unknowns:
    """Return the result of `work` on vectors side by side, eight at a time."""
    out = vectors.zeros_like()
    for first in range(0, vectors.width, MAX_WIDTH):
        eight = slice(first, first + MAX_WIDTH)
        made = work(Unknowns(*(np.ascontiguousarray(part[..., eight]) for part in vectors)))
        for to, part in zip(out, made, strict=True):
            to[..., eight] = part
    return out


def _padded(n: int) -> int:
    return -(-n // MAX_WIDTH) * MAX_WIDTH


def _scales(largest: FloatArray) -> FloatArray:
    """Return powers of two that scale values below 1."""
    return np.ldexp(1.0, -np.frexp(largest)[1])


def _rounded(high: Int64Array, low: Int64Array, low_bits: int) -> FloatArray:
    carry = low >> low_bits  # first, so that the sum is rounded once
    rest = np.ldexp((low - (carry << low_bits)).astype(np.float64), -low_bits)
    return np.asarray((high + carry).astype(np.float64) + rest, np.float64)
