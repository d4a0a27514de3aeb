"""Tests of submaps: rows of pixels that are held, and submaps of discs, against all pixels' distances."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from petamap.sky.healpix import Healpix
from petamap.sky.submaps import Submaps, pixel_radius, submap_size, submaps_of_discs

PIXELIZATIONS = [
    Healpix(1), Healpix(7), Healpix(16), Healpix(12), Healpix(128),
    Healpix(1, nest=True), Healpix(16, nest=True), Healpix(128, nest=True),
]  # fmt: skip


@given(size=st.sampled_from([1, 2, 8, 64]), data=st.data())
def test_rows_of_pixels(size, data):
    held = np.array(data.draw(st.lists(st.booleans(), min_size=1, max_size=40)))
    submaps = Submaps(held, size)
    assert submaps.n_rows == len(submaps.pixels) == size * held.sum()
    every = np.arange(-1, size * len(held))
    for dtype in np.int32, np.int64:
        rows = submaps.rows_of(every.astype(dtype))
        assert rows.dtype == dtype
        assert rows[0] == -1
        assert np.array_equal(rows[1:] >= 0, np.repeat(held, size))
        assert np.array_equal(rows[1:] < -1, ~np.repeat(held, size))
    assert np.array_equal(submaps.rows_of(submaps.pixels), np.arange(submaps.n_rows))
    assert np.array_equal(submaps.rows_of(submaps.pixels[None]), np.arange(submaps.n_rows)[None])


def unit(lon, lat):
    return np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


DIRECTIONS = st.builds(
    unit,
    st.one_of(st.floats(-3.2, 3.2), st.sampled_from([0.0, np.pi, np.pi / 2])),
    st.one_of(st.floats(-1.57, 1.57), st.sampled_from([0.0, np.pi / 2, -np.pi / 2, 0.7297276562269663])),
)


@settings(max_examples=50)
@given(
    pixelization=st.sampled_from(PIXELIZATIONS),
    centres=st.lists(DIRECTIONS, min_size=0, max_size=3),
    radius=st.one_of(st.floats(1e-4, 0.3), st.sampled_from([1e-9, 1.6, 3.2])),
)
def test_submaps_of_discs(pixelization, centres, radius):
    centres = np.array(centres).reshape(-1, 3)
    found = submaps_of_discs(pixelization, centres, radius)
    assert found.size == submap_size(pixelization)
    assert found.size * len(found.held) == pixelization.n_pix
    directions = pixelization.directions_of(np.arange(pixelization.n_pix))
    nearest = np.full(pixelization.n_pix, np.inf)
    for centre in centres:
        chords = np.linalg.norm(directions - centre, axis=1)
        nearest = np.minimum(nearest, 2 * np.arcsin(np.minimum(chords / 2, 1)))
    within = np.flatnonzero(nearest <= radius)
    assert (found.rows_of(within) >= 0).all()
    # a run of pixels in a ring is as long as that many sides of pixels, and one more was taken on either side
    side = 2 * pixel_radius(pixelization.n_side)
    reach = radius + side * (4 + (found.size**0.5 if pixelization.nest else found.size))
    assert (nearest[found.pixels] <= reach).all()
