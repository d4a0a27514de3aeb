"""Archives of MADmap's filters that are damaged: refused, or read to the same numbers."""

import gzip
import io
import lzma
import random
import struct
import tarfile
import time

import pytest
from changed_files import write_anew

from petacomm.base.errors import DataError
from petamap.data.formats.madmap1_filters import read_noise_filters


def archive(n_filters=4, n_others=0):
    """Return an uncompressed archive of filters, and of other entries."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as file:
        for k in range(n_filters + n_others):
            data = struct.pack(">3q3d", 10 * k, 10 * k + 9, 2, 4.0 + k, -1.0, 0.5)
            entry = tarfile.TarInfo(f"inv.{k}" if k < n_filters else f"notes-{k}")
            entry.size = len(data)
            file.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def numbers(path):
    return [(one.start, one.stop, one.noise.lags.tolist()) for one in read_noise_filters(path)]


PACKED = {"f.tar.gz": gzip.compress, "f.tar.xz": lzma.compress}


@pytest.mark.parametrize("name", PACKED)
def test_no_flip_of_a_compressed_archive_is_silent(name, tmp_path):
    """300 flips, among them each bit of the checksum and length at its end."""
    path, packed, chance = tmp_path / name, PACKED[name](archive()), random.Random(1)
    path.write_bytes(packed)
    expected, refused = numbers(path), 0
    end = [(len(packed) - 1 - byte, bit) for byte in range(8) for bit in range(8)]
    for place, bit in end + [(chance.randrange(len(packed)), chance.randrange(8)) for _ in range(236)]:
        spoilt = bytearray(packed)
        spoilt[place] ^= 1 << bit
        write_anew(path, spoilt)
        try:
            assert numbers(path) == expected
        except DataError as error:
            assert name in str(error)
            refused += 1
    assert refused >= 64 + 200  # all but bits of gzip's header that mean nothing


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("n_cut", [1, 2, 7, 8, 9, 100])
def test_a_compressed_archive_that_is_cut_is_refused(name, tmp_path, n_cut):
    (tmp_path / name).write_bytes(PACKED[name](archive())[:-n_cut])
    with pytest.raises(DataError, match=f"{name}: is no readable archive"):
        read_noise_filters(tmp_path / name)


def test_many_entries_that_are_no_filters_are_refused_early(tmp_path):
    (tmp_path / "f.tar").write_bytes(archive(4, 5000))
    begin = time.process_time()
    with pytest.raises(DataError, match="more than 1000 entries that are no filters"):
        read_noise_filters(tmp_path / "f.tar")
    assert time.process_time() - begin < 1
