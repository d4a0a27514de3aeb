"""Collectives on networks of switches: link loads of their rounds, their packets, and what is refused."""

import dataclasses

import numpy as np
import pytest
from cases import cases
from machine_files import write_machine

from petacomm.base.errors import ConfigError
from petacomm.mapping import Placement
from petacomm.mapping.graph_sources import grid_graph
from petacomm.mapping.packet_time import simulate_placement
from petacomm.network import make_simulator, make_switch_hardware
from petacomm.network.predictions import predict_algorithms
from petacomm.network.query import CollectiveQuery
from petacomm.network.simulations import simulate_collective
from petacomm.topology import Machine, Torus, load_machine, make_network

NETWORK = {
    "kind": "dragonfly",
    "groups": 9,
    "routers": 4,
    "nodes_per_router": 2,
    "routing": "ugal",
    "level_bandwidths": ["10 GB/s", "5 GB/s"],
    "packet": "256 B",
    "payload": "240 B",
    "granule": "32 B",
    "channel": "16384 B",
    "hop_latency": "100 ns",
    "message_time": "500 ns",
}
NUMBERS = {"nodes": 72, "sockets_per_node": 1, "cores_per_socket": 1}
MACHINE = Machine("m", "M", latency=1e-6, bandwidth=1e10, memory_bandwidth=1e11, network=NETWORK, **NUMBERS)


def machine_file(tmp_path, nodes=72, **network):
    table = {key: value for key, value in {**NETWORK, **network}.items() if value is not None}
    path = tmp_path / "m.toml"
    path.write_text(write_machine(dataclasses.replace(MACHINE, nodes=nodes, network=table)))
    return str(path)


def query(path, collective="alltoall", ranks=72, n_bytes=4800):
    return CollectiveQuery(collective, path, ranks=ranks, n_bytes=n_bytes).resolve()


def test_predicted_times_have_the_links_of_switches(tmp_path):
    call, model = query(machine_file(tmp_path, routing="minimal"))
    rows = {row.algorithm: row for row in predict_algorithms(call, model) if not row.unmet}
    # What a message layer would take to send packets without a protocol is not known of these processors.
    assert rows["random-order"].loaded > 0 and rows.pop("random-order").seconds is None
    for row in rows.values():
        assert row.loaded is not None and row.seconds == max(row.closed, row.loaded)
    # Pairs of groups exchange what 8 x 8 pairs of nodes do, by one cable of half the bandwidth; a local link
    # carries what 2 nodes and the 16 in the two groups beyond send each other, and the 2 at each of its ends.
    assert rows["pairwise"].busiest == (2 * 2 * 16 + 4) * 4800
    assert rows["pairwise"].loaded > 64 * 4800 / 5e9 + 71 * 1e-6


def test_the_routing_of_the_file_spreads_what_is_predicted_and_simulated(tmp_path):
    # Ranks of neighbouring groups exchange messages.
    seconds = {}
    for routing in ("minimal", "ugal"):
        _, model = query(machine_file(tmp_path, routing=routing))
        assert model.routing == routing
        graph = grid_graph((9, 8), [True, False], 240_000.0)
        network = make_network(model.machine)
        run = simulate_placement(
            graph, Placement.from_nodes(np.arange(72), network, 1), network, model.machine
        )
        seconds[routing] = run.seconds
    assert seconds["minimal"] > 8 * 240e3 / 5e9 > 1.5 * seconds["ugal"]


@pytest.mark.parametrize("routing", [None, "minimal", "valiant"])
def test_collectives_are_simulated_on_all_nodes_and_on_a_part(tmp_path, routing):
    path = machine_file(tmp_path)
    for ranks in (72, 20):
        call, model = query(path, ranks=ranks, n_bytes=480)
        simulated = simulate_collective(call, model, "pairwise", routing=routing)
        assert simulated.run.packets == ranks * (ranks - 1) * 2
        assert simulated.seconds > (ranks - 1) * 500e-9  # each node begins so many messages
    call, model = query(path, "broadcast", n_bytes=1)
    assert simulate_collective(call, model, "binomial").run.packets == 71


