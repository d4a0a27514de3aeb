"""Preconditioned conjugate gradients on A x = b, for several right-hand sides side by side.

In map-making A = P^T N^-1 P and b = P^T N^-1 d; `cg` takes any `Operator` and `Preconditioner`.
"""

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
from petacomm.base.exact import round_limbs, zero_limbs
from petacomm.base.typing import FloatArray, Int64Array
from petamap.mapmaking.linear_operators import (
    BlockDiagonalPreconditioner,
    IdentityPreconditioner,
    Operator,
    Preconditioner,
    exact_dots,
)
from petamap.mapmaking.vectors import MAX_WIDTH, N_PARTS, Unknowns, stack, sums_of_parts, width_for

if TYPE_CHECKING:
    from petamap.mapmaking.recycling import Deflation

# The residual of the recurrence falls on when rounding keeps the true one up; the true one may exceed the
# tolerance by this factor.
_SLACK = 2

Recorder = Callable[[Unknowns, float, float, float], None]


@dataclass(frozen=True)
class Iteration:
    """State of the solver after an iteration; number 0 is the start."""

    number: int
    relative_residual: float
    seconds: float


@dataclass
class Solution:
    """Solution of one right-hand side.

    Attributes
    ----------
    map : Unknowns
        At the owners: the iterate of the smallest residual, which need not be the last one.
    converged : bool
    reason : str
        Why the iterations stopped.
    history : list of Iteration
    returned : int
        Number of the iteration that the map is from.
    true_residual : float
        Relative norm of b - A x of the map, computed anew: that of the history, which comes from the
        recurrence, should equal it.
    error : ConvergenceError, optional
        Why there is no solution at all; the map then has no meaning.
    """

    map: Unknowns
    converged: bool = False
    reason: str = ""
    history: list[Iteration] = field(default_factory=list)
    returned: int = 0
    true_residual: float = math.nan
    error: ConvergenceError | None = None

    @property
    def iterations(self) -> int:
        """Number of iterations."""
        return self.history[-1].number

    @property
    def relative_residual(self) -> float:
        """Relative residual of the map, from the recurrence."""
        return self.history[self.returned].relative_residual

    def iterations_to(self, tolerance: float) -> int:
        """Return the number of iterations to a larger tolerance: all, where it was not reached."""
        reached = (one.number for one in self.history if one.relative_residual <= tolerance)
        return next(reached, self.iterations)


def cg(
    A: Operator,
    b: Unknowns,
    preconditioner: Preconditioner | None = None,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    stall_iterations: int = 0,
    callback: Callable[[Iteration], None] = lambda iteration: None,
) -> Solution:
    """Solve A x = b by preconditioned conjugate gradients (Shewchuk 1994, section B3). Collective.

    The method reduces the error in every iteration, not the residual: on the way down, no residual may be
    smaller than an earlier one for hundreds of iterations.

    Parameters
    ----------
    A : Operator
    b : Unknowns
        At the owners; left as it is.
    preconditioner : Preconditioner, optional
        M^-1; by default the identity.
    tolerance : float
        Of ``sqrt(r^T M^-1 r)`` relative to that of b.
    max_iterations : int
    stall_iterations : int
        Stop after as many iterations without a smaller residual; 0: never.
    callback : callable
        Called after each iteration.

    Returns
    -------
    Solution
        Its `map` holds the x of the smallest residual, at the owners.

    Raises
    ------
    ConvergenceError
        If A or M is not positive definite, or b is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm, petamap
    >>> class Twice(petamap.Operator):
    ...     comm, n_threads = petacomm.world(), 1
    ...     def apply(self, vectors):
    ...         return petamap.Unknowns(2 * vectors.pixels, 2 * vectors.gaps)
    >>> solution = petamap.cg(Twice(), petamap.Unknowns(np.ones((3, 1)), np.zeros((0, 1))))
    >>> solution.converged, solution.iterations
    (True, 1)
    """
    solver = ConjugateGradients(A, preconditioner or IdentityPreconditioner())
    return solver.solve(b, tolerance, max_iterations, callback, stall_iterations=stall_iterations)


