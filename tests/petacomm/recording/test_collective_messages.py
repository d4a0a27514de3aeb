"""Messages of collectives: what arrives is what the collective brings."""

import numpy as np
import pytest

from petacomm.base.errors import ConfigError
from petacomm.recording.collective_messages import (
    CollectiveKey,
    default_algorithm,
    expand_collective,
    known_algorithms,
)
from petacomm.recording.recording import CALLS, COLLECTIVES, MESSAGES, RankGroup, Recording, summed

SIZES = [1, 2, 3, 4, 5, 7, 8, 12, 16]


def received(messages, n):
    return np.bincount(messages.target, messages.n_bytes * messages.number, n).astype(int)


def sent(messages, n):
    return np.bincount(messages.source, messages.n_bytes * messages.number, n).astype(int)


def expanded(call, n, size=10, root=0, algorithm=None, item=1):
    key = CollectiveKey(call, n, root, size, item)
    return expand_collective(key, algorithm or default_algorithm(key))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("root", [0, 1])
def test_gathers_and_scatters_keep_a_block_on_each_rank(n, root):
    root = min(root, n - 1)
    kept = np.full(n, 10)
    kept[root] = 10 - 10 * n
    down, up = expanded("scatter", n, root=root), expanded("gather", n, root=root)
    assert np.array_equal(received(down, n) - sent(down, n), kept)
    assert np.array_equal(sent(up, n) - received(up, n), kept)
    assert len(down[0]) == n - 1


@pytest.mark.parametrize("n", SIZES)
def test_an_allgather_brings_each_rank_all_other_blocks(n):
    for algorithm in known_algorithms("allgather"):
        if algorithm == "recursive-doubling" and n & (n - 1):
            with pytest.raises(
                ConfigError, match=f"cannot be used by {n} ranks, no power of two.*'bruck' can"
            ):
                expanded("allgather", n, algorithm=algorithm)
            continue
        messages = expanded("allgather", n, algorithm=algorithm)
        assert np.all(received(messages, n) == 10 * (n - 1)) and np.all(sent(messages, n) == 10 * (n - 1))


def test_a_ring_is_a_row_for_each_rank():
    ring = expanded("allgather", 1024, size=100, algorithm="ring")
    assert len(ring.source) == 1024 and np.all(ring.n_bytes == 100) and np.all(ring.number == 1023)


@pytest.mark.parametrize("n", SIZES)
def test_a_reduce_scatter_sends_what_is_not_the_rank_s_own(n):
    messages = expanded("reduce_scatter_block", n, algorithm="pairwise")
    assert np.all(sent(messages, n) == 10 * (n - 1)) and np.all(messages[2] == 10)
    if n & (n - 1) == 0:
        halved = expanded("reduce_scatter_block", n, algorithm="recursive-halving")
        assert np.all(sent(halved, n) == 10 * (n - 1)) and len(halved[0]) == n * (n.bit_length() - 1)


@pytest.mark.parametrize("n", SIZES)
def test_prefix_sums_reach_the_last_rank_from_all(n):
    source, target, n_bytes, _ = expanded("scan", n)
    assert np.all(n_bytes == 10)
    reached = {0}  # from rank 0, forwards in the rounds
    for begin, end in zip(source, target, strict=True):
        if begin in reached:
            reached.add(int(end))
    assert reached == set(range(n))


@pytest.mark.parametrize("n", SIZES)
def test_broadcasts_bring_the_vector_and_barriers_nothing(n):
    messages = expanded("bcast", n, size=1000, root=n - 1)
    assert received(messages, n).tolist() == [1000] * (n - 1) + [0]
    barrier = expanded("barrier", n, size=0)
    assert not barrier[2].any() and len(barrier[0]) == n * (n - 1).bit_length()


