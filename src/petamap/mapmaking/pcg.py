"""Preconditioned conjugate gradients on  P^T N^-1 P m = P^T N^-1 d."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petamap.base.errors import ConvergenceError
from petamap.base.exact import no_limbs, rounded
from petamap.base.typing import Int64Array
from petamap.mapmaking.normal import NormalOperator
from petamap.mapmaking.vectors import Unknowns

if TYPE_CHECKING:
    from petamap.mapmaking.recycling import Deflation

# Iterations without a smaller residual after which the solver has stalled; fewer are normal on the way down,
# as the method lessens the error at every step, not the residual.
_PATIENCE = 100
# The recurrence's residual falls on when rounding keeps the true one up; the true one may be larger by this.
_SLACK = 2

Keep = Callable[[Unknowns, float, float, float], None]


@dataclass(frozen=True)
class Step:
    """The state after an iteration; 0 is the start."""

    iteration: int
    relative_residual: float
    seconds: float


@dataclass
class Solution:
    """What conjugate gradients found.

    Attributes
    ----------
    map : Unknowns
        At the owners.
    converged : bool
    reason : str
        Why it stopped, in words.
    history : list of Step
    true_residual : float
        Relative norm of b - A x computed anew at the end: what the history's last entry, which comes from the
        recurrence, should equal.
    error : ConvergenceError, optional
        Why there is no solution at all; the map then has no meaning.
    """

    map: Unknowns
    converged: bool = False
    reason: str = ""
    history: list[Step] = field(default_factory=list)
    true_residual: float = math.nan
    error: ConvergenceError | None = None

    @property
    def iterations(self) -> int:
        """Number of iterations."""
        return self.history[-1].iteration


class ConjugateGradients:
    """Solve A x = b with a block-diagonal preconditioner M (Shewchuk 1994, section B3). Collective.

    The norm of the residual is ``sqrt(r^T M^-1 r)``, relative to that of b: in units of the noise, and there
    anyway. Vectors live at the owners of their rows, so that each row is worked on once in the run; A alone
    needs them at all holders. Dot products are exact sums, so that ranks and threads cannot change them.

    Parameters
    ----------
    operator : NormalOperator
    inverse : Unknowns-like pair
        M^-1: upper triangles (n_owned, triangle) on pixels and (n_gaps, 1) on gaps; zero where a pixel is not
        solved for.
    """

    def __init__(self, operator: NormalOperator, inverse: Unknowns) -> None:
        self.operator = operator
        self.inverse = inverse
        self.comm = operator.shared.comm
        self.n_threads = operator.projection.n_threads

    def solve(
        self,
        rhs: Unknowns,
        tolerance: float,
        max_iterations: int,
        tell: Callable[[Step], None] = lambda step: None,
        space: Deflation | None = None,
        keep: Keep | None = None,
    ) -> Solution:
        """Return the solution for a right-hand side, which is left as it is: `solve_many` of one.

        `keep` is told residual, squared norm, alpha and beta of each iteration.

        Raises
        ------
        ConvergenceError
            If A or M turns out not to be positive definite, or the right-hand side is not finite.
        """
        (solution,) = self.solve_many(
            [rhs], tolerance, max_iterations, lambda _, step: tell(step), space, keep
        )
        if solution.error is not None:
            raise solution.error
        return solution

    def solve_many(
        self,
        rhs: Sequence[Unknowns],
        tolerance: float,
        max_iterations: int,
        tell: Callable[[int, Step], None] = lambda number, step: None,
        space: Deflation | None = None,
        keep: Keep | None = None,
    ) -> list[Solution]:
        """Return the solution for each right-hand side: the same to the bit whatever others there are.

        One that fails does not stop the others: its solution has not converged and says why.

        Parameters
        ----------
        rhs : sequence of Unknowns
            Left as they are.
        tolerance : float
            Of the residual's norm, relative to that of the right-hand side.
        max_iterations : int
        tell : callable
            Told the number of the right-hand side and the step it has made.
        space : Deflation, optional
            What is solved for at once, so that iterations are for the rest alone.
        """
        solutions = []
        for number, one in enumerate(rhs):
            solution = Solution(one.zeros_like())
            try:
                self._solve(one, solution, tolerance, max_iterations, partial(tell, number), space, keep)
            except ConvergenceError as error:
                solution.error, solution.reason = error, str(error)
            solutions.append(solution)
        return solutions

    def _solve(
        self,
        rhs: Unknowns,
        solution: Solution,
        tolerance: float,
        max_iterations: int,
        tell: Callable[[Step], None],
        space: Deflation | None,
        keep: Keep | None,
    ) -> None:
        begin = time.perf_counter()
        if self.comm.max(float(not all(np.isfinite(part).all() for part in rhs))):
            raise ConvergenceError("the right-hand side is not finite")
        x, p, q = solution.map, rhs.zeros_like(), rhs.zeros_like()
        r = rhs.copy()
        norm = first = self._advance(0.0, p, q, x, r)
        if space is not None:
            space.start(x, r)
            norm = self._advance(0.0, p, q, x, r)
        best, best_at = math.inf, 0

        def note(iteration: int) -> float:
            relative = math.sqrt(norm / first) if first > 0 else 0.0
            solution.history.append(Step(iteration, relative, time.perf_counter() - begin))
            tell(solution.history[-1])
            return relative

        relative, beta = note(0), 0.0
        for iteration in range(1, max_iterations + 1):
            if relative <= tolerance:
                break
            largest = self._turn(beta, r, p)
            if space is not None:
                largest = space.project(p)
            curvature = self._apply(p, largest, q)
            alpha = norm / curvature
            if keep is not None:
                keep(r, norm, alpha, beta)
            norm_before, norm = norm, self._advance(alpha, p, q, x, r)
            beta = norm / norm_before
            relative = note(iteration)
            if relative < best:
                best, best_at = relative, iteration
            elif iteration - best_at >= _PATIENCE:
                break
        solution.true_residual = self._true_residual(x, rhs, p, q, first)
        solution.converged = relative <= tolerance and solution.true_residual <= _SLACK * tolerance
        solution.reason = _reason(solution, tolerance, max_iterations)

    def _turn(self, beta: float, r: Unknowns, p: Unknowns) -> float:
        """p = M^-1 r + beta p; return the largest value of p over all ranks."""
        parts = zip(self.inverse, r, p, strict=True)
        largest = [_mapmaking.turn(beta, inverse, rs, ps, self.n_threads) for inverse, rs, ps in parts]
        return self.comm.max(max(largest))

    def _apply(self, p: Unknowns, largest: float, q: Unknowns) -> float:
        """q = A p; return p . q."""
        step = self.operator.apply(p, largest, q)
        limbs = no_limbs()
        for ps, qs in zip(p, q, strict=True):
            _mapmaking.settle(ps, qs, step, limbs, self.n_threads)
        curvature = self._total(limbs)
        if not curvature > 0:
            raise ConvergenceError(
                f"the noise model is not positive: p^T A p = {curvature:.3g}",
                mend="check the inverse noise lags, or use fewer",
            )
        return curvature

    def _advance(self, alpha: float, p: Unknowns, q: Unknowns, x: Unknowns, r: Unknowns) -> float:
        """x += alpha p, r -= alpha q; return r . M^-1 r."""
        limbs = no_limbs()
        for inverse, ps, qs, xs, rs in zip(self.inverse, p, q, x, r, strict=True):
            _mapmaking.advance(alpha, ps, qs, inverse, xs, rs, limbs, self.n_threads)
        norm = self._total(limbs)
        if norm < 0:
            raise ConvergenceError(f"the preconditioner is not positive: r^T M^-1 r = {norm:.3g}")
        return norm

    def times(self, x: Unknowns) -> Unknowns:
        """Return A x."""
        out = x.zeros_like()
        self._times(x, out)
        return out

    def _times(self, x: Unknowns, out: Unknowns) -> None:
        largest = self.comm.max(
            max(float(abs(x.pixels).sum(axis=1).max(initial=0)), float(abs(x.gaps).max(initial=0)))
        )
        step = self.operator.apply(x, largest, out)
        unused = no_limbs()
        for xs, outs in zip(x, out, strict=True):
            _mapmaking.settle(xs, outs, step, unused, self.n_threads)

    def _true_residual(self, x: Unknowns, rhs: Unknowns, p: Unknowns, q: Unknowns, first: float) -> float:
        self._times(x, q)
        for ps, qs, right in zip(p, q, rhs, strict=True):
            np.subtract(right, qs, out=ps)
        norm = self._advance(0.0, q, q, x, p)
        return math.sqrt(norm / first) if first > 0 else 0.0

    def _total(self, limbs: Int64Array) -> float:
        return rounded(self.comm.allreduce(limbs))


def _reason(solution: Solution, tolerance: float, max_iterations: int) -> str:
    last = solution.history[-1]
    if solution.converged:
        return f"residual {last.relative_residual:.2g} <= {tolerance:g}"
    if last.relative_residual <= tolerance:
        return f"stalled at {solution.true_residual:.2g}: rounding allows no smaller residual"
    if last.iteration >= max_iterations:
        return f"residual {last.relative_residual:.2g} after the {max_iterations} iterations allowed"
    return f"stalled at {last.relative_residual:.2g}: no smaller residual in {_PATIENCE} iterations"
