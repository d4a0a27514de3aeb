"""Predicted times of the algorithms of a collective: closed forms and link loads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from petacomm.base.arguments import require_instance
from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.typing import FloatArray
from petacomm.network import closed_forms as forms
from petacomm.network.bluegene_wires import interrupt_seconds, network_number, tree_seconds
from petacomm.network.hardware import Hardware
from petacomm.network.link_load import link_loads
from petacomm.network.routing import link_capacities, machine_routing
from petacomm.network.schedule_links import (
    busiest_link_bytes,
    synchronous_rounds_time,
    total_link_loads,
)
from petacomm.schedule import (
    CollectiveCall,
    Schedule,
    list_algorithms,
    make_schedule,
    published_algorithm,
)
from petacomm.schedule.algorithms.rectangle_lines import GROUP_SIZE
from petacomm.schedule.catalogue import PUBLISHED
from petacomm.topology import Machine, Network

# Limit of the messages assigned to links.
MAX_MESSAGES = 8_000_000
# The policy of `choose_algorithm`, where the name of an algorithm is asked.
AUTO = "auto"
WIRES = ("tree", "interrupt")
# Collectives of BlueGene/L's message layer, which send packets instead of MPI messages.
_PACKET_ALGORITHMS = ("streams", "hamiltonian", "cycle", "lines", "random-order")


@dataclass(frozen=True)
class NetworkModel:
    """The parameters of a machine that predictions need.

    Attributes
    ----------
    machine : Machine
    hardware : Hardware, optional
        Hardware of the torus or mesh of a call on a grid.
    link_bandwidth : float
        Bandwidth of a link in one direction, in bytes per second.
    network : Network, optional
        Network of switches of a call without a grid: its node r has rank r.
    """

    machine: Machine
    hardware: Hardware | None
    link_bandwidth: float
    network: Network | None = None

    @property
    def routing(self) -> str:
        """Routing of the machine's file, on a network of switches."""
        return machine_routing(self.machine)

    @property
    def link_bandwidths(self) -> float | FloatArray:
        """Bandwidth of all links, or of each of a network of switches: float64 (n_links,)."""
        each = None if self.network is None else link_capacities(self.machine, self.network)
        return self.link_bandwidth if each is None else each

    def synchronous_rounds_time(self, schedule: Schedule, network: Network, itemsize: int) -> float:
        """Return the seconds of a schedule of MPI messages, whose rounds wait for each other."""
        machine, rendezvous = self.machine, math.inf
        if "rendezvous" in machine.network:
            rendezvous = network_number(machine, "rendezvous", "bytes")
        latency, bandwidths = machine.latency, self.link_bandwidths
        return synchronous_rounds_time(
            schedule, network, itemsize, latency, bandwidths, rendezvous, self.routing
        )

    def hardware_for(self, call: CollectiveCall) -> Hardware:
        """Return the hardware with the parameters of a call: adding integers may take more cycles."""
        assert self.hardware is not None
        key = "integer_combine_cycles"
        if call.integer and call.collective != "barrier" and key in self.machine.network:
            cycles = network_number(self.machine, key, "")
            return dataclasses.replace(self.hardware, combine_cycles=cycles)
        return self.hardware


@dataclass(frozen=True)
class Prediction:
    """Predicted time of an algorithm for a call. The attributes are also the keys of its JSON.

    Attributes
    ----------
    algorithm, summary : str
    chosen : bool
        Whether its time is the lowest: `choose_algorithm` chooses it.
    published : bool
        Whether `published_algorithm` chooses it.
    unmet : list of str
        Preconditions that the call does not meet.
    seconds : float or None
        Predicted time, the larger of the next two: link loads leave processors out, and closed forms of MPI's
        algorithms the messages that share a link. None if one of these is needed and missing.
    closed, loaded : float or None
        Seconds by the closed form, and by link loads.
    busiest : float or None
        Bytes on the busiest link.
    why : str
        Reason why a number is missing.
    """

    algorithm: str
    summary: str
    unmet: list[str]
    chosen: bool = False
    published: bool = False
    seconds: float | None = None
    closed: float | None = None
    loaded: float | None = None
    busiest: float | None = None
    why: str = ""


