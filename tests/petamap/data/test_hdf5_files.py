"""HDF5 files that are open at once: few, whatever is read in whatever order by however many threads."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
from made_observations import observation, signal_of

from petamap.data.formats import hdf5
from petamap.data.formats.hdf5 import Hdf5Reader
from petamap.data.formats.volume import VolumeOptions, VolumeSource
from petamap.data.formats.volume_write import write_volume
from petamap.data.source import SourceContext

N_FILES, MOST = 12, 3


@pytest.fixture
def few(monkeypatch):
    """Allow few open files, and return the numbers that were open as each was opened."""
    monkeypatch.setattr(hdf5, "_in_use", hdf5._FilesInUse(MOST))
    gc.collect()
    numbers, opened, lock, files = [], h5py.File, threading.Lock(), []

    def file(*arguments, **options):
        made = opened(*arguments, **options)
        with lock:
            files.append(made)
            numbers.append(sum(bool(one) for one in files))
        return made

    monkeypatch.setattr(h5py, "File", file)
    return numbers


@pytest.fixture
def volumes(tmp_path):
    made = [observation(str(number), noise=None) for number in range(N_FILES)]
    for number, one in enumerate(made):
        write_volume(tmp_path / f"{number:02d}.h5", [one])
    return made, tmp_path


def test_threads_read_many_files_of_which_few_are_open(volumes, few):
    made, folder = volumes
    found = VolumeSource(VolumeOptions(path="."), SourceContext(folder)).extend([])
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(N_FILES), 6)).tolist()
    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(lambda number: signal_of(found[number], 1), order))
    for number, one in zip(order, values, strict=True):
        np.testing.assert_array_equal(one, signal_of(made[number], 1))
    assert len(few) >= 2 * N_FILES - MOST
    # those in use are not closed, nor is that of the thread that reads ahead
    assert max(few) <= MOST + 4 + 1


def test_a_file_in_use_stays_open(volumes, few):
    _, folder = volumes
    readers = [Hdf5Reader(folder / f"{number:02d}.h5") for number in range(N_FILES)]
    with readers[0]._guard("/"):
        kept = readers[0]._object("0000")
        others = threading.Thread(target=lambda: [one.names() for one in readers[1:]])
        others.start()
        others.join()
        assert kept and "header" in kept
    assert max(few) <= MOST + 1
    readers[1].names()
    readers[2].names()
    readers[3].names()
    assert not kept


def test_readers_that_are_gone_are_forgotten(volumes, few):
    _, folder = volumes
    for number in range(N_FILES):
        Hdf5Reader(folder / f"{number:02d}.h5").names()
    gc.collect()
    assert all(one() is not None for one in hdf5._in_use._readers)
