"""Maps of a part of HEALPix: the same as maps of all of it, in the memory of the part."""

import healpy
import numpy as np
import pytest
from mpi import run_ranks

import petamap
from petacomm.base.errors import ConfigError, DataError
from petamap import Healpix, PartialHealpix, SkyMap
from petamap.mapmaking import products

N_SIDE = 16


@pytest.fixture(params=[False, True], ids=["ring", "nested"])
def whole(request):
    """A map of I, Q, U that is observed within 30 degrees of a place, in either order."""
    rng, sky = np.random.default_rng(1), Healpix(N_SIDE, request.param)
    near = sky.directions_of(np.arange(sky.n_pix)) @ np.array([0.6, 0.0, 0.8]) > np.cos(np.radians(30))
    values = np.where(near, rng.standard_normal((3, sky.n_pix)), np.nan)
    values[2, np.flatnonzero(near)[3]] = np.nan  # seen, but not in all columns
    return SkyMap(values, sky, ("I", "Q", "U"), ("K_CMB",) * 3, "galactic", "COSMO")


def same(one, other):
    assert one.pixelization == other.pixelization
    np.testing.assert_array_equal(one.values, other.values)


def test_there_and_back(whole):
    part = whole.partial()
    assert part.pixelization.n_pix == np.isfinite(whole.values).any(axis=0).sum() == part.values.shape[1]
    same(part.whole(), whole)
    same(part.partial(), part)
    assert whole.whole() is whole
    np.testing.assert_array_equal(part.to_healpy(), whole.to_healpy())
    np.testing.assert_array_equal(part.to_healpy(nest=True), whole.to_healpy(nest=True))
    same(part.reordered().whole(), whole.reordered())
    assert "PartialHealpix(n_side=16" in repr(part) and part._repr_html_()


def test_pixels_are_those_of_healpy(whole):
    part, rng = whole.partial().pixelization, np.random.default_rng(2)
    directions = rng.standard_normal((1000, 3))
    found = np.empty(1000, np.int32)
    part.pixels_of(directions, found)
    of_sky = healpy.vec2pix(N_SIDE, *directions.T, nest=part.nest)
    inside = np.isin(of_sky, part.pixels)
    assert inside.any() and (found >= 0).tolist() == inside.tolist()
    np.testing.assert_array_equal(part.pixels[found[inside]], of_sky[inside])
    np.testing.assert_allclose(
        part.directions_of(np.arange(3)).T,
        healpy.pix2vec(N_SIDE, part.pixels[:3], nest=part.nest),
        rtol=0,
        atol=1e-14,
    )
    assert part.pixel_area == pytest.approx(healpy.nside2pixarea(N_SIDE))


def test_what_is_done_with_maps_is_the_same(whole):
    part = whole.partial()
    same(
        ((part * 2 - part["I"].values[0]) / part["I"]).whole(),
        (whole * 2 - whole["I"].values[0]) / whole["I"],
    )
    same(part.masked(part["I"]).whole(), whole.masked(whole["I"]))
    same(part.to_unit("uK_CMB").whole(), whole.to_unit("uK_CMB"))
    same(part.degrade(4).whole(), whole.degrade(4))
    same(
        part.degrade(factor=2, weights=abs(part["I"].values)).whole(),
        whole.degrade(8, weights=abs(whole["I"].values)),
    )
    smooth = part["Q", "U"].smooth("10 deg")
    np.testing.assert_array_equal(
        smooth.values, whole["Q", "U"].smooth("10 deg").values[:, part.pixelization.pixels]
    )


def test_files_are_the_same(whole, tmp_path):
    part, facts = whole.partial(), {"names": whole.names, "unit": "K_CMB", "run_id": "a", "frame": "galactic"}
    petamap.write_map(tmp_path / "part.fits", part.values, part.pixelization, **facts)
    petamap.write_map(tmp_path / "whole.fits", whole.values, whole.pixelization, partial=True, **facts)
    assert (tmp_path / "part.fits").read_bytes() == (tmp_path / "whole.fits").read_bytes()
    np.testing.assert_array_equal(petamap.read_map(tmp_path / "part.fits").values, whole.values)


@pytest.mark.parametrize("projection", [None, "mollweide", "gnomonic"])
def test_figures_are_the_same(whole, projection):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    images = []
    for one in (whole, whole.partial()):
        figure, axes = one.plot(projection=projection)
        images.append([axis.images[0].get_array().filled(np.nan) for axis in axes])
        pyplot.close(figure)
    np.testing.assert_array_equal(*images)


def test_maps_of_other_pixels_do_not_mix(whole):
    part = whole.partial()
    for other, mend in (
        (whole, "whole()"),
        (part.masked(part["I"].values[0] > 0).partial(), "whole()"),
        (part.reordered(), "reordered()"),
        (part.degrade(8), "degrade"),
    ):
        with pytest.raises(DataError, match="pixels of two maps differ") as caught:
            part + other
        assert mend in caught.value.mend


@pytest.mark.parametrize(
    ("pixels", "error", "words"),
    [
        ([3, 2], DataError, "do not increase"),
        ([3, 3], DataError, "do not increase"),
        ([-1, 3], DataError, "are not between 0 and 3071"),
        ([3072], DataError, "are not between 0 and 3071"),
        ([], DataError, "shape"),
        ([0.5], ConfigError, "whole numbers"),
    ],
)
def test_wrong_pixels(pixels, error, words):
    with pytest.raises(error, match=words):
        PartialHealpix(16, np.array(pixels))


def test_what_has_no_part():
    sky = Healpix(1)
    with pytest.raises(ConfigError, match="no pixel of the map has a value"):
        SkyMap(np.full((1, 12), np.nan), sky, ("I",), ("K_CMB",)).partial()
    patch = petamap.CarPatch.box((0.0, 0.0), (2.0, 2.0), 1.0)
    with pytest.raises(ConfigError, match="only HEALPix maps have parts"):
        SkyMap(np.zeros((1, patch.n_pix)), patch, ("I",), ("K_CMB",)).partial()


def small_map(comm=None):
    t = np.arange(20_000)
    theta, phi = 1.2 + 0.3 * np.sin(0.031 * t), 0.6 * np.sin(0.0123 * t)
    psi = np.array([[0.0], [np.pi / 4]]) + 0.01 * t
    signal = 1e-4 * np.random.default_rng(3).standard_normal(psi.shape)
    return petamap.make_map(
        signal, theta, phi, psi, sample_rate="10 Hz", n_side=N_SIDE,
        noise=petamap.OneOverF("100 uK s^0.5", "50 mHz"), frame="galactic", comm=comm, progress=False,
        options={"map.ordering": "ring"},
    )  # fmt: skip


def kept_in_part(comm):
    whole = small_map(comm)
    products._MOST_WHOLE = 1000
    part = small_map(comm)
    assert set(part) == set(whole) and bool(part) == (comm.rank == 0)
    for name in part:
        assert isinstance(part[name].pixelization, PartialHealpix)
        same(part[name].whole(), whole[name])
    if comm.rank == 0:
        digests = [[one.sha256 for one in maps.summary.products] for maps in (part, whole)]
        assert digests[0] == digests[1] and all(digests[0])


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_products_in_memory_have_what_is_seen_where_maps_are_large(n_ranks):
    run_ranks(kept_in_part, n_ranks)
