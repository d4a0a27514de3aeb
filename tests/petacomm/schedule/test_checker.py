"""The checker: all algorithms pass on any ranks and grids, and damaged schedules fail."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import all_schedules, grids

from petacomm.schedule import (
    ALGORITHMS,
    AlltoallBlocks,
    Round,
    Schedule,
    ScheduleError,
    check_schedule,
    link_message_counts,
    permute_ranks,
    replay,
    segmented,
)
from petacomm.schedule.algorithms.bruck import bruck_alltoall
from petacomm.schedule.algorithms.combining_tree import tree_allreduce
from petacomm.schedule.algorithms.edge_disjoint import (
    edge_disjoint_allreduce,
    edge_disjoint_broadcast,
    edge_disjoint_reduce,
)
from petacomm.schedule.algorithms.hamiltonian import (
    hamiltonian_allreduce,
    hamiltonian_cycle_allreduce,
    hamiltonian_reduce,
)
from petacomm.schedule.algorithms.pairwise import pairwise_alltoall
from petacomm.schedule.algorithms.rabenseifner import rabenseifner_allreduce
from petacomm.schedule.algorithms.random_order import random_order_alltoall
from petacomm.schedule.algorithms.rectangle_lines import lines_allreduce, lines_barrier
from petacomm.schedule.algorithms.ring import ring_allreduce
from petacomm.schedule.contributions import PartialSums
from petacomm.topology import Torus


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 7, 8, 12, 16, 31])
def test_all_algorithms_on_any_number_of_ranks(n_ranks):
    rng = np.random.default_rng(n_ranks)
    counts = rng.integers(0, 9, (n_ranks, n_ranks)) * rng.integers(0, 2, (n_ranks, n_ranks))
    for n_elements in (0, 1, 3 * n_ranks + 1):
        for matrix in (None, counts):
            for schedule in all_schedules(n_ranks, n_elements, root=n_ranks // 2, counts=matrix):
                check_schedule(schedule)
                if schedule.pipelined:
                    check_schedule(segmented(schedule, 2))


# Limit of messages of all rounds: an all-to-all of 256 ranks, a ring of 512. Longer ones are tested below.
MAX_ROWS = 1 << 20


@settings(max_examples=10, deadline=None)
@given(grids(4096), st.data())
def test_every_algorithm_on_any_shape(grid, data):
    root = data.draw(st.integers(0, grid.n_nodes - 1))
    n_elements = data.draw(st.integers(0, 100))
    kept = set()
    for schedule in all_schedules(grid.n_nodes, 1 if grid.n_nodes > 64 else n_elements, grid, root):
        if schedule.n_rounds * grid.n_nodes * (8 if schedule.blocks else 1) <= MAX_ROWS:
            check_schedule(schedule)
            kept.add((schedule.collective, schedule.algorithm))
    assert len(kept) >= len(ALGORITHMS) - 10 or grid.n_nodes > 1024


@settings(max_examples=25, deadline=None)
@given(grids(4096), st.data())
def test_streams_and_paths_use_each_link_once(grid, data):
    root = data.draw(st.integers(0, grid.n_nodes - 1))
    n_elements = data.draw(st.integers(0, 100))
    made = [
        edge_disjoint_broadcast(grid, n_elements, root),
        edge_disjoint_broadcast(grid, n_elements, root, deposit=False),
        edge_disjoint_reduce(grid, n_elements, root),
        edge_disjoint_allreduce(grid, n_elements, root),
    ]
    if grid.n_nodes <= 512:
        made += [hamiltonian_reduce(grid, n_elements, root), hamiltonian_allreduce(grid, n_elements)]
    for schedule in made:
        check_schedule(schedule)
        assert link_message_counts(schedule, grid).max(initial=0) <= 1
    for schedule in (lines_allreduce(grid, n_elements), lines_barrier(grid)):
        link_message_counts(schedule, grid)  # all lines are straight
    check_schedule(lines_allreduce(grid, 1, group=3))


@settings(max_examples=15, deadline=None)
@given(grids(128), st.integers(1, 100), st.integers(1, 10), st.randoms(use_true_random=False))
def test_segments_and_other_ranks_change_nothing(grid, n_elements, segment, random):
    ranks = np.array(random.sample(range(grid.n_nodes), grid.n_nodes))
    for schedule in all_schedules(grid.n_nodes, n_elements, grid, root=grid.n_nodes // 2):
        if schedule.pipelined:
            check_schedule(segmented(schedule, segment))
        if schedule.blocks is None:
            moved = permute_ranks(schedule, ranks)
            assert moved.root == ranks[schedule.root]
            check_schedule(moved)


@pytest.mark.long
def test_four_thousand_nodes_on_all_wires():
    grid = Torus((8, 8, 8, 8))
    for schedule in (
        edge_disjoint_allreduce(grid, 100),
        lines_allreduce(grid, 2),
        hamiltonian_allreduce(Torus((16, 16, 16)), 10),
        tree_allreduce(4096, 10),
        rabenseifner_allreduce(4096, 4096),
        ring_allreduce(1024, 1024),
        pairwise_alltoall(AlltoallBlocks(1024, 1)),
    ):
        check_schedule(schedule)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_partial_sums_equal_sets_of_ranks(n_ranks, random):
    sums, sets = PartialSums(n_ranks), {rank: [rank] for rank in range(n_ranks)}
    for _ in range(random.randrange(8)):
        pairs = np.array([[random.randrange(len(sets)) for _ in range(6)] for _ in range(2)])
        for a, b, made in zip(*pairs, sums.add(*pairs), strict=True):
            assert sets.setdefault(int(made), sets[a] + sets[b]) in (sets[a] + sets[b], sets[b] + sets[a])
    assert sums.n_sums == len(sets)
    for number, values in sets.items():
        assert sums.are_complete(np.array([number])) == (sorted(values) == list(range(n_ranks)))


@pytest.mark.parametrize("n_streams", range(1, 7))
def test_a_torus_has_twice_as_many_streams_as_dimensions(n_streams):
    schedule = edge_disjoint_broadcast(Torus((4, 5, 3)), 60, 7, n_streams)
    uses = link_message_counts(schedule, Torus((4, 5, 3)))
    assert uses.max() == 1 and uses.sum() == n_streams * 59
    first = next(schedule.rounds())
    assert len(np.unique(first.heading)) == n_streams  # each leaves the root by another port


def test_straight_runs_are_lines():
    mesh, torus = Torus((4, 4, 4), False), Torus((4, 4, 4))
    for grid in (mesh, torus):
        deposited = edge_disjoint_broadcast(grid, 60, 21)
        passed_on = edge_disjoint_broadcast(grid, 60, 21, deposit=False)
        np.testing.assert_array_equal(
            link_message_counts(deposited, grid), link_message_counts(passed_on, grid)
        )
        assert deposited.n_rounds == 4 < passed_on.n_rounds


def test_a_hamiltonian_reduce_has_two_streams_where_a_dimension_is_even():
    for shape, n_streams in (((4, 3, 3), 2), ((3, 3, 3), 1), ((3, 5, 2), 2), ((5, 1, 1), 1)):
        schedule = hamiltonian_reduce(Torus(shape, False), 100, 5 if shape[1] > 1 else 2)
        lengths = {int(length) for part in schedule.rounds() for length in part.length}
        assert lengths == {100 // n_streams}
        for part in schedule.rounds():  # except the root, no rank adds more than one message of a stream
            here = part.destination[part.destination != schedule.root]
            assert len(here) == len(np.unique(here)) or n_streams == 2


@pytest.mark.parametrize("grid", [Torus((4, 3), False), Torus((3, 5, 2)), Torus((7,)), Torus((2, 2, 2, 2))])
def test_a_hamiltonian_allreduce_goes_both_ways_round_a_cycle(grid):
    schedule = hamiltonian_cycle_allreduce(grid, 100, grid.n_nodes // 2)
    check_schedule(schedule)
    check_schedule(segmented(schedule, 7))
    assert all((part.length == 50).all() for part in schedule.rounds())
    # Each half goes around in one direction and back in the other: a link carries as much as along a path.
    assert link_message_counts(schedule, grid).max() == 2 and schedule.n_rounds == 2 * (grid.n_nodes - 1)


def test_barriers_and_short_reductions_take_the_published_number_of_steps():
    grid = Torus((8, 8, 8))
    assert lines_barrier(grid).n_rounds == 3  # 3 (S + 7 T)
    assert lines_allreduce(grid, 2).n_rounds == 6  # 6 S + 12 T: groups of 4, two groups
    assert [part_received(part) for part in lines_barrier(grid).rounds()] == [7, 7, 7]
    assert [part_received(part) for part in lines_allreduce(grid, 2).rounds()] == [3, 1, 3, 1, 3, 1]


def part_received(part):
    received = np.bincount(part.destination, minlength=512)
    assert (received == received[0]).all()
    return received[0]


def test_the_random_order_has_no_two_messages_to_one_rank():
    schedule = random_order_alltoall(AlltoallBlocks(16, 7), packet=2, packets_per_visit=2, seed=3)
    for part in schedule.rounds():
        assert len(np.unique(part.destination)) == len(part)
    lengths = [set(part.length.tolist()) for part in schedule.rounds() if len(part)]
    assert lengths[0] == {7} and set.union(*lengths[1:]) == {4, 3}
    other = random_order_alltoall(AlltoallBlocks(16, 7), packet=2, packets_per_visit=2, seed=4)
    pairs = list(zip(schedule.rounds(), other.rounds(), strict=True))
    assert any(not np.array_equal(a.destination, b.destination) for a, b in pairs)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99), st.data())
def test_any_counts_arrive_in_random_order(n_ranks, packet, packets_per_visit, seed, data):
    counts = data.draw(st.lists(st.integers(0, 20), min_size=n_ranks**2, max_size=n_ranks**2))
    blocks = AlltoallBlocks(n_ranks, counts=np.array(counts).reshape(n_ranks, n_ranks))
    schedule = random_order_alltoall(blocks, packet, packets_per_visit, seed)
    check_schedule(schedule)
    for number, part in enumerate(schedule.rounds()):
        assert number == 0 or part.length.max(initial=0) <= packet * packets_per_visit
        assert len(np.unique(part.source)) == len(part)  # one message per source and round


def test_exhausted_destinations_leave_the_list():
    counts = np.ones((6, 6), np.int64)
    counts[0, 1] = 10
    schedule = random_order_alltoall(AlltoallBlocks(6, counts=counts), packet=1, packets_per_visit=1)
    check_schedule(schedule)
    assert schedule.n_rounds == 1 + 5 + 9  # own block, one of each rank, and then only the long one


def test_store_and_forward_sends_half_of_all_blocks_a_round():
    schedule = bruck_alltoall(AlltoallBlocks(8, 5))
    sent = [int((part.length * part.is_message).sum()) for part in schedule.rounds()]
    assert sent == [0, 8 * 4 * 5, 8 * 4 * 5, 8 * 4 * 5, 0]


DAMAGES = {
    "a row is lost": lambda part: part.take(slice(1, None)),
    "a row is doubled": lambda part: part.take(np.append(np.arange(len(part)), 0)),
    "a row goes elsewhere": lambda part: replace(part, destination=np.roll(part.destination, 1)),
    "too short": lambda part: replace(part, length=part.length - 1),
    "other elements": lambda part: replace(part, begin=part.begin + 1, length=part.length - 1),
    "unknown rank": lambda part: replace(part, source=part.source + 1000),
    "copied, not reduced": lambda part: replace(part, reduce=~part.reduce),
    "outside": lambda part: replace(part, length=part.length + 10**6),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_schedules_fail(damage):
    n_found = 0
    for schedule in all_schedules(12, 24, Torus((3, 4)), root=5):
        if schedule.collective == "barrier":
            continue  # tokens may come twice
        for number, part in enumerate(schedule.rounds()):
            if not part.is_message.any() or number not in (0, 1, schedule.n_rounds - 1):
                continue
            damaged = damage_round(schedule, number, DAMAGES[damage])
            if damaged is None:
                continue
            try:
                check_schedule(damaged)
                assert ends_right(damaged)  # for example the same copy from another rank
            except ScheduleError:
                n_found += 1
    assert n_found > 15


def ends_right(schedule):
    """Return whether the numerical result is correct."""
    work = np.random.default_rng(0).integers(0, 2**62, (schedule.n_ranks, schedule.n_elements))
    before, n = work.copy(), schedule.n_ranks
    replay(schedule, work)
    if schedule.collective == "alltoall":
        count = schedule.blocks.count
        sent = before[:, : n * count].reshape(n, n, count)
        return np.array_equal(work[:, n * count : 2 * n * count].reshape(sent.shape), sent.transpose(1, 0, 2))
    if schedule.collective == "broadcast":
        return (work == before[schedule.root]).all()
    here = [schedule.root] if schedule.collective == "reduce" else slice(None)
    return (work[here] == before.sum(axis=0)).all()


def damage_round(schedule, number, damage):
    """Return a damaged schedule with a round of messages that form no cycle."""
    whole = list(schedule.rounds())
    before = whole[number].take(whole[number].is_message & (whole[number].line < 0))
    if not len(before):
        return None
    rest = whole[number].take(~(whole[number].is_message & (whole[number].line < 0)))
    after = damage(before)
    same = all(np.array_equal(getattr(before, name), getattr(after, name)) for name in vars(before))
    if same or len(rest):
        return None
    whole[number] = after
    return replace(schedule, rounds=lambda: iter(whole))


def test_elements_are_not_sent_before_they_arrive():
    def rounds():
        yield Round.from_columns(1, 2, 0, 4)
        yield Round.from_columns(0, 1, 0, 4)

    with pytest.raises(ScheduleError, match="round 0: rank 1 sends elements that it does not hold yet"):
        check_schedule(Schedule("broadcast", "wrong", 3, 4, 2, rounds))


def test_contributions_count_once():
    def rounds():
        yield Round.from_columns([0, 1], [1, 0], 0, 4, reduce=True)
        yield Round.from_columns([0, 1], [1, 0], 0, 4, reduce=True)

    with pytest.raises(ScheduleError, match="round 1: rank 0 counts a contribution twice"):
        check_schedule(Schedule("allreduce", "wrong", 2, 4, 2, rounds))


def test_concurrent_rounds_are_independent():
    check_schedule(replace(ring_allreduce(5, 10), window=1))
    with pytest.raises(ScheduleError, match="sends what came less than 2 rounds before"):
        check_schedule(replace(ring_allreduce(5, 10), window=2))


def test_a_line_is_straight():
    grid = Torus((4, 4), False)
    with pytest.raises(ScheduleError, match="round 0: rank 5 does not lie straight ahead"):
        link_message_counts(
            Schedule(
                "broadcast", "bent", 16, 1, 1, lambda: iter([Round.from_columns(0, 5, 0, 1, heading=0)])
            ),
            grid,
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ring_allreduce(2**31, 8), "cannot have 2147483648 ranks"),
        (lambda: ring_allreduce(0, 8), "cannot have 0 ranks"),
        (lambda: edge_disjoint_broadcast(Torus((4, 4)), 8, 16), "no rank 16"),
        (lambda: edge_disjoint_broadcast(Torus((4, 4), False), 8, 0, 3), "3 streams .* do not fit"),
        (lambda: hamiltonian_reduce(Torus((4, 4)), 8, -1), "no rank -1"),
        (lambda: hamiltonian_cycle_allreduce(Torus((3, 3)), 8), "no way through all nodes"),
        (lambda: bruck_alltoall(AlltoallBlocks(2, counts=np.ones((2, 2), int))), "blocks of one length"),
        (lambda: random_order_alltoall(AlltoallBlocks(2, 1), packet=0), "sends nothing"),
        (lambda: lines_allreduce(Torus((4, 4)), 1, group=0), "a group of 0 ranks"),
        (lambda: tree_allreduce(3, 1, np.array([1, 0, -1])), "round in a circle"),
        (lambda: tree_allreduce(3, 1, np.array([-1, -1, 0])), "one top"),
        (lambda: segmented(ring_allreduce(4, 8), 2), "cannot be cut into segments"),
        (lambda: segmented(tree_allreduce(4, 8), 0), "holds nothing"),
        (lambda: permute_ranks(ring_allreduce(4, 8), np.array([0, 1, 1, 2])), "each of 0 to 3 once"),
    ],
)
def test_invalid_schedules_are_errors(make, message):
    with pytest.raises(ScheduleError, match=message):
        make()
