"""When the iterations of the solver end."""

from __future__ import annotations

import math
from dataclasses import dataclass

from petacomm.base.units import parse_percentage


@dataclass(frozen=True)
class Iteration:
    """State of the solver after an iteration; number 0 is the start.

    Attributes
    ----------
    number : int
    relative_residual : float
        ``sqrt(r^T M^-1 r)`` relative to that of the right-hand side.
    seconds : float
        Since the start.
    error_bound : float
        Upper bound of ``||x - x_k||_A``, the error in units of the noise (`petamap.mapmaking.error_bound`);
        while iterations go on, an estimate of it. Infinite where nothing is known.
    coarse_error : float, optional
        Estimate of the part of that norm on large scales, from the coarse map of a two-level preconditioner.
    """

    number: int
    relative_residual: float
    seconds: float
    error_bound: float = math.inf
    coarse_error: float | None = None

    @property
    def note(self) -> str:
        """What to tell while iterations go on."""
        note = f"iteration {self.number}, residual {self.relative_residual:.2e}"
        return f"{note}, map error {noise_share(self.error_bound)}" if self.error_bound < math.inf else note


@dataclass(frozen=True)
class SolverTolerance:
    """What the iterations end at: a relative residual, or a bound of the error in units of the noise.

    Attributes
    ----------
    value : float
    of_noise : bool
        Whether it is a bound of ``||x - x_k||_A``.
    """

    value: float
    of_noise: bool = False

    @staticmethod
    def parse(given: float | str) -> SolverTolerance:
        """Return the tolerance of a number, or of text such as ``"1% of noise"``.

        Raises
        ------
        ConfigError
            If the text is anything else.
        """
        if isinstance(given, str):
            return SolverTolerance(parse_percentage(given, "noise"), of_noise=True)
        return SolverTolerance(given)

    def __mul__(self, factor: float) -> SolverTolerance:
        """Return a smaller or larger one of the same kind."""
        return SolverTolerance(self.value * factor, self.of_noise)

    def __str__(self) -> str:
        return f"{100 * self.value:g}% of noise" if self.of_noise else f"{self.value:g}"

    def measure(self, step: Iteration) -> float:
        """Return what is compared with the value."""
        return step.error_bound if self.of_noise else step.relative_residual

    def reached(self, step: Iteration) -> bool:
        """Return whether an iteration is at the tolerance or below."""
        return self.measure(step) <= self.value

    @property
    def digits(self) -> float | None:
        """Digits from 1 to the tolerance, None if there is no end to them."""
        return -math.log10(self.value) if 0 < self.value < 1 else None

    def digits_gained(self, step: Iteration) -> float:
        """Return the digits that an iteration is below 1: they come more steadily than iterations pass."""
        gained = -math.log10(min(max(self.measure(step), 1e-300), 1.0))
        return min(gained, self.digits or math.inf)


@dataclass(frozen=True)
class StopRule:
    """When the iterations on a right-hand side end."""

    tolerance: SolverTolerance
    max_iterations: int
    stall_iterations: int


def noise_share(error: float) -> str:
    """Return an error in units of the noise as text."""
    return f"{100 * error:.2g}% of its noise" if error < 0.995 else f"{error:.3g} times its noise"
