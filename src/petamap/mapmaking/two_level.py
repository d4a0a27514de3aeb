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

import itertools
import math

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.exact import round_limbs
from petacomm.base.typing import FloatArray, Int64Array
from petamap.mapmaking.baseline_model import BaselineModel, Eliminated
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.lanczos import extreme_ritz_values
from petamap.mapmaking.linear_operators import Operator, Preconditioner, exact_dots
from petamap.mapmaking.pseudo_inverse import pseudo_inverse, small_directions
from petamap.mapmaking.recycling import Deflation, RecordedIterations, slowest_modes
from petamap.mapmaking.template_memory import SLOW_BYTES
from petamap.mapmaking.template_model import TemplateModel
from petamap.mapmaking.transfer import GroupSums, NuisanceTransfer, PixelTransfer
from petamap.mapmaking.vectors import MAX_WIDTH, SharedUnknowns, Unknowns, stack

# Products with S in an application, and by how much the inverse may be wrong. The slowest mode may ask for
# more: on two hours of constant-elevation scans 8, 12 and 16 take 24, 18 and 15 iterations, in equal times.
_LEAST_DEGREE, _DEGREE, _ERROR = 2, 12, 0.3
# Steps of Lanczos that find the slowest mode, near enough to tell the degree.
_LANCZOS_STEPS = 8
# The same and the highest degree with templates, which leave slower modes. Polynomials of order 3 on such
# scans: (8, 12), (24, 16) and (32, 36) take 52, 34 and 33 iterations, in 2.1, 2.1 and 3.1 s.
_TEMPLATE_STEPS, _TEMPLATE_DEGREE = 24, 16
# Slow modes that the degree does not reach are solved for directly, so many. Smaller ones are rounding:
# sums of visits are float32.
_SLOW_MODES, _ROUNDING = 8, 1e-8
# Iterations that look for them, at least and at most, and vectors that are kept beside those of iterations.
_LEAST_SLOW, _MOST_SLOW, _BESIDE_SLOW = 24, 96, 40
# The spectrum of (D^-1 + Z E^-1 Z^T) S ends here: the sum of two projections of at most 1. E is made of
# merged visits, so that it may end beyond: at so much more than the largest Ritz value.
_UPPER, _BEYOND = 2.0, 1.1
# Directions of the coarse map that others hold already or the data do not, relative to the largest: E is
# not known better.
_SAME = 1e-6


