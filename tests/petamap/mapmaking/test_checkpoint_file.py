"""Tests of checkpoint files: rows come back by their keys on any number of ranks, damage is refused."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from changed_files import write_anew
from mpi import run_ranks

from petacomm.base.errors import DataError, ResourceError
from petacomm.mpi import SerialCommunicator
from petamap.mapmaking import checkpoint_file
from petamap.mapmaking.checkpoint_file import KeyedRows, read_head, read_rows, write_rows

N, MEND = 1000, "--force begins anew"
HEAD = {"label": [3, 4], "residual": 0.1 + 0.2, "text": "é", "nothing": None}


def keys_of(rank, size, seed):
    """Return the keys of a rank: all keys below 2^40 that a seed draws, dealt out by their hash."""
    keys = np.unique(np.random.default_rng(77).integers(0, 1 << 40, N))
    owner = np.random.default_rng(seed).integers(0, size, len(keys))
    mine = keys[owner == rank]
    return np.random.default_rng(rank).permutation(mine)


def values_of(keys, k):
    """Return rows that tell their keys, with zeros of both signs, nan and subnormal numbers."""
    rows = np.sin(keys[:, None] * 1e-3 + np.arange(k))
    rows[keys % 7 == 0] = -0.0
    rows[keys % 11 == 0] = np.nan
    rows[keys % 13 == 0] = 5e-324
    return rows


def written(path, comm, seed=1):
    keys = keys_of(comm.rank, comm.size, seed)
    pixels = KeyedRows(keys, [values_of(keys, 3), values_of(keys + 1, 3)])
    gaps = KeyedRows(keys[::2], [values_of(keys[::2], 1)])
    write_rows(path, comm, HEAD, {"pixels": pixels, "gaps": gaps, "none": KeyedRows(keys[:0], [])})


def check(path, comm, seed):
    """Check that each rank gets the rows of its keys, to the bit."""
    head = read_head(path, MEND)
    assert {name: head[name] for name in HEAD} == HEAD
    keys = keys_of(comm.rank, comm.size, seed)
    found = read_rows(path, comm, head, {"pixels": keys}, MEND)["pixels"]
    expected = np.concatenate([values_of(keys, 3), values_of(keys + 1, 3)], axis=1)
    assert found.tobytes() == expected.tobytes()


def write_ranks(comm):
    checkpoint_file._PART_BYTES = 1 << 11  # several parts a rank
    written(Path(os.environ["CHECKPOINT"]), comm)


def check_ranks(comm):
    check(Path(os.environ["CHECKPOINT"]), comm, seed=2)


def refuse_ranks(comm):
    path = Path(os.environ["CHECKPOINT"])
    keys = keys_of(comm.rank, comm.size, 2)
    keys[:1] += comm.rank == 1
    with pytest.raises(DataError, match="has other rows"):
        read_rows(path, comm, read_head(path, MEND), {"pixels": keys}, MEND)


@pytest.mark.parametrize(("n_written", "n_read"), [(1, 1), (1, 3), (3, 1), (3, 2), (2, 5)])
def test_rows_on_other_ranks(tmp_path, monkeypatch, n_written, n_read):
    monkeypatch.setenv("CHECKPOINT", str(tmp_path / "state" / "a.checkpoint"))
    run_ranks(write_ranks, n_written)
    run_ranks(check_ranks, n_read)


def test_other_keys_are_refused_on_all_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("CHECKPOINT", str(tmp_path / "a.checkpoint"))
    run_ranks(write_ranks, 2)
    run_ranks(refuse_ranks, 3)


def small_file(folder):
    path = folder / "a.checkpoint"
    rows = KeyedRows(np.array([5, 2]), [np.array([[1.0, 2.0], [3.0, 4.0]])])
    write_rows(path, SerialCommunicator(), HEAD, {"pixels": rows})
    return path


def read_small(path):
    head = read_head(path, MEND)
    return read_rows(path, SerialCommunicator(), head, {"pixels": np.array([2, 5])}, MEND)["pixels"]


def test_each_flipped_byte_is_found(tmp_path):
    path = small_file(tmp_path)
    np.testing.assert_array_equal(read_small(path), [[3.0, 4.0], [1.0, 2.0]])
    content = path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        write_anew(path, damaged)
        with pytest.raises(DataError) as caught:
            read_small(path)
        assert caught.value.where == str(path) and caught.value.mend == MEND


def test_each_shorter_file_and_a_longer_one_are_found(tmp_path):
    path = small_file(tmp_path)
    content = path.read_bytes()
    for length in range(len(content)):
        write_anew(path, content[:length])
        with pytest.raises(DataError, match=r"whole|damaged"):
            read_small(path)
    for longer in (content + b"\0", b"\0" + content):
        write_anew(path, longer)
        with pytest.raises(DataError, match=r"whole|damaged"):
            read_small(path)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_small(path)


def test_other_keys_are_refused(tmp_path):
    path = small_file(tmp_path)
    for keys in ([2], [2, 6], [2, 5, 6]):
        with pytest.raises(DataError, match="has other rows"):
            read_rows(path, SerialCommunicator(), read_head(path, MEND), {"pixels": np.array(keys)}, MEND)


def test_the_file_before_stays_if_one_cannot_be_written(tmp_path):
    path = small_file(tmp_path)
    content = path.read_bytes()
    rows = KeyedRows(np.array([1]), [np.ones((1, 1))])
    with pytest.raises(TypeError):
        write_rows(path, SerialCommunicator(), {"no JSON": object()}, {"pixels": rows})
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError):
        write_rows(tmp_path / "file" / "a", SerialCommunicator(), HEAD, {"pixels": rows})
    assert path.read_bytes() == content
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.checkpoint", "file"]


def test_the_head_is_text(tmp_path):
    content = small_file(tmp_path).read_bytes()
    begin = content.index(b"{")
    head, _ = json.JSONDecoder().raw_decode(content[begin:].decode(errors="replace"))
    assert head["widths"] == {"pixels": 2} and len(head["parts"]) == 1
