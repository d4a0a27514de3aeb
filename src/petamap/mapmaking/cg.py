"""Preconditioned conjugate gradients on A x = b, for several right-hand sides side by side.

In map-making A = P^T N^-1 P and b = P^T N^-1 d; `cg` takes any `Operator` and `Preconditioner`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import DataError
from petacomm.base.exact import round_limbs, zero_limbs
from petacomm.base.host import keep_freed_memory
from petacomm.base.typing import FloatArray, Int64Array
from petamap.mapmaking.linear_operators import (
    BlockDiagonalPreconditioner,
    IdentityPreconditioner,
    Operator,
    Preconditioner,
    exact_dots,
)
from petamap.mapmaking.solution import (
    ColumnState,
    Recorder,
    Solution,
    SolverCheckpoint,
    SolverColumn,
)
from petamap.mapmaking.stop_rule import Iteration, SolverTolerance, StopRule
from petamap.mapmaking.vectors import MAX_WIDTH, N_PARTS, Unknowns, stack, sums_of_parts, width_for

if TYPE_CHECKING:
    from petamap.mapmaking.recycling import Deflation


def cg(
    A: Operator,
    b: Unknowns,
    preconditioner: Preconditioner | None = None,
    *,
    tolerance: float | str = 1e-6,
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
    tolerance : float or str
        Of ``sqrt(r^T M^-1 r)`` relative to that of b; or text such as ``"1% of noise"``, for the upper bound
        of ``||x - x_k||_A``: the error in units of the noise where A is the inverse of its covariance.
    max_iterations : int
    stall_iterations : int
        Stop after as many iterations without a smaller residual; 0: never.
    callback : callable
        Called after each iteration.

    Returns
    -------
    Solution
        Its `map` holds the x that reached the tolerance, else that of the smallest residual, at the owners.

    Raises
    ------
    ConfigError
        If the tolerance is other text.
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
    if b.pixels.ndim not in (2, 3) or b.gaps.ndim not in (2, 3):
        raise DataError(f"b has parts of shape {b.pixels.shape} and {b.gaps.shape}, not (n, k)")
    solver = ConjugateGradients(A, preconditioner or IdentityPreconditioner())
    return solver.solve(b, tolerance, max_iterations, callback, stall_iterations=stall_iterations)


class ConjugateGradients:
    """Solver of A x = b with a preconditioner M^-1 (Shewchuk 1994, section B3). Collective.

    The norm of the residual is ``sqrt(r^T M^-1 r)``, relative to that of b: computed anyway, and with the
    step lengths it bounds the error in units of the noise (`petamap.mapmaking.error_bound`). Vectors live at
    the owners of their rows, so that each row is worked on once in the run; A alone needs them at all
    holders. Dot products are exact sums, which ranks and threads cannot change.

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
        tolerance: float | str | SolverTolerance,
        max_iterations: int,
        callback: Callable[[Iteration], None] = lambda iteration: None,
        deflation: Deflation | None = None,
        *,
        stall_iterations: int = 0,
        checkpoint: SolverCheckpoint | None = None,
        whole: Unknowns | None = None,
    ) -> Solution:
        """Return the solution for one right-hand side, the same to the bit as by `solve_many`.

        `whole` is the right-hand side b of which a start x_0 has left `rhs`, ``b - A x_0``: what is left may
        be of the size of its rounding.

        Raises
        ------
        ConvergenceError
            If A or M turns out not to be positive definite, or the right-hand side is not finite.
        """
        stop = StopRule(_tolerance(tolerance), max_iterations, stall_iterations)
        column = SolverColumn(stop, callback, whole=0.0 if whole is None else self._squared_norm(whole))
        (solution,) = self._solve([rhs], [column], deflation, checkpoint)
        if solution.error is not None:
            raise solution.error
        return solution

    def solve_many(
        self,
        rhs: Sequence[Unknowns],
        tolerance: float | str | SolverTolerance,
        max_iterations: int,
        callback: Callable[[int, Iteration], None] = lambda number, iteration: None,
        deflation: Deflation | None = None,
        recorders: Sequence[Recorder] = (),
        *,
        stall_iterations: int = 0,
        checkpoint: SolverCheckpoint | None = None,
    ) -> list[Solution]:
        """Return the solution for each right-hand side: the same to the bit whatever others there are.

        One that fails does not stop the others: its solution has not converged and says why.

        Parameters
        ----------
        rhs : sequence of Unknowns
            Left as they are.
        tolerance : float, str or SolverTolerance
            Of the residual's norm, relative to that of the right-hand side; or of the error, as
            ``"1% of noise"``.
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
        checkpoint : SolverCheckpoint, optional
            Given the state before each iteration, to go on from it later.
        """
        stop = StopRule(_tolerance(tolerance), max_iterations, stall_iterations)
        solutions: list[Solution] = []
        for first in range(0, len(rhs), MAX_WIDTH):
            numbers = range(first, min(first + MAX_WIDTH, len(rhs)))
            columns = [
                SolverColumn(stop, partial(callback, n), recorders[n] if recorders else None) for n in numbers
            ]
            solutions += self._solve([rhs[n] for n in numbers], columns, deflation, checkpoint)
        return solutions

    def _solve(
        self,
        rhs: Sequence[Unknowns],
        columns: Sequence[SolverColumn],
        deflation: Deflation | None,
        checkpoint: SolverCheckpoint | None,
    ) -> list[Solution]:
        keep_freed_memory()
        self._iterate(rhs, columns, deflation, checkpoint)
        self._compute_true_residuals(
            [(column, one) for column, one in zip(columns, rhs, strict=True) if not column.solution.error]
        )
        for column, one in zip(columns, rhs, strict=True):
            column.conclude(one)
        return [column.solution for column in columns]

    def _iterate(
        self,
        rhs: Sequence[Unknowns],
        every: Sequence[SolverColumn],
        deflation: Deflation | None,
        checkpoint: SolverCheckpoint | None,
    ) -> None:
        """Iterate on right-hand sides side by side until each has stopped; stopped ones are removed."""
        saved = None if checkpoint is None else checkpoint.restore(rhs)
        if saved is None:
            columns, state, norms, alphas, betas = self._start(rhs, every, deflation)
        else:
            columns, state, norms, alphas, betas = self._resume(rhs, every, saved)
            saved = None  # its vectors are copied
        while True:
            states = partial(_column_states, every, columns, state, norms, alphas, betas)
            if checkpoint is not None:
                checkpoint.step(states)
            _note(columns, norms, alphas, betas, state.coarse_error)
            _keep_best(columns, alphas, state)
            columns, numbers = _drop_stopped(columns, state.r.width)
            if not numbers:
                if checkpoint is not None:
                    checkpoint.finish(states)
                return
            if numbers != list(range(state.r.width)):
                state = state.columns(numbers)
                norms, alphas, betas = (_pick(values, numbers) for values in (norms, alphas, betas))
            largest = self._turn(alphas, betas, state)
            if deflation is not None:
                largest = deflation.project(state.p, largest)
            active = np.array([column is not None for column in columns])
            curvatures = self._apply(np.where(active, largest, 0.0), state)
            _for_each(columns, curvatures, SolverColumn.check)
            alphas = np.divide(norms, curvatures, out=np.zeros_like(norms), where=active & (curvatures > 0))
            _record(columns, state.r, norms, alphas, betas)
            before, norms = norms, self._advance(alphas, state)
            betas = np.divide(norms, before, out=np.zeros_like(norms), where=active & (before > 0))

    def _start(
        self, rhs: Sequence[Unknowns], every: Sequence[SolverColumn], deflation: Deflation | None
    ) -> _Begun:
        """Return columns, vectors, squared norms of residuals, alphas and betas at the start."""
        state = _State.start(rhs)
        columns = [*every, *[None] * (state.r.width - len(every))]
        zeros = np.zeros(state.r.width)
        norms = self._advance(zeros, state)
        _for_each(columns, norms, SolverColumn.begin)
        if deflation is not None:
            deflation.start(state.x, state.r)
            norms = self._advance(zeros, state)
        return columns, state, norms, zeros, zeros

    def _resume(
        self, rhs: Sequence[Unknowns], every: Sequence[SolverColumn], saved: Sequence[ColumnState]
    ) -> _Begun:
        """Return what `_start` returns, as it was when it was saved."""
        for column, one in zip(every, saved, strict=True):
            column.restore(one)
        active = [number for number, column in enumerate(every) if not column.stopped]
        state = _State.start([rhs[number] for number in active] or rhs)
        columns = [*(every[number] for number in active), *[None] * (state.r.width - len(active))]
        scalars = np.zeros((3, state.r.width))
        for slot, one in enumerate(saved[number] for number in active):
            scalars[:, slot] = [one.scalars[name] for name in _SCALARS]
            for name, vectors in state.iterated().items():
                for to, part in zip(vectors, one.vectors[name], strict=True):
                    to[..., slot] = part
        if self._blocks is None:
            self._precondition(state)
        else:
            self._precondition_by_blocks(state)
        norms, alphas, betas = scalars
        return columns, state, norms, alphas, betas

    def _turn(self, alphas: FloatArray, betas: FloatArray, state: _State) -> FloatArray:
        """Add alpha p to x, then set p = z + beta p; return the largest values of p over all ranks."""
        largest = np.zeros((N_PARTS, len(betas)))
        for z, x, p, most in zip(state.z, state.x, state.p, largest, strict=True):
            _mapmaking.turn(alphas, betas, np.ascontiguousarray(z), x, p, most, self.n_threads)
        if self._blocks is not None:
            state.q = state.z
        state.z = state.r  # where q is not made in its memory, it is free before q is made
        return self.comm.allreduce(largest.max(axis=0), "max")

    def _apply(self, largest: FloatArray, state: _State) -> FloatArray:
        """Set q = A p; return p . q."""
        state.q = state.p.zeros_like() if state.q is None else state.q
        return self._totals(self.operator.apply_and_dot(state.p, largest, state.q))

    def _advance(self, alphas: FloatArray, state: _State) -> FloatArray:
        """Subtract alpha q from r; set z = M^-1 r; return r . z."""
        if self._blocks is None:
            if state.q is not None:
                for q, r in zip(state.q, state.r, strict=True):
                    _mapmaking.subtract(alphas, q, r, self.n_threads)
                state.q = None  # frees it before z is made
            self._precondition(state)
            return self._totals(exact_dots(state.r, state.z, self.n_threads))
        if state.q is not None:
            state.z, state.q = state.q, None
        limbs = zero_limbs(len(alphas))
        for blocks, z, r, to in zip(self._blocks, state.z, state.r, sums_of_parts(limbs), strict=True):
            _mapmaking.advance(alphas, z, blocks, r, to, self.n_threads)
        return self._totals(limbs)

    def _precondition(self, state: _State) -> None:
        state.z = self.preconditioner.apply(state.r)
        state.coarse_error = self.preconditioner.coarse_error

    def _precondition_by_blocks(self, state: _State) -> None:
        assert state.q is not None and self._blocks is not None
        state.z, state.q = state.q, None
        for blocks, r, z in zip(self._blocks, state.r, state.z, strict=True):
            _mapmaking.precondition(blocks, r, z, self.n_threads)

    def _compute_true_residuals(self, solved: Sequence[tuple[SolverColumn, Unknowns]]) -> None:
        if not solved:
            return
        x = stack([column.solution.map for column, _ in solved])
        r = self.operator.apply(x)
        for number, (_, rhs) in enumerate(solved):
            for right, product in zip(rhs, r, strict=True):
                np.subtract(right, product[..., number], out=product[..., number])
        norms = self._advance(np.zeros(x.width), _State(x, r, None, r, r))  # z may be made where r was
        for number, (column, _) in enumerate(solved):
            column.solution.true_residual = column.relative(norms[number])

    def _squared_norm(self, vectors: Unknowns) -> float:
        """Return r^T M^-1 r of a right-hand side."""
        state = _State.start([vectors])
        return float(self._advance(np.zeros(state.r.width), state)[0])

    def _totals(self, limbs: Int64Array) -> FloatArray:
        return np.array([round_limbs(sums) for sums in self.comm.allreduce(limbs)])