class TwoLevelPreconditioner(Preconditioner):
    """M^-1: the inverse of a model of the noise (module docstring). Collective.

    Parameters
    ----------
    shared : SharedUnknowns
        Owners of the rows of vectors.
    transfer : PixelTransfer
        Between pixels of the map and of the model.
    nuisance : NuisanceTransfer, optional
        Between unknowns of gaps and templates and those of the model.
    inverse : ModelInverse
        S^-1.
    blocks : float64 (n_owned, triangle), optional
        D^-1 of the map's pixels, where those of the model are coarser.
    """

    def __init__(
        self,
        shared: SharedUnknowns,
        transfer: PixelTransfer,
        nuisance: NuisanceTransfer | None,
        inverse: ModelInverse,
        blocks: FloatArray | None = None,
    ) -> None:
        self.shared, self.transfer, self.nuisance, self.inverse = shared, transfer, nuisance, inverse
        self.blocks = blocks
        n_knots, n_pixels = (
            shared.comm.sum(n) for n in (inverse.model.n_knots, inverse.model.pixels.n_owned)
        )
        self.description = (
            f"two-level: {n_knots:,} knots, {n_pixels:,} pixels, {inverse.n_coarse:,} coarse unknowns"
        )

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return M^-1 times vectors side by side. Collective.

        With unknowns of gaps and templates eliminated, r_m + B^T u is left on pixels, where
        u = T (B W^-1 r_g - E G^-1 r_a); m = S^-1 of it, gaps are W^-1 (r_g + B^T (u + T B m)), and amplitudes
        are G^-1 (r_a - Q m - E^T (u + T B m)), Q = U - c^T B (`TemplateModel`).
        """
        model, templates = self.inverse.model, self.inverse.model.templates
        pixels = np.empty_like(vectors.pixels)
        if self.nuisance is None:
            self._solve_pixels(vectors.pixels, None, pixels)
            return self._with_ghosts(Unknowns(pixels, np.zeros_like(vectors.gaps)))
        gaps, amplitudes = self.nuisance.to_model(vectors.gaps)
        if templates:
            amplitudes = templates.residuals(amplitudes, gaps[:, 0])
        eliminated = model.from_gaps(gaps, amplitudes)
        solved = self._solve_pixels(vectors.pixels, model.to_pixels(eliminated), pixels)
        if self.blocks is not None:
            solved = self.transfer.restrict(self.transfer.shares * pixels)
        eliminated += model.from_pixels(solved)
        return self._with_ghosts(Unknowns(pixels, self._nuisances(gaps, amplitudes, eliminated)))

    def lift(self, pixels: FloatArray) -> Unknowns:
        """Return maps with the gaps and amplitudes that leave least of them in the data. Collective.

        Parameters
        ----------
        pixels : float64 (n, n_stokes, width)
            Of the model that this rank owns, which are those of the map.
        """
        assert self.nuisance is not None
        model, width = self.inverse.model, pixels.shape[2]
        none, amplitudes = self.nuisance.to_model(np.zeros((self.shared.gaps.n_owned, 1, width)))
        eliminated = model.from_pixels(pixels)
        out = Unknowns(self.transfer.prolong(pixels), self._nuisances(none, amplitudes, eliminated))
        return self._with_ghosts(out)

    def weigh(self, pixels: FloatArray) -> Unknowns:
        """Return D times maps on pixels of the model, as `lift` does, without rows of gaps. Collective."""
        weighted = self.transfer.prolong(self.inverse.weigh(pixels))
        none = np.zeros((0, 1, pixels.shape[2]))
        if not self.shared.keeps_ghosts:
            return Unknowns(weighted, none)
        rows = self.shared.pixels
        return Unknowns(weighted, none, rows.select_ghosts(rows.scatter_fwd(weighted)), none)

    def _nuisances(self, gaps: FloatArray, amplitudes: FloatArray, eliminated: Eliminated) -> FloatArray:
        """Return the rows beside the map of residuals of gaps and of what was eliminated with them."""
        assert self.nuisance is not None
        model, templates = self.inverse.model, self.inverse.model.templates
        gaps = model.solve_gaps(gaps, eliminated.knots)
        if templates:
            amplitudes = model.amplitudes(eliminated)
            gaps -= templates.in_gaps(amplitudes)[:, None]
        return self.nuisance.from_model(gaps, amplitudes)

    def _solve_pixels(self, pixels: FloatArray, coupled: FloatArray | None, out: FloatArray) -> FloatArray:
        """Write S^-1 of residuals on pixels, and of others on the model's, to `out`; return the model's part.

        Where these are coarser, D^-1 of the map's is in `out` beside it.
        """
        transfer = self.transfer
        if self.blocks is None:
            rhs = transfer.restrict(pixels)
            if coupled is not None:
                rhs += coupled
            solved = self.inverse.solve(rhs)
            out[...] = transfer.prolong(solved)
            return solved
        if coupled is not None:
            coupled = transfer.prolong(coupled)
            coupled *= transfer.shares
            coupled += pixels
            pixels = coupled
        pixels = np.ascontiguousarray(pixels)
        _mapmaking.precondition(self.blocks, pixels, out, self.inverse.model.n_threads)
        solved = self.inverse.solve(transfer.restrict(pixels))
        out += transfer.prolong(solved)
        return solved

    def _with_ghosts(self, out: Unknowns) -> Unknowns:
        # not by the number of ghosts, of which a rank may have none: this is collective
        return self.shared.with_ghosts(out) if self.shared.keeps_ghosts else out

    @property
    def coarse_error(self) -> FloatArray | None:
        """Estimate of the part of the error on large scales, of the residuals that it was applied to last."""
        return self.inverse.coarse_error


class ModelInverse:
    """S^-1 of a model, by a polynomial of Chebyshev and a coarse map (module docstring). Collective.

    Parameters
    ----------
    model : BaselineModel
    blocks : float64 (n_owned, triangle)
        D of the model's pixels.
    coarse : int64 (n_owned,)
        Number of the coarse pixel that each of them lies in.
    most : float
        Largest weight of a sample times the samples of the run.
    slow_steps : int
        Iterations that look for slow modes if the polynomial does not reach them; 0: none.

    Attributes
    ----------
    n_coarse : int
        Unknowns of the coarse map.
    degree : int
        Products with S in an application.
    is_positive : bool
        Whether S is, as far as steps of Lanczos tell.
    coarse_error : float64 (width,), optional
        ``sqrt(s^T E^-1 s)`` of the right-hand sides that were solved for last, s being their sums over coarse
        pixels: where they are residuals, the S-norm of the errors' S-orthogonal projection on the coarse map.
    """

    def __init__(
        self,
        model: BaselineModel,
        blocks: FloatArray,
        coarse: Int64Array,
        most: float,
        slow_steps: int = 0,
    ) -> None:
        self.model = model
        self._blocks = np.ascontiguousarray(blocks)
        self._inverse_blocks = self._blocks.copy()
        rcond = np.zeros(len(blocks))
        _mapmaking.invert(model.n_stokes, 1e-12, self._inverse_blocks, rcond, model.n_threads)
        self._groups = GroupSums(model.comm, coarse)
        self.n_coarse = self._groups.n * model.n_stokes
        self._most = most
        self._coarse = self._coarse_matrix()
        self._coarse_inverse = pseudo_inverse(self._coarse, _SAME)
        self.coarse_error: FloatArray | None = None
        self._slow: Deflation | None = None
        self.is_positive = True
        self.degree, self._upper, is_enough = self._choose_polynomial()
        if self.is_positive and not is_enough and slow_steps:
            self._slow = self._slow_modes(slow_steps)
        if self._slow:
            self.degree, self._upper, _ = self._choose_polynomial()

    def apply(self, pixels: FloatArray) -> FloatArray:
        """Return S times values on pixels, (n_owned, n_stokes, width). Collective."""
        out = self.weigh(pixels)
        out -= self.model.apply_coupling(pixels)
        return out

    def weigh(self, pixels: FloatArray) -> FloatArray:
        """Return D times values on pixels, (n_owned, n_stokes, width)."""
        out = np.empty_like(pixels)
        _mapmaking.precondition(self._blocks, pixels, out, self.model.n_threads)
        return out

    def values_of(self, maps: FloatArray) -> FloatArray:
        """Return v^T S v / v^T D v of maps side by side, (width,); infinite of zeros. Collective."""
        sums = []
        for images in (self.apply(maps), self.weigh(maps)):
            limbs = exact_dots(_pixels_alone(maps), _pixels_alone(images), self.model.n_threads)
            sums.append(np.array([round_limbs(one) for one in self.model.comm.allreduce(limbs)]))
        values, squares = sums
        found: FloatArray = np.divide(values, squares, out=np.full_like(values, math.inf), where=squares > 0)
        return found

    def slow_maps(self, least: float) -> list[FloatArray]:
        """Return slow modes that are solved for directly, and small ones of E, (n_owned, n_stokes) each.

        The latter have up to `least` of the size of their rows.
        """
        small = small_directions(self._coarse, least)
        small = small.reshape(self._groups.n, self.model.n_stokes, small.shape[1])
        found = list(np.moveaxis(small[self._groups.numbers], 2, 0))
        if self._slow is not None:
            slow = self._slow.vectors.vectors.pixels
            found += [slow[..., number] for number in range(self._slow.n_vectors)]
        return found

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return an approximation of S^-1 times right-hand sides, (n_owned, n_stokes, width). Collective.

        With slow modes V it is V K^-1 V^T + Q p Q^T, K = V^T S V and Q = 1 - V K^-1 V^T S, p the polynomial.
        """
        self._measure(rhs)
        if self._slow is None:
            return self._polynomial(rhs)
        solved, left = _pixels_alone(np.zeros_like(rhs)), _pixels_alone(rhs.copy())
        self._slow.start(solved, left)
        rest = _pixels_alone(self._polynomial(left.pixels))
        self._slow.project(rest, rest.largest(self.model.comm))
        return solved.pixels + rest.pixels

    def _polynomial(self, rhs: FloatArray) -> FloatArray:
        """Return a polynomial of Chebyshev in S, preconditioned, times right-hand sides. Collective.

        The iteration is Saad 2003, algorithm 12.1, a fixed number of times.
        """
        upper = self._upper
        lower = upper * (math.log(2 / _ERROR) / (2 * self.degree)) ** 2
        middle, half = (upper + lower) / 2, (upper - lower) / 2
        ratio = middle / half
        rho = 1 / ratio
        step = self.precondition(rhs) / middle
        solved = step.copy()
        residual = rhs
        for number in range(self.degree - 1):
            residual = np.subtract(residual, self.apply(step), out=residual if number else None)
            following = 1 / (2 * ratio - rho)
            step *= following * rho
            step += 2 * following / half * self.precondition(residual)
            solved += step
            rho = following
        return solved

    def precondition(self, residual: FloatArray) -> FloatArray:
        """Return (D^-1 + Z E^-1 Z^T) times values on pixels, (n_owned, n_stokes, width). Collective."""
        coarse = self._solve_coarse(self._groups(residual))
        out = np.empty_like(residual)
        _mapmaking.precondition(self._inverse_blocks, residual, out, self.model.n_threads)
        out += coarse[self._groups.numbers]
        return out

    def _solve_coarse(self, sums: FloatArray) -> FloatArray:
        """Return E^-1 times sums over coarse pixels, (n, n_stokes, width).

        Column by column, and without BLAS: its sums depend on threads and on the other columns.
        """
        columns = [
            np.einsum("ij,j->i", self._coarse_inverse, sums[..., k].ravel()) for k in range(sums.shape[2])
        ]
        return np.stack(columns, axis=-1).reshape(sums.shape)

    def _measure(self, rhs: FloatArray) -> None:
        """Set the coarse error of right-hand sides."""
        sums = self._groups(rhs)
        solved = self._solve_coarse(sums)
        pairs = ((sums[..., k].ravel(), solved[..., k].ravel()) for k in range(sums.shape[2]))
        squares = [np.einsum("i,i", *pair) for pair in pairs]
        self.coarse_error = np.sqrt(np.maximum(squares, 0.0))

    def _coarse_matrix(self) -> FloatArray:
        """Return E = Z^T S Z, (n_coarse, n_coarse)."""
        n, n_stokes = self._groups.n, self.model.n_stokes
        if isinstance(self.model.templates, TemplateModel):
            matrix = -self._exact_coupling()
        else:
            matrix = -self.model.group_coupling(self._groups.numbers, n, self._most)
        blocks = self._groups(self._blocks[:, :, None])[:, :, 0]
        places = np.arange(n) * n_stokes
        for number, (i, j) in enumerate(itertools.combinations_with_replacement(range(n_stokes), 2)):
            matrix[places + i, places + j] += blocks[:, number]
            if i != j:
                matrix[places + j, places + i] += blocks[:, number]
        return (matrix + matrix.T) / 2

    def _exact_coupling(self) -> FloatArray:
        """Return Z^T (D - S) Z, from images of groups side by side."""
        groups, n_stokes = self._groups, self.model.n_stokes
        matrix = np.empty((self.n_coarse, self.n_coarse))
        for first in range(0, self.n_coarse, MAX_WIDTH):
            units = np.zeros((len(groups.numbers), n_stokes, MAX_WIDTH))
            chosen = range(first, min(first + MAX_WIDTH, self.n_coarse))
            for column, (group, stokes) in enumerate(divmod(one, n_stokes) for one in chosen):
                units[groups.numbers == group, stokes, column] = 1.0
            images = groups(self.model.apply_coupling(units)).reshape(self.n_coarse, MAX_WIDTH)
            matrix[:, first : first + len(chosen)] = images[:, : len(chosen)]
        return matrix

    def _choose_polynomial(self) -> tuple[int, float, bool]:
        """Return the degree of the polynomial, the end of the spectrum, and whether the degree is enough.

        The slowest mode asks for it, which, as the end, a few steps of Lanczos tell in Ritz values.
        """
        alphas, betas = [], []
        has_templates = isinstance(self.model.templates, TemplateModel)
        steps, most = (_TEMPLATE_STEPS, _TEMPLATE_DEGREE) if has_templates else (_LANCZOS_STEPS, _DEGREE)

        def record(residual: Unknowns, norm: float, alpha: float, beta: float) -> None:
            alphas.append(alpha)
            betas.append(beta)

        (solution,) = self._solver().solve_many(
            [_pixels_alone(self._started()).column(0)], 1e-6, steps, recorders=[record], deflation=self._slow
        )
        least, largest = extreme_ritz_values(alphas, betas)
        upper = max(_UPPER, _BEYOND * largest)
        self.is_positive = solution.error is None and least > 0
        if not self.is_positive:
            return most, upper, False
        needed = math.ceil(math.log(2 / _ERROR) / 2 * math.sqrt(upper / least))
        return min(max(needed, _LEAST_DEGREE), most), upper, needed <= most

    def _slow_modes(self, steps: int) -> Deflation | None:
        """Return the space of the slowest modes that conjugate gradients find from signs drawn by chance.

        None if they find that S is not positive.
        """
        solver, rhs = self._solver(), _pixels_alone(self._started()).column(0)
        record = RecordedIterations(solver)
        (solution,) = solver.solve_many([rhs], _ROUNDING, steps, recorders=[record.record])
        self.is_positive = solution.error is None
        if not self.is_positive:
            return None
        found = record.ritz_vectors(_SLOW_MODES)
        return slowest_modes(solver, stack(found, MAX_WIDTH), _SLOW_MODES, _ROUNDING)

    def _solver(self) -> ConjugateGradients:
        return ConjugateGradients(_ModelOperator(self), _CoarsePreconditioner(self))

    def _started(self) -> FloatArray:
        """Return D times a sign of each unknown, (n_owned, n_stokes, 1)."""
        return self.weigh(_signs(self.model.pixels.keys, self.model.n_stokes))


