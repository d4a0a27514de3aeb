"""Predictions and simulations on all machines of the package, and what is said where there are no packets."""

import dataclasses

import numpy as np
import pytest
from machine_files import write_machine

from petacomm.base.errors import ConfigError
from petacomm.network import make_hardware, make_switch_hardware
from petacomm.network.predictions import predict_algorithms
from petacomm.network.query import CollectiveQuery
from petacomm.network.routing import link_capacities, n_levels
from petacomm.network.simulations import simulate_collective
from petacomm.topology import Torus, describes_switches, load_machine, machine_names, make_network

TORI = [name for name in machine_names() if load_machine(name).network["kind"] == "torus"]
SWITCHED = [name for name in machine_names() if describes_switches(load_machine(name))]
SHAPES = {
    "bluegene-l": "4x2x2",
    "bluegene-p": "4x2x2",
    "bluegene-q": "2x2x2x1x2",
    "fugaku": "2x2x1x2x1x2",
    "tpu-v4": "4x4x4",
    "tpu-v5e": "4x4",
}


def query(name, collective="allreduce", n_bytes=4800):
    given = {"shape": SHAPES.get(name, "2x2x4")} if name in TORI else {"ranks": 16}
    return CollectiveQuery(collective, name, n_bytes=n_bytes, **given).resolve()


@pytest.mark.parametrize("name", machine_names())
def test_collectives_are_predicted_on_each_machine(name):
    call, model = query(name)
    rows = [row for row in predict_algorithms(call, model) if row.seconds is not None]
    assert sum(row.chosen for row in rows) == 1
    has_links = name in TORI or name in SWITCHED
    for row in rows:
        # No message-passing algorithm is faster than one latency, nor than the links that it loads.
        assert row.seconds >= (row.loaded or 0.0) and (row.loaded is not None) == (
            has_links and row.algorithm not in ("tree", "interrupt")
        )
        assert row.seconds >= load_machine(name).latency or name.startswith("bluegene")


@pytest.mark.parametrize("name", machine_names())
def test_collectives_are_simulated_or_it_is_said_why_not(name):
    call, model = query(name, "alltoall", 480)
    has_packets = "packet" in load_machine(name).network
    if has_packets:
        simulated = simulate_collective(call, model, "pairwise", routing=None if name in TORI else "minimal")
        least = 15 * 480 / (load_machine(name).node_bandwidth if name in SWITCHED else 1e12)
        assert simulated.run.packets >= 16 * 15 and simulated.seconds > least
        return
    with pytest.raises(ConfigError, match=r"no packets|no 'network\.packet'|packets need"):
        simulate_collective(call, model, "pairwise")


@pytest.mark.parametrize("name", sorted({*TORI, *SWITCHED}))
def test_networks_have_room_for_their_machines_and_bandwidths_for_their_links(name):
    machine = load_machine(name)
    assert all(
        key in machine.network_sources for key in ("shape", "groups", "children") if key in machine.network
    )
    if name in TORI and "shape" not in machine.network:
        return
    network = make_network(machine)
    if name == "percs":
        return  # the file describes a part
    assert machine.nodes <= network.n_nodes < 1.05 * machine.nodes
    if name in SWITCHED:
        hardware = make_switch_hardware(machine)
        assert len(hardware.level_bandwidths) == n_levels(network)
        assert set(link_capacities(machine, network)) == set(hardware.level_bandwidths)


@pytest.mark.parametrize("name", machine_names())
def test_each_number_has_its_source_or_says_that_it_is_assumed(name):
    machine = load_machine(name)
    assert set(machine.network) - {"kind", "interconnect"} == set(machine.network_sources)
    # A source is more than the name of one: a text, a page, or "assumed" and why.
    for source in (*machine.sources.values(), *machine.network_sources.values()):
        assert len(source) > 12 and " " in source


@pytest.mark.parametrize("name", ["bluegene-p", "bluegene-q"])
def test_a_stream_on_blue_gene_gets_the_payload_of_a_link(name):
    hardware = make_hardware(load_machine(name))
    full = hardware.wire_time(hardware.payload)
    assert hardware.payload / full == pytest.approx(hardware.link_bandwidth, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "shape", "wrap"),
    [
        ("tpu-v4", "4x4x4", True),
        ("tpu-v4", "8x4x12", True),
        ("tpu-v4", "2x2x4", False),
        ("tpu-v5e", "16x16", True),
        ("tpu-v5e", "8x16", False),
        ("bluegene-q", "4x4x4x4x2", True),
        ("bluegene-p", "8x8x4", False),
        ("xt3", "4x4x4", False),
        ("xt3", "8x8x16", (False, False, True)),
        ("xt3", "11x12x16", True),
        ("fugaku", "24x23x24x2x3x2", (True, True, True, False, True, False)),
        ("fugaku", "4x4x2", True),
    ],
)
def test_rings_are_those_of_the_file_for_collectives_and_for_jobs(name, shape, wrap):
    call, _ = CollectiveQuery("barrier", name, shape=shape).resolve()
    assert call.grid == Torus(call.grid.shape, wrap)
    machine = load_machine(name)
    assert make_network(machine, shape=list(call.grid.shape)) == call.grid
    assert make_network(machine, shape=list(call.grid.shape), wrap=True) == Torus(call.grid.shape)


@pytest.mark.parametrize(
    ("kind", "wrap", "rings"),
    [
        ("torus", [True, False], (True, False)),
        ("torus", False, False),
        ("mesh", True, True),
        ("mesh", None, False),
        ("torus", [True], True),  # says nothing of two dimensions
    ],
)
def test_a_file_says_which_dimensions_are_rings(tmp_path, kind, wrap, rings):
    machine = load_machine("tpu-v4")
    entries = {"kind": kind, "link_bandwidth": "1 GB/s"} | ({} if wrap is None else {"wrap": wrap})
    path = tmp_path / "m.toml"
    path.write_text(write_machine(dataclasses.replace(machine, network=entries)))
    call, _ = CollectiveQuery("barrier", str(path), shape="4x3").resolve()
    assert call.grid == make_network(load_machine(str(path)), shape=[4, 3]) == Torus((4, 3), rings)


@pytest.mark.parametrize(
    ("name", "wrap", "message"),
    [
        ("tpu-v4", None, "a partition of 2 dimensions .*tpu-v4 has 3"),
        ("xt3", None, "a partition of 2 dimensions .*xt3 has 3"),
        ("franklin", "hole", r"'network.wrap' of machine 'franklin' is 'hole' .*\"whole\""),
        ("franklin", "whole", "a partition of 2 dimensions .*franklin has unknown ones"),
    ],
)
def test_shapes_and_rings_that_do_not_fit_the_file_are_errors(name, wrap, message):
    machine = load_machine(name)
    if wrap is not None:
        machine = dataclasses.replace(machine, network={**machine.network, "wrap": wrap})
    with pytest.raises(ConfigError, match=message):
        make_network(machine, shape=[4, 4])


def test_a_node_of_fugaku_has_ten_links():
    network = make_network(load_machine("fugaku"))
    source, target = network.link_ends()
    # Each cable is a link each way; no two cables join the same nodes.
    assert set(np.bincount(source)) == set(np.bincount(target)) == {10}
    assert len(np.unique(source * network.n_nodes + target)) == network.n_links