def test_fat_trees_are_simulated(tmp_path):
    tree = {
        "kind": "fat tree",
        "children": [4, 4],
        "parents": [1, 2],
        "level_bandwidths": ["1 GB/s", "2 GB/s"],
    }
    path = machine_file(tmp_path, **tree, routing=None, groups=None, routers=None, nodes_per_router=None)
    call, model = query(path, ranks=16, n_bytes=240_000)
    rows = {row.algorithm: row for row in predict_algorithms(call, model) if not row.unmet}
    simulated = simulate_collective(call, model, "pairwise")
    # 4 x 12 messages leave a switch by two links of 2 GB/s; 15 leave a node by one of 1 GB/s
    assert rows["pairwise"].busiest == 24 * 240_000
    assert 15 * 240e-6 < simulated.seconds < 1.3 * rows["pairwise"].seconds


def test_more_ranks_than_a_machine_has_nodes_are_an_error(tmp_path):
    for path, most in ((machine_file(tmp_path), 72), ("lumi", 2978), ("hopper", 6392)):
        assert query(path, "barrier", most, None)[0].n_ranks == most
        with pytest.raises(ConfigError, match=f"{most + 1:,} ranks, .*has {most:,} nodes .*--ranks {most} "):
            query(path, "barrier", most + 1, None)
    # Of a machine without a network nothing is known but times of messages.
    assert query("one-node", "barrier", 64, None)[0].n_ranks == 64


def test_more_ranks_than_the_file_describes_nodes_have_closed_forms_alone(tmp_path):
    call, model = query(machine_file(tmp_path, nodes=200), ranks=100)
    rows = [row for row in predict_algorithms(call, model) if not row.unmet]
    assert all(row.loaded is None and row.seconds == row.closed for row in rows)
    with pytest.raises(ConfigError, match="packets need a torus, a mesh or a network of switches"):
        simulate_collective(call, model, "pairwise")


@pytest.mark.parametrize("name", cases("lumi", "marenostrum5", long=["frontier"]))
def test_a_message_is_simulated_no_faster_than_the_machine_sends_one(name):
    bandwidth = load_machine(name).bandwidth
    call, model = query(name, "broadcast", 2, 10_000_000)
    simulated = simulate_collective(call, model, "binomial")
    (predicted,) = [row for row in predict_algorithms(call, model) if row.algorithm == "binomial"]
    assert simulated.seconds > 10e6 / bandwidth
    assert simulated.seconds == pytest.approx(predicted.seconds, rel=0.01)
    call, model = query(name, "alltoall", 2, 1_000_000)
    for algorithm in ("pairwise", "random-order"):
        assert simulate_collective(call, model, algorithm).seconds > 1e6 / bandwidth


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"routing": "ugl"}, r"'network.routing' of machine 'm' is 'ugl' \(did you mean 'ugal'"),
        ({"packet": None}, "has no 'network.packet'"),
        ({"channel": "8 s"}, "'network.channel' of machine 'm'"),
        ({"level_bandwidths": ["1 GB/s"] * 3}, "3 bandwidths for 2 levels"),
        ({"groups": 2}, "'ugal' without a third group"),
    ],
)
def test_a_machine_that_cannot_be_simulated_names_what_is_wrong(tmp_path, network, message):
    with pytest.raises(ConfigError, match=message):
        machine = load_machine(machine_file(tmp_path, **network))
        make_simulator(make_network(machine), machine)


def test_policies_are_of_tori_and_routings_of_switches():
    network = make_network(MACHINE)
    with pytest.raises(ConfigError, match="a policy of routers without a torus"):
        make_simulator(network, MACHINE, policy="fair")
    with pytest.raises(ConfigError, match="routing 'ugal' of packets on a torus"):
        make_simulator(Torus((4, 4)), load_machine("bluegene-l"), routing="ugal")
    assert make_simulator(network, MACHINE).routing == "ugal"
    assert make_switch_hardware(MACHINE).bandwidth(1) == 5e9
    with pytest.raises(ConfigError, match="more than 2e"):
        graph = grid_graph((9, 8), [True, False], 1e12)
        simulate_placement(graph, Placement.from_nodes(np.arange(72), network, 1), network, MACHINE)
