"""The two-level preconditioner: gaps, slow noise and large scales solved in a model of the noise.

Under 1/f noise the block-diagonal preconditioner misses what is slow in time, which stationary noise hardly
weighs, and the inside of gaps. A model knows both: N = W^-1 + F C F^T, baselines beside white noise
(`petamap.noise.baselines`). With gaps marginalized, the map's matrix of the model is S = D - B^T T B
(`BaselineModel`). It is inverted by a polynomial of Chebyshev in S, itself preconditioned by
D^-1 + Z E^-1 Z^T: the blocks of pixels, and E = Z^T S Z, solved directly on a coarse map of a few hundred
unknowns. Both are linear and symmetric, so that conjugate gradients remain what they are.

Of the ways to join two levels (Tang et al. 2009, J. Sci. Comput. 39, 340), the sum needs no product of S with
the coarse space; its spectrum lies in (0, 2].
"""

from __future__ import annotations

import math

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import FloatArray, Int64Array
from petamap.mapmaking.baseline_model import BaselineModel
from petamap.mapmaking.linear_operators import Preconditioner
from petamap.mapmaking.transfer import GapTransfer, GroupSums, PixelTransfer
from petamap.mapmaking.vectors import MAX_WIDTH, SharedUnknowns, Unknowns

# Products with S in an application, and by how much the inverse may be wrong. Measured with 8, 12 and 16: 24,
# 18 and 15 iterations on two hours of constant-elevation scans, 42, 29 and 23 on a field of 16 detectors, in
# equal times.
_DEGREE, _ERROR = 12, 0.3
# The spectrum of (D^-1 + Z E^-1 Z^T) S ends here: the sum of two projections of at most 1.
_UPPER = 2.0
# Directions of the coarse map that others hold already, relative to the largest.
_SAME = 1e-10


class TwoLevelPreconditioner(Preconditioner):
    """M^-1: the inverse of a model of the noise (module docstring). Collective.

    Parameters
    ----------
    shared : SharedUnknowns
        Owners of the rows of vectors.
    transfer : PixelTransfer
        Between pixels of the map and of the model.
    gaps : GapTransfer
    inverse : ModelInverse
        S^-1.
    blocks : float64 (n_owned, triangle), optional
        D^-1 of the map's pixels, where those of the model are coarser.
    """

    def __init__(
        self,
        shared: SharedUnknowns,
        transfer: PixelTransfer,
        gaps: GapTransfer | None,
        inverse: ModelInverse,
        blocks: FloatArray | None = None,
    ) -> None:
        self.shared, self.transfer, self.gaps, self.inverse = shared, transfer, gaps, inverse
        self.blocks = blocks
        n_knots, n_pixels = (
            shared.comm.sum(n) for n in (inverse.model.n_knots, inverse.model.pixels.n_owned)
        )
        self.description = (
            f"two-level: {n_knots:,} knots, {n_pixels:,} pixels, {inverse.n_coarse:,} coarse unknowns"
        )

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return M^-1 times vectors side by side. Collective.

        With the unknowns of gaps eliminated, r_m + B^T u with u = T B W^-1 r_g is left on pixels; m = S^-1 of
        it, and gaps are W^-1 (r_g + B^T (u + T B m)).
        """
        model = self.inverse.model
        out = vectors.zeros_like()
        if self.gaps is None:
            self._solve_pixels(vectors.pixels, None, out.pixels)
            return self._with_ghosts(out)
        residuals = self.gaps.to_model(vectors.gaps)
        knots, largest = model.from_gaps(model.over_gap_weights(residuals))
        solved = self._solve_pixels(vectors.pixels, model.to_pixels(knots, largest), out.pixels)
        knots += model.from_pixels(solved)[0]
        values = model.over_gap_weights(residuals + model.to_gaps(knots))
        out.gaps[...] = self.gaps.from_model(values)
        return self._with_ghosts(out)

    def _solve_pixels(self, pixels: FloatArray, coupled: FloatArray | None, out: FloatArray) -> FloatArray:
        """Write S^-1 of residuals on pixels to `out`; return what gaps see, on the model's pixels."""
        transfer = self.transfer
        if self.blocks is None:
            rhs = transfer.restrict(pixels)
            solved = self.inverse.solve(rhs if coupled is None else rhs + coupled)
            out[...] = transfer.prolong(solved)
            return solved
        if coupled is not None:
            pixels = pixels + transfer.shares * transfer.prolong(coupled)
        _mapmaking.precondition(self.blocks, np.ascontiguousarray(pixels), out, self.inverse.model.n_threads)
        out += transfer.prolong(self.inverse.solve(transfer.restrict(pixels)))
        return transfer.restrict(transfer.shares * out)

    def _with_ghosts(self, out: Unknowns) -> Unknowns:
        # not by the number of ghosts, of which a rank may have none: this is collective
        return self.shared.with_ghosts(out) if self.shared.keeps_ghosts else out


