"""Bits that flip in TOAST volumes that petamap has written: refused, or without an effect."""

import random
from pathlib import Path

import numpy as np
import pytest
from cases import cases

import petamap
from petacomm.base.errors import UserError
from petamap.data.config import open_sources, parse_config
from petamap.data.formats.toast_write import write_toast

SCAN = """
[run]
name = "scan"
[map]
n_side = 16
[[source]]
kind = "ground"
duration = "10 min"
sample_rate = "10 Hz"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
"""
READ = '[run]\nname = "read"\n[map]\nn_side = 16\n[solver]\nbinned_only = true\n[[source]]\nkind = "toast"\n'
_HEADERS = 40_000  # bytes at the beginning of the file, with headers and attributes


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the bytes of a file of a volume."""
    folder = tmp_path_factory.mktemp("volume")
    write_toast(str(folder), open_sources(parse_config(SCAN))[:1])
    (path,) = folder.glob("*.h5")
    return path.read_bytes()


def read(path: Path):
    """Return the maps and the noise of a volume."""
    found = petamap.run(parse_config(f'{READ}path = "{path}"\n'))
    return [one.values for one in found.products.values()], found.summary.noise


@pytest.mark.parametrize("n_flips", cases(50, long=(1000,)))
def test_no_flip_is_silent(written, tmp_path, n_flips):
    path = tmp_path / "whole.h5"
    path.write_bytes(written)
    maps, noise = read(path)
    assert len(maps) > 3
    chance, n_refused = random.Random(7), 0
    for number in range(n_flips):
        place = chance.randrange(_HEADERS if number % 2 else len(written))
        content = bytearray(written)
        content[place] ^= 1 << chance.randrange(8)
        path = tmp_path / f"{number}.h5"  # HDF5 knows files that are open by their names
        path.write_bytes(content)
        try:
            found, found_noise = read(path)
        except UserError as error:
            assert str(path) in str(error)
            n_refused += 1
        else:
            assert found_noise == noise, place
            for one, expected in zip(found, maps, strict=True):
                np.testing.assert_array_equal(one, expected, err_msg=str(place))
        path.unlink()
    assert n_refused > n_flips // 2
