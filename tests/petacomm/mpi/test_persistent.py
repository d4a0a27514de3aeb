"""Channels against the all-to-all: started many times, cut into pieces, and dropped."""

import resource

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.mpi import SerialCommunicator
from petacomm.mpi import message_size as messages
from petacomm.mpi.persistent import CHANNELS

KINDS = [(1, np.int64), (3, np.float64), (3, np.float32), (5, np.uint8)]


def open_channel(comm, kind, seed, k=1, dtype=np.int64):
    """A channel with random counts, many of them none, and its buffers."""
    rng = np.random.default_rng(seed)
    shape = comm.size, comm.size
    counts = rng.integers(0, 7, shape) * rng.integers(0, 2, shape) * k
    to, of = counts[comm.rank], counts[:, comm.rank].copy()
    send, receive = np.zeros(to.sum(), dtype), np.zeros(of.sum(), dtype)
    largest = int(max(counts.sum(axis=0).max(), counts.sum(axis=1).max()))
    return comm.channel(kind, send, to, receive, of, largest), send, to, receive


def channels(comm):
    for kind in CHANNELS:
        for seed, (k, dtype) in enumerate(KINDS):
            channel, send, to, receive = open_channel(comm, kind, seed, k, dtype)
            for call in range(3):
                send[...] = np.arange(len(send)) + 10 * comm.rank + call
                expected, _ = comm.alltoallv(send, to)
                before = comm.bytes_sent
                channel.start()
                channel.wait()
                np.testing.assert_array_equal(receive, expected)
                moved = (len(send) - to[comm.rank]) * send.itemsize
                assert comm.bytes_sent - before == (moved if comm.size > 1 else 0)
            channel.free()
            channel.free()
    two_at_a_time(comm)


def two_at_a_time(comm):
    for kind in CHANNELS:
        opened = [open_channel(comm, kind, seed) for seed in (5, 5)]
        for i, (channel, send, _, _) in enumerate(opened):
            send[...] = comm.rank + 100 * i
            channel.start()
        for i, (channel, _, to, receive) in enumerate(opened):
            channel.wait()
            expected, _ = comm.alltoallv(np.full(to.sum(), comm.rank + 100 * i), to)
            np.testing.assert_array_equal(receive, expected)


def cut_channels(comm):
    messages.MESSAGE_BYTES = 40
    channels(comm)


@pytest.mark.parametrize("n_ranks", [2, 5])
def test_channels_carry_what_an_all_to_all_does(n_ranks):
    run_ranks(channels, n_ranks)


def test_channels_of_a_single_process():
    channels(SerialCommunicator())


def test_large_messages_are_cut():
    run_ranks(cut_channels, 3)


def many_channels(comm):
    for kind in CHANNELS:
        # MPIs have few thousand communicators, and a request takes some hundred bytes.
        for n in (500, 10_000):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for _ in range(n):
                open_channel(comm, kind, 2)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 2000, f"{grown} kB more after 10000 channels of {kind}"


def test_dropped_channels_leave_nothing():
    run_ranks(many_channels, 2)


def dropped_in_flight(comm):
    for kind in CHANNELS:
        channel, _, _, _ = open_channel(comm, kind, 3)
        channel.start()
        del channel
    comm.barrier()


def test_a_channel_dropped_in_flight_does_not_hang():
    run_ranks(dropped_in_flight, 3)
