"""Krylov recycling: what iterations learn of A on some right-hand sides, used on all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petamap.base.exact import add_exactly, no_limbs, rounded
from petamap.base.threads import one_blas_thread
from petamap.base.typing import FloatArray
from petamap.comm.mpi import Communicator
from petamap.mapmaking.pcg import ConjugateGradients
from petamap.mapmaking.vectors import Unknowns

# Directions of which the others leave less than this are taken for the same.
_SAME = 1e-10


@dataclass
class _Iterations:
    """The residuals of a solve and the coefficients that tie them together."""

    residuals: list[Unknowns] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)
    betas: list[float] = field(default_factory=list)

    def keep(self, r: Unknowns, norm: float, alpha: float, beta: float) -> None:
        self.residuals.append(r.copy())
        self.norms.append(norm)
        self.alphas.append(alpha)
        self.betas.append(beta)

    def ritz_values(self) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues, increasing, and eigenvectors of the tridiagonal matrix (Saad 2003, 6.7.3)."""
        alpha, beta = np.array(self.alphas), np.array(self.betas)
        diagonal = 1 / alpha
        diagonal[1:] += beta[1:] / alpha[:-1]
        off = np.sqrt(beta[1:]) / alpha[:-1]
        with one_blas_thread():
            values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, -1))
        return values, vectors

    def ritz_vectors(self, inverse: Unknowns, n_vectors: int, n_threads: int) -> list[Unknowns]:
        """Return the vectors of the smallest Ritz values of M^-1 A, of unit norm in M."""
        if not self.residuals:
            return []
        signs = (-1.0) ** np.arange(len(self.norms))
        weights = self.ritz_values()[1][:, :n_vectors] * (signs / np.sqrt(self.norms))[:, None]
        return [_times_inverse(inverse, _mixture(self.residuals, row), n_threads) for row in weights.T]


