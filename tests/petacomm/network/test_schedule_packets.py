"""All schedules end on the packet simulator, with the number of packets of the schedule."""

import numpy as np
import pytest
from schedules import all_schedules

from petacomm.base.errors import ConfigError
from petacomm.network import PacketSimulator, RouterPolicy, make_hardware
from petacomm.network.schedule_packets import packet_messages
from petacomm.schedule import check_schedule, flat_messages, link_message_counts
from petacomm.schedule.algorithms.edge_disjoint import edge_disjoint_broadcast
from petacomm.topology import Torus, load_machine

HARDWARE = make_hardware(load_machine("bluegene-l"))


def simulated(schedule, grid):
    messages = packet_messages(schedule, 8, grid, segment=480)
    run = PacketSimulator(grid, HARDWARE, RouterPolicy(tie="plus")).simulate(messages)
    flat = flat_messages(schedule, 8)
    assert run.packets == np.maximum(1, -(-flat.bytes // HARDWARE.payload)).sum()
    return run


@pytest.mark.parametrize("grid", [Torus((4, 2, 3), False), Torus((3, 3)), Torus((4, 10))])
def test_all_schedules_end_and_load_their_links(grid):
    for schedule in all_schedules(grid.n_nodes, 90, grid, root=grid.n_nodes // 2):
        run = simulated(schedule, grid)
        assert run.seconds > 0
        if all((part.heading[part.is_message] >= 0).all() for part in schedule.rounds()):
            assert np.array_equal(run.link_packets > 0, link_message_counts(schedule, grid) > 0)


@pytest.mark.parametrize("shape", [(8, 8), (5, 4, 3), (7,), (4, 4, 4)])
def test_lines_of_half_a_ring_use_the_same_links(shape):
    grid = Torus(shape)
    whole, halves = (edge_disjoint_broadcast(grid, 600, 3, half_rings=half) for half in (False, True))
    check_schedule(halves)
    np.testing.assert_array_equal(link_message_counts(whole, grid), link_message_counts(halves, grid))
    simulated(halves, grid)


def test_two_streams_are_quicker_than_one_and_processors_are_the_limit():
    grid = Torus((4, 4, 4), False)
    one, two, three = (simulated(edge_disjoint_broadcast(grid, 6000, 0, n), grid).seconds for n in (1, 2, 3))
    assert one > 1.1 * two > 1.2 * three
    assert 48000 / three < 2 * HARDWARE.link_bandwidth  # of three


def test_there_is_one_rank_per_node():
    with pytest.raises(ConfigError, match="16 ranks on 8 nodes"):
        packet_messages(edge_disjoint_broadcast(Torus((4, 4)), 8), 8, Torus((8,)))
