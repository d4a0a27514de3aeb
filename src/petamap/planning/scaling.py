"""How a run scales with cores: what it took, on what, and what is predicted from the row of the fewest.

As in Figures 4 to 6 of Sudarsan et al. 2011, the time of a run is that of calculation, of communication, and
of reading or making data and writing maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from petacomm.base.errors import ConfigError
from petacomm.reduction import AUTO
from petacomm.topology import Machine
from petamap.data.config import RunConfig
from petamap.data.run_summary import Summary
from petamap.mapmaking.distribution import STREAMS, Distribution
from petamap.planning.detectors_alike import UNPAIRED_PART
from petamap.planning.plan import plan
from petamap.planning.rank_samples import distribute_samples
from petamap.planning.run_plan import RunPlan
from petamap.planning.run_prediction import RunPrediction
from petamap.planning.scanned_run import ScannedRun

# Phases: what each rank does by itself, whatever the number of ranks; maps, which one rank writes while
# others wait; the choice of a distribution, which only several ranks make.
_SOURCES, _DATA, _PRODUCTS, _CHOICE = "sources", "data", "products", "distribution"
# Phases that iterate: those of noise estimates are taken to be more or fewer as those of the maps are.
_ITERATIONS = "iterations"
_ITERATING = (_ITERATIONS, "noise estimate")
# Where there are several ranks on a core: seconds that an exchange takes more for each, and how much longer
# what one does takes for each other that waits, which looks for messages. An all-reduce alone took 20
# microseconds more than the turns of 4 and 8 ranks on two cores; of runs, whose ranks compute in between and
# keep the core for slices of milliseconds, 60 fit seven jobs (Zen 5, MPICH, Linux 6).
_TURN_SECONDS, _WAITING = 60e-6, 0.1
# Of the samples, in the trials that tell what ranks do whatever their samples.
TRIAL_FRACTION = 1 / 8


@dataclass(frozen=True)
class ScalingJob:
    """Cores of a run, how many threads each of its ranks has, and how ranks sum the pixels they share."""

    cores: int
    threads: int
    reduction: str

    @property
    def ranks(self) -> int:
        """Number of processes."""
        return self.cores // self.threads


def trial_jobs(jobs: Sequence[ScalingJob], available: int) -> list[ScalingJob]:
    """Return a job for each number of threads, of which a run with few samples tells what ranks do once.

    It has two ranks, which do what one alone does not, where there are jobs and cores for them.
    """
    found = []
    for threads in sorted({one.threads for one in jobs}):
        several = [one for one in jobs if one.threads == threads and one.ranks > 1]
        cores = 2 * threads if several and 2 * threads <= available else threads
        found.append(ScalingJob(cores, threads, AUTO))
    return found


@dataclass(frozen=True)
class ScalingTimes:
    """Wall seconds of a run by what it spent them on, the mean over its ranks.

    Attributes
    ----------
    calculation, communication : float
        Communication includes the waiting for other ranks.
    data : float
        Reading or making samples and the right-hand side of them, and writing maps.
    """

    calculation: float
    communication: float
    data: float

    @property
    def total(self) -> float:
        """Seconds of all three."""
        return self.calculation + self.communication + self.data


@dataclass(frozen=True)
class MeasuredRun:
    """What a run took.

    Attributes
    ----------
    job : ScalingJob
    times : ScalingTimes
    phases, waits : mapping of str to float
        Seconds of its phases without communication, and those of communication, the mean over its ranks.
    exchanges : mapping of str to float
        Messages and collectives of a rank, by phase.
    busy : float
        Cores that a rank kept busy, the mean over the run.
    samples : int
        Of all detectors, in their stationary intervals.
    iterations : int
    distribution : str
        How its data were dealt to ranks; empty on one rank.
    hashes : tuple of str
        SHA-256 of its maps.
    """

    job: ScalingJob
    times: ScalingTimes
    phases: Mapping[str, float]
    waits: Mapping[str, float]
    exchanges: Mapping[str, float]
    busy: float
    samples: int
    iterations: int
    distribution: str
    hashes: tuple[str, ...]


def measured_run(job: ScalingJob, summary: Summary) -> MeasuredRun:
    """Return what a finished run took, by its summary."""
    communication = {
        phase.name: 0.0 if phase.communication_seconds is None else phase.communication_seconds.mean
        for phase in summary.phases
    }
    alone = {phase.name: phase.seconds.mean - communication[phase.name] for phase in summary.phases}
    data = sum(alone.get(name, 0.0) for name in (_SOURCES, _DATA, _PRODUCTS))
    return MeasuredRun(
        job=job,
        times=ScalingTimes(sum(alone.values()) - data, sum(communication.values()), data),
        phases=alone,
        waits=communication,
        exchanges={
            one.name: one.messages.mean + (one.collectives.mean if one.collectives else 0.0)
            for one in summary.phases
        },
        busy=_busy_cores(job, summary),
        samples=summary.totals.samples_inside,
        iterations=summary.solver.iterations if summary.solver else 0,
        distribution=summary.environment.distribution or "",
        hashes=tuple(one.sha256 for one in summary.products),
    )


class ScalingModel:
    """Predictions of a run on any number of cores of a machine, from rows that were measured.

    Each is from the row of the fewest cores with as many threads, as no other tells how well these share the
    work of a rank; else from that of the fewest of all. Calculation and data are those of that row, by the
    samples of the rank that has most, but for what a rank does once, whatever its samples: sources, maps, and
    of each other phase what a trial tells, a run with the first of the same samples on one or two ranks.
    Where ranks have fewer cores, these share all samples, and ranks take turns with what they do once, but
    for sources and maps, for which others wait. Communication is one reduction an iteration by the model of
    the machine (`petamap.planning.plan`), and the wait for the rank that writes maps; other exchanges are
    among what ranks do once, and take longer where ranks take turns.

    Parameters
    ----------
    measured : sequence of MeasuredRun
    trials : sequence of MeasuredRun
        One of each number of threads; without it ranks do nothing once, but for sources and maps.
    config_of : callable
        Returns the configuration on a number of cores.
    machine : Machine
    available : int, optional
        Cores that there are; by default as many as are asked for.
    """

    def __init__(
        self,
        measured: Sequence[MeasuredRun],
        trials: Sequence[MeasuredRun],
        config_of: Callable[[int], RunConfig],
        machine: Machine,
        available: int | None = None,
    ) -> None:
        self._measured, self._config_of = sorted(measured, key=lambda one: one.job.cores), config_of
        self._trials = {one.job.threads: one for one in trials}
        self._together = max(trials, key=lambda one: one.job.ranks, default=None)
        self.machine, self.available = machine, available
        self._plans: dict[tuple[int, int], RunPlan] = {}
        self._run = lru_cache(lambda cores: ScannedRun.open(config_of(cores)))

    def _reference(self, job: ScalingJob) -> MeasuredRun:
        """Return the row that a job is predicted from."""
        alike = [one for one in self._measured if one.job.threads == job.threads]
        return (alike or self._measured)[0]

    def predict(self, job: ScalingJob, distribution: str = "") -> ScalingTimes:
        """Return the prediction of a job.

        Parameters
        ----------
        job : ScalingJob
        distribution : str
            How its data are dealt, as `MeasuredRun` says it; by default so that iterations are the fastest.
        """
        row, planned = self._reference(job), self._planned(job, distribution)
        busy = row.busy if row.job.threads == job.threads else job.threads
        scale = self._work(job, distribution, busy) / self._work(row.job, row.distribution, row.busy)
        turns = self._turns(job.ranks) / self._turns(row.job.ranks)
        seconds = {
            name: (row.phases[name] - once) * scale + once * turns for name, once in self.once(row).items()
        }
        unpaired = self._unpaired(job, distribution) / self._unpaired(row.job, row.distribution)
        seconds[_ITERATIONS] = seconds.get(_ITERATIONS, 0.0) * unpaired
        seconds[_CHOICE] = self._choice(job)
        beside = 1 + _WAITING * (turns - 1)  # others, which wait for one
        writing = beside * (row.phases.get(_PRODUCTS, 0.0) + row.waits.get(_PRODUCTS, 0.0))
        data = seconds.pop(_DATA, 0.0) + beside * row.phases.get(_SOURCES, 0.0) + writing / job.ranks
        reduction = planned.seconds[_algorithm(planned, job)] if planned else 0.0
        return ScalingTimes(
            calculation=sum(seconds.values()),
            communication=row.iterations * reduction
            + self._exchanging(job, row, busy)
            + writing * (1 - 1 / job.ranks),
            data=data,
        )

    def references(self) -> dict[ScalingJob, float]:
        """Return the jobs that others are predicted from, and the seconds that a rank spends once on each."""
        rows = (self._reference(ScalingJob(threads, threads, AUTO)) for threads in sorted(self._trials))
        return {row.job: sum(self.once(row).values()) for row in rows}

    def once(self, row: MeasuredRun) -> dict[str, float]:
        """Return what each rank of a row spends on phases whatever its samples, in seconds.

        Phases are those with samples. Exchanges are in it, but those of the map's iterations. Where the trial
        has other iterations than the row, those of the row count.
        """
        trial = self._trials.get(row.job.threads)
        once = dict.fromkeys(row.phases.keys() - {_SOURCES, _PRODUCTS, _CHOICE}, 0.0)
        if trial is None:
            return once
        for name in once.keys() & trial.phases.keys():
            tried = trial.phases[name] + (trial.waits[name] if name != _ITERATIONS else 0.0)
            tried *= _iterations_ratio(row, trial, name)
            once[name] = _fixed_part(row.phases[name], tried, row, trial)
        return once

    def _choice(self, job: ScalingJob) -> float:
        """Return how long ranks choose their distribution.

        As long as in the trial on several ranks; what the first row of several took longer, ranks share.
        """
        trial = self._together
        if trial is None or job.ranks == 1:
            return 0.0
        tried, turns = _choosing(trial), self._turns(job.ranks)
        row = next((one for one in self._measured if one.job.ranks > 1 and one.job.cores < job.cores), None)
        if row is None:
            return tried * turns
        once = _fixed_part(_choosing(row), tried, row, trial)
        return (once + (_choosing(row) - once) * row.job.ranks / job.ranks) * turns

    def _exchanging(self, job: ScalingJob, row: MeasuredRun, busy: float) -> float:
        """Return how much longer exchanges take where ranks take turns: as many as in a trial on several."""
        trial, turns = self._together, self._turns(job.ranks * busy)
        if trial is None or turns == 1:
            return 0.0
        numbers = (n * _iterations_ratio(row, trial, name) for name, n in trial.exchanges.items())
        return sum(numbers) * turns * _TURN_SECONDS

    def _turns(self, number: float) -> float:
        """Return how many of a number of ranks take turns on a core."""
        return 1.0 if self.available is None else max(1.0, number / self.available)

    def _work(self, job: ScalingJob, distribution: str, busy: float) -> float:
        """Return the samples of a core of the rank with most of them, or of all cores that ranks share."""
        run, planned = self._run(job.cores), self._planned(job, distribution)
        largest, total = shares(run, planned.distribution if planned else STREAMS, job.ranks)
        shared = 0.0 if self.available is None else total / self.available
        return run.layout.n_samp * max(largest / busy, shared)

    def _unpaired(self, job: ScalingJob, distribution: str) -> float:
        """Return how much longer iterations take as ranks have one detector of a pair alone."""
        planned = self._planned(job, distribution)
        if planned is None:
            return 1.0
        return 1.0 + UNPAIRED_PART * planned.unpaired * job.ranks / self._run(job.cores).layout.n_samp

    def _planned(self, job: ScalingJob, distribution: str) -> RunPrediction | None:
        """Return the plan of a job with its data dealt so, by default as it chooses; none of one rank."""
        if job.ranks == 1:
            return None
        key = job.cores, job.threads
        if key not in self._plans:
            config = self._config_of(job.cores)
            self._plans[key] = plan(config, job.cores, self.machine, threads=[job.threads], progress=False)
        made = self._plans[key].predictions
        dealt = [one for one in made if one.distribution.description == distribution] or made
        return min(dealt, key=lambda one: one.seconds[_algorithm(one, job)] + one.unpaired_seconds)


def _choosing(row: MeasuredRun) -> float:
    return row.phases.get(_CHOICE, 0.0) + row.waits.get(_CHOICE, 0.0)


def _fixed_part(seconds: float, tried: float, row: MeasuredRun, trial: MeasuredRun) -> float:
    """Return F of a row that takes F + n W seconds and a trial that takes F + W, of 1/n of the samples."""
    n = row.samples / row.job.ranks / (trial.samples / trial.job.ranks)
    return min(max((n * tried - seconds) / (n - 1), 0.0), tried, seconds) if n > 1 else 0.0


def _iterations_ratio(row: MeasuredRun, trial: MeasuredRun, phase: str) -> float:
    return row.iterations / max(trial.iterations, 1) if phase in _ITERATING else 1.0


def _algorithm(planned: RunPrediction, job: ScalingJob) -> str:
    return planned.best if job.reduction == AUTO else job.reduction


def require_job(config: RunConfig, job: ScalingJob, machine: Machine) -> None:
    """Check that a run has a block of data for each core, and the machine so many cores.

    Raises
    ------
    ConfigError
        If there are more cores than blocks, or than the machine has.
    """
    if job.cores > machine.nodes * machine.cores:
        raise ConfigError(
            f"{job.cores} cores on {machine.name}, which has {machine.nodes * machine.cores}",
            mend="take fewer, or another --machine",
        )
    n_blocks = ScannedRun.open(config).layout.n_blocks
    if job.cores > n_blocks:
        raise ConfigError(
            f"{n_blocks} blocks of data for {job.cores} cores",
            mend="take fewer cores, or a smaller noise.n_lag",
        )


def shares(run: ScannedRun, distribution: Distribution, size: int) -> tuple[float, float]:
    """Return what the rank with most samples holds, of `size` ranks, and what all hold together.

    Both of what one rank would hold; samples in halos are held twice.
    """
    held, alone = (distribute_samples(run.layout, distribution.groups, n).n_held for n in (size, 1))
    return int(held.max()) / int(alone.sum()), int(held.sum()) / int(alone.sum())


def _busy_cores(job: ScalingJob, summary: Summary) -> float:
    """Return how many cores a rank keeps busy, 1 to all of its threads."""
    wall = sum(one.seconds.mean for one in summary.phases)
    cpu = sum(one.cpu_seconds.mean if one.cpu_seconds else 0.0 for one in summary.phases)
    return min(max(cpu / wall, 1.0), job.threads) if cpu else float(job.threads)


def scaling_jobs(cores: Sequence[int], threads: Sequence[int], reductions: Sequence[str]) -> list[ScalingJob]:
    """Return a job for each number of cores and version; on one rank there is nothing to reduce, and one."""
    jobs = []
    for n_threads in threads:
        for number, reduction in enumerate(reductions):
            jobs += [
                ScalingJob(n, n_threads, reduction)
                for n in cores
                if n % n_threads == 0 and (n > n_threads or number == 0)
            ]
    return jobs
