"""Choice of the distribution of the data over the ranks of a run, by the model of its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from petacomm.base.progress import Progress, SilentProgress
from petacomm.costs.options import ReductionOptions
from petacomm.mpi import Communicator
from petacomm.mpi.autotuner import tuning_environment
from petacomm.network import Load, predict_seconds
from petacomm.network.fitted_machine import fitted_machine
from petacomm.reduction import AUTO
from petacomm.topology import Machine
from petamap.data.config import RunConfig
from petamap.data.formats.lazy import share_pointing
from petamap.data.observation import Observation
from petamap.mapmaking.distribution import STREAMS, Distribution, possible_distributions
from petamap.planning.choice_limits import HIT_SAMPLES, chooses_distribution, looked_at_regions
from petamap.planning.detectors_alike import UNPAIRED_SECONDS, unpaired_samples
from petamap.planning.node_samples import nodes_of_sky_sample
from petamap.planning.pixel_coverage import PixelCoverage, compute_pixel_coverage, most_looked_at
from petamap.planning.rank_samples import SampleDistribution, distribute_samples
from petamap.planning.sample_forecast import forecast_from_sample
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import SkySample, count_regions, full_sky_sample
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.protocol import Pointing
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes


def choose_distribution(
    config: RunConfig,
    observations: Sequence[Observation],
    pixelization: Pixelization,
    comm: Communicator,
    n_threads: int,
) -> Distribution:
    """Return the distribution with the fastest predicted iterations on this machine. Collective.

    What is predicted is what `plan` predicts, a reduction from few regions of the sky where there are many
    samples, and without flags. Data of which the pointing is read from files at full rate are dealt by
    streams: a look at it would cost as much as reading it; and so are data of very many blocks, whose
    predictions no rank has room for.

    Parameters
    ----------
    config : RunConfig
    observations : sequence of Observation
        Prepared for map-making.
    pixelization : Pixelization
    comm : Communicator
        Ranks that share the data.
    n_threads : int
    """
    run = ScannedRun.of(config, observations, pixelization)
    if not all(_can_be_looked_at(observation.pointing) for observation in observations):
        return STREAMS
    if not chooses_distribution(run.layout, comm.size):
        return STREAMS
    share_pointing(observations, range(len(observations)), comm)
    machine = local_machine(comm)
    per_node = int(np.bincount(comm.node_of).max())
    seconds = predict_distributions(run, config, comm.size, per_node, machine, comm, n_threads)
    return min(seconds, key=lambda distribution: seconds[distribution])


def _can_be_looked_at(pointing: Pointing | None) -> bool:
    return isinstance(pointing, CompressedPointing) and getattr(pointing, "sparse", True)


def local_machine(comm: Communicator) -> Machine:
    """Return the model of this machine, with a core for each rank. Collective."""
    where = tuning_environment(comm)
    machine: Machine = comm.bcast(fitted_machine(where) if comm.rank == 0 else None)
    cores = -(-comm.size // machine.nodes)
    return machine if machine.cores >= cores else replace(machine, sockets_per_node=1, cores_per_socket=cores)


def predict_distributions(
    run: ScannedRun,
    config: RunConfig,
    size: int,
    ranks_per_node: int,
    machine: Machine,
    comm: Communicator,
    n_threads: int = 1,
) -> Mapping[Distribution, float]:
    """Return the predicted seconds an iteration that `size` ranks differ by, by distribution. Collective.

    Those of a reduction, the one that the configuration asks for, or the fastest, and of unpaired samples.
    All ranks have them; ranks of `comm` share the work.
    """
    distributions, held = _possible(run, size)
    coverage = _look_at(run, config, held, n_threads, SilentProgress(), comm)
    n_stokes = Stokes(config.map.stokes).n
    options = ReductionOptions(buffer_keys=max(1, int(config.comm.buffer) // (8 * n_stokes)))

    def seconds(samples: SampleDistribution) -> float:
        loads = _loads(coverage, samples, ranks_per_node, options)
        names = loads if config.comm.reduction == AUTO else [config.comm.reduction]
        unpaired = unpaired_samples(samples, run.layout, run.observations) * UNPAIRED_SECONDS / n_threads
        return unpaired + min(
            float(predict_seconds(loads[n], machine, ranks_per_node, n_stokes, 8)) for n in names
        )

    own = {number: seconds(held[number]) for number in range(comm.rank, len(held), comm.size)}
    found = {number: value for part in comm.allgather(own) for number, value in part.items()}
    return {distribution: found[number] for number, distribution in enumerate(distributions)}


def gathered_bytes(
    run: ScannedRun, config: RunConfig, size: int, n_threads: int, progress: Progress, *, look: bool = True
) -> float:
    """Return the most that a rank of a run passes to the gathers of pixels by which it chooses, bytes.

    0 where it does not choose. What the run looks at is looked at.

    Parameters
    ----------
    run : ScannedRun
    config : RunConfig
    size : int
        Number of ranks.
    n_threads : int
    progress : Progress
    look : bool
        Otherwise no sample is looked at, and each range has all pixels that are looked for, or a pixel for
        each sample: a loose bound.
    """
    asked = config.comm.distribution == AUTO and size > 1 and chooses_distribution(run.layout, size)
    if not (asked and all(_can_be_looked_at(observation.pointing) for observation in run.observations)):
        return 0.0
    held = _possible(run, size)[1]
    if look:
        looked_at = _look_at(run, config, held, n_threads, progress).looked_at
    else:
        looked_at = most_looked_at(run, _sky_sample(run, config.run.seed), held)
    return float(looked_at.bytes_of_ranks(size).max())


def _possible(run: ScannedRun, size: int) -> tuple[Sequence[Distribution], list[SampleDistribution]]:
    """Return the distributions that a run may have, and the samples of each."""
    possible = possible_distributions(max(observation.n_det for observation in run.observations))
    return possible, [distribute_samples(run.layout, one.groups, size) for one in possible]


def _look_at(
    run: ScannedRun, config: RunConfig, held: Sequence[SampleDistribution], n_threads: int,
    progress: Progress, comm: Communicator | None = None,
) -> PixelCoverage:  # fmt: skip
    """Return the pixels that a run looks at for its choice. Ranks of `comm` share the work."""
    sample = _sky_sample(run, config.run.seed)
    return compute_pixel_coverage(run, sample, held, n_threads, progress, comm, quick=True)


def _loads(
    coverage: PixelCoverage, samples: SampleDistribution, ranks_per_node: int, options: ReductionOptions
) -> Mapping[str, Load]:
    """Return the loads of a reduction by algorithm; the sample tells which ranks share pixels."""
    occupancy, rank_sample = coverage.occupancy(samples), None
    if coverage.sample.fraction < 1:
        rank_sample = nodes_of_sky_sample(occupancy, coverage.sample, ranks_per_node)
    return forecast_from_sample(occupancy, rank_sample, coverage.sample, ranks_per_node, options).loads


def _sky_sample(run: ScannedRun, seed: int) -> SkySample:
    n_regions, chosen = count_regions(run.pixelization), looked_at_regions(run.layout, run.pixelization)
    if chosen == n_regions:
        return full_sky_sample(run.pixelization)
    # errors are not asked for
    return replace(run.sky_sample(chosen / n_regions, seed, HIT_SAMPLES), n_parts=1)
