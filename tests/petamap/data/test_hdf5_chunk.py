"""Chunks made beside HDF5, against those that HDF5 makes."""

import h5py
import numpy as np
import pytest

from petamap.data.formats.hdf5_chunk import encode_chunk


def stored(values, n_values, compressed):
    """Return the chunk as HDF5 itself stores it."""
    with h5py.File("chunk", "w", driver="core", backing_store=False) as file:
        data = file.create_dataset(
            "a", len(values), values.dtype, chunks=(n_values,), maxshape=(max(len(values), n_values),),
            fletcher32=True, compression="gzip" if compressed else None,
        )  # fmt: skip
        data[...] = values
        file.flush()
        return data.id.read_direct_chunk((0,))[1]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1"])
@pytest.mark.parametrize(("n", "n_values"), [(1, 1), (3, 3), (511, 1025), (1 << 16, 1 << 16), (70001, 70001)])
def test_chunks_are_those_of_hdf5(n, n_values, dtype, compressed):
    rng = np.random.default_rng(n)
    # Sums of all zeros are 0; others that are multiples of 65535 are not.
    for values in (rng.integers(0, 255, n), np.zeros(n), np.full(n, 255), np.ones(n)):
        values = values.astype(dtype)
        assert encode_chunk(values, n_values, compressed).tobytes() == stored(values, n_values, compressed)
