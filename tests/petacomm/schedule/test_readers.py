"""Reference execution, flat messages and timelines of schedules."""

import tracemalloc
from itertools import islice

import numpy as np
import pytest
from schedules import all_schedules

from petacomm.schedule import (
    AlltoallBlocks,
    ScheduleError,
    flat_messages,
    message_displacements,
    permute_ranks,
    replay,
    schedule_timeline,
    segmented,
)
from petacomm.schedule.algorithms.bruck import bruck_alltoall
from petacomm.schedule.algorithms.combining_tree import tree_allreduce, tree_broadcast
from petacomm.schedule.algorithms.edge_disjoint import edge_disjoint_broadcast
from petacomm.schedule.algorithms.hamiltonian import hamiltonian_allreduce
from petacomm.schedule.algorithms.pairwise import all_post_alltoall, pairwise_alltoall
from petacomm.schedule.algorithms.random_order import random_order_alltoall
from petacomm.schedule.algorithms.rectangle_lines import lines_allreduce
from petacomm.schedule.algorithms.recursive_doubling import recursive_doubling_allreduce
from petacomm.schedule.algorithms.ring import ring_allreduce
from petacomm.topology import Torus


@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (2, 3), (4, 2), (3, 3)])
def test_reference_execution_equals_the_collective(shape):
    grid, rng = Torus(shape), np.random.default_rng(0)
    n_ranks, root = grid.n_nodes, grid.n_nodes // 2
    for schedule in all_schedules(n_ranks, 11, grid, root):
        work = rng.integers(-1000, 1000, (n_ranks, schedule.n_elements))
        before = work.copy()
        replay(schedule, work)
        if schedule.collective == "broadcast":
            np.testing.assert_array_equal(work, np.tile(before[root], (n_ranks, 1)))
        elif schedule.collective == "reduce":
            np.testing.assert_array_equal(work[root], before.sum(axis=0))
        elif schedule.collective == "allreduce":
            np.testing.assert_array_equal(work, np.tile(before.sum(axis=0), (n_ranks, 1)))
        elif schedule.collective == "alltoall":
            sent = before[:, : n_ranks * 11].reshape(n_ranks, n_ranks, 11)
            received = work[:, n_ranks * 11 : 2 * n_ranks * 11].reshape(sent.shape)
            np.testing.assert_array_equal(received, sent.transpose(1, 0, 2))


@pytest.mark.parametrize("wrap", [False, True])
def test_replicated_arithmetic_gives_all_ranks_the_same_bits(wrap):
    grid, rng = Torus((5, 9), wrap), np.random.default_rng(1)
    values = rng.standard_normal((45, 8)) * 10.0 ** rng.integers(-9, 9, (45, 8))
    order = rng.permutation(45)
    by_groups = lines_allreduce(grid, 8)
    for schedule in (by_groups, lines_allreduce(grid, 8, None), permute_ranks(by_groups, order)):
        work = values.copy()
        replay(schedule, work)
        assert (work == work[0]).all()
    moved = values.copy()
    replay(permute_ranks(lines_allreduce(grid, 8), order), moved)
    straight = values[order]
    replay(lines_allreduce(grid, 8), straight)
    np.testing.assert_array_equal(moved[0], straight[0])


def play(messages, n_ranks):
    """Send messages as soon as their dependencies have arrived; return the order."""
    done, sent = set(), []
    while len(sent) < len(messages):
        ready = [
            i
            for i in range(len(messages))
            if i not in done
            and done.issuperset(messages.after[messages.after_first[i] : messages.after_first[i + 1]])
        ]
        assert ready, "messages wait for each other"
        sent += ready
        done.update(ready)
    return sent


def test_flat_messages_wait_for_what_their_source_receives():
    for schedule in all_schedules(8, 24, Torus((4, 2)), 3):
        messages = flat_messages(schedule, 8)
        assert len(play(messages, 8)) == len(messages)
        waiting = np.repeat(np.arange(len(messages)), np.diff(messages.after_first))
        reaches = reached(schedule, messages)
        for i, j in zip(waiting, messages.after, strict=True):
            assert messages.source[i] in reaches[j] and messages.round[j] < messages.round[i]
        moved = sum(int(part.length[part.is_message].sum()) for part in schedule.rounds()) * 8
        assert (messages.bytes * messages.copies).sum() == moved


def reached(schedule, messages):
    """Return the ranks that receive each message."""
    table = schedule_timeline(schedule, 8)
    return [
        set(table["destination"][(table["source"] == s) & (table["round"] == r) & table["deposit"]]) | {d}
        if line
        else {d}
        for s, d, r, line in zip(
            messages.source, messages.destination, messages.round, messages.deposit, strict=True
        )
    ]