class ModelInverse:
    """S^-1 of a model, by a polynomial of Chebyshev and a coarse map (module docstring). Collective.

    Parameters
    ----------
    model : BaselineModel
    blocks : float64 (n_owned, triangle)
        D of the model's pixels.
    coarse : int64 (n_owned,)
        Number of the coarse pixel that each of them lies in.
    degree : int
        Products with S.

    Attributes
    ----------
    n_coarse : int
        Unknowns of the coarse map.
    """

    def __init__(
        self, model: BaselineModel, blocks: FloatArray, coarse: Int64Array, degree: int = _DEGREE
    ) -> None:
        self.model, self.degree = model, degree
        self._blocks = np.ascontiguousarray(blocks)
        self._inverse_blocks = self._blocks.copy()
        rcond = np.zeros(len(blocks))
        _mapmaking.invert(model.n_stokes, 1e-12, self._inverse_blocks, rcond, model.n_threads)
        self._groups = GroupSums(model.comm, coarse)
        self.n_coarse = self._groups.n * model.n_stokes
        self._coarse_inverse = self._invert_coarse()

    def apply(self, pixels: FloatArray) -> FloatArray:
        """Return S times values on pixels, (n_owned, n_stokes, width). Collective."""
        out = np.empty_like(pixels)
        _mapmaking.precondition(self._blocks, pixels, out, self.model.n_threads)
        out -= self.model.apply_coupling(pixels)
        return out

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return an approximation of S^-1 times right-hand sides, (n_owned, n_stokes, width). Collective.

        The iteration is Saad 2003, algorithm 12.1, a fixed number of times.
        """
        lower = _UPPER * (math.log(2 / _ERROR) / (2 * self.degree)) ** 2
        middle, half = (_UPPER + lower) / 2, (_UPPER - lower) / 2
        ratio = middle / half
        rho = 1 / ratio
        step = self._precondition(rhs) / middle
        solved = step.copy()
        residual = rhs
        for _ in range(self.degree - 1):
            residual = residual - self.apply(step)
            following = 1 / (2 * ratio - rho)
            step = following * rho * step + 2 * following / half * self._precondition(residual)
            solved += step
            rho = following
        return solved

    def _precondition(self, residual: FloatArray) -> FloatArray:
        out = np.empty_like(residual)
        _mapmaking.precondition(self._inverse_blocks, residual, out, self.model.n_threads)
        sums = self._groups(residual)
        # column by column, and without BLAS: its sums depend on threads and on the other columns
        columns = [
            np.einsum("ij,j->i", self._coarse_inverse, sums[..., k].ravel()) for k in range(sums.shape[2])
        ]
        coarse = np.stack(columns, axis=-1).reshape(sums.shape)
        out += coarse[self._groups.numbers]
        return out

    def _invert_coarse(self) -> FloatArray:
        """Return E^-1 on the directions that E determines, (n_coarse, n_coarse)."""
        n_groups, n_stokes = self._groups.n, self.model.n_stokes
        matrix = np.zeros((self.n_coarse, self.n_coarse))
        for first in range(0, self.n_coarse, MAX_WIDTH):
            vectors = np.zeros((len(self._groups.numbers), n_stokes, MAX_WIDTH))
            for column in range(min(MAX_WIDTH, self.n_coarse - first)):
                group, stokes = divmod(first + column, n_stokes)
                vectors[self._groups.numbers == group, stokes, column] = 1.0
            products = self._groups(self.apply(vectors)).reshape(n_groups * n_stokes, MAX_WIDTH)
            matrix[:, first : first + MAX_WIDTH] = products[:, : self.n_coarse - first]
        return _inverse_of((matrix + matrix.T) / 2)


def _inverse_of(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a symmetric matrix on the directions that it determines."""
    sizes = np.diag(matrix)
    scale = np.where(sizes > 0, 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0)), 0.0)
    with single_blas_thread():
        values, axes = np.linalg.eigh(matrix * scale * scale[:, None])
        found = values > _SAME * max(values.max(initial=0.0), 1e-300)
        basis = scale[:, None] * axes[:, found] / np.sqrt(values[found])
        return np.ascontiguousarray(basis @ basis.T)
