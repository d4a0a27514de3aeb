"""The checker: every algorithm passes it, on any ranks and grids, and no damage does."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import every_schedule, grids

from petacomm.schedule import (
    ALGORITHMS,
    Blocks,
    Round,
    Schedule,
    ScheduleError,
    in_segments,
    link_uses,
    on_ranks,
)
from petacomm.schedule import (
    checker as check,
)
from petacomm.schedule import (
    reference as replay,
)
from petacomm.schedule.algorithms import (
    bruck,
    hamiltonian,
    pairwise,
    rabenseifner,
    random_order,
    ring,
)
from petacomm.schedule.algorithms import (
    combining_tree as tree,
)
from petacomm.schedule.algorithms import (
    edge_disjoint as streams,
)
from petacomm.schedule.algorithms import (
    rectangle_lines as lines,
)
from petacomm.schedule.contributions import Sums
from petacomm.topology import Torus


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 7, 8, 12, 16, 31])
def test_all_algorithms_on_any_number_of_ranks(n_ranks):
    rng = np.random.default_rng(n_ranks)
    counts = rng.integers(0, 9, (n_ranks, n_ranks)) * rng.integers(0, 2, (n_ranks, n_ranks))
    for n_elements in (0, 1, 3 * n_ranks + 1):
        for matrix in (None, counts):
            for schedule in every_schedule(n_ranks, n_elements, root=n_ranks // 2, counts=matrix):
                check(schedule)
                if schedule.pipelined:
                    check(in_segments(schedule, 2))


# Of all rounds together: an all-to-all of 256 ranks, a ring of 512. Longer ones stand below, one by one.
MOST_ROWS = 1 << 20


@settings(max_examples=10, deadline=None)
@given(grids(4096), st.data())
def test_every_algorithm_on_any_shape(grid, data):
    root = data.draw(st.integers(0, grid.n_nodes - 1))
    n_elements = data.draw(st.integers(0, 100))
    kept = set()
    for schedule in every_schedule(grid.n_nodes, 1 if grid.n_nodes > 64 else n_elements, grid, root):
        if schedule.n_rounds * grid.n_nodes * (8 if schedule.blocks else 1) <= MOST_ROWS:
            check(schedule)
            kept.add((schedule.collective, schedule.algorithm))
    assert len(kept) >= len(ALGORITHMS) - 10 or grid.n_nodes > 1024


@settings(max_examples=25, deadline=None)
@given(grids(4096), st.data())
def test_streams_and_paths_use_each_link_once(grid, data):
    root = data.draw(st.integers(0, grid.n_nodes - 1))
    n_elements = data.draw(st.integers(0, 100))
    made = [
        streams.broadcast(grid, n_elements, root),
        streams.broadcast(grid, n_elements, root, deposit=False),
        streams.reduce(grid, n_elements, root),
        streams.allreduce(grid, n_elements, root),
    ]
    if grid.n_nodes <= 512:
        made += [hamiltonian.reduce(grid, n_elements, root), hamiltonian.allreduce(grid, n_elements)]
    for schedule in made:
        check(schedule)
        assert link_uses(schedule, grid).max(initial=0) <= 1
    for schedule in (lines.allreduce(grid, n_elements), lines.barrier(grid)):
        link_uses(schedule, grid)  # all lines are straight
    check(lines.allreduce(grid, 1, group=3))


@settings(max_examples=15, deadline=None)
@given(grids(128), st.integers(1, 100), st.integers(1, 10), st.randoms(use_true_random=False))
def test_segments_and_other_ranks_change_nothing(grid, n_elements, segment, random):
    ranks = np.array(random.sample(range(grid.n_nodes), grid.n_nodes))
    for schedule in every_schedule(grid.n_nodes, n_elements, grid, root=grid.n_nodes // 2):
        if schedule.pipelined:
            check(in_segments(schedule, segment))
        if schedule.blocks is None:
            moved = on_ranks(schedule, ranks)
            assert moved.root == ranks[schedule.root]
            check(moved)


def test_four_thousand_nodes_on_all_wires():
    grid = Torus((8, 8, 8, 8))
    for schedule in (
        streams.allreduce(grid, 100),
        lines.allreduce(grid, 2),
        hamiltonian.allreduce(Torus((16, 16, 16)), 10),
        tree.allreduce(4096, 10),
        rabenseifner.allreduce(4096, 4096),
        ring.allreduce(1024, 1024),
        pairwise.pairwise(Blocks(1024, 1)),
    ):
        check(schedule)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_numbers_of_sums_are_what_sets_are(n_ranks, random):
    sums, sets = Sums(n_ranks), {rank: [rank] for rank in range(n_ranks)}
    for _ in range(random.randrange(8)):
        pairs = np.array([[random.randrange(len(sets)) for _ in range(6)] for _ in range(2)])
        for a, b, made in zip(*pairs, sums.add(*pairs), strict=True):
            assert sets.setdefault(int(made), sets[a] + sets[b]) in (sets[a] + sets[b], sets[b] + sets[a])
    assert sums.number == len(sets)
    for number, values in sets.items():
        assert sums.complete(np.array([number])) == (sorted(values) == list(range(n_ranks)))


@pytest.mark.parametrize("n_streams", range(1, 7))
def test_a_torus_has_twice_as_many_streams_as_dimensions(n_streams):
    schedule = streams.broadcast(Torus((4, 5, 3)), 60, 7, n_streams)
    uses = link_uses(schedule, Torus((4, 5, 3)))
    assert uses.max() == 1 and uses.sum() == n_streams * 59
    first = next(schedule.rounds())
    assert len(np.unique(first.heading)) == n_streams  # each leaves the root by a port of its own


def test_straight_runs_are_lines():
    mesh, torus = Torus((4, 4, 4), False), Torus((4, 4, 4))
    for grid in (mesh, torus):
        deposited = streams.broadcast(grid, 60, 21)
        passed_on = streams.broadcast(grid, 60, 21, deposit=False)
        np.testing.assert_array_equal(link_uses(deposited, grid), link_uses(passed_on, grid))
        assert deposited.n_rounds == 4 < passed_on.n_rounds


def test_a_hamiltonian_reduce_has_two_streams_where_a_dimension_is_even():
    for shape, n_streams in (((4, 3, 3), 2), ((3, 3, 3), 1), ((3, 5, 2), 2), ((5, 1, 1), 1)):
        schedule = hamiltonian.reduce(Torus(shape, False), 100, 5 if shape[1] > 1 else 2)
        lengths = {int(length) for part in schedule.rounds() for length in part.length}
        assert lengths == {100 // n_streams}
        for part in schedule.rounds():  # nobody adds more than one message of a stream, but at the root
            here = part.destination[part.destination != schedule.root]
            assert len(here) == len(np.unique(here)) or n_streams == 2


@pytest.mark.parametrize("grid", [Torus((4, 3), False), Torus((3, 5, 2)), Torus((7,)), Torus((2, 2, 2, 2))])
def test_a_hamiltonian_allreduce_goes_both_ways_round_a_cycle(grid):
    schedule = hamiltonian.allreduce_both_ways(grid, 100, grid.n_nodes // 2)
    check(schedule)
    check(in_segments(schedule, 7))
    assert all((part.length == 50).all() for part in schedule.rounds())
    # Each half goes there one way and back the other: a link carries as much as along a path.
    assert link_uses(schedule, grid).max() == 2 and schedule.n_rounds == 2 * (grid.n_nodes - 1)


def test_barriers_and_short_reductions_take_the_published_number_of_steps():
    grid = Torus((8, 8, 8))
    assert lines.barrier(grid).n_rounds == 3  # 3 (S + 7 T)
    assert lines.allreduce(grid, 2).n_rounds == 6  # 6 S + 12 T: groups of 4, two groups
    assert [part_received(part) for part in lines.barrier(grid).rounds()] == [7, 7, 7]
    assert [part_received(part) for part in lines.allreduce(grid, 2).rounds()] == [3, 1, 3, 1, 3, 1]


def part_received(part):
    received = np.bincount(part.destination, minlength=512)
    assert (received == received[0]).all()
    return received[0]


def test_the_random_order_never_meets_at_a_rank():
    schedule = random_order.alltoall(Blocks(16, 7), packet=2, packets_per_visit=2, seed=3)
    for part in schedule.rounds():
        assert len(np.unique(part.destination)) == len(part)
    lengths = [set(part.length.tolist()) for part in schedule.rounds() if len(part)]
    assert lengths[0] == {7} and set.union(*lengths[1:]) == {4, 3}
    other = random_order.alltoall(Blocks(16, 7), packet=2, packets_per_visit=2, seed=4)
    pairs = list(zip(schedule.rounds(), other.rounds(), strict=True))
    assert any(not np.array_equal(a.destination, b.destination) for a, b in pairs)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99), st.data())
def test_any_counts_arrive_in_random_order(n_ranks, packet, packets_per_visit, seed, data):
    counts = data.draw(st.lists(st.integers(0, 20), min_size=n_ranks**2, max_size=n_ranks**2))
    blocks = Blocks(n_ranks, counts=np.array(counts).reshape(n_ranks, n_ranks))
    schedule = random_order.alltoall(blocks, packet, packets_per_visit, seed)
    check(schedule)
    for number, part in enumerate(schedule.rounds()):
        assert number == 0 or part.length.max(initial=0) <= packet * packets_per_visit
        assert len(np.unique(part.source)) == len(part)  # one visit a round


def test_exhausted_destinations_leave_the_list():
    counts = np.ones((6, 6), np.int64)
    counts[0, 1] = 10
    schedule = random_order.alltoall(Blocks(6, counts=counts), packet=1, packets_per_visit=1)
    check(schedule)
    assert schedule.n_rounds == 1 + 5 + 9  # its own, one each, and then only the long one


def test_store_and_forward_sends_half_of_all_blocks_a_round():
    schedule = bruck.alltoall(Blocks(8, 5))
    sent = [int((part.length * part.moves).sum()) for part in schedule.rounds()]
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
def test_no_damage_passes(damage):
    n_found = 0
    for schedule in every_schedule(12, 24, Torus((3, 4)), root=5):
        if schedule.collective == "barrier":
            continue  # tokens may come twice
        for number, part in enumerate(schedule.rounds()):
            if not part.moves.any() or number not in (0, 1, schedule.n_rounds - 1):
                continue
            damaged = damage_round(schedule, number, DAMAGES[damage])
            if damaged is None:
                continue
            try:
                check(damaged)
                assert ends_right(damaged)  # such as the same copy from another rank
            except ScheduleError:
                n_found += 1
    assert n_found > 15


def ends_right(schedule):
    """Whether the numbers come out right."""
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
    """Return a schedule with a round of messages that do not go round, damaged."""
    whole = list(schedule.rounds())
    before = whole[number].take(whole[number].moves & (whole[number].line < 0))
    if not len(before):
        return None
    rest = whole[number].take(~(whole[number].moves & (whole[number].line < 0)))
    after = damage(before)
    same = all(np.array_equal(getattr(before, name), getattr(after, name)) for name in vars(before))
    if same or len(rest):
        return None
    whole[number] = after
    return replace(schedule, rounds=lambda: iter(whole))


def test_what_is_not_there_yet_is_not_sent():
    def rounds():
        yield Round.of(1, 2, 0, 4)
        yield Round.of(0, 1, 0, 4)

    with pytest.raises(ScheduleError, match="round 0: rank 1 sends elements that it does not hold yet"):
        check(Schedule("broadcast", "wrong", 3, 4, 2, rounds))


def test_contributions_count_once():
    def rounds():
        yield Round.of([0, 1], [1, 0], 0, 4, reduce=True)
        yield Round.of([0, 1], [1, 0], 0, 4, reduce=True)

    with pytest.raises(ScheduleError, match="round 1: rank 0 counts a contribution twice"):
        check(Schedule("allreduce", "wrong", 2, 4, 2, rounds))


def test_a_window_holds_only_what_does_not_depend():
    check(replace(ring.allreduce(5, 10), window=1))
    with pytest.raises(ScheduleError, match="sends what came less than 2 rounds before"):
        check(replace(ring.allreduce(5, 10), window=2))


def test_a_line_is_straight():
    grid = Torus((4, 4), False)
    with pytest.raises(ScheduleError, match="round 0: rank 5 does not lie straight ahead"):
        link_uses(
            Schedule("broadcast", "bent", 16, 1, 1, lambda: iter([Round.of(0, 5, 0, 1, heading=0)])), grid
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ring.allreduce(2**31, 8), "cannot have 2147483648 ranks"),
        (lambda: ring.allreduce(0, 8), "cannot have 0 ranks"),
        (lambda: streams.broadcast(Torus((4, 4)), 8, 16), "no rank 16"),
        (lambda: streams.broadcast(Torus((4, 4), False), 8, 0, 3), "3 streams .* do not fit"),
        (lambda: hamiltonian.reduce(Torus((4, 4)), 8, -1), "no rank -1"),
        (lambda: hamiltonian.allreduce_both_ways(Torus((3, 3)), 8), "no way through all nodes"),
        (lambda: bruck.alltoall(Blocks(2, counts=np.ones((2, 2), int))), "blocks of one length"),
        (lambda: random_order.alltoall(Blocks(2, 1), packet=0), "sends nothing"),
        (lambda: lines.allreduce(Torus((4, 4)), 1, group=0), "a group of 0 ranks"),
        (lambda: tree.allreduce(3, 1, np.array([1, 0, -1])), "round in a circle"),
        (lambda: tree.allreduce(3, 1, np.array([-1, -1, 0])), "one top"),
        (lambda: in_segments(ring.allreduce(4, 8), 2), "cannot be cut into segments"),
        (lambda: in_segments(tree.allreduce(4, 8), 0), "holds nothing"),
        (lambda: on_ranks(ring.allreduce(4, 8), np.array([0, 1, 1, 2])), "each of 0 to 3 once"),
    ],
)
def test_what_cannot_be_is_said_at_once(make, message):
    with pytest.raises(ScheduleError, match=message):
        make()
