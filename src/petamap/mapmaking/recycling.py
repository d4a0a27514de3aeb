"""Krylov recycling: what iterations learn of A on some right-hand sides, used on all others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.threads import one_blas_thread
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.vectors import WIDEST, Unknowns

# Directions of which the others leave less than this are taken for the same.
_SAME = 1e-10
# Iterations that are learnt from, to a part of the tolerance: the slowest modes are found last. Their
# residuals are kept until the space is found.
_LONGEST, _FURTHER = 128, 0.1
# 64-bit sums keep a sign and a bit to spare; the higher word of a term has at most 50 bits.
_SUM_BITS, _TERM_BITS = 62, 50


class Deflation:
    """A space W in which  A x = b  is solved at once; conjugate gradients iterate on the rest alone.

    With G = W^T A W, a solution starts from ``x = W G^-1 W^T b``, and every search direction is made
    A-orthogonal to W, ``p - W G^-1 (A W)^T p`` (deflated conjugate gradients: Saad, Yeung, Erhel and
    Guyomarc'h 2000, SIAM J. Sci. Comput. 21, 1909). What W holds, the residual loses for good.

    Parameters
    ----------
    vectors, images : Unknowns
        W and A W side by side, at the owners of their rows: a multiple of 8, the last ones zero.
    n_vectors : int
        How many there are.
    comm : Communicator
    n_threads : int

    Attributes
    ----------
    alone : float
        Iterations that the right-hand sides which it was learnt on take without it; nan if it was not learnt.
    """

    def __init__(
        self, vectors: Unknowns, images: Unknowns, n_vectors: int, comm: Communicator, n_threads: int
    ) -> None:
        self.n_vectors = n_vectors
        self.alone = math.nan
        self.comm = comm
        self.vectors = _Space(vectors, comm, n_threads)
        self.images = _Space(images, comm, n_threads)
        matrix = self.images.products(vectors, self.vectors.largest)[:n_vectors, :n_vectors]
        self._inverse = np.zeros((vectors.width, vectors.width))
        with one_blas_thread():
            self._inverse[:n_vectors, :n_vectors] = np.linalg.inv((matrix + matrix.T) / 2)

    @staticmethod
    def train(
        gradients: ConjugateGradients,
        rhs: Sequence[Unknowns],
        tolerance: float,
        max_iterations: int,
        n_vectors: int,
        at_once: int = WIDEST,
    ) -> Deflation:
        """Return the space of the slowest modes that solving for some right-hand sides finds. Collective.

        Conjugate gradients are a Lanczos process on M^-1 A. The Ritz vectors of its smallest eigenvalues are
        what slows it down. Those of all right-hand sides together span a space, of which the `n_vectors`
        slowest are kept, by Rayleigh-Ritz (Stathopoulos and Orginos 2010, SIAM J. Sci. Comput. 32, 439).

        Parameters
        ----------
        gradients : ConjugateGradients
        rhs : sequence of Unknowns
            The space follows from these alone: choose the same ones, and it is the same to the bit.
        tolerance, max_iterations
            Of the solutions to come; these are solved for further, in at most 128 iterations.
        n_vectors : int
            At most so many.
        at_once : int
            Right-hand sides that are solved for side by side, for memory: the space is the same.

        Raises
        ------
        ConvergenceError
            If one of them cannot be solved for.
        """
        found: list[Unknowns] = []
        alone: list[int] = []
        for first in range(0, len(rhs), at_once):
            some = rhs[first : first + at_once]
            runs = [_Iterations(gradients) for _ in some]
            keeps, most = [run.keep for run in runs], min(max_iterations, _LONGEST)
            for solution in gradients.solve_many(some, tolerance * _FURTHER, most, keeps=keeps):
                if solution.error is not None:
                    raise solution.error
                alone.append(solution.iterations_to(tolerance))
            while runs:
                found += runs.pop(0).ritz_vectors(n_vectors)
        if not found:
            nothing = gradients.zeros(0)
            return Deflation(nothing, nothing, 0, gradients.comm, gradients.n_threads)
        vectors = Unknowns.beside(found, _padded(len(found)))
        found.clear()
        space = _slowest(gradients, vectors, n_vectors)
        space.alone = sum(alone) / len(alone)
        return space

    @staticmethod
    def n_kept(n_rhs: int, max_iterations: int, n_vectors: int, at_once: int) -> int:
        """Return how many vectors `train` holds at most, for what memory is to be planned."""
        found = _padded(n_rhs * n_vectors)
        return max(found + min(n_rhs, at_once) * (min(max_iterations, _LONGEST) + WIDEST), 5 * found)

    def start(self, x: Unknowns, r: Unknowns) -> None:
        """Add to each x what W solves of the residual r, and take it from r."""
        if self.n_vectors:
            amounts = self._amounts(self.vectors.products(r, r.largest(self.comm)))
            self.vectors.add(amounts, x)
            self.images.add(-amounts, r)

    def project(self, p: Unknowns, largest: FloatArray) -> FloatArray:
        """Make each p A-orthogonal to W; take and return the largest |I| + |Q| + |U| over all ranks."""
        if not self.n_vectors:
            return largest
        found = self.vectors.add(-self._amounts(self.images.products(p, largest)), p)
        return self.comm.allreduce(found, "max")

    def _amounts(self, products: FloatArray) -> FloatArray:
        """Return G^-1 products of each column, one term after the other: BLAS's order depends on columns."""
        amounts = np.zeros_like(products)
        for row, product in zip(self._inverse, products.T, strict=True):
            amounts += row * product[:, None]
        return amounts


@dataclass
class _Space:
    """Vectors side by side, and sums over their rows that do not depend on ranks, threads or columns."""

    vectors: Unknowns
    comm: Communicator
    n_threads: int

    def __post_init__(self) -> None:
        self.largest = self.vectors.largest(self.comm)
        n_terms = self.comm.sum(sum(math.prod(part.shape[:2]) for part in self.vectors))
        self._bits = min(_TERM_BITS, _SUM_BITS - max(n_terms, 1).bit_length())

    def products(self, given: Unknowns, largest: FloatArray) -> FloatArray:
        """Return all dot products with columns that have no larger values, (width, n_vectors). Collective.

        A term is two integers, multiples of 2^-bits of the largest that is possible and of 2^-bits of these:
        integers add in any order.
        """
        scales, own = np.ldexp(_scales(largest), self._bits), _scales(self.largest)
        sums = np.zeros((given.width, 2, len(own)), np.int64)
        for vectors, part in zip(self.vectors, given, strict=True):
            _mapmaking.space_products(vectors, part, own, scales, self._bits, sums, self.n_threads)
        high, low = np.moveaxis(self.comm.allreduce(sums), 1, 0)
        values: FloatArray = _rounded(high, low, self._bits) / own / scales[:, None]
        return values

    def add(self, amounts: FloatArray, to: Unknowns) -> FloatArray:
        """Add the vectors times amounts, (width, n_vectors); return the largest |I| + |Q| + |U| there."""
        largest = np.zeros((2, to.width))
        for vectors, part, most in zip(self.vectors, to, largest, strict=True):
            _mapmaking.space_add(vectors, amounts, part, most, self.n_threads)
        return np.asarray(largest.max(axis=0), np.float64)

    def mixed(self, amounts: FloatArray) -> Unknowns:
        """Return mixtures of the vectors by amounts, (n_mixtures, n_vectors), side by side."""
        padded = np.zeros((_padded(len(amounts)), self.vectors.width))
        padded[: len(amounts), : amounts.shape[1]] = amounts
        out = Unknowns(*(np.zeros((*part.shape[:2], len(padded))) for part in self.vectors))
        self.add(padded, out)
        return out


@dataclass
class _Iterations:
    """What conjugate gradients on one right-hand side leave: M^-1 r, eight side by side, and coefficients."""

    gradients: ConjugateGradients
    directions: list[Unknowns] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)
    betas: list[float] = field(default_factory=list)

    def keep(self, r: Unknowns, norm: float, alpha: float, beta: float) -> None:
        """Take residual, squared norm, alpha and beta of an iteration."""
        column = len(self.norms) % WIDEST
        if column == 0:
            self.directions.append(self.gradients.zeros(WIDEST))
        preconditioned = self.gradients.precondition(Unknowns.beside([r]))
        for to, part in zip(self.directions[-1], preconditioned, strict=True):
            to[..., column] = part[..., 0]
        self.norms.append(norm)
        self.alphas.append(alpha)
        self.betas.append(beta)

    def ritz(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues, increasing, and eigenvectors of the tridiagonal matrix (Saad 2003, 6.7.3)."""
        alpha, beta = np.array(self.alphas), np.array(self.betas)
        diagonal = 1 / alpha
        diagonal[1:] += beta[1:] / alpha[:-1]
        off = np.sqrt(beta[1:]) / alpha[:-1]
        with one_blas_thread():
            values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, -1))
        return values, vectors

    def ritz_vectors(self, n_vectors: int) -> list[Unknowns]:
        """Return the vectors of the smallest Ritz values, of unit norm in M."""
        if not self.norms:
            return []
        signs = (-1.0) ** np.arange(len(self.norms))
        weights = self.ritz()[1][:, :n_vectors].T * (signs / np.sqrt(self.norms))
        padded = np.zeros((len(weights), len(self.directions) * WIDEST))
        padded[:, : weights.shape[1]] = weights
        out = self.gradients.zeros(_padded(len(weights)))
        for number, directions in enumerate(self.directions):
            part = padded[:, number * WIDEST : (number + 1) * WIDEST]
            amounts = np.zeros((out.width, WIDEST))
            amounts[: len(part)] = part
            _Space(directions, self.gradients.comm, self.gradients.n_threads).add(amounts, out)
        return [out.column(number) for number in range(len(weights))]


def _slowest(gradients: ConjugateGradients, found: Unknowns, n_vectors: int) -> Deflation:
    """Return the space of the smallest Rayleigh-Ritz values of M^-1 A in the span of some vectors."""
    comm, n_threads = gradients.comm, gradients.n_threads
    vectors = _Space(found, comm, n_threads)
    images = _Space(_by_eight(gradients.times, found), comm, n_threads)
    # A M^-1 A v = value A v: the same values as those of M^-1 A, and only what is there already enters
    stiffness = images.products(found, vectors.largest)
    weighted = _by_eight(gradients.precondition, images.vectors)
    squares = images.products(weighted, weighted.largest(comm))
    mixtures = _generalized(squares, stiffness)[:n_vectors]
    return Deflation(vectors.mixed(mixtures), images.mixed(mixtures), len(mixtures), comm, n_threads)


def _generalized(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the vectors, as rows, of  left v = value right v  by value, where `right` is not singular."""
    there = np.diag(right) > 0
    vectors = np.zeros((int(there.sum()), len(right)))
    left, right = ((m[np.ix_(there, there)] + m[np.ix_(there, there)].T) / 2 for m in (left, right))
    with one_blas_thread():
        scale = 1 / np.sqrt(np.diag(right))
        sizes, axes = np.linalg.eigh(right * scale * scale[:, None])
        basis = scale[:, None] * axes[:, sizes > _SAME] / np.sqrt(sizes[sizes > _SAME])
        _, inner = np.linalg.eigh(basis.T @ left @ basis)
        vectors = vectors[: inner.shape[1]]
        vectors[:, there] = (basis @ inner).T
    return vectors


def _by_eight(work: Callable[[Unknowns], Unknowns], vectors: Unknowns) -> Unknowns:
    """Return what is made of vectors side by side, eight at a time."""
    out = vectors.zeros_like()
    for first in range(0, vectors.width, WIDEST):
        eight = slice(first, first + WIDEST)
        made = work(Unknowns(*(np.ascontiguousarray(part[..., eight]) for part in vectors)))
        for to, part in zip(out, made, strict=True):
            to[..., eight] = part
    return out


def _padded(n: int) -> int:
    return -(-n // WIDEST) * WIDEST


def _scales(largest: FloatArray) -> FloatArray:
    """Return powers of two that bring values below 1."""
    return np.ldexp(1.0, -np.frexp(largest)[1])


def _rounded(high: Int64Array, low: Int64Array, low_bits: int) -> FloatArray:
    carry = low >> low_bits  # first, so that the sum is rounded once
    rest = np.ldexp((low - (carry << low_bits)).astype(np.float64), -low_bits)
    return np.asarray((high + carry).astype(np.float64) + rest, np.float64)