class ConjugateGradients:
    """Solver of A x = b with a preconditioner M^-1 (Shewchuk 1994, section B3). Collective.

    The norm of the residual is ``sqrt(r^T M^-1 r)``, relative to that of b: in units of the noise, and
    computed anyway. Vectors live at the owners of their rows, so that each row is worked on once in the run;
    A alone needs them at all holders. Dot products are exact sums, which ranks and threads cannot change.

    Parameters
    ----------
    operator : Operator
    preconditioner : Preconditioner
    """

    def __init__(self, operator: Operator, preconditioner: Preconditioner) -> None:
        self.operator = operator
        self.preconditioner = preconditioner
        self.comm = operator.comm
        self.n_threads = operator.n_threads
        # Kernels apply a block-diagonal preconditioner in the pass that updates the vectors.
        self._blocks = (
            preconditioner.blocks if isinstance(preconditioner, BlockDiagonalPreconditioner) else None
        )

    def solve(
        self,
        rhs: Unknowns,
        tolerance: float,
        max_iterations: int,
        callback: Callable[[Iteration], None] = lambda iteration: None,
        deflation: Deflation | None = None,
        *,
        stall_iterations: int = 0,
    ) -> Solution:
        """Return the solution for one right-hand side, the same to the bit as by `solve_many`.

        Raises
        ------
        ConvergenceError
            If A or M turns out not to be positive definite, or the right-hand side is not finite.
        """
        stop = _StopRule(tolerance, max_iterations, stall_iterations)
        (solution,) = self._solve([rhs], [_Column(stop, callback)], deflation)
        if solution.error is not None:
            raise solution.error
        return solution

    def solve_many(
        self,
        rhs: Sequence[Unknowns],
        tolerance: float,
        max_iterations: int,
        callback: Callable[[int, Iteration], None] = lambda number, iteration: None,
        deflation: Deflation | None = None,
        recorders: Sequence[Recorder] = (),
        *,
        stall_iterations: int = 0,
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
        callback : callable
            Called with the number of the right-hand side and its iteration.
        deflation : Deflation, optional
            Space that is solved directly, so that iterations are for the rest alone.
        recorders : sequence of callable
            One per right-hand side, or none: called with the residual of each iteration, its squared norm,
            alpha and beta.
        stall_iterations : int
            Stop after as many iterations without a smaller residual; 0: never.
        """
        stop = _StopRule(tolerance, max_iterations, stall_iterations)
        solutions: list[Solution] = []
        for first in range(0, len(rhs), MAX_WIDTH):
            numbers = range(first, min(first + MAX_WIDTH, len(rhs)))
            columns = [
                _Column(stop, partial(callback, n), recorders[n] if recorders else None) for n in numbers
            ]
            solutions += self._solve([rhs[n] for n in numbers], columns, deflation)
        return solutions

    def _solve(
        self, rhs: Sequence[Unknowns], columns: Sequence[_Column], deflation: Deflation | None
    ) -> list[Solution]:
        self._iterate(rhs, list(columns), deflation)
        self._compute_true_residuals(
            [(column, one) for column, one in zip(columns, rhs, strict=True) if not column.solution.error]
        )
        for column, one in zip(columns, rhs, strict=True):
            column.conclude(one)
        return [column.solution for column in columns]

    def _iterate(
        self, rhs: Sequence[Unknowns], columns: list[_Column | None], deflation: Deflation | None
    ) -> None:
        """Iterate on right-hand sides side by side until each has stopped; stopped ones are removed."""
        state = _State.start(rhs)
        columns += [None] * (state.r.width - len(columns))
        alphas = betas = np.zeros(state.r.width)
        norms = self._advance(alphas, state)
        _for_each(columns, norms, _Column.begin)
        if deflation is not None:
            deflation.start(state.x, state.r)
            norms = self._advance(alphas, state)
        while True:
            _for_each(columns, norms, _Column.note)
            _keep_best(columns, alphas, state)
            columns, numbers = _drop_stopped(columns, state.r.width)
            if not numbers:
                return
            if numbers != list(range(state.r.width)):
                state = state.columns(numbers)
                norms, alphas, betas = (_pick(values, numbers) for values in (norms, alphas, betas))
            largest = self._turn(alphas, betas, state)
            if deflation is not None:
                largest = deflation.project(state.p, largest)
            active = np.array([column is not None for column in columns])
            curvatures = self._apply(np.where(active, largest, 0.0), state)
            _for_each(columns, curvatures, _Column.check)
            alphas = np.divide(norms, curvatures, out=np.zeros_like(norms), where=active & (curvatures > 0))
            _record(columns, state.r, norms, alphas, betas)
            before, norms = norms, self._advance(alphas, state)
            betas = np.divide(norms, before, out=np.zeros_like(norms), where=active & (before > 0))

    def _turn(self, alphas: FloatArray, betas: FloatArray, state: _State) -> FloatArray:
        """Add alpha p to x, then set p = M^-1 r + beta p; return the largest values of p over all ranks."""
        if self._blocks is None:
            for p, x, z in zip(state.p, state.x, state.z, strict=True):
                x += alphas * p
                p *= betas
                p += z
            return state.p.largest(self.comm)
        largest = np.zeros((N_PARTS, len(betas)))
        parts = zip(self._blocks, state.r, state.x, state.p, largest, strict=True)
        for blocks, r, x, p, most in parts:
            _mapmaking.turn(alphas, betas, blocks, r, x, p, most, self.n_threads)
        return self.comm.allreduce(largest.max(axis=0), "max")

    def _apply(self, largest: FloatArray, state: _State) -> FloatArray:
        """Set q = A p; return p . q."""
        return self._totals(self.operator.apply_and_dot(state.p, largest, state.q))

    def _advance(self, alphas: FloatArray, state: _State) -> FloatArray:
        """Subtract alpha q from r; return r . M^-1 r."""
        if self._blocks is None:
            for q, r in zip(state.q, state.r, strict=True):
                r -= alphas * q
            state.z = self.preconditioner.apply(state.r)
            return self._totals(exact_dots(state.r, state.z))
        limbs = zero_limbs(len(alphas))
        for blocks, q, r, to in zip(self._blocks, state.q, state.r, sums_of_parts(limbs), strict=True):
            _mapmaking.advance(alphas, q, blocks, r, to, self.n_threads)
        return self._totals(limbs)

    def _compute_true_residuals(self, solved: Sequence[tuple[_Column, Unknowns]]) -> None:
        if not solved:
            return
        x = stack([column.solution.map for column, _ in solved])
        q = self.operator.apply(x)
        r = q.zeros_like()
        for number, (_, rhs) in enumerate(solved):
            for right, product, to in zip(rhs, q, r, strict=True):
                np.subtract(right, product[..., number], out=to[..., number])
        norms = self._advance(np.zeros(x.width), _State(x, q, q, r, r))
        for number, (column, _) in enumerate(solved):
            column.solution.true_residual = column.relative(norms[number])

    def _totals(self, limbs: Int64Array) -> FloatArray:
        return np.array([round_limbs(sums) for sums in self.comm.allreduce(limbs)])


@dataclass
class _State:
    """Vectors of conjugate gradients, side by side; z = M^-1 r where no kernel computes it on the way.

    x is a step behind r, until p turns: the next residual tells whether an iterate is to be kept.
    """

    x: Unknowns
    p: Unknowns
    q: Unknowns
    r: Unknowns
    z: Unknowns

    @staticmethod
    def start(rhs: Sequence[Unknowns]) -> _State:
        r = stack(rhs)
        r = r.copy() if len(rhs) == 1 else r
        return _State(r.zeros_like(), r.zeros_like(), r.zeros_like(), r, r)

    def columns(self, numbers: Sequence[int]) -> _State:
        """Return the vectors with these numbers; q is scratch."""
        x, p, r = (vectors.columns(numbers) for vectors in (self.x, self.p, self.r))
        z = r if self.z is self.r else self.z.columns(numbers)
        return _State(x, p, r.zeros_like(), r, z)

    def iterate(self, column: int, alpha: float) -> Unknowns:
        """Return x + alpha p of a column."""
        x = self.x.column(column)
        for to, p in zip(x, self.p, strict=True):
            to += alpha * p[..., column]
        return x


@dataclass(frozen=True)
class _StopRule:
    tolerance: float
    max_iterations: int
    stall_iterations: int


@dataclass
class _Column:
    """Progress of one right-hand side."""

    stop: _StopRule
    callback: Callable[[Iteration], None]
    recorder: Recorder | None = None
    solution: Solution = field(default_factory=lambda: Solution(Unknowns.zeros(0, 0, 0)))
    stopped: bool = False
    _first: float = field(default=0.0, init=False)
    _begin: float = field(default_factory=time.perf_counter, init=False)

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
        number, relative = len(self.solution.history), self.relative(norm)
        self.solution.history.append(Iteration(number, relative, time.perf_counter() - self._begin))
        self.callback(self.solution.history[-1])
        # The start is no result: the first iterate is closer to the solution, whatever its residual.
        if number == 1 or relative < self.solution.relative_residual:
            self.solution.returned = number
        stalled = 0 < self.stop.stall_iterations <= number - self.solution.returned
        self.stopped = relative <= self.stop.tolerance or number >= self.stop.max_iterations or stalled

    def keep_best(self, column: int, alpha: float, state: _State) -> None:
        """Copy the iterate of the smallest residual when it is left behind, or is the last one."""
        since = self.solution.iterations - self.solution.returned
        if since == 1:
            self.solution.map = state.x.column(column)
        elif since == 0 and self.stopped:
            self.solution.map = state.iterate(column, alpha)

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
        """Decide whether the solution has converged, and give the reason why it stopped."""
        solution = self.solution
        if solution.error is not None:
            solution.map, solution.reason = rhs.zeros_like(), str(solution.error)
            return
        reached = solution.relative_residual <= self.stop.tolerance
        solution.converged = reached and solution.true_residual <= _SLACK * self.stop.tolerance
        solution.reason = _reason(solution, self.stop)


def _for_each(
    columns: Sequence[_Column | None], values: FloatArray, action: Callable[[_Column, float], None]
) -> None:
    for column, value in zip(columns, values, strict=True):
        if column is not None:
            action(column, float(value))


def _record(columns: Sequence[_Column | None], residuals: Unknowns, *scalars: FloatArray) -> None:
    for number, column in enumerate(columns):
        if column is not None and column.recorder is not None and not column.stopped:
            norm, alpha, beta = (float(values[number]) for values in scalars)
            column.recorder(residuals.column(number), norm, alpha, beta)


def _keep_best(columns: Sequence[_Column | None], alphas: FloatArray, state: _State) -> None:
    for number, column in enumerate(columns):
        if column is not None and column.solution.error is None:
            column.keep_best(number, float(alphas[number]), state)


def _drop_stopped(columns: Sequence[_Column | None], width: int) -> tuple[list[_Column | None], list[int]]:
    """Return the columns that have not stopped, and the numbers of those to go on with.

    A column that has stopped stays in the vectors, unused, until the rest fits into half the width.
    """
    active = [None if column is None or column.stopped else column for column in columns]
    numbers = [number for number, column in enumerate(active) if column is not None]
    if not numbers or width_for(len(numbers)) == width:
        return active, list(range(width)) if numbers else []
    rest = [active[number] for number in numbers]
    return rest + [None] * (width_for(len(numbers)) - len(numbers)), numbers


def _pick(values: FloatArray, numbers: Sequence[int]) -> FloatArray:
    picked = np.zeros(width_for(len(numbers)))
    picked[: len(numbers)] = values[numbers]
    return picked


def _reason(solution: Solution, stop: _StopRule) -> str:
    residual = f"{solution.relative_residual:.2g}"
    if solution.converged:
        return f"residual {residual} <= {stop.tolerance:g}"
    if solution.relative_residual <= stop.tolerance:
        return f"stalled at {solution.true_residual:.2g}: rounding allows no smaller residual"
    if solution.returned < solution.iterations:
        residual += f" in iteration {solution.returned}"
    if solution.iterations >= stop.max_iterations:
        return f"residual {residual} after the {stop.max_iterations} iterations allowed"
    return f"stalled at {residual}: no smaller residual in {stop.stall_iterations} iterations"