def predict_algorithms(
    call: CollectiveCall, model: NetworkModel, progress: Progress | None = None
) -> list[Prediction]:
    """Return the predictions for all algorithms of a call, including those that cannot be used.

    Parameters
    ----------
    call : CollectiveCall
    model : NetworkModel
    progress : Progress, optional

    Returns
    -------
    list of Prediction

    Raises
    ------
    ConfigError
        If the machine's file lacks a number that is needed.

    Examples
    --------
    >>> import petacomm
    >>> query = petacomm.CollectiveQuery("allreduce", "bluegene-l", shape="4x4x4", n_bytes=1024)
    >>> predictions = petacomm.predict_algorithms(*query.resolve())
    >>> len(predictions) > 3
    True
    """
    mend = "take both of CollectiveQuery(...).resolve()"
    require_instance(call, "call", CollectiveCall, mend)
    require_instance(model, "model", NetworkModel, mend)
    listener = progress or SilentProgress()
    algorithms, published = list_algorithms(call.collective), published_algorithm(call)
    for name in WIRES:
        if any(
            algorithm.name == name and not algorithm.unmet_preconditions(call) for algorithm in algorithms
        ):
            closed_form_seconds(call, name, model)  # raises an error for a missing number before any work
    listener.begin("loads of links", len(algorithms), "algorithms")
    predictions = []
    for algorithm in algorithms:
        prediction = Prediction(
            algorithm.name,
            algorithm.summary,
            algorithm.unmet_preconditions(call),
            published=algorithm.name == published,
        )
        if not prediction.unmet:
            prediction = _with_times(prediction, call, model)
        predictions.append(prediction)
        listener.advance(1, algorithm.name)
    listener.end()
    known = [prediction for prediction in predictions if prediction.seconds is not None]
    lowest = min(known, key=lambda prediction: prediction.seconds or 0.0, default=None)
    return [dataclasses.replace(one, chosen=one is lowest) for one in predictions]


def choose_algorithm(call: CollectiveCall, model: NetworkModel) -> str:
    """Return the name of the algorithm with the lowest predicted time.

    Parameters
    ----------
    call : CollectiveCall
    model : NetworkModel

    Returns
    -------
    str

    Raises
    ------
    ConfigError
        If the machine's file lacks a number that is needed.

    Examples
    --------
    >>> import petacomm
    >>> query = petacomm.CollectiveQuery("broadcast", "bluegene-l", shape="4x4x4", n_bytes=16)
    >>> petacomm.choose_algorithm(*query.resolve())
    'tree'
    """
    chosen = [one.algorithm for one in predict_algorithms(call, model) if one.chosen]
    return chosen[0] if chosen else published_algorithm(call)


def resolve_algorithm(call: CollectiveCall, model: NetworkModel, name: str) -> str:
    """Return the name of an algorithm: that of `choose_algorithm` for "auto", or the published choice."""
    if name == AUTO:
        return choose_algorithm(call, model)
    return published_algorithm(call) if name == PUBLISHED else name


def _with_times(prediction: Prediction, call: CollectiveCall, model: NetworkModel) -> Prediction:
    """Return a prediction with its times."""
    timed = _with_loads(prediction, call, model)
    has_links = call.grid is not None or model.network is not None
    needs_loads = has_links and timed.algorithm not in (*WIRES, *_PACKET_ALGORITHMS)
    if needs_loads and timed.loaded is None:
        return timed
    if timed.algorithm in _PACKET_ALGORITHMS and model.hardware is None:
        return dataclasses.replace(
            timed, why="the file says nothing of packets and what they cost processors"
        )
    seconds = [value for value in (timed.closed, timed.loaded) if value is not None]
    return dataclasses.replace(timed, seconds=max(seconds, default=None))


def _with_loads(prediction: Prediction, call: CollectiveCall, model: NetworkModel) -> Prediction:
    """Return a prediction with its closed form and link loads."""
    name = prediction.algorithm
    closed = closed_form_seconds(call, name, model)
    if name in WIRES:
        return dataclasses.replace(prediction, closed=closed, why="not on the torus")
    network = model.network if call.grid is None else call.grid
    if network is None:
        return dataclasses.replace(prediction, closed=closed, why="no shape, so no links")
    if name == "random-order" and call.counts is None and call.grid is not None:
        busiest = float(link_loads(call.grid, float(call.n_bytes)).max(initial=0))
        loaded = busiest / model.link_bandwidth
        return dataclasses.replace(prediction, closed=closed, loaded=loaded, busiest=busiest)
    schedule = make_schedule(call, name)
    if schedule.n_rounds * call.n_ranks > MAX_MESSAGES:
        why = f"{schedule.n_rounds:,} rounds of {call.n_ranks:,} ranks are too many to put on links"
        return dataclasses.replace(prediction, closed=closed, why=why)
    loads = total_link_loads(schedule, network, call.itemsize, model.routing)
    busiest = float(loads.max(initial=0))
    if name in _PACKET_ALGORITHMS:
        loaded = float((loads / model.link_bandwidths).max(initial=0))
    else:
        loaded = model.synchronous_rounds_time(schedule, network, call.itemsize)
    return dataclasses.replace(prediction, closed=closed, loaded=loaded, busiest=busiest)


