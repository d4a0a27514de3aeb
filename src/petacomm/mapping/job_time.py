"""Predicted time of a job of several phases on a machine that need not be there.

A phase takes the computation of its busiest rank, the latency of the messages that the busiest rank sends,
and the longer of the transfers of the busiest link and of the busiest node. Of that, computation and
communication follow each other, or the shorter of them hides behind the longer: `PhaseTime` has both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.placement import Placement
from petacomm.network.link_load import Traffic
from petacomm.network.routes import routed_link_loads
from petacomm.network.routing import link_capacities, machine_routing
from petacomm.topology import Machine, Network, Torus


@dataclass(frozen=True, eq=False)
class JobPhase:
    """A phase of a job: what its ranks compute, and what they send.

    Attributes
    ----------
    name : str
    graph : CommunicationGraph
    work : float64 (n_ranks,)
        Computation of each rank, in seconds.
    n_messages : float64 (n_ranks,), optional
        Messages that each rank sends; by default one an edge of the graph.
    """

    name: str
    graph: CommunicationGraph
    work: FloatArray
    n_messages: FloatArray | None = None

    def sent_messages(self) -> FloatArray:
        """Return the number of messages that each rank sends: float64 (n_ranks,)."""
        if self.n_messages is not None:
            return self.n_messages
        return np.bincount(self.graph.sources, minlength=self.graph.n_ranks).astype(np.float64)


@dataclass(frozen=True)
class PhaseTime:
    """Predicted seconds of a phase.

    Attributes
    ----------
    name : str
    work, mean_work : float
        Computation, of the busiest rank and on average.
    sending, mean_sending : float
        Latency of the messages that a rank sends, of the busiest rank and on average.
    links : float
        Transfer on the busiest link.
    injection : float
        Transfer of what the busiest node sends or receives.
    """

    name: str
    work: float
    mean_work: float
    sending: float
    mean_sending: float
    links: float
    injection: float

    @property
    def communication(self) -> float:
        """Seconds of communication: latencies, and the longer of the two transfers."""
        return self.sending + max(self.links, self.injection)

    @property
    def in_turn(self) -> float:
        """Seconds if communication follows computation."""
        return self.work + self.communication

    @property
    def overlapped(self) -> float:
        """Seconds if the shorter of computation and communication hides behind the longer."""
        return max(self.work, self.communication)


def predict_phases(
    phases: Sequence[JobPhase], placement: Placement, network: Network, machine: Machine
) -> list[PhaseTime]:
    """Return the predicted times of the phases of a job.

    Parameters
    ----------
    phases : sequence of JobPhase
    placement : Placement
        Nodes of the ranks.
    network : Network
        Its links carry what its own routes, or those of the machine's `routing`, lay on them.
    machine : Machine
        Its file has the bandwidth of the links; messages within a node take no time.

    Returns
    -------
    list of PhaseTime

    Raises
    ------
    ConfigError
        If the machine's file says nothing of links, or a phase has other ranks than the placement.

    Examples
    --------
    >>> import numpy as np
    >>> from petacomm.mapping import CommunicationGraph, Placement
    >>> from petacomm.topology import Torus, load_machine
    >>> ring = CommunicationGraph.from_edges(8, np.arange(8), (np.arange(8) + 1) % 8, 374e3)
    >>> phase = JobPhase("shift", ring, np.full(8, 2e-3))
    >>> torus = Torus((8,))
    >>> (time,) = predict_phases([phase], Placement.identity(torus), torus, load_machine("bluegene-p"))
    >>> round(1e3 * time.links, 3), round(1e3 * time.in_turn, 3)
    (1.0, 3.003)
    """
    capacity = link_capacities(machine, network)
    if capacity is None:
        raise ConfigError(f"the file of {machine.name} says nothing of links", mend="give 'link_bandwidth'")
    routing = "minimal" if isinstance(network, Torus) else machine_routing(machine)
    return [_predict_phase(phase, placement, network, machine, routing, capacity) for phase in phases]


def _predict_phase(
    phase: JobPhase,
    placement: Placement,
    network: Network,
    machine: Machine,
    routing: str,
    capacity: FloatArray,
) -> PhaseTime:
    messages = phase.sent_messages()
    n = len(placement.nodes)
    if not phase.graph.n_ranks == len(phase.work) == len(messages) == n:
        raise ConfigError(
            f"phase '{phase.name}' has {phase.graph.n_ranks} ranks, work of {len(phase.work)}, messages of "
            f"{len(messages)}, on {n} places",
            mend="give each the same number",
        )
    traffic = phase.graph.traffic(placement.nodes, network.n_nodes)
    loads = routed_link_loads(network, traffic, routing, capacity)
    return PhaseTime(
        phase.name,
        work=float(phase.work.max()),
        mean_work=float(phase.work.mean()),
        sending=float(messages.max()) * machine.latency,
        mean_sending=float(messages.mean()) * machine.latency,
        links=float((loads / capacity).max(initial=0.0)),
        injection=_busiest_node_bytes(traffic, network.n_nodes) / machine.node_bandwidth,
    )


def _busiest_node_bytes(traffic: Traffic, n_nodes: int) -> float:
    """Return the most bytes that a node sends or receives."""
    n_bytes = np.asarray(traffic.n_bytes)
    ends = (np.asarray(traffic.source), np.asarray(traffic.destination))
    return max(float(np.bincount(nodes, n_bytes, n_nodes).max(initial=0.0)) for nodes in ends)


def idle_share(times: Sequence[PhaseTime], seconds: float) -> float:
    """Return the part of the seconds of a job in which ranks, on average, neither compute nor send."""
    return 1 - sum(time.mean_work + time.mean_sending for time in times) / seconds
