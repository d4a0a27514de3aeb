"""Persistent exchanges against the all-to-all: started many times, split into messages, and dropped."""

import resource

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.mpi import SerialCommunicator
from petacomm.mpi import message_size as messages
from petacomm.mpi.persistent import TRANSPORT_EXCHANGES, AlltoallvBuffers

KINDS = [(1, np.int64), (3, np.float64), (3, np.float32), (5, np.uint8)]


def open_exchange(comm, transport, seed, k=1, dtype=np.int64):
    """An exchange with random counts, many of them 0, and its buffers."""
    rng = np.random.default_rng(seed)
    shape = comm.size, comm.size
    counts = rng.integers(0, 7, shape) * rng.integers(0, 2, shape) * k
    to, from_ranks = counts[comm.rank], counts[:, comm.rank].copy()
    send, receive = np.zeros(to.sum(), dtype), np.zeros(from_ranks.sum(), dtype)
    largest = int(max(counts.sum(axis=0).max(), counts.sum(axis=1).max()))
    buffers = AlltoallvBuffers(send, to, receive, from_ranks, largest)
    return comm.persistent_exchange(transport, buffers), send, to, receive


def exchanges(comm):
    for transport in TRANSPORT_EXCHANGES:
        for seed, (k, dtype) in enumerate(KINDS):
            exchange, send, to, receive = open_exchange(comm, transport, seed, k, dtype)
            for call in range(3):
                send[...] = np.arange(len(send)) + 10 * comm.rank + call
                expected, _ = comm.alltoallv(send, to)
                before = comm.bytes_sent
                exchange.start()
                exchange.wait()
                np.testing.assert_array_equal(receive, expected)
                moved = (len(send) - to[comm.rank]) * send.itemsize
                assert comm.bytes_sent - before == (moved if comm.size > 1 else 0)
            exchange.free()
            exchange.free()
    two_at_a_time(comm)


def two_at_a_time(comm):
    for transport in TRANSPORT_EXCHANGES:
        opened = [open_exchange(comm, transport, seed) for seed in (5, 5)]
        for i, (exchange, send, _, _) in enumerate(opened):
            send[...] = comm.rank + 100 * i
            exchange.start()
        for i, (exchange, _, to, receive) in enumerate(opened):
            exchange.wait()
            expected, _ = comm.alltoallv(np.full(to.sum(), comm.rank + 100 * i), to)
            np.testing.assert_array_equal(receive, expected)


def cut_exchanges(comm):
    messages.MESSAGE_BYTES = 40
    exchanges(comm)


@pytest.mark.parametrize("n_ranks", [2, 5])
def test_exchanges_send_what_an_all_to_all_does(n_ranks):
    run_ranks(exchanges, n_ranks)


def test_exchanges_of_a_single_process():
    exchanges(SerialCommunicator())


def test_large_messages_are_split():
    run_ranks(cut_exchanges, 3)


def many_exchanges(comm):
    for transport in TRANSPORT_EXCHANGES:
        # MPIs have few thousand communicators, and a request takes some hundred bytes.
        for n in (500, 10_000):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for _ in range(n):
                open_exchange(comm, transport, 2)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 2000, f"{grown} kB more after 10000 exchanges of {transport}"


@pytest.mark.long
def test_dropped_exchanges_free_their_memory():
    run_ranks(many_exchanges, 2)


def dropped_in_flight(comm):
    for transport in TRANSPORT_EXCHANGES:
        exchange, _, _, _ = open_exchange(comm, transport, 3)
        exchange.start()
        del exchange
    comm.barrier()


def test_an_exchange_dropped_in_flight_does_not_hang():
    run_ranks(dropped_in_flight, 3)
