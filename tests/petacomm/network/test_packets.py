"""The packet simulator: times computed by hand, conservation, no deadlock, seeds, published plateaus."""

import dataclasses
import signal
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.base.threads import map_threads
from petacomm.network.closed_forms import alltoall_peak_bandwidth
from petacomm.network.hardware import make_hardware
from petacomm.network.link_load import Traffic, link_loads
from petacomm.network.packet_messages import PacketMessages
from petacomm.network.packets import POLICIES, PacketSimulator, RouterPolicy
from petacomm.topology import Torus, bluegene_partition, load_machine, parse_shape

BGL = make_hardware(load_machine("bluegene-l"))
FREE = dataclasses.replace(
    BGL,
    read_cycles=0,
    write_cycles=0,
    packet_cycles=0,
    message_cycles=0,
    all_to_all_cycles=0,
    all_to_all_miss_cycles=0,
)
TICK = 1 / BGL.clock


def granules(n_bytes):
    """Return the granules of each packet of a message, as documented."""
    full, rest = divmod(int(n_bytes), 240)
    return [8] * full + [-(-(rest + 16) // 32)] * (rest > 0 or not full)


@st.composite
def grids(draw):
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    return Torus(shape, draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape))))


def random_messages(grid, seed, n, **flags):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(grid.n_nodes, size=(n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return PacketMessages(pairs[:, 0], pairs[:, 1], rng.integers(0, 1500, len(pairs)), **flags)


def test_the_time_of_one_packet_is_the_sum_of_its_parts():
    grid = Torus((8,), False)
    for n_bytes, destination in ((0, 1), (240, 1), (100, 7)):
        run = PacketSimulator(grid, BGL).simulate(PacketMessages([0], [destination], [n_bytes]))
        (size,) = granules(n_bytes)
        cycles = (
            np.rint(75 * size / 8 + BGL.packet_cycles)
            + destination * np.rint(70e-9 / TICK)
            + np.rint(BGL.wire_time(n_bytes) / TICK)
            + np.rint(204 * size / 8 + BGL.packet_cycles)
        )
        assert run.seconds == pytest.approx(cycles * TICK, abs=2.5 * TICK)
        assert (run.packets, run.hops) == (1, destination)
        assert run.link_bytes.sum() == destination * 32 * size


def test_a_stream_gets_the_bandwidth_of_a_link_and_three_streams_that_of_three():
    grid = Torus((2, 2, 2), False)
    for destinations in ([1], [1, 2, 4]):
        messages = PacketMessages([0] * len(destinations), destinations, [24000] * len(destinations))
        run = PacketSimulator(grid, FREE).simulate(messages)
        assert 24000 / run.seconds == pytest.approx(154e6, rel=0.01)


@settings(deadline=None, max_examples=60)
@given(grids(), st.integers(0, 99), st.sampled_from(sorted(POLICIES)))
def test_packets_take_shortest_routes(grid, seed, policy):
    messages = random_messages(grid, seed, 60)
    run = PacketSimulator(grid, BGL, policy, seed).simulate(messages)
    sizes = [granules(n) for n in messages.n_bytes]
    hops = grid.hops(messages.source, messages.destination)
    assert run.packets == sum(map(len, sizes)) and run.copies == 0
    assert run.hops == run.link_packets.sum() == sum(len(s) * h for s, h in zip(sizes, hops, strict=True))
    assert run.link_bytes.sum() == sum(32 * sum(s) * h for s, h in zip(sizes, hops, strict=True))


@pytest.mark.parametrize(("away", "n_links"), [((3, 3, 0), 48), ((0, 3, 3), 48), ((4, 4, 0), 80)])
def test_light_adaptive_traffic_spreads_over_its_shortest_paths(away, n_links):
    # Two nodes exchange 36 packets. Each packet arrives by one of two links: with the choice of each left to
    # chance, the more loaded of the four has 18 + 1.0 x 3 on average (of four binomials of 36 halves), and
    # 24 is two standard deviations. A Blue Gene/P had 19 to 24; the exact loads are 18.
    grid = Torus((8, 8, 8))
    there = int(grid.node_at(np.array(away)))
    messages = PacketMessages([0, there], [there, 0], [36 * 240] * 2)
    policy = RouterPolicy(tie="plus")
    runs = [PacketSimulator(grid, BGL, policy, seed).simulate(messages) for seed in range(8)]
    busiest = [int(run.link_packets.max()) for run in runs]
    assert min(busiest) >= 18 and max(busiest) <= 24 and np.mean(busiest) < 22
    assert min(np.count_nonzero(run.link_packets) for run in runs) > 0.9 * n_links
    assert len({run.link_packets.tobytes() for run in runs}) == len(runs)  # a seed, its own choices


def test_no_dimension_is_preferred_where_links_are_free():
    # Single packets go to the far corner of a cube, and can leave by three free links.
    grid, n = Torus((2, 2, 2), False), 90
    first = [int(grid.route(0, neighbour)[0]) for neighbour in (1, 2, 4)]
    sums = np.zeros(3)
    for seed in range(n):
        run = PacketSimulator(grid, BGL, seed=seed).simulate(PacketMessages([0], [7], [100]))
        sums += run.link_packets[first]
    assert sums.sum() == n and np.abs(sums - n / 3).max() < 4 * np.sqrt(n * 2 / 9)


@settings(deadline=None, max_examples=40)
@given(grids(), st.integers(0, 99))
def test_packets_in_order_load_the_links_of_the_model(grid, seed):
    messages = random_messages(grid, seed, 50, in_order=True)
    run = PacketSimulator(grid, BGL, RouterPolicy(tie="plus")).simulate(messages)
    wire = [32 * sum(granules(n)) for n in messages.n_bytes]
    loads = link_loads(grid, Traffic(messages.source, messages.destination, wire), tie="plus")
    assert np.array_equal(run.link_bytes, loads.round())


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("in_order", [False, True])
def test_full_rings_and_small_buffers_never_deadlock(policy, in_order):
    # All packets go almost half around all rings at once, with buffers of two packets.
    grid = Torus((6, 5, 4))
    small = dataclasses.replace(
        FREE, dynamic_channels=1, channel=512, injection_fifo=512, reception_fifo=512, injection_fifos=2
    )
    nodes = np.repeat(np.arange(grid.n_nodes), 6)
    away = np.tile([[2, 2, 1], [3, 2, 2], [-2, -2, -1], [0, 2, 2], [2, 0, 2], [2, 2, 0]], (grid.n_nodes, 1))
    there = grid.node_at(grid.coordinates(nodes) + away)
    sizes = np.random.default_rng(3).integers(0, 3000, len(nodes))  # packets of all sizes, mixed
    simulator = PacketSimulator(grid, small, policy)
    run = simulator.simulate(PacketMessages(nodes, there, sizes, in_order=in_order))
    assert run.packets == sum(len(granules(n)) for n in sizes)
    assert run.escapes > 0


def test_lines_around_full_rings_never_deadlock():
    # All nodes send along all links but one of their rings both ways, with buffers of two packets.
    grid = Torus((5, 4))
    small = dataclasses.replace(FREE, dynamic_channels=1, channel=512, injection_fifo=512, reception_fifo=512)
    nodes, heading = np.repeat(np.arange(grid.n_nodes), 4), np.tile(np.arange(4), grid.n_nodes)
    there = [grid.neighbor(n, h // 2, 2 * (h % 2) - 1) for n, h in zip(nodes, heading, strict=True)]
    messages = PacketMessages(nodes, there, np.full(80, 4800), line=True, in_order=True, heading=heading)
    run = PacketSimulator(grid, small).simulate(messages)
    assert run.packets == 80 * 20 and run.copies == 20 * 20 * (2 * 3 + 2 * 2)
    assert set(run.link_packets.tolist()) == {20 * 4, 20 * 3}


@settings(deadline=None, max_examples=30)
@given(grids(), st.integers(1, 700), st.integers(1, 3))
def test_an_all_to_all_sends_each_message_once(grid, n_bytes, packets_per_visit):
    run = PacketSimulator(grid, BGL).simulate_all_to_all(n_bytes, packets_per_visit)
    n = grid.n_nodes
    assert run.packets == n * (n - 1) * len(granules(n_bytes))
    loads = link_loads(grid, 32.0 * sum(granules(n_bytes)))
    assert run.link_bytes.sum() == pytest.approx(loads.sum())


def test_an_uneven_all_to_all_sends_its_matrix_and_an_even_one_is_the_same_traffic():
    grid = Torus((4, 3, 2))
    matrix = np.random.default_rng(5).integers(0, 900, (24, 24)) * (np.eye(24, dtype=int) == 0)
    run = PacketSimulator(grid, BGL).simulate_all_to_all(matrix)
    assert run.packets == sum(len(granules(n)) for n in matrix.ravel() if n)
    even = PacketSimulator(grid, BGL, RouterPolicy(tie="plus"))
    a, b = even.simulate_all_to_all(500), even.simulate_all_to_all(np.full((24, 24), 500))
    assert (a.packets, a.link_bytes.sum()) == (b.packets, b.link_bytes.sum())
    assert a.seconds == pytest.approx(b.seconds, rel=0.1)


def test_a_seed_gives_the_same_run_again_and_another_seed_another():
    grid = Torus((4, 4, 4))
    runs = [PacketSimulator(grid, BGL, seed=seed).simulate_all_to_all(300) for seed in (1, 1, 2)]
    same, again, other = [dataclasses.replace(run, wall_seconds=0.0) for run in runs]
    assert same.seconds == again.seconds and np.array_equal(same.link_bytes, again.link_bytes)
    assert np.array_equal(same.node_seconds, again.node_seconds) and same.events == again.events
    assert not np.array_equal(same.link_bytes, other.link_bytes)


def test_simulations_in_threads_have_the_bits_of_one_after_the_other():
    simulator = PacketSimulator(Torus((4, 4, 2)), BGL, seed=3)
    sizes = [100, 300, 500, 700]
    alone = [simulator.simulate_all_to_all(n) for n in sizes]
    together = map_threads(simulator.simulate_all_to_all, sizes, 4)
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.node_seconds, other.node_seconds)
        assert np.array_equal(one.link_packets, other.link_packets)


def test_a_line_deposits_a_copy_on_every_node_and_costs_each_link_once():
    grid = Torus((8, 4))
    line = PacketSimulator(grid, BGL).simulate(PacketMessages([0], [4 * 3], [1000], line=True, in_order=True))
    assert line.packets == 5 and line.copies == 5 * 2 and line.hops == 5 * 3
    received = line.node_seconds > 0
    assert np.flatnonzero(received).tolist() == [0, 4, 8, 12]
    # Copies do not delay the packets that go on.
    plain = PacketSimulator(grid, BGL).simulate(PacketMessages([0], [4 * 3], [1000], in_order=True))
    assert line.node_seconds[12] == plain.node_seconds[12]


def test_messages_wait_for_their_dependencies_and_pipelines_for_segments_only():
    grid = Torus((8,), False)
    chain = PacketMessages(
        np.arange(7), np.arange(1, 8), np.full(7, 24000), [0, 0, 1, 2, 3, 4, 5, 6], np.arange(6)
    )
    whole = PacketSimulator(grid, FREE).simulate(chain)
    piped = PacketSimulator(grid, FREE).simulate(dataclasses.replace(chain, pipelined=True, segment=480))
    one = 24000 / 154e6
    assert whole.seconds == pytest.approx(7 * one, rel=0.02)
    assert piped.seconds == pytest.approx(one + 6 * 2 * BGL.wire_time(240), rel=0.05)
    assert np.array_equal(whole.link_bytes, piped.link_bytes)
    # A node on a line continues when it has its copy, not when the end of the line has its copy.
    fork = PacketMessages([0, 1], [7, 0], [0, 0], [0, 0, 1], [0], line=[True, False])
    run = PacketSimulator(grid, FREE).simulate(fork)
    assert run.node_seconds[0] < run.node_seconds[7]


def test_combining_costs_the_receiver_the_same_for_packets_of_all_sizes():
    grid = Torus((2,), False)
    slow = dataclasses.replace(FREE, combine_cycles=5000)
    for n_bytes, n_packets in ((2400, 10), (16, 1)):
        plain, combined = (
            PacketSimulator(grid, slow).simulate(PacketMessages([0], [1], [n_bytes], combine=flag))
            for flag in (False, True)
        )
        overlap = (n_packets - 1) * BGL.wire_time(240)
        assert combined.seconds - plain.seconds == pytest.approx(n_packets * 5000 * TICK - overlap, rel=0.02)


def test_processors_read_and_write_in_turn():
    # The middle node of a chain has more to read than it can pass on: it must not read all of it first.
    grid = Torus((3,), False)
    slow = dataclasses.replace(FREE, read_cycles=2000, write_cycles=1000)
    chain = PacketMessages(
        [0, 1], [1, 2], [24000, 24000], [0, 0, 1], [0], combine=True, pipelined=True, segment=240
    )
    run = PacketSimulator(grid, slow).simulate(chain)
    assert run.seconds == pytest.approx(100 * 3000 * TICK, rel=0.05)


def test_a_message_goes_straight_by_its_port_on_longer_routes_too():
    ring = Torus((8, 3))
    for heading, hops in ((0, 3), (1, 5)):
        run = PacketSimulator(ring, BGL).simulate(
            PacketMessages([0], [9], [2400], line=True, in_order=True, heading=heading)
        )
        assert (run.hops, run.copies) == (10 * hops, 10 * (hops - 1))
        assert np.count_nonzero(run.link_packets) == hops


@pytest.mark.parametrize(("shape", "printed"), [("4x4x2", 86), ("8x4x2", 94)])
def test_long_messages_reach_the_published_part_of_the_peak(shape, printed):
    grid = bluegene_partition(load_machine("bluegene-l"), parse_shape(shape)).grid
    n, n_bytes = grid.n_nodes, 15360
    begun = dataclasses.replace(
        BGL, all_to_all_cycles=0, all_to_all_miss_cycles=0
    )  # a slice of longer messages
    run = PacketSimulator(grid, begun).simulate_all_to_all(n_bytes)
    reached = (n - 1) * n_bytes / run.seconds / alltoall_peak_bandwidth(grid, BGL.link_bandwidth)
    assert 100 * reached == pytest.approx(printed, abs=3)


def short_barrier(grid):
    """Return broadcasts of all nodes to their lines, one dimension after the other (section 3.2)."""
    nodes = np.arange(grid.n_nodes)
    rows, after_first, after = [], [0], []
    heard = [[[] for _ in nodes] for _ in range(grid.n_dimensions + 1)]
    for d, size in enumerate(grid.shape):
        for node in nodes:
            for direction, length in ((1, size // 2), (-1, (size - 1) // 2)):
                line = [node]
                for _ in range(length):
                    line.append(int(grid.neighbor(line[-1], d, direction)))
                    heard[d + 1][line[-1]].append(len(rows))
                rows.append((node, line[-1]))
                after += heard[d][node]
                after_first.append(len(after))
    source, destination = np.array(rows).T
    return PacketMessages(
        source, destination, np.zeros(len(rows)), after_first, after, line=True, in_order=True
    )


def test_the_published_barrier_of_512_nodes_comes_out_of_the_cost_of_packets():
    grid = bluegene_partition(load_machine("bluegene-l"), (8, 8, 8)).grid
    run = PacketSimulator(grid, BGL, RouterPolicy(tie="plus")).simulate(short_barrier(grid))
    assert run.packets == 512 * 3 * 2 and run.packets + run.copies == 512 * 3 * 7
    assert 1e6 * run.seconds == pytest.approx(8.72, rel=0.05)  # Table 4


def test_a_packet_in_flight_takes_less_than_200_bytes():
    run = PacketSimulator(Torus((4, 4, 4)), BGL).simulate_all_to_all(2400)
    assert run.memory < 200 * run.most_in_flight


def test_messages_that_leave_the_cache_cost_more():
    slow = dataclasses.replace(FREE, all_to_all_miss_cycles=9000)
    for n_bytes, misses in ((1024, 0), (2048, 1)):  # 16 nodes, sent and received: 32 KB and twice that
        times = [
            PacketSimulator(GRID, hardware).simulate_all_to_all(n_bytes).seconds for hardware in (FREE, slow)
        ]
        assert times[1] > 1.5 * times[0] if misses else times[1] == times[0]
    assert (
        slow.alltoall_message_cycles(8 * slow.cache)
        == 3 * slow.alltoall_message_cycles(2 * slow.cache)
        == 27000
    )


GRID = Torus((4, 4), False)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda s: s.simulate(PacketMessages([0], [16], [1])), "message 0: its destination is not one of 16"),
        (lambda s: s.simulate(PacketMessages([-1], [1], [1])), "message 0: its source is not one of 16"),
        (
            lambda s: s.simulate(PacketMessages([0, 3], [1, 3], [1, 1])),
            "message 1: it goes from a node to itself",
        ),
        (lambda s: s.simulate(PacketMessages([0], [1], [-1])), "its bytes are negative"),
        (lambda s: s.simulate(PacketMessages([0], [5], [1], line=True)), "a line that is not straight"),
        (lambda s: s.simulate(PacketMessages([0], [5], [1], heading=0)), "it does not lie straight ahead"),
        (lambda s: s.simulate(PacketMessages([4], [0], [1], heading=0)), "it does not lie straight ahead"),
        (lambda s: s.simulate(PacketMessages([0], [1], [1], heading=4)), "by a port that is not there"),
        (lambda s: s.simulate(PacketMessages([0], [1, 2], [1])), "2 destinations, 1 sizes, 1 sources"),
        (lambda s: s.simulate(PacketMessages([0], [1], [1], [0, 2], [0])), "'after_first' do not fit"),
        (lambda s: s.simulate(PacketMessages([0], [1], [1], [0, 1], [1])), "after one that is not there"),
        (
            lambda s: s.simulate(PacketMessages([0, 1], [1, 0], [1, 1], [0, 1, 2], [1, 0])),
            "2 messages wait for ever",
        ),
        (lambda s: s.simulate(PacketMessages([0, 2], [1, 3], [1, 1], [0, 0, 1], [0])), "message 1 first"),
        (lambda s: s.simulate_all_to_all(0), "an all-to-all of 0 bytes"),
        (lambda s: s.simulate_all_to_all(np.ones((3, 3))), r"bytes of shape \(3, 3\)"),
        (lambda s: s.simulate_all_to_all(1, 0), "0 packets a visit"),
        (lambda s: PacketSimulator(Torus((129,), False), BGL), "129 nodes in a dimension"),
        (lambda s: PacketSimulator(GRID, BGL, "transit"), "unknown policy 'transit' .*'transit-first'"),
        (lambda s: RouterPolicy(tie="even"), "unknown tie 'even'"),
        (lambda s: PacketSimulator(GRID, BGL, RouterPolicy(injection_room=4)), "leave room for 4 more"),
        (lambda s: dataclasses.replace(BGL, channel=256), "less than two packets"),
        (lambda s: dataclasses.replace(BGL, granule=48), "multiple of granule"),
        (lambda s: dataclasses.replace(BGL, link_bandwidth=170e6), "more than raw_bandwidth allows"),
        (
            lambda s: dataclasses.replace(BGL, hop_latency=float("nan")),
            "'hop_latency' of the hardware is nan",
        ),
        (
            lambda s: make_hardware(load_machine("hopper")),
            r"'hopper' has no 'network.clock' .*write clock = \"700",
        ),
    ],
)
def test_invalid_simulations_are_errors(action, message):
    with pytest.raises(ConfigError, match=message):
        action(PacketSimulator(GRID, BGL))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("clock", "700 kB", "'network.clock' of machine 'bluegene-l': unknown frequency unit"),
        ("packet", 256, "'network.packet' of machine 'bluegene-l' must be a number with a unit"),
        ("read_cycles", "204", "'network.read_cycles' .* must be a number"),
        ("injection_fifos", 2.5, "'network.injection_fifos' .* must be a number"),
    ],
)
def test_a_wrong_number_of_a_machine_is_named(key, value, message):
    machine = load_machine("bluegene-l")
    with pytest.raises(ConfigError, match=message):
        make_hardware(dataclasses.replace(machine, network={**machine.network, key: value}))


def test_every_number_of_the_hardware_has_a_source():
    assert all(source != "not said" for source in BGL.sources.values())
    assert "Almasi" in BGL.sources["read_cycles"] and BGL.sources["hop_latency"].startswith("assumed: ")


def test_a_signal_ends_a_simulation_at_once():
    def ring(*_):
        raise InterruptedError

    simulator = PacketSimulator(Torus((8, 8, 8)), BGL)
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    begin = time.monotonic()
    try:
        with pytest.raises(InterruptedError):
            simulator.simulate_all_to_all(9600)  # of a minute
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - begin < 2
