"""Parallel transforms against NumPy, and with the bits of one process."""

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks

from petacomm.base.errors import ConfigError
from petacomm.mpi import SerialCommunicator
from petacomm.redistribution import METHODS, DatatypeError, ParallelFFT

CASES = [
    ((8, 6), 1),
    ((5, 7), 1),
    ((1, 4), 1),
    ((6, 4, 5), 1),
    ((6, 4, 5), 2),
    ((2, 9, 8), 2),
    ((3, 4, 2, 6), 2),
]
ALL_METHODS = ["in-window", "exchanged", *METHODS]


def grid(size, n_axes):
    first = max(n for n in range(1, size + 1) if size % n == 0 and n * n <= size)
    return (size,) if n_axes == 1 else (first, size // first)


def made(shape, dtype):
    rng = np.random.default_rng(len(shape))
    whole = rng.standard_normal(shape)
    return (whole if dtype.startswith("f") else whole + 1j * rng.standard_normal(shape)).astype(dtype)


def transforms(comm):
    few = comm.size > 3  # more ranks than cores are slow
    for number, (shape, n_split) in enumerate(CASES[::3] if few else CASES):
        for dtype in ("c16", "f4") if few or number % 2 else ("f8", "c8"):
            whole = made(shape, dtype)
            expected = np.fft.rfftn(whole) if dtype.startswith("f") else np.fft.fftn(whole)
            alone = ParallelFFT(SerialCommunicator(), shape, dtype, (1,) * n_split)
            bits = alone.forward(whole)
            limit = 1e-6 if dtype in ("c8", "f4") else 1e-15
            np.testing.assert_allclose(bits, expected, rtol=0, atol=limit * 8 * np.abs(expected).max())
            back = alone.inverse(bits)
            np.testing.assert_allclose(back, whole, rtol=0, atol=limit * 8)
            for method in ALL_METHODS[number % 2 :: 2]:
                fft = ParallelFFT(comm, shape, dtype, grid(comm.size, n_split), method)
                mine = whole[fft.before.box(comm.rank)].copy()
                for _ in range(2):
                    there = fft.forward(mine)
                    assert there.tobytes() == bits[fft.after.box(comm.rank)].tobytes(), (shape, dtype, method)
                    home = fft.inverse(there)
                    assert home.tobytes() == back[fft.before.box(comm.rank)].tobytes(), (shape, dtype, method)


@pytest.mark.parametrize("n_ranks", cases(1, 3, long=(2, 4, 6)))
def test_transforms_have_the_bits_of_one_process(n_ranks):
    run_ranks(transforms, n_ranks)


def on_nodes(comm):
    fft = ParallelFFT(comm, (12, 10), "c16", checks="first")
    whole = made((12, 10), "c16")
    there = fft.forward(whole[fft.before.box(comm.rank)].copy())
    assert fft.chosen == "exchanged"
    np.testing.assert_allclose(there, np.fft.fft2(whole)[fft.after.box(comm.rank)], rtol=0, atol=1e-12)
    with pytest.raises(DatatypeError, match="do not share a node"):
        ParallelFFT(comm, (12, 10), method="in-window")


def test_transforms_between_nodes(monkeypatch):
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", "1")
    run_ranks(on_nodes, 3)


def refusals(comm):
    last = comm.rank == comm.size - 1
    fft = ParallelFFT(comm, (6, 6))
    good = np.zeros(fft.before.local_shape(comm.rank), complex)
    for bad in (good.real.copy(), good[:1], np.zeros((6, 12), complex)[: len(good), ::2]):
        with pytest.raises(DatatypeError) as caught:
            fft.forward(bad if last else good)
        assert len(set(comm.allgather(str(caught.value)))) == 1
        assert "rank 1" in str(caught.value)
    with pytest.raises(DatatypeError, match="transform on rank 1"):
        fft.inverse(good[:, :1] if last else np.zeros(fft.after.local_shape(comm.rank), complex))
    assert fft.chosen is None
    wrong = [((6,), {}), ((6, 0), {}), ((6, 6), {"dtype": int}), ((6, 6), {"grid": (3,)})]
    wrong += [((6, 6), {"grid": (2, 1)}), ((6, 6), {"method": "quick"}), ((6, 6 + last), {})]
    for shape, words in wrong:
        with pytest.raises(DatatypeError) as caught:
            ParallelFFT(comm, shape, **words)
        assert len(set(comm.allgather(str(caught.value)))) == 1
    wrong_words = [({"checks": "frist"}, "no checks 'frist'"), ({"dtype": "float46"}, "dtype: is no dtype")]
    wrong_words += [({"n_threads": 0}, "n_threads: 0"), ({"grid": 2}, "grid: must be whole numbers, not 2")]
    for given, message in wrong_words:
        with pytest.raises(ConfigError, match=message):
            ParallelFFT(comm, (6, 6), **(given if last else {}))


def test_invalid_arguments_are_errors_on_all_ranks():
    run_ranks(refusals, 2)
