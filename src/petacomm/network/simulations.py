"""Simulation of collectives packet by packet, on tori, meshes and networks of switches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress, SilentProgress
from petacomm.network.packet_messages import SimulationResult
from petacomm.network.packets import PacketSimulator, RouterPolicy
from petacomm.network.predictions import (
    MAX_MESSAGES,
    WIRES,
    NetworkModel,
    closed_form_seconds,
    resolve_algorithm,
)
from petacomm.network.routes import hops_between
from petacomm.network.schedule_packets import packet_messages
from petacomm.network.simulators import make_simulator
from petacomm.network.switch_packets import SwitchSimulator
from petacomm.schedule import CollectiveCall, Schedule, make_schedule
from petacomm.topology import Network, Torus

# Limit of the simulated hops, which take a few minutes.
MAX_HOPS = 3_000_000_000


@dataclass(frozen=True)
class SimulatedCollective:
    """Result of the simulation of a call.

    Attributes
    ----------
    algorithm : str
    seconds : float
    run : SimulationResult or None
        None on special networks, for which there is only a closed form.
    note : str
        Explanation of a time that is not from packets.
    """

    algorithm: str
    seconds: float
    run: SimulationResult | None = None
    note: str = ""


def simulate_collective(
    call: CollectiveCall,
    model: NetworkModel,
    name: str = "auto",
    policy: RouterPolicy | None = None,
    seed: int = 1,
    progress: Progress | None = None,
    routing: str | None = None,
) -> SimulatedCollective:
    """Simulate a call packet by packet, by an algorithm, "auto" or "published".

    Parameters
    ----------
    call : CollectiveCall
    model : NetworkModel
    name : str
        Of the algorithm.
    policy : RouterPolicy, optional
        Of the routers of a torus; by default half rings are gone upwards.
    seed : int
    progress : Progress, optional
    routing : str, optional
        On a network of switches; by default that of the machine's file.

    Raises
    ------
    ConfigError
        If the algorithm does not apply, there is no grid, or there would be too many packets.
    """
    name = resolve_algorithm(call, model, name)
    if name in WIRES:
        make_schedule(call, name)  # raises an error if a precondition is not met
        seconds = closed_form_seconds(call, name, model)
        assert seconds is not None
        return SimulatedCollective(
            name, seconds, note="the closed form: these wires have no packets that wait"
        )
    network = model.network if call.grid is None else call.grid
    if network is None:
        raise ConfigError(
            "packets need a torus, a mesh or a network of switches, with its links",
            mend="give --shape or --ranks on a machine whose file describes one",
        )
    if isinstance(network, Torus) and model.hardware is None:
        what = f"machine '{model.machine.name}' has no packets: its file says no 'network.packet'"
        raise ConfigError(what, mend="see petacomm net predict, or give a file that has them")
    simulator = _make_simulator(call, model, network, policy, routing, seed)
    schedule = make_schedule(call, name)
    hops = _check_hops(call, schedule, network, simulator.hardware.payload)
    listener = progress or SilentProgress()
    listener.begin("packets", None, f"of about {hops:,.0f} hops")
    if schedule.algorithm == "random-order":
        run = simulator.simulate_all_to_all(call.n_bytes)
    else:
        run = simulator.simulate(packet_messages(schedule, call.itemsize, network))
    listener.end(f"{run.hops / max(run.wall_seconds, 1e-9) / 1e6:.3g} Mhops/s")
    return SimulatedCollective(name, run.seconds, run)


def _make_simulator(
    call: CollectiveCall,
    model: NetworkModel,
    network: Network,
    policy: RouterPolicy | None,
    routing: str | None,
    seed: int,
) -> PacketSimulator | SwitchSimulator:
    if isinstance(network, Torus) and routing is None:
        return PacketSimulator(network, model.hardware_for(call), policy or RouterPolicy(tie="plus"), seed)
    return make_simulator(network, model.machine, policy, routing, seed)


def _mean_hops(network: Network) -> float:
    """Return the approximate mean number of hops between two nodes."""
    if isinstance(network, Torus):
        sizes = zip(network.shape, network.wrap, strict=True)
        return sum((size / 4 if ring else size / 3) for size, ring in sizes if size > 1)
    pairs = np.random.default_rng(1).integers(network.n_nodes, size=(2, 1000))
    return float(hops_between(network, *pairs).mean())


def _check_hops(call: CollectiveCall, schedule: Schedule, network: Network, payload: int) -> float:
    """Return the approximate number of hops of all packets; raise a ConfigError if they are too many."""
    mean = _mean_hops(network)
    packets = max(1, math.ceil(call.n_bytes / payload))
    if call.collective == "alltoall":
        hops = call.n_ranks * (call.n_ranks - 1) * packets * mean
    elif schedule.pipelined:
        hops = 2.0 * call.n_ranks * packets
    else:
        hops = float(schedule.n_rounds) * call.n_ranks * min(packets, 4) * mean
    if hops > MAX_HOPS:
        raise ConfigError(
            f"packets would cross about {hops:.2g} links, more than {MAX_HOPS:.0e}",
            mend="give fewer bytes or a smaller shape, or see petacomm net predict",
        )
    too_many = schedule.n_rounds * call.n_ranks > MAX_MESSAGES and schedule.algorithm != "random-order"
    if too_many and not schedule.pipelined:
        raise ConfigError(
            f"'{schedule.algorithm}' has {schedule.n_rounds:,} rounds of {call.n_ranks:,} ranks",
            mend="choose another algorithm or a smaller shape",
        )
    return hops