@pytest.mark.parametrize(
    ("call", "n", "size", "algorithm"),
    [
        ("allreduce", 8, 8, "recursive-doubling"),
        ("allreduce", 8, 1 << 20, "rabenseifner"),
        ("alltoall", 4, 8, "all-post"),
        ("alltoall", 16, 8, "bruck"),
        ("alltoall", 16, 1 << 20, "pairwise"),
        ("bcast", 8, 12287, "binomial"),
        ("bcast", 8, 12288, "scatter-doubling"),
        ("bcast", 8, 1 << 20, "scatter-allgather"),
        ("bcast", 7, 1 << 20, "binomial"),
        ("allgather", 8, 100, "recursive-doubling"),
        ("allgather", 8, 20000, "recursive-doubling"),
        ("allgather", 6, 100, "bruck"),
        ("allgather", 6, 20000, "ring"),
        ("allgather", 8, 1 << 20, "ring"),
        ("reduce_scatter_block", 8, 100, "recursive-halving"),
        ("reduce_scatter_block", 8, 1 << 20, "pairwise"),
    ],
)
def test_the_size_chooses(call, n, size, algorithm):
    assert default_algorithm(CollectiveKey(call, n, 0, size, 8)) == algorithm


def test_vectors_whose_elements_do_not_divide_them_are_bytes():
    assert received(expanded("allreduce", 2, size=13, item=8), 2).tolist() == [13, 13]


@pytest.mark.parametrize("call", ["bcast", "allreduce", "gather", "allgather", "alltoall", "scan"])
def test_collectives_of_nothing_send_nothing(call):
    assert not len(expanded(call, 5, size=0).source)


def test_unknown_algorithms_are_refused():
    with pytest.raises(ConfigError, match=r"unknown algorithm of gather 'binomal'.*did you mean 'binomial'"):
        expanded("gather", 4, algorithm="binomal")
    with pytest.raises(ConfigError, match="there is no allreduce 'rign'"):
        expanded("allreduce", 4, algorithm="rign")


@pytest.mark.parametrize(
    ("algorithms", "said"),
    [
        ({"alltoal": "pairwise"}, "no algorithms of the call 'alltoal' .*did you mean 'alltoall'"),
        ({"alltoallv": "pairwise"}, "no algorithms of the call 'alltoallv'"),
        ({"allreduce": "rign"}, "unknown algorithm of allreduce 'rign' .*did you mean 'ring'"),
        ({"allreduce": 3}, "3 is no name of an algorithm of allreduce"),
    ],
)
def test_names_are_checked_also_of_calls_that_were_not_recorded(algorithms, said):
    nothing = Recording(2, "", [], np.zeros(0, MESSAGES), np.zeros(0, COLLECTIVES))
    with pytest.raises(ConfigError, match=said):
        nothing.messages(algorithms)


def calls_of(call, n_ranks, sizes):
    """Return a recording of calls of a collective by all ranks, of some sizes."""
    table = np.zeros(len(sizes), COLLECTIVES)
    table["call"], table["size"], table["calls"] = CALLS.index(call), sizes, np.arange(1, len(sizes) + 1)
    table["item"] = 1
    everyone = RankGroup("all", np.arange(n_ranks, dtype=np.int32))
    return Recording(n_ranks, "", [everyone], np.zeros(0, MESSAGES), table)


@pytest.mark.parametrize(
    "call", ["alltoall", "allreduce", "bcast", "gather", "reduce_scatter_block", "barrier"]
)
@pytest.mark.parametrize("n_ranks", [1, 2, 5, 7])
def test_calls_whose_sizes_are_of_one_class_are_in_the_same_rows(call, n_ranks):
    sizes = [0] if call == "barrier" else [1024, 1025, 1500, 2047, 5000]
    together = calls_of(call, n_ranks, sizes)
    alone = [
        Recording(n_ranks, "", together.groups, together.direct, together.collectives[i : i + 1]).messages()
        for i in range(len(sizes))
    ]
    rows = together.messages()
    of_each = summed(np.concatenate(alone))
    assert np.array_equal(summed(rows), of_each)
    assert len(rows) == len(np.unique(rows[["source", "target", "size_class"]])) or call == "allreduce"
    assert np.array_equal(together.messages(), rows)  # what is kept is not changed
