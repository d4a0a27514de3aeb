"""Time of a run as a whole, by the predictions of its plan; per sample as assumed, or as a run took it."""

from __future__ import annotations

from dataclasses import dataclass

from petacomm.base.errors import ConfigError
from petamap.data.run_summary import Summary
from petamap.planning.run_plan import RunPlan
from petamap.planning.run_prediction import RunPrediction

# Iterations that are assumed; the noise and the scan decide.
ITERATIONS = {"two-level": 20, "other": 100}
# Bytes of a sample of the signal in single precision.
SAMPLE_BYTES = 4
# What an unknown sample takes beside what each sample does, as a part of it: in the set-up and the data, and
# in an iteration. Measured (Zen 4) of a day at N_side 2048 with 40 % of them: 0.7 and 1.9 with pointing kept.
UNKNOWN_AROUND, UNKNOWN_ITERATION = 1.1, 1.5
# Phases of a run whose time does not grow with the samples.
_ONCE = ("sources", "noise kernels", "products")


@dataclass(frozen=True)
class SampleTimes:
    """What a run takes for each sample; unknown samples take more (`UNKNOWN_AROUND`, `UNKNOWN_ITERATION`).

    Attributes
    ----------
    around : float
        Core seconds of the set-up and the data.
    iteration : float
        Core seconds of an iteration.
    once : float
        Seconds that do not grow with the samples.
    iterations : int, optional
        Iterations of the run that was measured.
    flagged : float
        Part of its samples that was flagged, or in pixels that were cut.
    """

    around: float
    iteration: float
    once: float = 0.0
    iterations: int | None = None
    flagged: float = 0.0


# Of the block-diagonal preconditioner, pointing expanded anew: 110 and 15 ns were measured on an EPYC (Zen 4,
# AVX-512) with noise that is made, and most clusters have older cores.
ASSUMED = SampleTimes(around=160e-9, iteration=20e-9)


def measured_times(summary: Summary) -> SampleTimes:
    """Return what a run took for each sample, but for communication, by its summary.

    Raises
    ------
    ConfigError
        If the run was resumed, so that the times of its first part are not known, or has no samples.
    """
    samples, environment = summary.totals.samples_inside, summary.environment
    if summary.resumed or not samples:
        why = "was resumed: times are those of its last part" if summary.resumed else "has no samples"
        raise ConfigError(f"the run '{summary.name}' {why}", mend="take the summary of another run")
    alone = {
        one.name: one.seconds.mean - (one.communication_seconds.mean if one.communication_seconds else 0.0)
        for one in summary.phases
    }
    once = sum(alone.pop(name, 0.0) for name in _ONCE)
    iterating, n = alone.pop("iterations", 0.0), summary.solver.iterations if summary.solver else 0
    cores, flagged = environment.ranks * environment.threads, summary.totals.samples_flagged / samples
    around = sum(alone.values()) * cores / (samples * (1 + UNKNOWN_AROUND * flagged))
    iteration = iterating * cores / (samples * (1 + UNKNOWN_ITERATION * flagged)) / max(n, 1)
    return SampleTimes(around, iteration, once, n, flagged)


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


def predict_run_time(
    plan: RunPlan, prediction: RunPrediction, measured: SampleTimes | None = None
) -> RunTime:
    """Return the time of a run with one of the predictions of its plan.

    An iteration takes the time of its samples, of unpaired ones more, and of one reduction.

    Parameters
    ----------
    plan : RunPlan
    prediction : RunPrediction
    measured : SampleTimes, optional
        Of a run like it, with the same preconditioner.
    """
    times = measured or ASSUMED
    each, flagged = plan.n_samp / plan.cores, plan.unused.samples
    around = each * (1 + UNKNOWN_AROUND * flagged) * times.around
    iteration = each * (1 + UNKNOWN_ITERATION * flagged) * times.iteration
    iteration += prediction.seconds[prediction.best] + prediction.unpaired_seconds
    if times.iterations is not None:
        n = times.iterations
        return RunTime(times.once + around, n, n * iteration, plan.cores)
    # of the least and the most that are known of the preconditioner, the means
    set_up, factor = (
        sum(bounds) / 2 for bounds in (plan.preconditioner.set_up, plan.preconditioner.iteration)
    )
    n = min(ITERATIONS["two-level" if plan.preconditioner.knots else "other"], plan.max_iterations)
    return RunTime(around + set_up * iteration, n, n * factor * iteration, plan.cores)
