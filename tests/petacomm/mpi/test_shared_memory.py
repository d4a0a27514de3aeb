"""Nodes, memory that their ranks share, and the union of their keys."""

import contextlib
import fcntl
import gc
import os
import secrets
import time
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from mpi import launch, run_ranks

from petacomm.base.errors import ConfigError
from petacomm.mpi import SerialCommunicator
from petacomm.mpi.shared_memory import ranks_per_node
from petacomm.reduction.node_union import NodeUnion


def expected_nodes(comm):
    n = ranks_per_node() or comm.size
    return np.arange(comm.size) // n


def nodes(comm):
    node, node_of = comm.node(), comm.node_of
    assert node_of.dtype == np.int32
    np.testing.assert_array_equal(node_of, expected_nodes(comm))
    assert node.allgather(comm.rank) == np.flatnonzero(node_of == node_of[comm.rank]).tolist()
    assert comm.node() is node


def windows(comm):
    node = comm.node()
    window = comm.shared_window(8 * (comm.rank + 1))
    assert not window.bytes.any()
    window.barrier()
    window.local[: 8 * (comm.rank + 1)].view(np.int64)[:] = comm.rank
    window.barrier()
    members = np.flatnonzero(comm.node_of == comm.node_of[comm.rank])
    for rank, begin in zip(members, window.offsets[:-1], strict=True):
        assert (window.bytes[begin:][: 8 * (rank + 1)].view(np.int64) == rank).all()
    counters = comm.shared_window(8)
    for turn in range(200):
        counters.local[:1] = turn % 250
        counters.barrier()
        assert (counters.bytes[counters.offsets[:-1]] == turn % 250).all(), (
            "a rank passed a barrier too early or too late"
        )
        counters.barrier()
    assert node.size == window.size


def mapped():
    return sum("petamap-" in line for line in Path("/proc/self/maps").read_text().splitlines())


def leaks(comm):
    windows = [comm.shared_window(100) for _ in range(3)]
    assert mapped() == (3 if comm.size > 1 else 0)
    # Ranks drop their memory at different times, without waiting.
    if comm.rank == 0:
        del windows[:]
    for _ in range(300):
        comm.shared_window(5000).barrier()
    del windows[:]
    gc.collect()
    assert mapped() == 0
    comm.barrier()
    token = comm._node.token if comm.size > 1 else "none"
    assert not list(Path("/dev/shm").glob(f"petamap-{token}*"))
    comm.barrier()


def no_room(comm):
    with pytest.raises(Exception, match="no room for"):
        comm.shared_window(1 << 50 if comm.rank == comm.size - 1 else 8)


def patterns(size):
    rng = np.random.default_rng(size)
    yield [np.arange(10 * rank, 10 * rank + 25) for rank in range(size)]
    yield [np.flatnonzero(rng.random(2000) < 0.3) for _ in range(size)]
    yield [np.flatnonzero(rng.random(200) < 0.3) if rank % 2 else np.arange(0) for rank in range(size)]
    yield [np.arange(0) for _ in range(size)]
    yield [np.unique(rng.integers(0, 2**62, 50)) for _ in range(size)]
    yield [np.array([7, 2**62 + rank]) for rank in range(size)]


def unions(comm):
    members = np.flatnonzero(comm.node_of == comm.node_of[comm.rank])
    for pattern in patterns(comm.size):
        keys = [keys.astype(np.int64) for keys in pattern]
        for groups in [None, (keys[comm.rank] % 4 - 1).astype(np.int32)]:
            union = NodeUnion(comm, keys[comm.rank], groups)
            kept = keys if groups is None else [k[k % 4 > 0] for k in keys]
            check_union(comm, union, keys, kept, members)
            np.testing.assert_array_equal(union.group, 0 if groups is None else union.key % 4 - 1)


def check_union(comm, union, keys, kept, members):
    found = {}
    rows = iter(union.rows.tolist())
    for key, length, n_holders in zip(union.key, union.length, union.n_holders, strict=True):
        holders = [next(rows) for _ in range(n_holders)]
        for i in range(length):
            assert int(key) + i not in found
            assert union.low <= key + i < union.high
            found[int(key) + i] = [row + i for row in holders]
    every = comm.node().allgather(found)
    merged = {key: rows for part in every for key, rows in part.items()}
    assert sum(map(len, every)) == len(merged)
    expected = {}
    for i, rank in enumerate(members):
        positions = np.searchsorted(keys[rank], kept[rank]) + union.row_offsets[i]
        for key, row in zip(kept[rank].tolist(), positions.tolist(), strict=True):
            expected.setdefault(key, []).append(row)
    assert merged == expected
    pairs = [sum(map(len, part.values())) for part in every]
    largest = max(map(len, merged.values()), default=0)
    assert max(pairs) - min(pairs) <= 2 * largest, "ranks merge equal shares"


def abandoned(comm):
    """Files of jobs that were killed are removed, those of living ones are not; MPICH leaves none."""
    folder, token = Path("/dev/shm"), comm.bcast(secrets.token_hex(8))
    dead, living = (folder / f"petamap-{token}-{name}" for name in ("dead", "living"))
    with contextlib.ExitStack() as stack:
        if comm.rank == 0:
            dead.touch()
            # Locked before it is old: any job that runs beside this one may remove files meanwhile.
            fcntl.flock(stack.enter_context(living.open("w")), fcntl.LOCK_EX)
            for path in (dead, living):
                os.utime(path, (0, 0))
        comm.barrier()
        comm.shared_window(8)
        comm.barrier()
        assert living.exists()
        assert comm.size == 1 or vanishes(dead)
        comm.barrier()  # the lock is held until all ranks have looked
    dead.unlink(missing_ok=True)
    living.unlink(missing_ok=True)
    mapped = [
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/mpich_" in line
    ]
    assert set(mapped) <= {"(deleted)"}


def vanishes(path, seconds=30):
    """Return whether `path` is removed: another job may hold its lock, just about to unlink it."""
    end = time.monotonic() + seconds
    while path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return not path.exists()


def everything(comm):
    for check in (nodes, windows, leaks, abandoned, unions):
        check(comm)
    if comm.size > 1:
        no_room(comm)


@pytest.mark.parametrize(("n_ranks", "per_node"), cases((2, None), (5, 2), long=((3, 1), (8, 3))))
def test_nodes_windows_and_unions(n_ranks, per_node, monkeypatch):
    if per_node:
        monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", str(per_node))
    run_ranks(everything, n_ranks)


def test_one_process_is_a_node():
    everything(SerialCommunicator())


def test_invalid_ranks_per_node():
    assert ranks_per_node({}) is None
    with pytest.raises(ConfigError, match="PETAMAP_RANKS_PER_NODE is '0'"):
        ranks_per_node({"PETAMAP_RANKS_PER_NODE": "0"})
    with pytest.raises(ConfigError, match="PETAMAP_RANKS_PER_NODE is '²'"):
        ranks_per_node({"PETAMAP_RANKS_PER_NODE": "²"})


def killed(comm):
    window = comm.shared_window(8)
    if comm.rank == 1:
        os.kill(os.getpid(), 9)
    window.barrier()


def raising(comm):
    window = comm.shared_window(8)
    if comm.rank == 1:
        time.sleep(0.2)
        raise RuntimeError("one rank fails")
    window.barrier()


@pytest.mark.parametrize("function", [killed, raising])
def test_a_rank_that_ends_at_a_barrier_ends_all(function):
    ended = launch(function, 3)
    assert ended.code != 0
    assert ended.seconds < 30
