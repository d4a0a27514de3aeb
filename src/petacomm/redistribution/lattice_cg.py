"""Conjugate gradients on the even sites of a lattice, plain and pipelined.

The plain method waits for two dot products in each iteration, one after the other. The pipelined one (Ghysels
and Vanroose 2014, "Hiding global synchronization latency in the preconditioned conjugate gradient algorithm",
without preconditioner) starts both before the operator is applied and waits for them after it, so that they
travel beside halos and sums over neighbours. It keeps three vectors more, whose recurrences lose digits:
these are computed anew now and then, as there, and the residual once more in the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConvergenceError, require_known
from petacomm.base.exact import add_exactly, round_limbs, zero_limbs
from petacomm.base.typing import ComplexArray, Int64Array
from petacomm.collectives.persistent import PersistentCollective
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.argument_checks import require_same_arguments
from petacomm.redistribution.staggered import StaggeredOperator

CG_VARIANTS = ("plain", "pipelined")
# Iterations after which pipelined vectors are computed anew, by four operators. On 4 x 4 x 6 x 4 sites of
# random links with a mass of 0.01, 930 plain iterations to a residual of 10^-10 were 954 so, 960 with the
# double, and ended at 2 10^-6 without.
_PERIOD = 50


@dataclass(frozen=True)
class CgSolution:
    """Solution of a linear system by conjugate gradients.

    Attributes
    ----------
    vector : complex128 (n_even, 3)
    residuals : list of float
        Norm of the residual after each iteration, relative to the right-hand side; the first is 1.
    n_replaced : int
        How often the vectors of a pipelined iteration were computed anew.
    """

    vector: ComplexArray
    residuals: list[float]
    n_replaced: int = 0


def solve_cg(
    operator: StaggeredOperator,
    rhs: ComplexArray,
    tolerance: float = 1e-10,
    n_iterations: int = 1000,
    variant: str = "plain",
) -> CgSolution:
    """Solve (m^2 - D^2) x = rhs on the even sites by conjugate gradients. Collective.

    Dot products are exact and sums over neighbours have a fixed order, so the bits do not depend on the
    number of ranks, the grid or the method.

    Parameters
    ----------
    operator : StaggeredOperator
    rhs : complex128 (n_even, 3)
    tolerance : float
        Bound on the norm of the residual, relative to that of `rhs`: of the residual of the recurrence if
        "plain", of ``rhs - (m^2 - D^2) x`` if "pipelined".
    n_iterations : int
        Maximum number of iterations.
    variant : str
        "plain", or "pipelined": one all-reduce an iteration, which travels while the operator is applied, for
        three more vectors, four operators more in 50 iterations and three more in all.

    Raises
    ------
    ConfigError
        If there is no such variant.
    ConvergenceError
        On all ranks, if the residual is larger after `n_iterations`, or pipelined recurrences lose too many
        digits to reach it.
    """
    require_known("no variant of conjugate gradients", variant, CG_VARIANTS)
    require_same_arguments(operator.comm, f"{variant} conjugate gradients to {tolerance}")
    solve = _solve_plain if variant == "plain" else _solve_pipelined
    return solve(operator, rhs, tolerance, n_iterations)


def _solve_plain(
    operator: StaggeredOperator, rhs: ComplexArray, tolerance: float, n_iterations: int
) -> CgSolution:
    comm = operator.comm
    x, residual = np.zeros_like(rhs), rhs.copy()
    direction, product = residual.copy(), np.empty_like(residual)
    size = begin = _dot(comm, residual, residual)
    history = [1.0]
    while begin > 0 and history[-1] > tolerance:
        _check_count(history, n_iterations)
        operator.apply(direction, product)
        step = size / _dot(comm, direction, product)
        x += step * direction
        residual -= step * product
        before, size = size, _dot(comm, residual, residual)
        direction *= size / before
        direction += residual
        history.append(math.sqrt(size / begin))
    return CgSolution(x, history)


def _solve_pipelined(
    operator: StaggeredOperator, rhs: ComplexArray, tolerance: float, n_iterations: int
) -> CgSolution:
    pipeline = _Pipeline(operator, rhs)
    begin, history, least = pipeline.measure(), [1.0], math.inf
    while begin > 0:
        if history[-1] <= tolerance:
            history[-1] = math.sqrt(pipeline.true_size() / begin)
            if history[-1] <= tolerance:
                break
            if not history[-1] < least:
                raise _lost_digits(history[-1], tolerance)
            least = history[-1]
            pipeline.replace()
            pipeline.measure()
        if not pipeline.advance():
            raise _lost_digits(history[-1], tolerance)
        _check_count(history, n_iterations)
        if len(history) % _PERIOD == 0:
            pipeline.replace()
        history.append(math.sqrt(pipeline.measure() / begin))
    return CgSolution(pipeline.x, history, pipeline.n_replaced)


def _lost_digits(residual: float, tolerance: float) -> ConvergenceError:
    return ConvergenceError(
        f"pipelined recurrences reach a residual of {residual:.2g}, not {tolerance:.2g}",
        mend="take the variant 'plain', or a larger tolerance",
    )


class _Pipeline:
    """Vectors of a pipelined iteration, by the names of the paper. Collective."""

    def __init__(self, operator: StaggeredOperator, rhs: ComplexArray) -> None:
        self._operator, self._rhs = operator, rhs
        self._sums = _TravellingSums(operator.comm)
        self.x, self._r = np.zeros_like(rhs), rhs.copy()
        self._w, self._q = np.empty_like(rhs), np.empty_like(rhs)
        self._z, self._s, self._p = (np.zeros_like(rhs) for _ in range(3))
        operator.apply(self._r, self._w)
        self._size = self._curvature = self._before = 0.0
        self._step = 1.0
        self.n_replaced = 0

    def measure(self) -> float:
        """Return the squared norm of the residual, and compute what follows while the sums travel."""
        self._sums.start(self._r, self._w)
        self._operator.apply(self._w, self._q, self._sums.go_on)
        self._size, self._curvature = self._sums.wait()
        return self._size

    def advance(self) -> bool:
        """Take a step; return whether there is one, which rounding may have spoilt."""
        beta = self._size / self._before if self._before else 0.0
        curvature = self._curvature - beta * self._size / self._step
        if not 0 < curvature < math.inf:
            return False
        for vector, new in ((self._z, self._q), (self._s, self._w), (self._p, self._r)):
            vector *= beta
            vector += new
        self._before, self._step = self._size, self._size / curvature
        self.x += self._step * self._p
        self._r -= self._step * self._s
        self._w -= self._step * self._z
        return True

    def true_size(self) -> float:
        """Return the squared norm of the residual of the solution, not of the recurrence."""
        self._operator.apply(self.x, self._q)
        np.subtract(self._rhs, self._q, out=self._q)
        return _dot(self._operator.comm, self._q, self._q)

    def replace(self) -> None:
        """Compute from solution and direction what recurrences have made."""
        apply = self._operator.apply
        apply(self.x, self._q)
        np.subtract(self._rhs, self._q, out=self._r)
        for vector, out in ((self._r, self._w), (self._p, self._s), (self._s, self._z)):
            apply(vector, out)
        self.n_replaced += 1


class _TravellingSums:
    """Exact sums (r, r) and (w, r) over all ranks, which travel while a rank does other work."""

    def __init__(self, comm: Communicator) -> None:
        self._limbs = zero_limbs(2)
        self._total = PersistentCollective(comm, "allreduce", self._limbs)

    def start(self, r: ComplexArray, w: ComplexArray) -> None:
        self._limbs[...] = 0
        for vector, limbs in zip((r, w), self._limbs, strict=True):
            _add_products(vector, r, limbs)
        self._total.start(self._limbs)

    def go_on(self) -> None:
        self._total.test()

    def wait(self) -> tuple[float, float]:
        limbs = self._total.wait()
        assert limbs is not None  # of an all-reduce
        return round_limbs(limbs[0]), round_limbs(limbs[1])


def _check_count(history: list[float], n_iterations: int) -> None:
    if len(history) > n_iterations:
        raise ConvergenceError(f"a residual of {history[-1]:.2g} after {n_iterations} iterations")


def _dot(comm: Communicator, a: ComplexArray, b: ComplexArray) -> float:
    """Return the real part of a dot product over all ranks, as the exact sum of the rounded products."""
    limbs = zero_limbs()
    _add_products(a, b, limbs)
    return round_limbs(comm.allreduce(limbs))


def _add_products(a: ComplexArray, b: ComplexArray, limbs: Int64Array) -> None:
    add_exactly(a.view(np.float64) * b.view(np.float64), limbs)
