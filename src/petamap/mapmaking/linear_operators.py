"""Interfaces of the solver: the operator A, the preconditioner M^-1, and the preconditioners in use.

Whoever derives from `Operator` or `Preconditioner` can be given to `petamap.mapmaking.cg.cg`.
"""

from __future__ import annotations

import abc

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.exact import zero_limbs
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator
from petamap.mapmaking.vectors import Unknowns


class Operator(abc.ABC):
    """A symmetric positive definite operator on vectors at the owners of their rows.

    Attributes
    ----------
    comm : Communicator
        Ranks that share the vectors.
    n_threads : int

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm, petamap
    >>> class Scaled(petamap.Operator):
    ...     def __init__(self, diagonal):
    ...         self.diagonal, self.comm, self.n_threads = diagonal, petacomm.world(), 1
    ...     def apply(self, vectors):
    ...         return petamap.Unknowns(vectors.pixels * self.diagonal[:, None, None], vectors.gaps.copy())
    >>> b = petamap.Unknowns(np.ones((2, 1)), np.zeros((0, 1)))
    >>> petamap.cg(Scaled(np.array([1.0, 4.0])), b, tolerance=1e-12).map.pixels[:, 0].round(6)
    array([1.  , 0.25])
    """

    comm: Communicator
    n_threads: int

    @abc.abstractmethod
    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return A times vectors side by side. Collective on comm.

        Results must not depend on the number of ranks and threads, nor a column on the other columns.

        Parameters
        ----------
        vectors : Unknowns
            Arrays (n, n_stokes, width) and (n_gaps, 1, width), at the owners.

        Returns
        -------
        Unknowns
            Of the same shapes.
        """

    def apply_and_dot(self, p: Unknowns, largest: FloatArray, q: Unknowns) -> Int64Array:
        """Write A p to `q` and return this rank's part of p . q as limbs. Collective on comm.

        Override it where the two can be computed in one pass.

        Parameters
        ----------
        p : Unknowns
        largest : float64 (width,)
            Largest |I| + |Q| + |U| of each vector over all ranks; 0 for vectors that are not needed.
        q : Unknowns
            Overwritten.

        Returns
        -------
        int64 (width, N_LIMBS)
            To be added over ranks and rounded (`petacomm.base.exact`).
        """
        for part, values in zip(q, self.apply(p), strict=True):
            part[...] = values
        return exact_dots(p, q, self.n_threads)


class Preconditioner(abc.ABC):
    """M^-1: a symmetric positive definite approximation of the inverse of an operator.

    Attributes
    ----------
    description : str
        What it is, for the summary of a run.
    undetermined : tuple of str
        Modes of the map that the data leave undetermined, and it at zero.

    Examples
    --------
    >>> import petamap
    >>> class Half(petamap.Preconditioner):
    ...     def apply(self, vectors):
    ...         return petamap.Unknowns(vectors.pixels / 2, vectors.gaps / 2)
    >>> isinstance(Half(), petamap.Preconditioner)
    True
    """

    description: str = ""
    undetermined: tuple[str, ...] = ()

    @property
    def coarse_error(self) -> FloatArray | None:
        """Part of ``||x - x_k||_A`` on a coarse map, float64 (width,); None for preconditioners without one.

        It is estimated from the vectors that the preconditioner was applied to last, the residuals.
        """
        return None

    @abc.abstractmethod
    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return M^-1 times vectors side by side; collective if the implementation communicates.

        Parameters
        ----------
        vectors : Unknowns
            Arrays (n, n_stokes, width) and (n_gaps, 1, width), at the owners.

        Returns
        -------
        Unknowns
            Of the same shapes.
        """


class IdentityPreconditioner(Preconditioner):
    """M = 1: plain conjugate gradients."""

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return a copy of the vectors."""
        return vectors.copy()


class BlockDiagonalPreconditioner(Preconditioner):
    """A symmetric block for each pixel and a number for each gap.

    Parameters
    ----------
    blocks : Unknowns
        Upper triangles (n_owned, triangle) on pixels and (n_gaps, 1) on gaps, at the owners, and of ghosts
        that ranks keep; zero where a pixel is not solved for.
    n_threads : int
    description : str
    """

    def __init__(self, blocks: Unknowns, n_threads: int = 1, description: str = "block-diagonal") -> None:
        self.blocks = blocks
        self.description = description
        self.n_threads = n_threads

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return M^-1 times vectors side by side."""
        out = vectors.zeros_like()
        for blocks, values, to in zip(self.blocks, vectors, out, strict=True):
            _mapmaking.precondition(blocks, values, to, self.n_threads)
        return out


def exact_dots(a: Unknowns, b: Unknowns, n_threads: int = 1) -> Int64Array:
    """Return this rank's part of the dot products of columns as limbs, int64 (width, N_LIMBS)."""
    limbs = zero_limbs(a.width)
    for left, right in zip(a.owned, b.owned, strict=True):
        _mapmaking.dots(np.ascontiguousarray(left), np.ascontiguousarray(right), limbs, n_threads)
    return limbs