def waits(messages, i):
    return messages.after[messages.after_first[i] : messages.after_first[i + 1]].tolist()


def test_a_tree_waits_for_all_children_and_a_ring_for_the_message_before():
    messages = flat_messages(tree_allreduce(3, 4), 8)  # 1 and 2 to 0, then 0 to 1 and 2
    assert messages.source.tolist() == [1, 2, 0, 0] and messages.combines.tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert [waits(messages, i) for i in range(4)] == [[], [], [0, 1], [0, 1]]
    messages = flat_messages(ring_allreduce(4, 4), 8)
    for i in range(4, len(messages)):
        (before,) = np.flatnonzero(
            (messages.destination == messages.source[i]) & (messages.round == messages.round[i] - 1)
        )
        assert before in waits(messages, i)
    messages = flat_messages(recursive_doubling_allreduce(8, 4), 8)
    assert np.diff(messages.after_first).tolist() == [0] * 8 + [1] * 8 + [2] * 8


def test_lines_are_one_message():
    messages = flat_messages(edge_disjoint_broadcast(Torus((8, 8, 8)), 6000), 8)
    assert messages.pipelined and messages.deposit[:6].all() and messages.copies[:6].tolist() == [7] * 6
    assert messages.bytes.tolist() == [8000] * len(messages)
    assert (messages.copies.sum()) == 6 * 511
    hops = flat_messages(hamiltonian_allreduce(Torus((4, 4)), 10), 8)
    assert (np.diff(hops.after_first)[1:] >= 1).all()


def test_pairwise_steps_wait_for_each_other_and_posts_do_not():
    steps = flat_messages(pairwise_alltoall(AlltoallBlocks(8, 5)), 8)
    assert np.diff(steps.after_first).tolist() == [0] * 8 + [1] * 48
    assert not len(flat_messages(all_post_alltoall(AlltoallBlocks(8, 5)), 8).after)
    assert not len(flat_messages(random_order_alltoall(AlltoallBlocks(8, 500)), 8).after)
    stored = flat_messages(bruck_alltoall(AlltoallBlocks(8, 5)), 8)
    assert len(stored) == 24 and set(stored.bytes) == {
        4 * 5 * 8
    }  # one message per partner, with half of the blocks
    with pytest.raises(ScheduleError, match="0 bytes"):
        flat_messages(ring_allreduce(2, 2), 0)


def test_segments_are_separate_messages():
    whole, cut = (flat_messages(of, 8) for of in (tree_broadcast(7, 12), segmented(tree_broadcast(7, 12), 4)))
    assert len(cut) == 3 * len(whole) and cut.bytes.sum() == whole.bytes.sum()
    assert np.diff(cut.after_first).max() == 1


def test_timelines_have_a_row_for_each_rank_that_is_reached():
    table = schedule_timeline(edge_disjoint_broadcast(Torus((3, 3), False), 10), 8)
    assert len(table) == 2 * 8 and set(table["bytes"]) == {40}
    assert table["deposit"].sum() == 2 * (2 + 4) and table["round"].max() == 2


def test_messages_leave_by_their_port():
    torus, mesh = Torus((8, 4)), Torus((8, 4), False)
    for grid in (torus, mesh):
        messages = flat_messages(edge_disjoint_broadcast(grid, 80, 9), 8)
        steps = message_displacements(messages, grid)
        assert (np.abs(steps).sum(axis=1) == messages.copies).all()  # a line leaves a copy on each node
        ends = grid.coordinates(messages.source) + steps
        np.testing.assert_array_equal(ends % grid.shape, grid.coordinates(messages.destination))
        way = np.take_along_axis(steps, messages.heading[:, None] // 2, 1)[:, 0]
        np.testing.assert_array_equal(way < 0, messages.heading % 2 == 1)
    free = flat_messages(ring_allreduce(32, 32), 8)
    np.testing.assert_array_equal(
        message_displacements(free, torus), torus.displacement(free.source, free.destination)
    )


def test_sixteen_thousand_ranks_are_not_held_in_memory():
    grid = Torus((32, 32, 16))
    tracemalloc.start()
    for schedule in (
        edge_disjoint_broadcast(grid, 10**6),
        ring_allreduce(grid.n_nodes, 10**6),
        random_order_alltoall(AlltoallBlocks(grid.n_nodes, 128)),
        pairwise_alltoall(AlltoallBlocks(grid.n_nodes, 128)),
    ):
        tracemalloc.reset_peak()
        assert any(part.is_message.any() for part in islice(schedule.rounds(), 10))
        assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