@dataclass
class _State:
    """Vectors of conjugate gradients, side by side; z = M^-1 r.

    q and z take turns: q is from its making to the next r, z from there to the next p. Where kernels make z,
    it is in the memory of q; z is r where there is none.
    x is a step behind r, until p turns: the next residual tells whether an iterate is to be kept. Errors on
    the coarse map are of the iterates that r is the residual of; None where there is no such map.
    """

    x: Unknowns
    p: Unknowns
    q: Unknowns | None
    r: Unknowns
    z: Unknowns
    coarse_error: FloatArray | None = None

    @staticmethod
    def start(rhs: Sequence[Unknowns]) -> _State:
        r = stack(rhs)
        r = r.copy() if len(rhs) == 1 else r
        return _State(r.zeros_like(), r.zeros_like(), r.zeros_like(), r, r)

    def columns(self, numbers: Sequence[int]) -> _State:
        """Return the vectors with these numbers."""
        x, p, r = (vectors.columns(numbers) for vectors in (self.x, self.p, self.r))
        z = r if self.z is self.r else self.z.columns(numbers)
        return _State(x, p, None, r, z)

    def iterated(self) -> dict[str, Unknowns]:
        """Return the vectors that iterations go on from, by name."""
        return {"x": self.x, "p": self.p, "r": self.r}


