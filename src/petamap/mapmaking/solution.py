"""Solutions of the map-making equation, and the state of the iterations on each right-hand side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from petacomm.base.errors import ConvergenceError
from petamap.mapmaking.error_bound import ErrorBound
from petamap.mapmaking.stop_rule import Iteration, SolverTolerance, StopRule, noise_share
from petamap.mapmaking.vectors import Unknowns

# The residual of the recurrence falls on when rounding keeps the true one up; the true one may exceed the
# tolerance by this factor.
_SLACK = 2
# At a relative residual below, what seems not to be positive may be rounding.
_SMALL = 1e-6
# A residual that a start leaves of a right-hand side counts as this part of it at least: of less, tolerances
# would ask for what its rounding hides.
_LEAST_LEFT = 1e-4
_AT_ONCE = 1 << 14  # rows

Recorder = Callable[[Unknowns, float, float, float], None]


@dataclass
class Solution:
    """Solution of one right-hand side.

    Attributes
    ----------
    map : Unknowns
        At the owners: the iterate that reached the tolerance, else that of the smallest residual, which need
        not be the last one.
    converged : bool
    reason : str
        Why the iterations stopped.
    history : list of Iteration
        Their bounds of the error are made with all that the iterations have found.
    returned : int
        Number of the iteration that the map is from.
    true_residual : float
        Relative norm of b - A x of the map, computed anew: that of the history, which comes from the
        recurrence, should equal it.
    error_bound : float
        Upper bound of ``||x - map||_A``, the error of the map in units of its noise: below it in every mode,
        so at every scale (`petamap.mapmaking.error_bound`). Larger than that of the history where the true
        residual is.
    error : ConvergenceError, optional
        Why there is no solution at all; the map then has no meaning.
    """

    map: Unknowns
    converged: bool = False
    reason: str = ""
    history: list[Iteration] = field(default_factory=list)
    returned: int = 0
    true_residual: float = math.nan
    error_bound: float = math.inf
    error: ConvergenceError | None = None

    @property
    def iterations(self) -> int:
        """Number of iterations."""
        return self.history[-1].number

    @property
    def relative_residual(self) -> float:
        """Relative residual of the map, from the recurrence."""
        return self.history[self.returned].relative_residual

    @property
    def coarse_error(self) -> float | None:
        """Estimate of the part of ``||x - map||_A`` on large scales, with a two-level preconditioner."""
        return self.history[self.returned].coarse_error

    def iterations_to(self, tolerance: SolverTolerance) -> int:
        """Return the number of iterations to a larger tolerance: all, where it was not reached."""
        reached = (one.number for one in self.history if tolerance.reached(one))
        return next(reached, self.iterations)

    def conclude_bounds(self, bounds: Sequence[float]) -> None:
        """Take the upper bounds of the errors of all iterates, with what all iterations have found."""
        self.history = [
            replace(step, error_bound=bound) for step, bound in zip(self.history, bounds, strict=True)
        ]
        relative = self.relative_residual
        larger = max(self.true_residual / relative, 1.0) if relative > 0 else 1.0
        self.error_bound = self.history[self.returned].error_bound * larger


@dataclass(frozen=True)
class ColumnState:
    """State of the iterations on one right-hand side, from which they can go on with the same bits.

    Attributes
    ----------
    scalars : dict
        Numbers and texts that JSON can hold; of a column that is iterated on, also norm, alpha and beta.
    vectors : dict of str to Unknowns
        "x", "p" and "r" of a column that is iterated on, at the owners; "map", the iterate of the smallest
        residual, once it has been left behind.
    """

    scalars: dict[str, Any]
    vectors: dict[str, Unknowns]


class SolverCheckpoint(Protocol):
    """What conjugate gradients tell of their state, and go on from. Collective."""

    def restore(self, rhs: Sequence[Unknowns]) -> list[ColumnState] | None:
        """Return the states of right-hand sides that are solved for next; None to begin with them."""

    def step(self, states: Callable[[], list[ColumnState]]) -> None:
        """Be called before each iteration is noted; may save the states, and end the solver by raising."""

    def finish(self, states: Callable[[], list[ColumnState]]) -> None:
        """Be called after the last iteration on these right-hand sides."""


@dataclass
class SolverColumn:
    """Progress of one right-hand side.

    Attributes
    ----------
    stop : StopRule
    callback : callable
    recorder : callable, optional
    whole : float
        Squared norm of the right-hand side of which a start has left this one; 0 if there was none.
    """

    stop: StopRule
    callback: Callable[[Iteration], None]
    recorder: Recorder | None = None
    whole: float = 0.0
    solution: Solution = field(default_factory=lambda: Solution(Unknowns.zeros(0, 0, 0)))
    stopped: bool = False
    _first: float = field(default=0.0, init=False)
    _ended: str = field(default="", init=False)  # what ended it at the size of rounding
    _is_kept: bool = field(default=False, init=False)
    _bound: ErrorBound = field(default_factory=ErrorBound, init=False)
    _begin: float = field(default_factory=time.perf_counter, init=False)

    def begin(self, norm: float) -> None:
        """Take the squared norm of the right-hand side."""
        self._first = max(norm, _LEAST_LEFT**2 * self.whole)
        if norm == math.inf:
            self._fail("the right-hand side is not finite")

    def relative(self, norm: float) -> float:
        """Return the relative norm of a residual, whose square may be negative by rounding."""
        return math.sqrt(abs(norm) / self._first) if self._first > 0 else 0.0

    def note(self, norm: float, alpha: float, beta: float, coarse_error: float | None) -> None:
        """Take the state of the solver, at the start and after each iteration.

        Parameters
        ----------
        norm : float
            Squared norm of the residual.
        alpha, beta : float
            Of the step that led to it.
        coarse_error : float, optional
            As the preconditioner estimates it.
        """
        if self.stopped:
            return
        if not 0 <= norm < math.inf:
            self._fail(
                "the preconditioner is not positive", f"r^T M^-1 r = {norm:.3g}",
                'set solver.preconditioner = "block-diagonal", and see whether the noise is that of the data',
                self.relative(norm) if self._first > 0 else math.inf,
            )  # fmt: skip
            norm = abs(norm)
        if self.solution.error is not None:
            return
        number, relative = len(self.solution.history), self.relative(norm)
        seconds = time.perf_counter() - self._begin
        step = Iteration(number, relative, seconds, self._bounded(norm, alpha, beta), coarse_error)
        self.solution.history.append(step)
        self.callback(step)
        reached = self.stop.tolerance.reached(step)
        # The start is no result: the first iterate is closer to the solution, whatever its residual.
        if number == 1 or reached or relative < self.solution.relative_residual:
            self.solution.returned = number
        stalled = 0 < self.stop.stall_iterations <= number - self.solution.returned
        self.stopped |= reached or number >= self.stop.max_iterations or stalled

    def _bounded(self, norm: float, alpha: float, beta: float) -> float:
        """Return the upper bound of the error of an iterate; one to stop at has all that is known in it."""
        bound, tolerance = self._bound.add(norm, alpha, beta), self.stop.tolerance
        return self._bound.renew() if tolerance.of_noise and bound <= tolerance.value else bound

    def keep_best(self, column: int, alpha: float, x: Unknowns, p: Unknowns) -> None:
        """Keep the iterate of the smallest residual when it is left behind, or is the last, x + alpha p.

        The last one of a vector that is alone takes its memory.
        """
        since = self.solution.iterations - self.solution.returned
        if since == 1 and not self._is_kept:
            self.solution.map = Unknowns.zeros(0, 0, 0)  # freed before the next is made
            self.solution.map = x.column(column)
        elif since == 0 and self.stopped:
            alone = x.width == 1
            self.solution.map = Unknowns(*(part[..., 0] for part in x)) if alone else x.column(column)
            for to, directions in zip(self.solution.map, p, strict=True):
                for begin in range(0, len(to), _AT_ONCE):  # a product as large as a vector would take memory
                    rows = slice(begin, begin + _AT_ONCE)
                    to[rows] += alpha * directions[rows, ..., column]

    def check(self, curvature: float) -> None:
        """Take p^T A p of an iteration."""
        if not curvature > 0:
            self._fail(
                "the noise model is not positive", f"p^T A p = {curvature:.3g}",
                "check the inverse noise lags, or use fewer", self.solution.relative_residual,
            )  # fmt: skip
            self._is_kept = self.solution.returned < self.solution.iterations

    def _fail(self, what: str, found: str = "", mend: str = "", residual: float = math.inf) -> None:
        """End the iterations: with an error, unless the residual is so small that rounding explains it."""
        self.stopped = True
        if residual * (math.sqrt(self._first / self.whole) if self.whole > self._first else 1.0) <= _SMALL:
            self._ended = f"rounding allows no smaller residual, or {what}: {found}"
        else:
            self.solution.error = ConvergenceError(f"{what}: {found}" if found else what, mend=mend or None)

    def save(self, numbers: Mapping[str, float], vectors: Mapping[str, Unknowns]) -> ColumnState:
        """Return the state before an iteration is noted, with numbers and vectors of the solver."""
        solution, error = self.solution, self.solution.error
        scalars = {
            "first": self._first,
            "history": [[one.relative_residual, one.seconds, one.coarse_error] for one in solution.history],
            "steps": [list(step) for step in self._bound.steps],
            "returned": solution.returned,
            "stopped": self.stopped,
            "ended": self._ended,
            "error": None if error is None else [error.what, error.mend],
        }
        kept = error is None and (self.stopped or solution.returned < len(solution.history) - 1)
        best = {"map": solution.map} if kept else {}
        if self.stopped:
            return ColumnState(scalars, best)
        return ColumnState(scalars | dict(numbers), {**vectors, **best})

    def restore(self, state: ColumnState) -> None:
        """Take up what `save` returned, and report the last iteration."""
        scalars, solution = state.scalars, self.solution
        self._first, self.stopped, self._ended = (scalars[name] for name in ("first", "stopped", "ended"))
        solution.history = [
            Iteration(n, relative, seconds, self._bounded(*step), coarse_error)
            for n, ((relative, seconds, coarse_error), step) in enumerate(
                zip(scalars["history"], scalars["steps"], strict=True)
            )
        ]
        solution.returned = scalars["returned"]
        solution.map = state.vectors.get("map", solution.map)
        if scalars["error"] is not None:
            what, mend = scalars["error"]
            solution.error = ConvergenceError(what, mend=mend)
        if solution.history:
            self._begin -= solution.history[-1].seconds
            self.callback(solution.history[-1])

    def conclude(self, rhs: Unknowns) -> None:
        """Decide whether the solution has converged, and give the reason why it stopped."""
        solution = self.solution
        if solution.error is not None:
            solution.map, solution.reason = rhs.zeros_like(), str(solution.error)
            return
        solution.conclude_bounds(self._bound.upper())
        tolerance = self.stop.tolerance
        true = solution.error_bound if tolerance.of_noise else solution.true_residual
        reached = tolerance.reached(solution.history[solution.returned])
        solution.converged = reached and true <= _SLACK * tolerance.value
        solution.reason = _reason(solution, self.stop, reached, self._ended)


def _reason(solution: Solution, stop: StopRule, reached: bool, ended: str) -> str:
    tolerance = stop.tolerance
    if tolerance.of_noise:
        name, found = "map error", noise_share(solution.history[solution.returned].error_bound)
        true, limit = noise_share(solution.error_bound), f"{100 * tolerance.value:g}%"
    else:
        name, found = "residual", f"{solution.relative_residual:.2g}"
        true, limit = f"{solution.true_residual:.2g}", f"{tolerance.value:g}"
    if solution.converged:
        return f"{name} {found} <= {limit}"
    if reached:
        return f"stalled at {true}: rounding allows no smaller residual"
    if solution.returned < solution.iterations:
        found += f" in iteration {solution.returned}"
    if ended:
        return f"stalled at {found}: {ended}"
    if solution.iterations >= stop.max_iterations:
        return f"{name} {found} after the {stop.max_iterations} iterations allowed"
    return f"stalled at {found}: no smaller residual in {stop.stall_iterations} iterations"
