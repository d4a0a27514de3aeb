"""Packets on fat trees and dragonflies: times by hand, routes, no deadlock, published throughput."""

import dataclasses
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.base.threads import map_threads
from petacomm.network import (
    PacketMessages,
    SwitchHardware,
    SwitchSimulator,
    Traffic,
    routed_link_loads,
)
from petacomm.topology import (
    Allocation,
    CliqueHierarchy,
    CliqueLevel,
    DragonflyPlus,
    FatTree,
    HyperX,
    SlimFly,
    Torus,
    dragonfly,
    percs,
)

LINK = 10e9
HARDWARE = SwitchHardware(256, 240, 32, (LINK,), LINK, 24e-9, 16 * 256)
PACKET = 240 / LINK  # seconds for which a full packet holds a link
TIGHT = dataclasses.replace(HARDWARE, channel=256)
KIM = dragonfly(33, 8, 4, arrangement="consecutive")  # of Kim et al. 2008, section 4: 1056 nodes


@st.composite
def networks(draw):
    """Return a network whose shortest routes are those of `hops`."""
    if draw(st.booleans()):
        levels = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3))
        return FatTree(*zip(*levels, strict=True))
    arrangement = draw(st.sampled_from(["round-robin", "consecutive"]))
    groups, routers, nodes = (draw(st.integers(low, 5)) for low in (1, 1, 1))
    return dragonfly(groups, routers, nodes, arrangement=arrangement)


