"""Solution of the map-making equation of a job, with its progress, its warnings and its record."""

from __future__ import annotations

import math
from dataclasses import dataclass

from petamap.data import run_summary as summary
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.checkpoint import ColumnCheckpoint
from petamap.mapmaking.linear_operators import Preconditioner
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.solution import Solution
from petamap.mapmaking.stop_rule import Iteration, SolverTolerance, noise_share
from petamap.mapmaking.vectors import Unknowns

# Bound of the map's error, in units of its noise, above which a converged run warns.
_WARNED_ERROR = 0.1


@dataclass(frozen=True)
class MapSolver:
    """Solver as a run's configuration has it. Collective.

    Attributes
    ----------
    setup : RunSetup
    name : str
        Of what is solved for, for messages; empty for the map of a run.
    """

    setup: RunSetup
    name: str = ""

    @property
    def tolerance(self) -> SolverTolerance:
        """What is asked for."""
        return SolverTolerance.parse(self.setup.config.solver.tolerance)

    def solve(
        self,
        solver: ConjugateGradients,
        rhs: Unknowns,
        checkpoint: ColumnCheckpoint | None = None,
        whole: Unknowns | None = None,
    ) -> Solution:
        """Return the solution of A x = b, and warn if it may be off; `whole` as for the solver."""
        options, tolerance, progress = self.setup.config.solver, self.tolerance, self.setup.progress
        progress.begin("iterations", tolerance.digits, "digits")
        gained = 0.0

        def advance(step: Iteration) -> None:
            nonlocal gained
            reached = tolerance.digits_gained(step)
            progress.advance(max(reached - gained, 0.0), step.note)
            gained = max(reached, gained)

        with self.setup.timers.phase("iterations"):
            solution = solver.solve(
                rhs, tolerance, options.max_iterations, advance,
                stall_iterations=options.stall_iterations, checkpoint=checkpoint, whole=whole,
            )  # fmt: skip
        progress.end(solution.reason)
        self._warn(solution)
        return solution

    def _warn(self, solution: Solution) -> None:
        of = f"{self.name}: " if self.name else ""
        if not solution.converged:
            self.setup.warn(f"{of}not converged: {solution.reason}")
        elif solution.error_bound > _WARNED_ERROR:
            self.setup.warn(
                f"{of}the map may be off by {noise_share(solution.error_bound)} in some mode: a smaller "
                'solver.tolerance, or solver.tolerance = "1% of noise"'
            )

    def record(self, solution: Solution, preconditioner: Preconditioner) -> summary.Solver:
        """Return what the summary says of a solution and its preconditioner."""
        tolerance = self.tolerance
        residual = "residual " if tolerance.of_noise else ""
        return summary.Solver(
            converged=solution.converged,
            reason=f"{solution.reason}; {residual}computed anew: {solution.true_residual:.2g}",
            preconditioner=preconditioner.description,
            undetermined=preconditioner.undetermined,
            iterations=solution.iterations,
            tolerance=tolerance.value,
            tolerance_of_noise=tolerance.of_noise,
            relative_residual=solution.relative_residual,
            error_bound=_finite(solution.error_bound),
            coarse_error=solution.coarse_error,
            history=tuple(
                summary.SolverStep(
                    iteration=s.number, relative_residual=s.relative_residual, seconds=s.seconds,
                    error_bound=_finite(s.error_bound), coarse_error=s.coarse_error,
                )
                for s in solution.history
            ),
        )  # fmt: skip


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None
