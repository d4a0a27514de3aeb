"""Rows between their owners and the ranks that model their streams, against whole arrays."""

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.mpi import SerialCommunicator
from petamap.mapmaking.transfer import RowTransfer, SharedRowTransfer

N_KEYS = 900


def parts(rng, size, n):
    """Return keys for each of `size` ranks, ranges of most of them and single ones of the rest."""
    ends = np.sort(rng.integers(0, n + 1, size - 1))
    of = np.repeat(np.arange(size), np.diff([0, *ends, n]))
    strays = rng.random(n) < rng.choice([0.0, 0.1, 1.0])
    of[strays] = rng.integers(0, size, strays.sum())
    return [3 * np.flatnonzero(of == rank) for rank in range(size)]


def moves_rows_there_and_back(comm):
    for seed in range(8):
        rng = np.random.default_rng([2, seed])
        owned = parts(rng, comm.size, N_KEYS)
        # some rows are modelled by nobody
        is_modelled = rng.random(N_KEYS) < rng.choice([0.5, 1.0])
        modelled = owned if seed % 4 == 0 else parts(rng, comm.size, N_KEYS)
        modelled = [keys[is_modelled[keys // 3]] for keys in modelled]
        whole = rng.standard_normal((N_KEYS, 1, 4))
        whole[::7] = -0.0
        own, there = owned[comm.rank], modelled[comm.rank]
        for once in (True, False):
            transfer = RowTransfer(comm, own, there, once=once)
            if once:  # what its owner models is not sent
                assert transfer._n_keys == len(np.setxor1d(own, there))
            assert np.array_equal(transfer.to_model(whole[own // 3]), whole[there // 3])
            back = transfer.from_model(whole[there // 3])
            expected = np.where(is_modelled[own // 3, None, None], whole[own // 3], 0.0)
            assert np.array_equal(back, expected)
            assert np.array_equal(np.signbit(back), np.signbit(expected))


def sums_what_several_ranks_model(comm):
    rng = np.random.default_rng(3)
    owned = parts(rng, comm.size, N_KEYS)[comm.rank]
    streams = [3 * rng.integers(0, N_KEYS, 200) for _ in range(comm.size)]
    n_streams = np.bincount(np.concatenate(streams) // 3, minlength=N_KEYS)
    modelled = streams[comm.rank]
    shares = 1 / n_streams[modelled // 3]
    transfer = SharedRowTransfer(comm, owned, modelled, shares)
    whole = rng.standard_normal((N_KEYS, 1, 2))
    there = transfer.to_model(whole[owned // 3])
    assert np.array_equal(there, whole[modelled // 3] * shares[:, None, None])
    # each stream returns a value of the row times the number of its streams, of which the mean is left
    back = transfer.from_model(whole[modelled // 3])
    expected = whole * (n_streams > 0)[:, None, None]
    assert np.allclose(back, expected[owned // 3], rtol=1e-12, atol=1e-12)


def test_one_process():
    moves_rows_there_and_back(SerialCommunicator())
    sums_what_several_ranks_model(SerialCommunicator())


@pytest.mark.ranks
@pytest.mark.parametrize("n_ranks", [2, 3, 5])
@pytest.mark.parametrize("function", [moves_rows_there_and_back, sums_what_several_ranks_model])
def test_ranks(function, n_ranks):
    run_ranks(function, n_ranks)


def test_what_stays_is_not_copied():
    transfer = RowTransfer(SerialCommunicator(), np.arange(5), np.arange(5), once=True)
    values = np.ones((5, 1, 1))
    assert transfer.to_model(values) is values and transfer.from_model(values) is values
