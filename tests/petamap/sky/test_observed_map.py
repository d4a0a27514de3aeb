"""Maps of the pixels in their files, and the hashes of maps: those of maps of the whole sky."""

import hashlib
import struct

import numpy as np
import pytest

from petamap.sky.healpix import Healpix
from petamap.sky.map_digest import SLAB, joined_sha256, map_sha256, slab_hashes
from petamap.sky.map_file import read_map, read_observed, write_map


def patch(n_side=32, n_columns=3):
    values = np.full((n_columns, 12 * n_side**2), np.nan)
    pixels = np.flatnonzero(np.random.default_rng(1).random(5000) < 0.2) + 3000
    values[:, pixels] = np.random.default_rng(2).normal(size=(n_columns, len(pixels)))
    return values, pixels


@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.parametrize("nest", [True, False])
def test_a_patch_is_read_as_the_sky_that_it_is_of(tmp_path, nest, partial):
    values, pixels = patch()
    more = {"names": ["I", "Q", "U"], "unit": "K_CMB", "run_id": "r", "frame": "galactic"}
    write_map(tmp_path / "map.fits", values, Healpix(32, nest), partial=partial, **more)
    found, whole = read_observed(tmp_path / "map.fits"), read_map(tmp_path / "map.fits")
    np.testing.assert_array_equal(whole.values, values)
    np.testing.assert_array_equal(found.sky_map.values, values)
    assert found.stokes == whole.stokes and found.units == whole.units and found.frame == "galactic"
    if partial:
        np.testing.assert_array_equal(found.pixels, pixels)
        assert found.values.shape == (3, len(pixels))
    else:
        assert found.pixels is None
    every = np.arange(12 * 32**2)
    np.testing.assert_array_equal(found.at(1, every), values[1])
    assert found.sha256() == map_sha256(values)
    other = Healpix(32, nest).reordered(every)
    expected = np.empty_like(values)
    expected[:, other] = values
    assert found.sha256(other if found.pixels is None else other[pixels]) == map_sha256(expected)


def test_rows_of_a_file_may_have_any_order(tmp_path):
    from astropy.io import fits

    pixels, values = np.array([7, 3, 11, 0]), np.array([1.0, 2.0, 3.0, 4.0])
    table = fits.BinTableHDU.from_columns([
        fits.Column("PIXEL", "J", array=pixels), fits.Column("I", "D", array=values, unit="K"),
    ])  # fmt: skip
    table.header.update(NSIDE=1, ORDERING="RING", INDXSCHM="EXPLICIT", COORDSYS="G")
    fits.HDUList([fits.PrimaryHDU(), table]).writeto(tmp_path / "map.fits")
    found = read_observed(tmp_path / "map.fits")
    assert found.pixels.tolist() == [0, 3, 7, 11] and found.values.tolist() == [[4.0, 2.0, 1.0, 3.0]]


def test_the_hash_of_a_map_is_that_of_its_slabs():
    values, _ = patch(n_side=64)
    n_pix, table = values.shape[1], b""
    for begin in range(0, n_pix, SLAB):
        block = values[:, begin : begin + SLAB]
        if np.isfinite(block).any():
            table += struct.pack("<q", begin // SLAB) + hashlib.sha256(block.astype("<f8").tobytes()).digest()
    assert map_sha256(values) == hashlib.sha256(struct.pack("<qq", 3, n_pix) + table).hexdigest()
    # whoever hashes the slabs
    parts = [slab_hashes(values[:, a:b].T, a, n_pix) for a, b in ((0, 2 * SLAB), (2 * SLAB, n_pix))]
    assert joined_sha256(np.concatenate(parts), 3, n_pix) == map_sha256(values)
    changed = values.copy()
    changed[2, 3100:3200] = 0.0
    assert map_sha256(changed) != map_sha256(values) != map_sha256(values[:2])
