"""What the sums of a run cost on the machines of the source, and on others: its Figures 4 and 6."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.progress import Progress
from petacomm.costs.forecast import Estimate, Forecast, Imbalance, Parts, combine
from petacomm.costs.nested_group_counts import count_some_hops
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import Options
from petacomm.costs.rank_counts import count, node_numbers, told_messages
from petacomm.network import predict
from petacomm.network.alpha_beta import buffered_allreduce, gather_set_up, pairwise_alltoallv
from petacomm.topology import Machine
from petamap.papers.sudarsan2011.published import VERSIONS, Host, Ratio
from petamap.planning.sky_regions import SkySample

# I, Q and U of a pixel, as float64; a key of each of them, which 32 bits hold.
VALUES = 3
_VALUE_BYTES = 8
KEY_BYTES = 4
_EVEN = Imbalance((1.0, 1.0), (1.0, 1.0), (1.0, 1.0))
_ALGORITHM = {"allreduce": "dense", "allgather": "pairwise"}


@dataclass(frozen=True)
class Cost:
    """The communication of one version at one concurrency.

    Attributes
    ----------
    cores : int
    reduction, set_up : float
        Seconds of one sum over ranks, and of what is done once.
    """

    cores: int
    reduction: float
    set_up: float

    def core_seconds(self, iterations: int, with_set_up: bool = True) -> float:
        """Return the core-seconds of a run."""
        return self.cores * (iterations * self.reduction + (self.set_up if with_set_up else 0.0))


Costs = Mapping[str, Mapping[str, Sequence[Cost]]]


class Forecasts:
    """Forecasts from a sample of the sky, each made once.

    Parameters
    ----------
    occupancies : mapping of int to Occupancy
        By cores, a rank each.
    sample : SkySample
    buffer_bytes : int
        Of one value of "dense".
    """

    def __init__(self, occupancies: Mapping[int, Occupancy], sample: SkySample, buffer_bytes: int) -> None:
        self.occupancies = occupancies
        self.sample = sample
        self.buffer_keys = max(1, buffer_bytes // (_VALUE_BYTES * VALUES))
        self._made: dict[tuple[int, int, int], Forecast] = {}

    def of(self, cores: int, threads: int, ranks_per_node: int) -> Forecast:
        """Return the forecast for ranks of `threads` cores."""
        key = cores, threads, ranks_per_node
        if key not in self._made:
            merged = self.occupancies[cores].merged(threads)
            self._made[key] = even_forecast(merged, self.sample, ranks_per_node, self.buffer_keys)
        return self._made[key]


def even_forecast(occupancy: Occupancy, sample: SkySample, ranks_per_node: int, buffer_keys: int) -> Forecast:
    """Return the forecast where all ranks do as much as the mean one, and each meets all others.

    Both are what the source's model has: p messages, and n_lmax about n_all / p. Partners need not be told
    then, which a sample of the sky cannot do.
    """
    node_of = node_numbers(occupancy.size, ranks_per_node)
    region = np.searchsorted(sample.regions, occupancy.keys >> sample.shift)
    fractions = np.bincount(sample.parts, sample.weights) / int(sample.stretches[-1])
    weights, options = sample.weights[region], Options(buffer_keys=buffer_keys)
    counts = count(occupancy, node_of, sample.parts[region], weights, options)
    hops = count_some_hops(occupancy, node_of, options.radix, sample.parts[region], weights)
    others, nodes = occupancy.size - 1.0, float(node_of[-1])
    messages = told_messages(counts, others, others, math.ceil(nodes / ranks_per_node))
    partners = Estimate(others), Estimate(others)
    parts = Parts(fractions, sample.fraction)
    return combine(counts, hops, parts, messages, partners, _EVEN, ranks_per_node, options)


def versions(
    host: Host, machine: Machine, forecasts: Forecasts, buffer_bytes: int, progress: Progress
) -> dict[str, list[Cost]]:
    """Return the costs of the four versions at all concurrencies of a machine."""
    found: dict[str, list[Cost]] = {version: [] for version in VERSIONS}
    for cores in host.cores:
        for version in VERSIONS:
            threads = host.threads if version.startswith("threaded") else 1
            per_node = machine.cores // threads
            forecast = forecasts.of(cores, threads, per_node)
            algorithm = _ALGORITHM[version.split()[1]]
            seconds = float(predict(forecast.loads[algorithm], machine, per_node, VALUES, _VALUE_BYTES))
            once = gathering(forecast, machine, buffer_bytes) if algorithm == "pairwise" else 0.0
            found[version].append(Cost(cores, seconds, once))
        progress.advance(1, f"{machine.name}, {cores} cores")
    return found


def gathering(forecast: Forecast, machine: Machine, buffer_bytes: int) -> float:
    """Return the seconds in which all ranks gather the keys of all, a key for each value of a pixel.

    Each node takes in the keys of all others once: its edge carries as much as one message at a time.
    """
    held = forecast.n_held * VALUES * KEY_BYTES
    beta = 1 / min(machine.bandwidth, machine.node_bandwidth)
    return gather_set_up(forecast.size, held, buffer_bytes, machine.latency, beta)


def other_ways(
    machine: Machine, cores: int, threads: int, forecasts: Forecasts
) -> dict[str, dict[str, float]]:
    """Return the seconds of one sum by each algorithm, with a rank a core and with ranks of `threads`."""
    return {
        kind: {
            name: float(predict(load, machine, machine.cores // n, VALUES, _VALUE_BYTES))
            for name, load in forecasts.of(cores, n, machine.cores // n).loads.items()
        }
        for kind, n in (("unthreaded", 1), ("threaded", threads))
    }


def modelled(ratio: Ratio, costs: Costs, iterations: int) -> dict[str, float]:
    """Return what the model makes of a published ratio, by machine, at the most cores."""

    def cost(machine: str, version: str) -> float:
        return costs[machine][version][-1].core_seconds(iterations, ratio.set_up)

    return {
        name: cost(name, ratio.of)
        / (cost(name, ratio.to) if ratio.to else cost(str(ratio.machine), ratio.of))
        for name in ratio.values
    }


def closed_form_speed_up(
    machine: Machine, host: Host, map_values: float, all_over_map: float, bound: float
) -> float:
    """Return the speed-up of a sum by the closed forms of sections 3.2 and 3.3, with the source's own bounds.

    Unthreaded, one all-reduce of the whole map; threaded, p messages and k n_lmax values.

    Parameters
    ----------
    machine : Machine
    host : Host
    map_values : float
        N_p.
    all_over_map, bound : float
        n_all over N_p, and k: the sum of overlaps over n_lmax.
    """
    cores, n_bytes = host.cores[-1], map_values * _VALUE_BYTES
    size = cores // host.threads
    alone, shared = (machine.cores / n / machine.node_bandwidth for n in (1, host.threads))
    slow = buffered_allreduce(cores, n_bytes, n_bytes, machine.latency, alone)
    sent = bound * all_over_map * n_bytes / size
    return slow / pairwise_alltoallv(size, sent, machine.latency, shared)
