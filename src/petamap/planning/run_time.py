"""Time of a run as a whole, by the predictions of its plan and what is assumed of its iterations."""

from __future__ import annotations

from dataclasses import dataclass

from petamap.planning.plan import RunPlan, RunPrediction

# Core seconds that a sample takes in an iteration of the block-diagonal preconditioner, pointing expanded
# anew: 15 were measured on one core (docs/petamap/montecarlo.md).
SECONDS_A_SAMPLE = 20e-9
# Iterations, and passes over the data around them, that are assumed; the noise and the scan decide.
ITERATIONS = {"two-level": 20, "other": 100}
PASSES = 50
# Bytes of a sample of the signal in single precision.
SAMPLE_BYTES = 4


@dataclass(frozen=True)
class RunTime:
    """Predicted time of a run.

    Attributes
    ----------
    around : float
        Seconds of the set-up, of reading the data and of making products.
    iterations : int
        As many as are assumed.
    iterating : float
        Their seconds.
    cores : int
        Cores of the run.
    """

    around: float
    iterations: int
    iterating: float
    cores: int

    @property
    def seconds(self) -> float:
        """Seconds of all."""
        return self.around + self.iterating

    @property
    def core_hours(self) -> float:
        """Hours of all cores."""
        return self.seconds * self.cores / 3600


def predict_run_time(plan: RunPlan, prediction: RunPrediction) -> RunTime:
    """Return the time of a run with one of the predictions of its plan.

    A pass over the data takes the time of its samples, and of one reduction.
    """
    two_level = bool(plan.preconditioner.knots)
    iterations = ITERATIONS["two-level" if two_level else "other"]
    reduction = prediction.seconds[prediction.best]
    a_pass = plan.n_samp * SECONDS_A_SAMPLE / plan.cores + reduction
    # of the least and the most that are known of the preconditioner, the means
    set_up, iteration = (
        sum(bounds) / 2 for bounds in (plan.preconditioner.set_up, plan.preconditioner.iteration)
    )
    return RunTime((PASSES + set_up) * a_pass, iterations, iterations * iteration * a_pass, plan.cores)