def slow_steps(n_samples: int, n_unknowns: int) -> int:
    """Return how many iterations may look for slow modes, in `SLOW_BYTES` a sample; 0 if too few."""
    steps = SLOW_BYTES * n_samples // (8 * max(n_unknowns, 1)) - _BESIDE_SLOW
    return 0 if steps < _LEAST_SLOW else min(steps, _MOST_SLOW)


def _pixels_alone(pixels: FloatArray) -> Unknowns:
    return Unknowns(pixels, np.zeros((0, 1, pixels.shape[2])))


class _ModelOperator(Operator):
    """S of a model, as conjugate gradients take it."""

    def __init__(self, inverse: ModelInverse) -> None:
        self.comm, self.n_threads = inverse.model.comm, inverse.model.n_threads
        self._inverse = inverse

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return S times vectors side by side."""
        return Unknowns(self._inverse.apply(vectors.pixels), vectors.gaps)


class _CoarsePreconditioner(Preconditioner):
    """D^-1 + Z E^-1 Z^T of a model, as conjugate gradients take it."""

    def __init__(self, inverse: ModelInverse) -> None:
        self._inverse = inverse

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return (D^-1 + Z E^-1 Z^T) times vectors side by side."""
        return Unknowns(self._inverse.precondition(vectors.pixels), vectors.gaps)


def _signs(keys: Int64Array, n_stokes: int) -> FloatArray:
    """Return a sign for each unknown, which looks drawn by chance: (n, n_stokes, 1)."""
    numbers = np.multiply.outer(keys, np.full(n_stokes, n_stokes)) + np.arange(1, n_stokes + 1)
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return np.where(mixed >> np.uint64(63), 1.0, -1.0)[:, :, None]
