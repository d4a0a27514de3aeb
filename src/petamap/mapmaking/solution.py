"""Solutions of the map-making equation, and the state of the iterations on each right-hand side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from petacomm.base.errors import ConvergenceError
from petamap.mapmaking.vectors import Unknowns

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


@dataclass(frozen=True)
class StopRule:
    """When the iterations on a right-hand side end."""

    tolerance: float
    max_iterations: int
    stall_iterations: int


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
    """Progress of one right-hand side."""

    stop: StopRule
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

    def keep_best(self, column: int, alpha: float, x: Unknowns, p: Unknowns) -> None:
        """Copy the iterate of the smallest residual when it is left behind, or is the last, x + alpha p."""
        since = self.solution.iterations - self.solution.returned
        if since == 1:
            self.solution.map = x.column(column)
        elif since == 0 and self.stopped:
            self.solution.map = x.column(column)
            for to, direction in zip(self.solution.map, p, strict=True):
                to += alpha * direction[..., column]

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

    def save(self, numbers: Mapping[str, float], vectors: Mapping[str, Unknowns]) -> ColumnState:
        """Return the state before an iteration is noted, with numbers and vectors of the solver."""
        solution, error = self.solution, self.solution.error
        scalars = {
            "first": self._first,
            "history": [[one.relative_residual, one.seconds] for one in solution.history],
            "returned": solution.returned,
            "stopped": self.stopped,
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
        self._first, self.stopped = scalars["first"], scalars["stopped"]
        solution.history = [Iteration(n, *one) for n, one in enumerate(scalars["history"])]
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
        reached = solution.relative_residual <= self.stop.tolerance
        solution.converged = reached and solution.true_residual <= _SLACK * self.stop.tolerance
        solution.reason = _reason(solution, self.stop)


def _reason(solution: Solution, stop: StopRule) -> str:
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
