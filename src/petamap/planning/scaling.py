"""How a run scales with cores: what it took, on what, and what is predicted from the row of the fewest.

As in Figures 4 to 6 of Sudarsan et al. 2011, the time of a run is that of calculation, of communication, and
of reading or making data and writing maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from petacomm.base.errors import ConfigError
from petacomm.reduction import AUTO
from petacomm.topology import Machine
from petamap.data.config import RunConfig
from petamap.data.run_summary import Summary
from petamap.mapmaking.distribution import STREAMS, Distribution, possible_distributions
from petamap.planning.plan import plan
from petamap.planning.rank_samples import distribute_samples
from petamap.planning.run_plan import RunPlan
from petamap.planning.run_prediction import RunPrediction
from petamap.planning.scanned_run import ScannedRun

# Phases: what each rank does by itself, whatever the number of ranks; maps, which one rank writes while
# others wait; the choice of a distribution, which only several ranks make, and which looks at the pointing.
_SOURCES, _DATA, _PRODUCTS = "sources", "data", "products"
_CHOICE, _POINTING = "distribution", "pointing"


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
    phases : mapping of str to float
        Seconds of its phases without communication, the mean over its ranks.
    writing : float
        Seconds until its maps are written.
    iterations : int
    distribution : str
        How its data were dealt to ranks; empty on one rank.
    hashes : tuple of str
        SHA-256 of its maps.
    """

    job: ScalingJob
    times: ScalingTimes
    phases: Mapping[str, float]
    writing: float
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
        writing=alone.get(_PRODUCTS, 0.0) + communication.get(_PRODUCTS, 0.0),
        iterations=summary.solver.iterations if summary.solver else 0,
        distribution=summary.environment.distribution or "",
        hashes=tuple(one.sha256 for one in summary.products),
    )


class ScalingModel:
    """Predictions of a run on any number of cores of a machine, from rows that were measured.

    Each is from the row of the fewest cores with as many threads, as no other tells how well these share the
    work of a rank; else from that of the fewest of all. Calculation and data are those of that row, by the
    samples of the rank that has most, but for sources and maps, which take the same on any ranks; where ranks
    take turns on fewer cores, by turns. The choice of a distribution takes several ranks what pointing takes.
    Communication is one reduction an iteration by the model of the machine (`petamap.planning.plan`), and the
    wait for the rank that writes maps; other communication of the set-up is not in it.

    Parameters
    ----------
    measured : sequence of MeasuredRun
    config_of : callable
        Returns the configuration on a number of cores.
    machine : Machine
    available : int, optional
        Cores that there are; by default as many as are asked for.
    """

    def __init__(
        self,
        measured: Sequence[MeasuredRun],
        config_of: Callable[[int], RunConfig],
        machine: Machine,
        available: int | None = None,
    ) -> None:
        self._measured, self._config_of = sorted(measured, key=lambda one: one.job.cores), config_of
        self.machine, self.available = machine, available
        self._plans: dict[tuple[int, int], RunPlan] = {}

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
            How its data are dealt, as `MeasuredRun` says it; by default so that reductions are the fastest.
        """
        config, reference = self._config_of(job.cores), self._reference(job)
        run = ScannedRun.open(config)
        dealt, seconds = self._reduction(run, job, self._known(run).get(distribution))
        scale = self._work(run, dealt, job) / self._reference_work(reference)
        turns = self._turns(job.ranks) / self._turns(reference.job.ranks)
        own = reference.times
        sources, products, chosen, pointing = (
            reference.phases.get(name, 0.0) for name in (_SOURCES, _PRODUCTS, _CHOICE, _POINTING)
        )
        choice = chosen or pointing if job.ranks > 1 and _is_chosen(config, run) else 0.0
        writing = reference.writing * turns
        return ScalingTimes(
            calculation=(own.calculation - chosen + choice) * scale,
            communication=reference.iterations * seconds + writing * (1 - 1 / job.ranks),
            data=(own.data - sources - products) * scale + sources * turns + writing / job.ranks,
        )

    def _turns(self, number: int) -> float:
        """Return how many of a number of ranks or threads take turns on a core."""
        return 1.0 if self.available is None else max(1.0, number / self.available)

    def _work(self, run: ScannedRun, distribution: Distribution, job: ScalingJob) -> float:
        """Return the samples of a core of the rank with most of them, times the turns that cores take."""
        share = largest_share(run, distribution, job.ranks) / job.threads
        return run.layout.n_samp * share * self._turns(job.cores)

    def _reference_work(self, reference: MeasuredRun) -> float:
        """Return `_work` of a row."""
        own = ScannedRun.open(self._config_of(reference.job.cores))
        return self._work(own, self._known(own).get(reference.distribution, STREAMS), reference.job)

    @staticmethod
    def _known(run: ScannedRun) -> dict[str, Distribution]:
        n_det = max(one.n_det for one in run.observations)
        return {one.description: one for one in possible_distributions(n_det)}

    def _reduction(
        self, run: ScannedRun, job: ScalingJob, distribution: Distribution | None
    ) -> tuple[Distribution, float]:
        """Return how data are dealt, and the seconds of one reduction on the machine; 0 on one rank."""
        if job.ranks == 1:
            return distribution or STREAMS, 0.0
        key = job.cores, job.threads
        if key not in self._plans:
            config = self._config_of(job.cores)
            self._plans[key] = plan(config, job.cores, self.machine, threads=[job.threads], progress=False)

        def seconds(one: RunPrediction) -> float:
            return one.seconds[one.best if job.reduction == AUTO else job.reduction]

        made = [one for one in self._plans[key].predictions if distribution in (None, one.distribution)]
        best = min(made, key=seconds)
        return best.distribution, seconds(best)


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


def _is_chosen(config: RunConfig, run: ScannedRun) -> bool:
    """Return whether several ranks choose the distribution of the data by their pointing."""
    several = max(one.n_det for one in run.observations) > 1
    return config.comm.distribution == AUTO and several and not run.bands.mode_lags


def largest_share(run: ScannedRun, distribution: Distribution, size: int) -> float:
    """Return the part of the samples, halos among them, that the rank with most holds, of `size` ranks."""
    most, all_samples = (
        int(distribute_samples(run.layout, distribution.groups, n).n_held.max()) for n in (size, 1)
    )
    return most / all_samples


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