# Columns, vectors, squared norms of residuals, alphas and betas.
_Begun: TypeAlias = tuple[list[SolverColumn | None], _State, FloatArray, FloatArray, FloatArray]
_SCALARS = ("norm", "alpha", "beta")


def _column_states(
    every: Sequence[SolverColumn], columns: Sequence[SolverColumn | None], state: _State, *scalars: FloatArray
) -> list[ColumnState]:
    """Return the state of each right-hand side, of which those in `columns` are iterated on."""
    places = {id(column): slot for slot, column in enumerate(columns) if column is not None}
    found = []
    for column in every:
        slot = places.get(id(column), 0)
        numbers = {name: float(values[slot]) for name, values in zip(_SCALARS, scalars, strict=True)}
        vectors = {
            name: Unknowns(*(part[..., slot] for part in values)) for name, values in state.iterated().items()
        }
        found.append(column.save(numbers, vectors))
    return found


def _for_each(
    columns: Sequence[SolverColumn | None], values: FloatArray, action: Callable[[SolverColumn, float], None]
) -> None:
    for column, value in zip(columns, values, strict=True):
        if column is not None:
            action(column, float(value))


def _note(
    columns: Sequence[SolverColumn | None],
    norms: FloatArray,
    alphas: FloatArray,
    betas: FloatArray,
    coarse_errors: FloatArray | None,
) -> None:
    for number, column in enumerate(columns):
        if column is not None:
            norm, alpha, beta = (float(values[number]) for values in (norms, alphas, betas))
            coarse_error = None if coarse_errors is None else float(coarse_errors[number])
            column.note(norm, alpha, beta, coarse_error)


def _tolerance(given: float | str | SolverTolerance) -> SolverTolerance:
    return given if isinstance(given, SolverTolerance) else SolverTolerance.parse(given)


def _record(columns: Sequence[SolverColumn | None], residuals: Unknowns, *scalars: FloatArray) -> None:
    for number, column in enumerate(columns):
        if column is not None and column.recorder is not None and not column.stopped:
            norm, alpha, beta = (float(values[number]) for values in scalars)
            column.recorder(residuals.column(number), norm, alpha, beta)


def _keep_best(columns: Sequence[SolverColumn | None], alphas: FloatArray, state: _State) -> None:
    for number, column in enumerate(columns):
        if column is not None and column.solution.error is None:
            column.keep_best(number, float(alphas[number]), state.x, state.p)


def _drop_stopped(
    columns: Sequence[SolverColumn | None], width: int
) -> tuple[list[SolverColumn | None], list[int]]:
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
