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
from petacomm.base.errors import ConvergenceError
from petacomm.base.exact import no_limbs, rounded
from petacomm.base.typing import FloatArray, Int64Array
from petamap.mapmaking.normal_operator import NormalOperator
from petamap.mapmaking.vectors import WIDEST, Unknowns, width_for

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

    def iterations_to(self, tolerance: float) -> int:
        """Return the number of iterations to a larger tolerance: all, where it was not reached."""
        reached = (step.iteration for step in self.history if step.relative_residual <= tolerance)
        return next(reached, self.iterations)


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
    ) -> Solution:
        """Return the solution for a right-hand side, which is left as it is: what `solve_many` gives.

        Raises
        ------
        ConvergenceError
            If A or M turns out not to be positive definite, or the right-hand side is not finite.
        """
        (solution,) = self._solve([rhs], [_Run(tolerance, max_iterations, tell)], space)
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
        keeps: Sequence[Keep] = (),
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
        keeps : sequence of callable
            One a right-hand side, or none: given the residual of each iteration, its squared norm, alpha and
            beta.
        """
        solutions: list[Solution] = []
        for first in range(0, len(rhs), WIDEST):
            numbers = range(first, min(first + WIDEST, len(rhs)))
            runs = [
                _Run(tolerance, max_iterations, partial(tell, number), keeps[number] if keeps else None)
                for number in numbers
            ]
            solutions += self._solve([rhs[number] for number in numbers], runs, space)
        return solutions

    def _solve(
        self,
        rhs: Sequence[Unknowns],
        runs: Sequence[_Run],
        space: Deflation | None,
    ) -> list[Solution]:
        self._iterate(rhs, list(runs), space)
        self._check([(run, one) for run, one in zip(runs, rhs, strict=True) if not run.solution.error])
        for run, one in zip(runs, rhs, strict=True):
            run.conclude(one)
        return [run.solution for run in runs]

    def zeros(self, width: int) -> Unknowns:
        """Return zeros side by side, at the owners."""
        shared, n_stokes = self.operator.shared, self.operator.projection.stokes.n
        return Unknowns(
            np.zeros((shared.pixels.n_owned, n_stokes, width)), np.zeros((shared.gaps.n_owned, 1, width))
        )

    def precondition(self, vectors: Unknowns) -> Unknowns:
        """Return M^-1 times vectors side by side."""
        out = vectors.zeros_like()
        for inverse, values, to in zip(self.inverse, vectors, out, strict=True):
            _mapmaking.precondition(inverse, values, to, self.n_threads)
        return out

    def times(self, vectors: Unknowns) -> Unknowns:
        """Return A times vectors side by side."""
        out = vectors.zeros_like()
        steps = self.operator.apply(vectors, vectors.largest(self.comm), out)
        unused = no_limbs(vectors.width)
        for values, integers in zip(vectors, out, strict=True):
            _mapmaking.settle(values, integers, steps, unused, self.n_threads)
        return out

    def _iterate(
        self,
        rhs: Sequence[Unknowns],
        runs: list[_Run | None],
        space: Deflation | None,
    ) -> None:
        """Iterate on right-hand sides side by side until each has stopped; those that have make room."""
        state = _State.of(rhs)
        runs += [None] * (state.r.width - len(runs))
        betas = np.zeros(state.r.width)
        norms = self._advance(betas, state)
        _each(runs, norms, _Run.begin)
        if space is not None:
            space.start(state.x, state.r)
            norms = self._advance(betas, state)
        while True:
            _each(runs, norms, _Run.note)
            runs, columns = _leave(runs, state)
            if not columns:
                return
            if columns != list(range(state.r.width)):
                state, norms, betas = state.columns(columns), _pick(norms, columns), _pick(betas, columns)
            largest = self._turn(betas, state)
            if space is not None:
                largest = space.project(state.p, largest)
            going = np.array([run is not None for run in runs])
            curvatures = self._apply(np.where(going, largest, 0.0), state)
            _each(runs, curvatures, _Run.check)
            alphas = np.divide(norms, curvatures, out=np.zeros_like(norms), where=going & (curvatures > 0))
            for column, run in enumerate(runs):
                if run is not None and run.keep is not None and not run.stopped:
                    run.keep(state.r.column(column), *(float(of[column]) for of in (norms, alphas, betas)))
            before, norms = norms, self._advance(alphas, state)
            betas = np.divide(norms, before, out=np.zeros_like(norms), where=going & (before > 0))

    def _turn(self, betas: FloatArray, state: _State) -> FloatArray:
        """p = M^-1 r + beta p; return the largest values of p over all ranks."""
        largest = np.zeros((2, len(betas)))
        for inverse, r, p, most in zip(self.inverse, state.r, state.p, largest, strict=True):
            _mapmaking.turn(betas, inverse, r, p, most, self.n_threads)
        return self.comm.allreduce(largest.max(axis=0), "max")

    def _apply(self, largest: FloatArray, state: _State) -> FloatArray:
        """q = A p; return p . q."""
        steps = self.operator.apply(state.p, largest, state.q)
        limbs = no_limbs(len(largest))
        for p, q in zip(state.p, state.q, strict=True):
            _mapmaking.settle(p, q, steps, limbs, self.n_threads)
        return self._totals(limbs)

    def _advance(self, alphas: FloatArray, state: _State) -> FloatArray:
        """x += alpha p, r -= alpha q; return r . M^-1 r."""
        limbs = no_limbs(len(alphas))
        for inverse, p, q, x, r in zip(self.inverse, state.p, state.q, state.x, state.r, strict=True):
            _mapmaking.advance(alphas, p, q, inverse, x, r, limbs, self.n_threads)
        return self._totals(limbs)

    def _check(self, runs: Sequence[tuple[_Run, Unknowns]]) -> None:
        """Compute the residuals of solutions anew."""
        if not runs:
            return
        x = Unknowns.beside([run.solution.map for run, _ in runs])
        q = self.times(x)
        r = q.zeros_like()
        for number, (_, rhs) in enumerate(runs):
            for right, product, to in zip(rhs, q, r, strict=True):
                np.subtract(right, product[..., number], out=to[..., number])
        norms = self._advance(np.zeros(x.width), _State(x, q, q, r))
        for number, (run, _) in enumerate(runs):
            run.solution.true_residual = run.relative(norms[number])

    def _totals(self, limbs: Int64Array) -> FloatArray:
        return np.array([rounded(sums) for sums in self.comm.allreduce(limbs)])


@dataclass
class _State:
    """The vectors of conjugate gradients, side by side."""

    x: Unknowns
    p: Unknowns
    q: Unknowns
    r: Unknowns

    @staticmethod
    def of(rhs: Sequence[Unknowns]) -> _State:
        r = Unknowns.beside(rhs)
        r = r.copy() if len(rhs) == 1 else r
        return _State(r.zeros_like(), r.zeros_like(), r.zeros_like(), r)

    def columns(self, numbers: Sequence[int]) -> _State:
        """Return the vectors with these numbers; q holds nothing that is needed."""
        x, p, r = (vectors.columns(numbers) for vectors in (self.x, self.p, self.r))
        return _State(x, p, r.zeros_like(), r)


class _Run:
    """How far the iterations have brought one right-hand side."""

    def __init__(
        self,
        tolerance: float,
        max_iterations: int,
        tell: Callable[[Step], None],
        keep: Keep | None = None,
    ) -> None:
        self.keep = keep
        self.solution = Solution(Unknowns.zeros(0, 0, 0))
        self.stopped = False
        self._tolerance = tolerance
        self._max_iterations = max_iterations
        self._tell = tell
        self._first = 0.0
        self._best, self._best_at = math.inf, 0
        self._begin = time.perf_counter()

    def begin(self, norm: float) -> None:
        """Take the squared norm of the right-hand side."""
        self._first = norm
        if norm == math.inf:
            self._fail("the right-hand side is not finite")

    def relative(self, norm: float) -> float:
        """Return the relative norm of a residual."""
        return math.sqrt(norm / self._first) if self._first > 0 else 0.0

    def note(self, norm: float) -> None:
        """Take the squared norm of the residual, at the start and after each iteration."""
        if not self.stopped and not 0 <= norm < math.inf:
            self._fail(f"the preconditioner is not positive: r^T M^-1 r = {norm:.3g}")
        if self.stopped:
            return
        iteration, relative = len(self.solution.history), self.relative(norm)
        self.solution.history.append(Step(iteration, relative, time.perf_counter() - self._begin))
        self._tell(self.solution.history[-1])
        if relative < self._best:
            self._best, self._best_at = relative, iteration
        stalled = iteration - self._best_at >= _PATIENCE
        self.stopped = relative <= self._tolerance or iteration >= self._max_iterations or stalled

    def check(self, curvature: float) -> None:
        """Take p^T A p of an iteration."""
        if not curvature > 0:
            self._fail(
                f"the noise model is not positive: p^T A p = {curvature:.3g}",
                "check the inverse noise lags, or use fewer",
            )

    def _fail(self, what: str, mend: str = "") -> None:
        self.solution.error = ConvergenceError(what, mend=mend or None)
        self.stopped = True

    def conclude(self, rhs: Unknowns) -> None:
        """Say how it went."""
        solution = self.solution
        if solution.error is not None:
            solution.map, solution.reason = rhs.zeros_like(), str(solution.error)
            return
        reached = solution.history[-1].relative_residual <= self._tolerance
        solution.converged = reached and solution.true_residual <= _SLACK * self._tolerance
        solution.reason = _reason(solution, self._tolerance, self._max_iterations)


def _each(runs: Sequence[_Run | None], values: FloatArray, work: Callable[[_Run, float], None]) -> None:
    for run, value in zip(runs, values, strict=True):
        if run is not None:
            work(run, float(value))


def _leave(runs: Sequence[_Run | None], state: _State) -> tuple[list[_Run | None], list[int]]:
    """Take the solutions of runs that have stopped; return the runs and the columns to go on with.

    A column that is done stays, and nothing is done to it, until the rest fits into half the width.
    """
    for column, run in enumerate(runs):
        if run is not None and run.stopped and run.solution.error is None:
            run.solution.map = state.x.column(column)
    going = [None if run is None or run.stopped else run for run in runs]
    columns = [column for column, run in enumerate(going) if run is not None]
    if not columns or width_for(len(columns)) == state.r.width:
        return going, list(range(state.r.width)) if columns else []
    rest = [going[column] for column in columns]
    return rest + [None] * (width_for(len(columns)) - len(columns)), columns


def _pick(values: FloatArray, columns: Sequence[int]) -> FloatArray:
    picked = np.zeros(width_for(len(columns)))
    picked[: len(columns)] = values[columns]
    return picked


def _reason(solution: Solution, tolerance: float, max_iterations: int) -> str:
    last = solution.history[-1]
    if solution.converged:
        return f"residual {last.relative_residual:.2g} <= {tolerance:g}"
    if last.relative_residual <= tolerance:
        return f"stalled at {solution.true_residual:.2g}: rounding allows no smaller residual"
    if last.iteration >= max_iterations:
        return f"residual {last.relative_residual:.2g} after the {max_iterations} iterations allowed"
    return f"stalled at {last.relative_residual:.2g}: no smaller residual in {_PATIENCE} iterations"
