"""Set-up of sharing graphs: kernels against NumPy, owners for thousands of ranks, set-ups on ranks."""

from unittest import mock

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks

from petacomm.base.timers import Timers
from petacomm.mpi import MpiCommunicator, communicator
from petacomm.mpi import message_size as messages
from petacomm.mpi import shared_memory as nodes
from petacomm.mpi.sparse_alltoall import exchange_by_consensus
from petacomm.sharing import SETUPS, _sharing
from petacomm.sharing.index_map import rows_of_keys
from petacomm.sharing.key_chunks import KeyUnion, chunk_keys, key_offsets, unchunk_keys
from petacomm.sharing.owners import choose_owners
from petacomm.sharing.sharing_graph import counting_sort, expand_groups, offsets_from_counts

KEYS = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**62)), unique=True, max_size=200).map(
    lambda keys: np.array(sorted(keys), np.int64)
)
LABELS = st.lists(st.integers(0, 7), max_size=50).map(lambda labels: np.array(labels, np.int32))


@given(KEYS)
def test_chunks_hold_the_keys(keys):
    chunks = chunk_keys(keys)
    numbers, counts = np.unique(keys // 64, return_counts=True)
    np.testing.assert_array_equal(chunks[:, 0], numbers)
    np.testing.assert_array_equal(key_offsets(chunks), offsets_from_counts(counts))
    for number, mask in chunks.tolist():
        bits = sum(1 << int(key % 64) for key in keys[keys // 64 == number])
        assert mask % 2**64 == bits
    np.testing.assert_array_equal(unchunk_keys(chunks), keys)


@given(st.lists(KEYS, max_size=5))
def test_a_union_contains_each_key_once(lists):
    arrived = [chunk_keys(keys) for keys in lists]
    union = KeyUnion.from_chunks(np.concatenate([np.empty((0, 2), np.int64), *arrived]))
    every = np.concatenate([np.empty(0, np.int64), *lists])
    np.testing.assert_array_equal(np.sort(union.keys), np.unique(every))
    np.testing.assert_array_equal(union.keys[union.positions], every)
    np.testing.assert_array_equal(unchunk_keys(union.chunks), union.keys)


def test_a_union_of_many_chunks_far_apart():
    keys = np.sort(np.random.default_rng(1).integers(0, 2**62, 20_000))
    union = KeyUnion.from_chunks(np.concatenate([chunk_keys(keys), chunk_keys(keys[::3].copy())]))
    np.testing.assert_array_equal(union.keys, keys)
    np.testing.assert_array_equal(union.positions[len(keys) :], np.arange(0, len(keys), 3))


@given(LABELS)
def test_counting_order_is_a_stable_sort(labels):
    order, offsets = counting_sort(labels, 8)
    np.testing.assert_array_equal(order, np.argsort(labels, kind="stable"))
    np.testing.assert_array_equal(offsets, offsets_from_counts(np.bincount(labels, minlength=8)))
    groups = np.flatnonzero(np.diff(offsets)).astype(np.int32)[::-1].copy()
    expected = [i for group in groups for i in range(offsets[group], offsets[group + 1])]
    np.testing.assert_array_equal(expand_groups(groups, offsets), expected)


@given(KEYS, KEYS, st.randoms(), st.integers(1, 3))
def test_rows_of_keys_in_any_order(keys, others, random, n_threads):
    queries = np.concatenate([keys, others, [-1, 2**63 - 1]])
    for order in (np.arange(len(queries)), random.sample(range(len(queries)), len(queries))):
        wanted = queries[order]
        expected = [np.flatnonzero(keys == key)[0] if key in keys else -1 for key in wanted]
        np.testing.assert_array_equal(rows_of_keys(keys, wanted, n_threads), expected)


def held_by(pattern):
    """Return keys, offsets and holders of the keys of a pattern."""
    every = np.concatenate(pattern)
    ranks = np.repeat(np.arange(len(pattern), dtype=np.int32), [len(keys) for keys in pattern])
    order = np.argsort(every, kind="stable")
    keys, counts = np.unique(every, return_counts=True)
    return keys, offsets_from_counts(counts), ranks[order]


def first_choice(keys, offsets, holders):
    """Return the first choice of owners, key by key, in Python integers."""
    return [
        holders[begin + (turn_of(key) * int(end - begin) >> 32)]
        for key, begin, end in zip(keys.tolist(), offsets[:-1], offsets[1:], strict=True)
    ]


def turn_of(key):
    """Return the position of a key on the circle of 2^32 positions."""
    word = (key >> 16) + 1
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (word ^ (word >> shift)) * factor % 2**64
    word ^= word >> 31
    return (word + (key >> 8) * 0x9E3779B97F4A7C15 + (key << 56)) % 2**64 >> 32


@settings(max_examples=50)
@given(st.lists(KEYS, min_size=1, max_size=9))
def test_owners_are_holders_chosen_by_the_rule(pattern):
    keys, offsets, holders = held_by(pattern)
    owners, tally = choose_owners(keys, offsets, holders, len(pattern))
    for i, owner in enumerate(owners):
        assert owner in holders[offsets[i] : offsets[i + 1]]
    multiplicity = np.diff(offsets)
    for rank, mine in enumerate(pattern):
        here = np.isin(keys, mine)
        owned, shared = owners == rank, here & (multiplicity > 1)
        assert tally.held[rank] == len(mine) and tally.owned[rank] == owned.sum()
        assert tally.sent[rank] == (shared & ~owned).sum() + (multiplicity[owned] - 1).sum()
    assert tally.n_keys == len(keys)


def test_more_holders_than_weights_fit_into_32_bits():
    n = 2**19
    keys = np.arange(0, 4000, 7)
    offsets = np.arange(len(keys) + 1, dtype=np.int64)[:2] * n
    weights = np.full(n, 2**14, np.int32)
    weights[::3] = 2**12 + 5
    for key in keys[:40]:
        owner = np.empty(1, np.int32)
        _sharing.choose_owners(np.array([key]), offsets, np.arange(n, dtype=np.int32), weights, owner)
        total = int(weights.sum(dtype=np.int64))
        assert total > 2**32
        place = turn_of(int(key)) * total >> 32
        assert owner[0] == np.searchsorted(np.cumsum(weights, dtype=np.int64), place, side="right")


def test_the_first_choice_equals_that_in_python():
    rng = np.random.default_rng(2)
    # Balanced, so that the first choice is final.
    pattern = [np.flatnonzero(rng.random(30_000) < 0.7) + (2**61 - 7) for _ in range(40)]
    keys, offsets, holders = held_by(pattern)
    owners, tally = choose_owners(keys, offsets, holders, len(pattern))
    assert tally.is_balanced(None)
    np.testing.assert_array_equal(owners, first_choice(keys, offsets, holders))


@given(st.lists(KEYS, min_size=1, max_size=9), st.integers(1, 40))
def test_holders_by_node_are_those_of_all_ranks(pattern, far):
    # Consecutive ranks of the pattern are `far` ranks apart in a node with masks of several words.
    n_words = -(-far * len(pattern) // 64)
    union = KeyUnion.from_chunks(np.concatenate([chunk_keys(keys) for keys in pattern]))
    counts = np.zeros(far * len(pattern), np.int64)
    counts[::far] = [len(keys) for keys in pattern]
    masks = np.zeros((len(union.keys), n_words), np.int64)
    _sharing.mark_holders(union.positions, offsets_from_counts(counts), masks)
    # Two such nodes, of which the second comes first.
    n_keys, n_ranks = len(union.keys), len(counts)
    places = np.tile(np.arange(n_keys, dtype=np.int32), 2)
    offsets = np.empty(n_keys + 1, np.int64)
    both = np.concatenate([masks, masks])
    _sharing.count_holders(places, both, offsets)
    holders = np.empty(offsets[-1], np.int32)
    members = np.random.default_rng(far).permutation(2 * n_ranks).astype(np.int32)
    entries, firsts = np.array([0, n_keys, 2 * n_keys]), np.array([0, n_ranks], np.int32)
    _sharing.list_holders(
        places, both, entries, np.array([1, 0], np.int32), firsts, members, offsets, holders
    )
    for i, key in enumerate(union.keys):
        held = np.array([far * r for r, keys in enumerate(pattern) if key in keys])
        expected = members[np.concatenate([n_ranks + held, held])]
        np.testing.assert_array_equal(holders[offsets[i] : offsets[i + 1]], expected)


def rings(n_ranks, n_side, opening, precession, tilt, n_detectors, detector_major):
    """Pixels of a spinning telescope whose axis precesses, nested; a year distributed over ranks."""
    import ducc0

    healpix = ducc0.healpix.Healpix_Base(n_side, "NEST")
    n_spin = int(2 * np.pi * n_side)
    spin = np.linspace(0, 2 * np.pi, n_spin, endpoint=False)
    pattern = []
    for rank in range(n_ranks):
        per_detector = n_ranks // n_detectors
        detectors, part, n_parts = (
            ([rank // per_detector], rank % per_detector, per_detector)
            if detector_major
            else (range(n_detectors), rank, n_ranks)
        )
        n_circles = max(4, 4 * n_side // n_parts)
        time = (part + np.arange(n_circles) / n_circles)[:, None] / n_parts
        sun, phase = 2 * np.pi * time, 2 * np.pi * precession * (time + spin / 2e4)
        axis = np.stack(
            np.broadcast_arrays(
                np.cos(tilt) * np.cos(sun) - np.sin(tilt) * np.cos(phase) * np.sin(sun),
                np.cos(tilt) * np.sin(sun) + np.sin(tilt) * np.cos(phase) * np.cos(sun),
                np.sin(tilt) * np.sin(phase),
            ),
            -1,
        )
        east = np.cross(axis, [0.1, 0.2, 1.0])
        east /= np.linalg.norm(east, axis=-1, keepdims=True)
        ring = np.cos(spin)[:, None] * east + np.sin(spin)[:, None] * np.cross(axis, east)
        hit = np.zeros(12 * n_side**2, np.bool_)
        for detector in detectors:
            beam = opening + 0.02 * detector
            hit[healpix.vec2pix((np.cos(beam) * axis + np.sin(beam) * ring).reshape(-1, 3))] = True
        pattern.append(np.flatnonzero(hit))
    return pattern


def ground(n_ranks, n_side):
    """Bands of right ascension that drift by: consecutive ranks hit almost the same pixels."""
    rng = np.random.default_rng(3)
    width = 4 * n_side
    pattern = []
    for rank in range(n_ranks):
        begin = rank * 4 * width // n_ranks + rng.integers(0, 5)
        columns = (begin + np.arange(width // 3)) % width
        pattern.append(np.unique(columns + width * np.arange(n_side // 2)[:, None]))
    return pattern


def assert_even(pattern, most=1.3):
    keys, offsets, holders = held_by(pattern)
    _, tally = choose_owners(keys, offsets, holders, len(pattern))
    assert tally.sent.max() / tally.sent.mean() < most
    # With fewer keys, a single key exceeds the margin of the bound.
    if tally.held.max() > 2 * (len(holders) / len(keys)) ** 2:
        assert tally.sent.max() <= 2 * tally.held.max()


@pytest.mark.parametrize("detector_major", [False, True])
@pytest.mark.parametrize(
    ("n_ranks", "n_side", "opening", "precession", "tilt", "n_detectors"),
    [(64, 128, 1.48, 2, 0.13, 8), (1024, 64, 1.48, 2, 0.13, 8), (256, 64, 0.87, 2700, 0.78, 4)],
)
def test_owners_are_balanced_for_satellites(
    n_ranks, n_side, opening, precession, tilt, n_detectors, detector_major
):
    # Fewer keys than in real runs, which makes balance harder.
    assert_even(rings(n_ranks, n_side, opening, precession, tilt, n_detectors, detector_major))


def test_owners_are_balanced_for_other_patterns():
    rng = np.random.default_rng(4)
    assert_even(ground(256, 256), 1.1)
    assert_even([np.arange(100_000)] * 64, 1.02)
    assert_even([np.arange(2**20, 2**20 + 20_000)] * 96, 1.05)
    assert_even([np.unique(rng.integers(0, 60_000, 5_000)) for _ in range(512)], 1.1)
    # Ranks with fewer keys own more of them: rows sent are more balanced than keys.
    assert_even([np.arange(rank * 50, 20_000 + rank * 300) for rank in range(100)], 1.2)
    # A column of a map in rows: keys at one stride.
    assert_even([np.arange(9_000) * 10_946 + rank // 2 for rank in range(128)], 1.2)


def test_owners_where_thousands_hold_the_same_keys():
    keys, offsets, holders = held_by([np.arange(3_000)] * 3_000)
    _, tally = choose_owners(keys, offsets, holders, 3_000)
    # Each rank owns at most two keys: no choice is more balanced than one key.
    assert tally.owned.max() <= 3


def check_graph(comm, graph, pattern, overlaps):
    every = np.concatenate(pattern)
    keys = pattern[comm.rank]
    values, counts = np.unique(every, return_counts=True)
    assert graph.n_global == len(values)
    np.testing.assert_array_equal(graph.multiplicity, counts[np.searchsorted(values, keys)])
    for rank in range(comm.size):
        assert np.isin(keys[graph.owner == rank], pattern[rank]).all()
    shared = [
        keys[:0] if rank == comm.rank else np.intersect1d(keys, pattern[rank]) for rank in range(comm.size)
    ]
    if overlaps:
        np.testing.assert_array_equal(graph.overlaps, [len(part) for part in shared])
        np.testing.assert_array_equal(keys[graph.shared_positions], np.concatenate(shared))
    else:
        assert graph.shared_positions is None and graph.overlaps is None


def random_pattern(rng, size):
    kinds = [
        lambda: np.empty(0, np.int64),
        lambda: np.unique(rng.integers(0, 400, 150)),
        lambda: np.arange(rng.integers(0, 300), 500),
        lambda: np.concatenate([np.arange(10), np.array([2**61, 2**62 - 1, 2**62])]),
    ]
    return [kinds[rng.integers(len(kinds))]() for _ in range(size)]


def set_nodes(comm, node_of):
    """Give the communicator nodes of any size, of ranks that are not consecutive."""
    split = comm.mpi_comm.Split(int(node_of[comm.rank]))
    comm.__dict__["_node"] = nodes.Node(MpiCommunicator(split), np.array(node_of, np.int32), "")


NODES = [lambda r: 0 * r, lambda r: r, lambda r: r // 2, lambda r: r % 2, lambda r: np.minimum(r, 1)]


def graphs(comm):
    rng = np.random.default_rng(5)
    for i in range(10):
        set_nodes(comm, NODES[i // 2](np.arange(comm.size)))
        pattern = random_pattern(rng, comm.size)
        comm.sparse_size = 1 if i % 2 else 1000
        overlaps = i % 4 < 2
        owners = []
        for setup in SETUPS.values():
            timers = Timers()
            graph = setup(comm, pattern[comm.rank], overlaps, 50, timers)
            check_graph(comm, graph, pattern, overlaps)
            owners.append(graph.owner)
        for owner in owners:
            np.testing.assert_array_equal(owner, owners[0])


@pytest.mark.parametrize("n_ranks", cases(2, 5, long=(3, 8)))
def test_set_ups_agree_with_numpy(n_ranks):
    run_ranks(graphs, n_ranks)


def sparse(comm):
    rng = np.random.default_rng(6 + comm.rank)
    comm.sparse_size = 1
    for largest in (1 << 30, 56):
        messages.MESSAGE_BYTES = largest
        for i in range(12):
            # No rank, one other, this rank, a few; two exchanges of different types in succession.
            counts = rng.integers(0, 6, comm.size) * (rng.random(comm.size) < i % 4 / 3)
            rows = rng.integers(0, 2**62, (int(counts.sum()), 3))
            for mine in (rows, rows[:, 0].astype(np.int32), rows[:, :0]):
                received, received_counts = comm.sparse_alltoallv(mine, counts)
                expected, expected_counts = comm.alltoallv(mine, counts)
                np.testing.assert_array_equal(received_counts, expected_counts)
                np.testing.assert_array_equal(received, expected)
                assert received.dtype == expected.dtype and received.shape == expected.shape
    assert comm.traffic["consensus"].calls == 48
    tags_alternate(comm)


def tags_alternate(comm):
    """Exchanges that follow each other have different tags, whatever becomes of the traffic."""
    turns = []

    def noted(comm, send, counts, turn):
        turns.append(turn % 2)
        return exchange_by_consensus(comm, send, counts, turn)

    with mock.patch.object(communicator, "exchange_by_consensus", noted):
        for _ in range(3):
            comm.sparse_alltoallv(np.arange(comm.size), np.ones(comm.size, np.int64))
            comm.traffic.clear()
    assert turns[0] == turns[2] != turns[1]


@pytest.mark.parametrize("n_ranks", cases(1, 3, long=(2, 5, 8)))
def test_exchange_by_consensus_is_an_alltoallv(n_ranks):
    if n_ranks > 1:
        run_ranks(sparse, n_ranks)
    else:
        from petacomm.mpi import SerialCommunicator

        rows, counts = np.arange(3), np.array([3])
        assert SerialCommunicator().sparse_alltoallv(rows, counts) == (rows, counts)
