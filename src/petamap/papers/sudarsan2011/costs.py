"""Modelled costs of the reductions of a run: Figures 4 and 6 of Sudarsan et al. 2011."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from petacomm.base.progress import Progress
from petacomm.costs.forecast import Estimate, Forecast, Imbalance, forecast_from_counts
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import ReductionOptions
from petacomm.costs.rank_counts import assumed_partners, node_of_ranks
from petacomm.network import predict_seconds
from petacomm.network.alpha_beta import (
    buffered_allreduce_seconds,
    gather_setup_seconds,
    pairwise_alltoallv_seconds,
)
from petacomm.topology import Machine
from petamap.papers.sudarsan2011.published import VERSIONS, CostRatio, MachineRuns
from petamap.planning.sample_forecast import count_sample
from petamap.planning.sky_regions import SkySample

# I, Q and U of a pixel as float64, with one 32-bit key each.
VALUES = 3
_VALUE_BYTES = 8
KEY_BYTES = 4
_BALANCED = Imbalance((1.0, 1.0), (1.0, 1.0), (1.0, 1.0))
_ALGORITHM = {"allreduce": "dense", "allgather": "pairwise"}


@dataclass(frozen=True)
class VersionCost:
    """Communication cost of one version at one number of cores. The attributes are also keys of the JSON.

    Attributes
    ----------
    cores : int
    reduction, set_up : float
        Seconds of one reduction, and of the set-up.
    """

    cores: int
    reduction: float
    set_up: float

    def core_seconds(self, iterations: int, with_set_up: bool = True) -> float:
        """Return the core-seconds of communication of a run."""
        return self.cores * (iterations * self.reduction + (self.set_up if with_set_up else 0.0))


Costs = Mapping[str, Mapping[str, Sequence[VersionCost]]]


class ForecastCache:
    """Cache of forecasts from a sample of the sky.

    Parameters
    ----------
    occupancies : mapping of int to Occupancy
        Occupancy by number of cores, with one rank per core.
    sample : SkySample
    buffer_bytes : int
        Buffer size of the algorithm "dense".
    """

    def __init__(self, occupancies: Mapping[int, Occupancy], sample: SkySample, buffer_bytes: int) -> None:
        self.occupancies = occupancies
        self.sample = sample
        self.buffer_keys = max(1, buffer_bytes // (_VALUE_BYTES * VALUES))
        self._forecasts: dict[tuple[int, int, int], Forecast] = {}

    def get(self, cores: int, threads: int, ranks_per_node: int) -> Forecast:
        """Return the forecast for ranks of `threads` cores."""
        key = cores, threads, ranks_per_node
        if key not in self._forecasts:
            merged = self.occupancies[cores].merge_ranks(threads)
            self._forecasts[key] = balanced_forecast(merged, self.sample, ranks_per_node, self.buffer_keys)
        return self._forecasts[key]


def balanced_forecast(
    occupancy: Occupancy, sample: SkySample, ranks_per_node: int, buffer_keys: int
) -> Forecast:
    """Return the forecast with the mean work on all ranks, each of which shares keys with all others.

    These are the assumptions of the published model: p messages, and n_lmax about n_all / p. Partners, which
    a sample of the sky does not determine, need not be estimated.
    """
    options = ReductionOptions(buffer_keys=buffer_keys)
    counts, layers, parts = count_sample(occupancy, sample, ranks_per_node, options)
    others, nodes = occupancy.size - 1.0, float(node_of_ranks(occupancy.size, ranks_per_node)[-1])
    messages = assumed_partners(counts, others, others, math.ceil(nodes / ranks_per_node))
    partners = Estimate(others), Estimate(others)
    return forecast_from_counts(counts, layers, parts, messages, partners, _BALANCED, ranks_per_node, options)


def version_costs(
    host: MachineRuns, machine: Machine, forecasts: ForecastCache, buffer_bytes: int, progress: Progress
) -> dict[str, list[VersionCost]]:
    """Return the costs of the four versions at all numbers of cores of a machine."""
    costs: dict[str, list[VersionCost]] = {version: [] for version in VERSIONS}
    for cores in host.cores:
        for version in VERSIONS:
            threads = host.threads if version.startswith("threaded") else 1
            per_node = machine.cores // threads
            forecast = forecasts.get(cores, threads, per_node)
            algorithm = _ALGORITHM[version.split()[1]]
            seconds = float(
                predict_seconds(forecast.loads[algorithm], machine, per_node, VALUES, _VALUE_BYTES)
            )
            once = key_gather_seconds(forecast, machine, buffer_bytes) if algorithm == "pairwise" else 0.0
            costs[version].append(VersionCost(cores, seconds, once))
        progress.advance(1, f"{machine.name}, {cores} cores")
    return costs


def key_gather_seconds(forecast: Forecast, machine: Machine, buffer_bytes: int) -> float:
    """Return the seconds in which all ranks gather the keys of all ranks, with one key per value of a pixel.

    Each node receives the keys of all other nodes once, at the bandwidth of one message.
    """
    held = forecast.n_held * VALUES * KEY_BYTES
    beta = 1 / min(machine.bandwidth, machine.node_bandwidth)
    return gather_setup_seconds(forecast.size, held, buffer_bytes, machine.latency, beta)


def algorithm_seconds(
    machine: Machine, cores: int, threads: int, forecasts: ForecastCache
) -> dict[str, dict[str, float]]:
    """Return the seconds of one reduction by each algorithm, unthreaded and with `threads` cores per rank."""
    return {
        kind: {
            name: float(predict_seconds(load, machine, machine.cores // n, VALUES, _VALUE_BYTES))
            for name, load in forecasts.get(cores, n, machine.cores // n).loads.items()
        }
        for kind, n in (("unthreaded", 1), ("threaded", threads))
    }


def modelled_ratio(ratio: CostRatio, costs: Costs, iterations: int) -> dict[str, float]:
    """Return the modelled value of a published ratio at the largest number of cores, by machine."""

    def cost(machine: str, version: str) -> float:
        return costs[machine][version][-1].core_seconds(iterations, ratio.set_up)

    return {
        name: cost(name, ratio.numerator)
        / (cost(name, ratio.denominator) if ratio.denominator else cost(str(ratio.machine), ratio.numerator))
        for name in ratio.values
    }


def closed_form_speedup(
    machine: Machine, host: MachineRuns, map_values: float, all_over_map: float, bound: float
) -> float:
    """Return the speed-up of a reduction by the closed forms (3.2, 3.3) with the published bounds.

    Unthreaded, it is one all-reduce of the full map; threaded, p messages and k n_lmax values.

    Parameters
    ----------
    machine : Machine
    host : MachineRuns
    map_values : float
        N_p.
    all_over_map, bound : float
        n_all over N_p, and k: the sum of overlaps over n_lmax.
    """
    cores, n_bytes = host.cores[-1], map_values * _VALUE_BYTES
    size = cores // host.threads
    alone, shared = (machine.cores / n / machine.node_bandwidth for n in (1, host.threads))
    slow = buffered_allreduce_seconds(cores, n_bytes, n_bytes, machine.latency, alone)
    sent = bound * all_over_map * n_bytes / size
    return slow / pairwise_alltoallv_seconds(size, sent, machine.latency, shared)