def closed_form_seconds(call: CollectiveCall, name: str, model: NetworkModel) -> float | None:
    """Return the seconds of an applicable algorithm by its closed form; None where there is none."""
    if forms.has_alpha_beta_cost(call.collective, name):
        n_bytes = 1 if call.collective == "barrier" else call.n_bytes
        cost = forms.alpha_beta_cost(call.collective, name, call.n_ranks, n_bytes)
        return cost.time(model.machine.latency, 1 / model.machine.bandwidth)
    if name == "interrupt":
        return interrupt_seconds(model.machine, call.n_ranks)
    if name == "tree" and model.hardware is not None:
        return tree_seconds(model.machine, model.hardware, call.n_bytes)
    if call.grid is None or model.hardware is None:
        return None
    return _FORMS[name](call, model)


def packet_seconds(hardware: Hardware, n_bytes: float) -> tuple[float, float]:
    """Return the seconds in which a processor reads and writes a packet of `n_bytes` of payload."""
    part = min(n_bytes, hardware.payload) / hardware.payload
    read, write = (
        cycles * part + hardware.packet_cycles for cycles in (hardware.read_cycles, hardware.write_cycles)
    )
    return read / hardware.clock, write / hardware.clock


def _lines(call: CollectiveCall, model: NetworkModel) -> float:
    """Return the seconds of "lines" (Almasi et al. 2005, 3.2).

    S is the time in which a packet is written and sent, T that in which one is read and combined.
    """
    hardware = model.hardware_for(call)
    n_bytes = 1 if call.collective == "barrier" else call.n_bytes
    n_packets = math.ceil(n_bytes / hardware.payload)
    read, write = packet_seconds(hardware, n_bytes)
    read += hardware.combine_cycles / hardware.clock
    wire = hardware.wire_time(min(n_bytes, hardware.payload))
    overhead = hardware.message_cycles / hardware.clock + n_packets * write + wire + hardware.hop_latency
    group = None if call.collective == "barrier" else GROUP_SIZE
    return forms.rectangle_latency(
        call.required_grid.shape, overhead, n_packets * wire, 1.0, n_packets * read, group
    )


def _streamed(call: CollectiveCall, model: NetworkModel, name: str) -> float:
    """Return the larger of the times of the busiest link and processor, plus that of a packet in all rounds.

    A processor reads each packet that it receives, combines it if it is reduced, and writes those that it
    sends: one for a line.
    """
    hardware = model.hardware_for(call)
    schedule = make_schedule(call, name)
    read, write = packet_seconds(hardware, call.n_bytes)
    combine = hardware.combine_cycles / hardware.clock
    busy = np.zeros(call.n_ranks)
    for part in schedule.rounds():
        packets = np.ceil(part.length * call.itemsize / hardware.payload)
        first = ~np.roll(part.is_passed, 1)
        busy += np.bincount(part.destination, packets * (read + combine * part.reduce), call.n_ranks)
        busy += np.bincount(part.source, packets * write * first, call.n_ranks)
    links = busiest_link_bytes(schedule, call.required_grid, call.itemsize) / model.link_bandwidth
    wire = hardware.wire_time(min(call.n_bytes, hardware.payload))
    return max(float(busy.max()), links) + max(0, schedule.n_rounds - 1) * (read + write + wire)


def _random_order(call: CollectiveCall, model: NetworkModel) -> float:
    """Return the larger of the times of the busiest link and of a processor, which begins all messages."""
    hardware = model.hardware_for(call)
    begin = hardware.alltoall_message_cycles(2 * call.n_ranks * call.n_bytes) / hardware.clock
    full, rest = divmod(call.n_bytes, hardware.payload)
    packets = full * sum(packet_seconds(hardware, hardware.payload))
    packets += sum(packet_seconds(hardware, rest)) if rest else 0.0
    peak = forms.alltoall_peak_bandwidth(call.required_grid, model.link_bandwidth)
    return max(call.n_ranks * call.n_bytes / peak, (call.n_ranks - 1) * (begin + packets))


_FORMS: dict[str, Callable[[CollectiveCall, NetworkModel], float]] = {
    "lines": _lines,
    **{name: partial(_streamed, name=name) for name in ("streams", "hamiltonian", "cycle")},
    "random-order": _random_order,
}