class Deflation:
    """A space W in which  A x = b  is solved at once; conjugate gradients iterate on the rest alone.

    With G = W^T A W, a solution starts from ``x = W G^-1 W^T b``, and every search direction is made
    A-orthogonal to W, ``p - W G^-1 (A W)^T p`` (deflated conjugate gradients: Saad, Yeung, Erhel and
    Guyomarc'h 2000, SIAM J. Sci. Comput. 21, 1909). What W holds, the residual loses for good.

    Parameters
    ----------
    vectors, images : sequence of Unknowns
        W and A W, at the owners of their rows.
    comm : Communicator
    """

    def __init__(self, vectors: Sequence[Unknowns], images: Sequence[Unknowns], comm: Communicator) -> None:
        self.vectors = list(vectors)
        self.images = list(images)
        self.comm = comm
        self._inverse = _symmetric_inverse(_products(comm, self.vectors, self.images))

    @property
    def n_vectors(self) -> int:
        """Dimension of the space."""
        return len(self.vectors)

    @staticmethod
    def train(
        gradients: ConjugateGradients,
        rhs: Sequence[Unknowns],
        tolerance: float,
        max_iterations: int,
        n_vectors: int,
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
            Of their solutions.
        n_vectors : int
            At most so many.

        Raises
        ------
        ConvergenceError
            If one of them cannot be solved for.
        """
        found: list[Unknowns] = []
        for one in rhs:
            iterations = _Iterations()
            gradients.solve(one, tolerance, max_iterations, keep=iterations.keep)
            found += iterations.ritz_vectors(gradients.inverse, n_vectors, gradients.n_threads)
        images = [gradients.times(Unknowns.beside([vector])).column(0) for vector in found]
        return _slowest(gradients, found, images, n_vectors)

    def start(self, x: Unknowns, r: Unknowns) -> None:
        """Add to each x what W solves of the residual r, and take it from r."""
        for column in range(r.width):
            to, rest = _view(x, column), _view(r, column)
            amounts = self._inverse @ _products(self.comm, [rest], self.vectors)[0]
            for amount, vector, image in zip(amounts, self.vectors, self.images, strict=True):
                _add(to, amount, vector)
                _add(rest, -amount, image)

    def project(self, p: Unknowns) -> FloatArray:
        """Make each p A-orthogonal to W; return the largest |I| + |Q| + |U| of each over all ranks."""
        for column in range(p.width):
            one = _view(p, column)
            amounts = self._inverse @ _products(self.comm, [one], self.images)[0]
            for amount, vector in zip(amounts, self.vectors, strict=True):
                _add(one, -amount, vector)
        largest = np.max([np.abs(part).sum(axis=1).max(axis=0, initial=0.0) for part in p], axis=0)
        return self.comm.allreduce(largest, "max")


def _view(vectors: Unknowns, column: int) -> Unknowns:
    return Unknowns(vectors.pixels[..., column], vectors.gaps[..., column])


def _slowest(
    gradients: ConjugateGradients, vectors: list[Unknowns], images: list[Unknowns], n_vectors: int
) -> Deflation:
    """Return the space of the smallest Rayleigh-Ritz values of M^-1 A in the span of some vectors."""
    weighted = [_times_inverse(gradients.inverse, image, gradients.n_threads) for image in images]
    comm = gradients.comm
    # A M^-1 A v = value A v: the same values as those of M^-1 A, and only what is there already enters
    stiffness, squares = _products(comm, vectors, images), _products(comm, images, weighted)
    mixtures = _generalized(squares, stiffness)[:, :n_vectors]
    return Deflation(
        [_mixture(vectors, row) for row in mixtures.T], [_mixture(images, row) for row in mixtures.T], comm
    )


def _generalized(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the vectors of  left v = value right v  by increasing value, where `right` is not singular."""
    with one_blas_thread():
        scale = 1 / np.sqrt(np.diag(right))
        sizes, axes = np.linalg.eigh(right * scale * scale[:, None])
        basis = scale[:, None] * axes[:, sizes > _SAME] / np.sqrt(sizes[sizes > _SAME])
        _, inner = np.linalg.eigh(basis.T @ left @ basis)
        vectors: FloatArray = basis @ inner
    return vectors


def _symmetric_inverse(matrix: FloatArray) -> FloatArray:
    with one_blas_thread():
        inverse: FloatArray = np.asarray(np.linalg.inv((matrix + matrix.T) / 2), np.float64)
    return inverse


def _products(comm: Communicator, left: Sequence[Unknowns], right: Sequence[Unknowns]) -> FloatArray:
    """Return all dot products, (n_left, n_right), correctly rounded. Collective."""
    limbs = [no_limbs() for _ in range(len(left) * len(right))]
    for sums, (one, other) in zip(limbs, ((a, b) for a in left for b in right), strict=True):
        for first, second in zip(one, other, strict=True):
            add_exactly(first * second, sums)
    total = comm.allreduce(np.array(limbs, np.int64).reshape(len(limbs), len(no_limbs())))
    return np.array([rounded(sums) for sums in total]).reshape(len(left), len(right))


def _mixture(vectors: Iterable[Unknowns], amounts: FloatArray) -> Unknowns:
    """Return the sum of amounts times vectors, one after the other: no BLAS, whose order depends on rows."""
    pairs = zip(vectors, amounts, strict=True)
    vector, amount = next(pairs)
    out = Unknowns(*(float(amount) * part for part in vector))
    for vector, amount in pairs:
        _add(out, float(amount), vector)
    return out


def _add(out: Unknowns, amount: float, vector: Unknowns) -> None:
    for to, part in zip(out, vector, strict=True):
        to += amount * part


def _times_inverse(inverse: Unknowns, vector: Unknowns, n_threads: int) -> Unknowns:
    out = vector.zeros_like()
    for matrix, part, to in zip(inverse, vector, out, strict=True):
        _mapmaking.precondition(matrix, part[..., None], to[..., None], n_threads)
    return out
