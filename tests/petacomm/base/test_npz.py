"""Arrays of ``.npz`` files: read as NumPy does, and refused where anything in them is damaged."""

import io
import os
import zipfile

import numpy as np
import pytest
from cases import cases
from changed_files import write_anew

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.npz import read_arrays

ARRAYS = {
    "numbers": np.arange(12.0).reshape(3, 4),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "rows": np.zeros(5, [("a", np.int32), ("b", np.int64)]),
    "names": np.array(["one", "zwei"]),
    "none": np.empty((0, 3)),
    "text": np.str_("a"),
}


def saved(path, save=np.savez, **arrays):
    with path.open("wb") as file:
        save(file, **arrays)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_those_that_numpy_wrote(tmp_path, save):
    found = read_arrays(saved(tmp_path / "a.npz", save, **ARRAYS), "table")
    assert list(found) == list(ARRAYS)
    for name, expected in ARRAYS.items():
        assert found[name].dtype == expected.dtype and np.array_equal(found[name], expected)


@pytest.mark.parametrize("step", cases(5, long=[1]))
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_each_flipped_bit_is_found_or_without_effect(tmp_path, save, step):
    path = saved(tmp_path / "a.npz", save, a=np.arange(3), b=np.array(["x"]))
    content = path.read_bytes()
    expected, refused = read_arrays(path, "table"), 0
    for bit in range(0, 8 * len(content), step):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        write_anew(path, changed)
        try:
            found = read_arrays(path, "table")
        except DataError as error:
            assert "a.npz: no table: " in str(error)
            refused += 1
            continue
        assert list(found) == list(expected), bit
        assert all(np.array_equal(found[name], expected[name]) for name in expected), bit
    assert refused > 4 * len(content) / step


def archive(path, array, method=zipfile.ZIP_STORED):
    """Write an archive of an entry, whose checksum is right."""
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("a.npy", array)
    return path


def array_of(values):
    made = io.BytesIO()
    np.save(made, values, allow_pickle=True)
    return made.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (array_of(np.arange(3)).replace(b"(3,)", b"(2,)"), "does not hold what its header says"),
        (array_of(np.arange(3)).replace(b"(3,), } ", b"(10**9,), }"), "no table: "),
        (array_of(np.arange(3)).replace(b"(3,), }" + 12 * b" ", b"(9000000000000000,)}"), "its header says"),
        (array_of(np.array([None])), "does not hold what its header says"),
        (b"\x93NUMPY\x07\0 ", "no table: "),
        (b"", "no table: "),
    ],
)
def test_what_headers_say_is_compared_with_what_is_there(tmp_path, content, said):
    with pytest.raises(DataError, match=said):
        read_arrays(archive(tmp_path / "a.npz", content), "table", "write it anew")


def test_archives_that_numpy_does_not_write(tmp_path):
    path = archive(tmp_path / "a.npz", array_of(np.zeros(9)), zipfile.ZIP_BZIP2)
    with pytest.raises(DataError, match="packed as NumPy never does"):
        read_arrays(path, "table")
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"a\.npz: no table: .* \(write it anew\)"):
        read_arrays(path, "table", "write it anew")


def test_what_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match=r"a\.npz: cannot be read: No such file"):
        read_arrays(tmp_path / "a.npz", "table")
    os.mkfifo(tmp_path / "b.npz")
    with pytest.raises(ConfigError, match=r"b\.npz: cannot be read: is a FIFO"):
        read_arrays(tmp_path / "b.npz", "table")