def random_messages(network, seed, n, **flags):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(network.n_nodes, size=(n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return PacketMessages(pairs[:, 0], pairs[:, 1], rng.integers(0, 900, len(pairs)), **flags)


def n_packets(n_bytes):
    return np.maximum(1, -(-np.asarray(n_bytes) // 240))


def to_next_group(network, group, n, seed=3):
    """Return `n` packets from each node to random nodes of the next group."""
    source = np.repeat(np.arange(network.n_nodes), n)
    next_group = (source // group + 1) % (network.n_nodes // group)
    destination = next_group * group + np.random.default_rng(seed).integers(group, size=len(source))
    return PacketMessages(source, destination, np.full(len(source), 240))


@pytest.mark.parametrize(
    ("network", "destination", "n_links"),
    [
        (dragonfly(9, 4, 2), 1, 2),  # of one router
        (dragonfly(9, 4, 2), 2, 3),  # of one group
        (FatTree((4, 4), (1, 4)), 3, 2),
        (FatTree((4, 4), (1, 4)), 15, 4),
    ],
)
def test_the_time_of_a_packet_is_that_of_its_links_and_one_length(network, destination, n_links):
    begin = dataclasses.replace(HARDWARE, message_time=1e-6)
    for n_bytes, part in ((240, 1.0), (0, 1 / 8), (100, 4 / 8)):
        run = SwitchSimulator(network, begin).simulate(PacketMessages([0], [destination], [n_bytes]))
        # every link takes its latency, and the last one also the length of the packet
        assert run.seconds == pytest.approx(1e-6 + n_links * 24e-9 + part * PACKET, rel=1e-3)
        assert run.hops == network.hops(0, destination) and run.packets == 1
        assert run.link_bytes.sum() == run.hops * 256 * part


def test_links_of_each_level_have_their_bandwidth():
    network, messages = dragonfly(3, 2, 1), PacketMessages([0], [3], [240_000])
    slow = dataclasses.replace(HARDWARE, level_bandwidths=(LINK, LINK / 4))
    for hardware, bandwidth in ((HARDWARE, LINK), (slow, LINK / 4)):
        run = SwitchSimulator(network, hardware).simulate(messages)
        assert 240_000 / run.seconds == pytest.approx(bandwidth, rel=0.01)
    fast = dataclasses.replace(slow, node_bandwidth=LINK / 8)
    assert 240_000 / SwitchSimulator(network, fast).simulate(messages).seconds == pytest.approx(
        LINK / 8, rel=0.01
    )


ALL_KINDS = [
    FatTree((4, 4), (1, 4)),
    FatTree((4, 4), (2, 2)),  # nodes have two links
    dragonfly(5, 4, 2),
    HyperX((3, 4), 2),
    SlimFly(5, 2),
    DragonflyPlus(5, 3, 2, 2),
]


@pytest.mark.parametrize("network", ALL_KINDS)
def test_messages_get_no_more_than_their_bandwidth_and_several_share_that_of_the_node(network):
    cards = dataclasses.replace(HARDWARE, message_bandwidth=LINK / 4)
    one = SwitchSimulator(network, cards).simulate(PacketMessages([0], [1], [240_000]))
    assert 240_000 / one.seconds == pytest.approx(LINK / 4, rel=0.02)
    n_links = SwitchSimulator(network, cards)._graph.node_links[1]
    for n, share in ((3, 1 / 4), (4, 1 / 4), (8, n_links / 8)):
        messages = PacketMessages([0] * n, range(1, n + 1), [240_000] * n)
        several = SwitchSimulator(network, cards).simulate(messages)
        assert 240_000 / several.seconds == pytest.approx(min(share, 1 / 4) * LINK, rel=0.05)
    everyone = SwitchSimulator(network, cards).simulate_all_to_all(2400)
    assert everyone.seconds > 2400 / (LINK / 4)


def test_a_message_that_waits_for_another_goes_on_at_its_own_bandwidth():
    cards = dataclasses.replace(HARDWARE, message_bandwidth=LINK / 4)
    chain = PacketMessages([0, 1], [1, 2], [240_000] * 2, [0, 0, 1], [0], pipelined=True, segment=2400)
    run = SwitchSimulator(dragonfly(3, 2, 2), cards).simulate(chain)
    assert 240_000 / run.seconds == pytest.approx(LINK / 4, rel=0.03)
    assert run.packets == 2000


@settings(deadline=None, max_examples=60)
@given(networks(), st.integers(0, 99))
def test_packets_take_shortest_routes(network, seed):
    messages = random_messages(network, seed, 60)
    run = SwitchSimulator(network, HARDWARE, seed=seed).simulate(messages)
    sent = n_packets(messages.n_bytes)
    assert run.packets == sent.sum() and run.copies == 0
    assert run.hops == np.dot(sent, network.hops(messages.source, messages.destination))
    assert run.link_packets.shape == (network.n_links,)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["valiant", "ugal"]), st.integers(0, 99))
def test_detours_are_at_most_twice_as_long_and_pass_three_groups(routing, seed):
    network = dragonfly(6, 3, 2)
    messages = random_messages(network, seed, 80)
    run = SwitchSimulator(network, HARDWARE, routing, seed).simulate(messages)
    sent, hops = n_packets(messages.n_bytes), network.hops(messages.source, messages.destination)
    assert np.dot(sent, hops) <= run.hops <= 5 * sent.sum()
    between = run.link_packets[network.link_levels() == 1].sum()
    far = messages.source // 6 != messages.destination // 6
    assert between == 2 * sent[far].sum() if routing == "valiant" else sent[far].sum() <= between


@pytest.mark.parametrize("routing", ["minimal", "valiant", "ugal"])
@pytest.mark.parametrize(
    "network",
    [
        dragonfly(9, 4, 2),
        dragonfly(5, 4, 2, cables=3),
        percs(3),
        CliqueHierarchy([CliqueLevel(3, True), CliqueLevel(3, False), CliqueLevel(3, False)], 2),
        CliqueHierarchy([CliqueLevel(4, True), CliqueLevel(3, True)], 2),
        HyperX((3, 4), 3, (1, 2)),
        SlimFly(5, 2),
        SlimFly(4, 2),
        DragonflyPlus(5, 3, 2, 2),
        DragonflyPlus(4, 2, 4, 2, cables=3),
    ],
)
def test_buffers_of_one_packet_never_deadlock(network, routing):
    n = network.n_nodes
    nodes = np.repeat(np.arange(n), 12)
    there = (nodes + np.tile([1, 7, n // 2, n - 1, n // 3, 11], 2 * n)) % n
    kept = nodes != there
    messages = PacketMessages(nodes[kept], there[kept], np.full(kept.sum(), 480))
    run = SwitchSimulator(network, TIGHT, routing).simulate(messages)
    assert run.packets == 2 * kept.sum()


@pytest.mark.parametrize("routing", ["valiant", "ugal", "ugal-g", "ugal-l", "ugal-l-vc"])
@pytest.mark.parametrize(
    "network", [dragonfly(5, 4, 2, cables=3), HyperX((3, 4), 3), SlimFly(5, 2), DragonflyPlus(5, 3, 2, 2)]
)
def test_packets_to_anywhere_never_deadlock_either(network, routing):
    # In a Dragonfly+, detours go down and up at their middle while packets of that group go up and down.
    for seed in (1, 2):
        messages = random_messages(network, seed, 2000)
        run = SwitchSimulator(network, TIGHT, routing).simulate(messages)
        assert run.packets == n_packets(messages.n_bytes).sum()


def test_fat_trees_never_deadlock_and_use_one_channel():
    tree = FatTree((3, 3, 3), (1, 2, 2))
    simulator = SwitchSimulator(tree, TIGHT)
    assert simulator.n_channels == 1
    assert simulator.simulate_all_to_all(960).packets == 27 * 26 * 4


def test_channels_are_those_of_kim_et_al():
    for network in (KIM, dragonfly(4, 3, 1, cables=2), percs(3), DragonflyPlus(5, 3, 2, 2)):
        channels = [
            SwitchSimulator(network, HARDWARE, way).n_channels for way in ("minimal", "valiant", "ugal")
        ]
        assert channels == [2, 3, 3]


def test_channels_rise_with_each_link_where_there_are_no_groups():
    for network, hops in ((SlimFly(5), 2), (HyperX((3, 3, 3)), 3), (HyperX((4,)), 1)):
        channels = [SwitchSimulator(network, HARDWARE, way).n_channels for way in ("minimal", "ugal")]
        assert channels == [hops, 2 * hops]


@pytest.mark.parametrize("network", [HyperX((4, 3), 2), SlimFly(5, 2), DragonflyPlus(5, 3, 2, 2)])
def test_packets_take_shortest_routes_between_routers(network):
    messages = random_messages(network, 7, 200)
    run = SwitchSimulator(network, HARDWARE).simulate(messages)
    assert run.hops == np.dot(
        n_packets(messages.n_bytes), network.hops(messages.source, messages.destination)
    )


def test_a_seed_gives_the_same_run_again_in_any_thread_and_another_seed_another():
    simulators = [SwitchSimulator(dragonfly(9, 4, 2), HARDWARE, "ugal", seed) for seed in (1, 1, 2)]
    runs = map_threads(lambda one: one.simulate_all_to_all(700), simulators, 3)
    alone = simulators[0].simulate_all_to_all(700)
    for run in runs[:2]:
        assert np.array_equal(run.node_seconds, alone.node_seconds) and run.events == alone.events
        assert np.array_equal(run.link_packets, alone.link_packets)
    assert not np.array_equal(runs[2].link_packets, alone.link_packets)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3), st.integers(0, 99))
def test_packets_in_order_take_the_routes_of_a_fat_tree(levels, seed):
    tree = FatTree(*zip(*levels, strict=True))
    messages = random_messages(tree, seed, 40, in_order=True)
    run = SwitchSimulator(tree, HARDWARE).simulate(messages)
    loads = routed_link_loads(
        tree, Traffic(messages.source, messages.destination, n_packets(messages.n_bytes))
    )
    assert np.array_equal(run.link_packets, loads)


def test_packets_in_order_take_one_route_and_others_many():
    tree = FatTree((4, 4), (1, 4))
    used = [
        np.count_nonzero(
            SwitchSimulator(tree, HARDWARE)
            .simulate(PacketMessages([0], [15], [24000], in_order=flag))
            .link_bytes
        )
        for flag in (True, False)
    ]
    assert used == [4, 1 + 4 + 4 + 1]


def test_adaptive_routes_of_a_fat_tree_keep_permutations_apart():
    # A transposition: the four nodes of a switch go to one number modulo 4, which d-mod-k
    # sends up by one link.
    tree, nodes = FatTree((4, 4, 4), (1, 4, 4)), np.arange(64)
    there = np.roll(nodes.reshape(16, 4).T.ravel(), 16)
    kept = nodes != there
    run = SwitchSimulator(tree, HARDWARE).simulate(
        PacketMessages(nodes[kept], there[kept], np.full(kept.sum(), 240 * 200))
    )
    assert 200 * PACKET / run.seconds > 0.8


def test_messages_wait_for_their_dependencies_on_switches_too():
    tree = FatTree((4, 4), (1, 4))
    chain = PacketMessages(
        np.arange(7), np.arange(1, 8), np.full(7, 24000), [0, 0, 1, 2, 3, 4, 5, 6], np.arange(6)
    )
    whole = SwitchSimulator(tree, HARDWARE).simulate(chain)
    piped = SwitchSimulator(tree, HARDWARE).simulate(dataclasses.replace(chain, pipelined=True, segment=240))
    assert whole.seconds == pytest.approx(7 * 100 * PACKET, rel=0.05)
    # the last packet follows 99 others and is passed on six times, over 16 links in all
    assert piped.seconds == pytest.approx(106 * PACKET + 16 * 24e-9, rel=1e-3)


def test_nodes_of_an_allocation_send_over_the_links_of_their_network():
    network = dragonfly(9, 4, 2)
    part = Allocation(network, [70, 3, 12])
    run = SwitchSimulator(part, HARDWARE).simulate(PacketMessages([0, 1], [1, 2], [240, 240]))
    used = np.flatnonzero(run.link_packets)
    assert set(used) == set(network.route(70, 3)) | set(network.route(3, 12))
    tree = FatTree((4, 4), (1, 4))
    run = SwitchSimulator(Allocation(tree, [2, 9]), HARDWARE).simulate_all_to_all(240)
    assert run.hops == 2 * 4 and run.link_packets.max() == 1


def test_minimal_routing_to_the_next_group_gets_one_link_of_the_group():
    # Kim et al. 2008: the 32 nodes of a group share one global link, so 1 / (a h) of their bandwidth.
    run = SwitchSimulator(KIM, HARDWARE).simulate(to_next_group(KIM, 32, 50))
    assert 50 * PACKET / run.seconds == pytest.approx(1 / 32, rel=0.03)


def sustained(routing, traffic, offered, channel):
    """Return the part of its bandwidth that the slowest node has once queues are full."""
    time = PACKET / offered if offered < 1 else 0.0
    hardware = dataclasses.replace(HARDWARE, message_time=time, channel=channel * 256)
    simulator = SwitchSimulator(KIM, hardware, routing)
    seconds = [simulator.simulate(traffic(n)).seconds for n in (200, 500)]
    return 300 * PACKET / (seconds[1] - seconds[0])


def to_all_nodes(n):
    source = np.repeat(np.arange(1056), n)
    there = np.random.default_rng(3).integers(1055, size=len(source))
    return PacketMessages(source, there + (there >= source), np.full(len(source), 240))


@pytest.mark.parametrize("channel", [16, 64])
@pytest.mark.parametrize("routing", ["valiant", "ugal", "ugal-g", "ugal-l-vc"])
def test_detours_beat_minimal_routing_to_the_next_group_by_the_published_factor(routing, channel):
    # ... and detours use all links twice, so half of the bandwidth: 16 times as much.
    rate = sustained(routing, partial(to_next_group, KIM, 32), 0.5, channel)
    assert 32 * rate == pytest.approx(16, rel=0.2)


def test_queues_of_links_alone_tell_too_little_where_detours_begin_with_the_link_of_the_shortest_route():
    # Kim et al. 2008, section 4.3: UGAL-L has less than UGAL-G to the next group, and queues of channels mend
    # that; but these alone send three packets of ten less to all nodes, of which the hybrid mends a part.
    rates = {way: sustained(way, partial(to_next_group, KIM, 32), 0.5, 16) for way in ("ugal-l", "ugal-g")}
    assert rates["ugal-l"] < 0.6 * rates["ugal-g"]
    rates = {way: sustained(way, to_all_nodes, 1.0, 16) for way in ("ugal-l-vc", "ugal-g", "ugal")}
    assert rates["ugal-l-vc"] == pytest.approx(0.7 * rates["ugal-g"], rel=0.1)
    assert rates["ugal"] > 1.1 * rates["ugal-l-vc"]


def test_minimal_routing_of_uniform_traffic_is_nearly_free():
    deep = dataclasses.replace(HARDWARE, channel=64 * 256)
    rng = np.random.default_rng(1)
    source = np.tile(np.arange(1056), 400)
    there = np.concatenate([rng.permutation(1056) for _ in range(400)])
    kept = source != there
    run = SwitchSimulator(KIM, deep).simulate(
        PacketMessages(source[kept], there[kept], np.full(kept.sum(), 240))
    )
    assert 400 * PACKET / run.seconds > 0.8  # until the last packet has come
    assert run.hops / run.packets < 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channel": 100}, "less than a packet"),
        ({"granule": 100}, "multiple of granule"),
        ({"packet": 16384, "payload": 16380, "channel": 1 << 20}, "granule of 65 bytes or more"),
        ({"level_bandwidths": ()}, "above 0 for each level"),
        ({"hop_latency": 0.0}, "'hop_latency' of the hardware is 0.0"),
        ({"message_time": -1.0}, "'message_time'"),
        ({"message_bandwidth": 0.0}, "'message_bandwidth' of the hardware is 0.0"),
        ({"level_bandwidths": (1e9, 1e9, 1e9)}, "3 bandwidths for 2 levels"),
    ],
)
def test_hardware_that_does_not_fit_is_an_error(change, message):
    with pytest.raises(ConfigError, match=message):
        SwitchSimulator(dragonfly(3, 2, 2), dataclasses.replace(HARDWARE, **change))


def test_inputs_that_do_not_fit_are_errors():
    simulator = SwitchSimulator(dragonfly(3, 2, 2), HARDWARE)
    with pytest.raises(ConfigError, match="which only a torus has"):
        simulator.simulate(PacketMessages([0], [1], [8], line=True))
    with pytest.raises(ConfigError, match="a port that is not there"):
        simulator.simulate(PacketMessages([0], [1], [8], heading=0))
    with pytest.raises(ConfigError, match="not one of 12 nodes"):
        simulator.simulate(PacketMessages([0], [12], [8]))
    with pytest.raises(ConfigError, match=r"unknown routing 'ugl'.*did you mean 'ugal'"):
        SwitchSimulator(dragonfly(3, 2, 2), HARDWARE, "ugl")
    for network in (dragonfly(2, 2, 2), FatTree((2, 2), (1, 2))):
        with pytest.raises(ConfigError, match="without a third group"):
            SwitchSimulator(network, HARDWARE, "ugal")
    with pytest.raises(ConfigError, match="is no network of switches"):
        SwitchSimulator(Torus((4, 4)), HARDWARE)
