"""Tests of embedded maps: values, means of blocks, and size."""

import base64
from dataclasses import replace

import healpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petamap.report.embedding import MapLayer, MapSheet, coarse_pixels, embed_maps
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import ImageLayout, NumberedPixels


def unpacked(data, layer=0):
    """Return the pixels and values of a layer, like layers.js."""
    found = data["layers"][layer]
    runs = np.frombuffer(base64.b64decode(data["grids"][found["grid"]]["runs"]), "<i4").reshape(-1, 2)
    pixels = np.concatenate([np.arange(first, first + n) for first, n in runs] or [np.zeros(0, int)])
    raw = base64.b64decode(found["data"])
    if found["encoding"] == "float32":
        return pixels, np.frombuffer(raw, "<f4")
    words = np.frombuffer(raw, "<u2")
    curved = found["from"] + words * (found["to"] - found["from"]) / 65534
    return pixels, np.where(words == 65535, np.nan, found["scale"] * np.sinh(curved))


def reading(values):
    return lambda: values


def sheet(pixelization, *tables, frame="galactic"):
    return MapSheet(
        pixelization, frame, [MapLayer("map", "map", "I", "K_CMB", reading(values)) for values in tables]
    )


def partial(n_side, seed=0):
    values = np.random.default_rng(seed).normal(size=12 * n_side**2)
    values[np.random.default_rng(seed + 1).random(values.size) < 0.3] = np.nan
    return values


def test_small_maps_are_exact_to_float32():
    values = partial(16)
    pixels, found = unpacked(embed_maps([sheet(Healpix(16), values)]))
    assert np.array_equal(pixels, np.flatnonzero(np.isfinite(values)))
    assert np.array_equal(found, values[pixels].astype(np.float32))


@pytest.mark.parametrize(("nest", "budget"), [(True, 10**6), (False, 10**6), (True, 4000), (False, 4000)])
def test_pixels_of_a_patch_are_embedded_as_those_of_the_sky(nest, budget):
    values = np.full(12 * 256**2, np.nan)
    pixels = 5000 + np.flatnonzero(np.random.default_rng(2).random(9000) < 0.3)
    values[pixels] = np.random.default_rng(3).normal(size=len(pixels))
    values[pixels[:7]] = np.nan
    whole = embed_maps([sheet(Healpix(256, nest), values)], budget)
    patch = replace(sheet(Healpix(256, nest), values[pixels]), pixels=pixels)
    assert embed_maps([patch], budget) == whole


def test_layers_share_the_pixels_of_any_of_them():
    a, b = partial(8, 1), partial(8, 5)
    data = embed_maps([sheet(Healpix(8), a, b)])
    for layer, values in enumerate((a, b)):
        pixels, found = unpacked(data, layer)
        assert np.array_equal(found, values[pixels].astype(np.float32), equal_nan=True)
    assert np.array_equal(pixels, np.flatnonzero(np.isfinite(a) | np.isfinite(b)))


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 3), st.integers(0, 2**31))
def test_accuracy_of_16_bit_words(decades, seed):
    """Half a step of u = asinh(v / s) is half a step times sqrt(v^2 + s^2) of v."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=3072) * 10 ** rng.uniform(-decades / 2, decades / 2, 3072)
    data = embed_maps([sheet(Healpix(16), values)], budget=2 * values.size)
    layer = data["layers"][0]
    assert layer["encoding"] == "asinh16"
    half = 0.5 * (layer["to"] - layer["from"]) / 65534
    assert half < 1.1e-4
    _, found = unpacked(data)
    assert (np.abs(found - values) <= 1.001 * half * np.hypot(values, layer["scale"])).all()


def test_constant_and_empty_maps():
    for values in (np.full(192, 3.25), np.zeros(192)):
        _, found = unpacked(embed_maps([sheet(Healpix(4), values)], budget=2 * 192))
        assert np.allclose(found, values, rtol=1e-12)
    pixels, found = unpacked(embed_maps([sheet(Healpix(4), np.full(192, np.nan))]))
    assert pixels.size == found.size == 0


@pytest.mark.parametrize("nest", [False, True])
def test_coarse_healpix_against_healpy(nest):
    values = partial(16)
    data = embed_maps([sheet(Healpix(16, nest=nest), values)], budget=2 * 12 * 4**2)
    grid = data["grids"][0]
    assert (grid["n_side"], grid["nest"]) == (4, nest)
    assert "N_side 4" in grid["note"]
    order = "NESTED" if nest else "RING"
    unseen = np.where(np.isfinite(values), values, healpy.UNSEEN)
    expected = healpy.ud_grade(unseen, 4, order_in=order, order_out=order)
    pixels, found = unpacked(data)
    assert np.allclose(found, expected[pixels], atol=2e-4)


def test_coarse_image_is_the_mean_of_blocks():
    patch = FlatPatch.box((120.0, 0.5), (1.3, 0.9), 0.1)
    values = np.random.default_rng(0).normal(size=patch.n_pix)
    data = embed_maps([sheet(patch, values)], budget=2 * 40)
    grid = data["grids"][0]
    assert (grid["factor"], grid["nx"], grid["ny"]) == (2, 7, 5)
    _, found = unpacked(data)
    image = values.reshape(9, 13)
    assert np.isclose(found[0], image[:2, :2].mean(), atol=2e-4)
    assert np.isclose(found[-1], image[8, 12], atol=2e-4)


def test_numbered_pixels_with_layout():
    index = np.array([7, 0, 5])
    pixels, found = unpacked(
        embed_maps([sheet(NumberedPixels(3, ImageLayout((2, 4), index)), np.array([1.0, 2, 3]))])
    )
    assert dict(zip(pixels.tolist(), found.tolist(), strict=True)) == {7: 1.0, 0: 2.0, 5: 3.0}


@pytest.mark.parametrize("pixelization", [Healpix(64), Healpix(64, nest=True), CarPatch.full_sky(1.0)])
def test_coarse_pixels(pixelization):
    pixels = np.arange(0, pixelization.n_pix, 97)
    coarse = coarse_pixels(pixelization, pixels, 4)
    for number in coarse[::50]:
        inside = pixelization.directions_of(pixels[coarse == number])
        assert (inside @ inside[0]).min() > np.cos(np.radians(8))


def test_view_of_a_partial_sky():
    centre = np.array(healpy.ang2vec(40.0, -30.0, lonlat=True))
    values = np.full(12 * 64**2, np.nan)
    values[healpy.query_disc(64, centre, np.radians(10))] = 1.0
    grid = embed_maps([sheet(Healpix(64), values)])["grids"][0]
    assert np.allclose(np.degrees(grid["centre"]), [40, -30], atol=0.5)
    assert np.allclose(grid["reach"], np.sin(np.radians(10)), rtol=0.15)
    assert embed_maps([sheet(Healpix(64), np.ones(12 * 64**2))])["grids"][0]["reach"] == [1.0, 1.0]


def test_palette_follows_the_values():
    around_zero = np.random.default_rng(0).normal(size=768)
    data = embed_maps([sheet(Healpix(8), around_zero, around_zero + 20)])
    assert [layer["palette"] for layer in data["layers"]] == ["balance", "dusk"]
    hits = MapSheet(Healpix(8), "", [MapLayer("hits", "hits", "", "", lambda: around_zero)])
    assert embed_maps([hits])["layers"][0]["palette"] == "dusk"
