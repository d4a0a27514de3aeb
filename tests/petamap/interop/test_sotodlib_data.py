"""sotodlib's AxisManagers and so3g's quaternions: binned, they make the maps of sotodlib's own projection."""

import numpy as np
import pytest

pytest.importorskip("so3g", reason="no so3g: make test-interop has one")
pytest.importorskip("sotodlib", reason="no sotodlib: make test-interop has one")

import so3g.proj
from pixell import enmap
from so3g.proj import Ranges, RangesMatrix
from sotodlib import coords, core
from sotodlib.coords import demod

import petamap
from petamap.interop.so3g import scalar_last, so3g_pointing
from petamap.interop.sotodlib import sotodlib_observations

N_SAMP, RATE = 5000, 50.0
NAMES = ["a", "b", "c", "d"]
WHITE = {"solver.binned_only": True, "noise.kernel": "white"}
NOISE = petamap.OneOverF("50 uK s^0.5")


def manager(equatorial=True, hwp=False, seed=1):
    rng, t = np.random.default_rng(seed), np.arange(N_SAMP) / RATE
    one = core.AxisManager(core.LabelAxis("dets", NAMES), core.OffsetAxis("samps", N_SAMP))
    one.wrap("timestamps", 1.7e9 + t, [(0, "samps")])
    one.wrap(
        "signal", (1e-4 * rng.standard_normal((4, N_SAMP))).astype(np.float32), [(0, "dets"), (1, "samps")]
    )
    bore = core.AxisManager(one.samps)
    if equatorial:
        columns = {"ra": 0.3 * np.sin(0.6 * t), "dec": 0.05 + 0.0015 * t, "psi": 0.2 + 0.03 * t}
    else:
        columns = {"az": 0.4 + 0.1 * np.sin(0.6 * t), "el": 0.9 + 0 * t, "roll": 0.02 * t}
    for name, values in columns.items():
        bore.wrap(name, values, [(0, "samps")])
    one.wrap("boresight_equ" if equatorial else "boresight", bore)
    plane = core.AxisManager(one.dets)
    angles = np.radians([0.0, 45.0, 100.0, 160.0])
    for name, values in {"xi": 0.01 * np.arange(4), "eta": [0.01, 0, -0.01, 0.02], "gamma": angles}.items():
        plane.wrap(name, np.array(values, float), [(0, "dets")])
    one.wrap("focal_plane", plane)
    glitches = RangesMatrix([Ranges.from_mask(rng.random(N_SAMP) < 0.01) for _ in NAMES])
    one.wrap("glitches", glitches, [(0, "dets"), (1, "samps")])
    one.wrap("turnarounds", Ranges.from_mask(np.arange(N_SAMP) % 500 < 20), [(0, "samps")])
    if hwp:
        one.wrap("hwp_angle", (2 * np.pi * 2 * t) % (2 * np.pi), [(0, "samps")])
    return one


def patch(one):
    """Return a CAR patch, and sotodlib's geometry of the same pixels."""
    box = petamap.CarPatch.box((0.0, 5.0), (50.0, 24.0), 0.5)
    empty = petamap.SkyMap(np.zeros((1, box.n_pix)), box, ("I",), ("",)).to_enmap()
    return box, (empty.shape[-2:], empty.wcs)


# K: of I alone, and of I, Q and U, whose angles are of 32 bits here, and whose weights are float32 there
@pytest.mark.parametrize("comps, most", [("T", 1e-18), ("TQU", 5e-11)])
def test_the_binned_map_is_that_of_sotodlib(comps, most):
    one = manager()
    box, geometry = patch(one)
    cuts = one.glitches + RangesMatrix([one.turnarounds] * 4)
    theirs = coords.P.for_tod(one, geom=geometry, comps=comps, cuts=cuts)
    solved = theirs.remove_weights(tod=one, signal_map=theirs.to_map(one))
    maps = petamap.make_map(
        sotodlib_observations(one, flags=["glitches", "turnarounds"], noise=NOISE), pixelization=box,
        options=WHITE, progress=False, stokes=comps.replace("T", "I"),
    )  # fmt: skip
    mine = maps.sky.to_enmap()
    hits = coords.P.for_tod(one, geom=geometry, comps="T", cuts=cuts).to_weights()[0, 0]
    np.testing.assert_array_equal(np.nan_to_num(maps.hits.to_enmap()[0]), hits)
    good = np.nan_to_num(maps.rcond.to_enmap()[0]) > 0.05
    assert good.sum() > 100 and maps.sky.frame == "equatorial"
    np.testing.assert_allclose(np.asarray(mine)[:, good], np.asarray(solved)[:, good], rtol=0, atol=most)


def test_azimuth_and_elevation_point_as_sotodlib_does():
    one = manager(equatorial=False)
    (made,) = sotodlib_observations(one)
    vectors, angles = made.pointing.directions(2, 0, N_SAMP)
    lon, lat, cos, sin = np.moveaxis(coords.get_radec(one)[2], -1, 0)
    expected = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    np.testing.assert_allclose(vectors.T, expected, rtol=0, atol=1e-9)
    phi = angles * (2 * np.pi / 2**32)
    np.testing.assert_allclose(
        [np.cos(phi), np.sin(phi)], [cos**2 - sin**2, 2 * sin * cos], rtol=0, atol=4e-9
    )
    assert made.azimuth.azimuths(3, 5).tolist() == one.boresight.az[3:5].tolist()
    assert made.sample_rate == pytest.approx(RATE) and made.start_time == 1.7e9


def test_sotodlib_has_the_same_signs():
    one = manager()
    _, geometry = patch(one)
    sky = enmap.zeros((3, *geometry[0]), geometry[1])
    sky[2] = 1.0
    theirs = coords.P.for_tod(one, geom=geometry, comps="TQU").from_map(sky)
    (made,) = sotodlib_observations(one)
    for row in range(4):
        _, angles = made.pointing.directions(row, 0, N_SAMP)
        np.testing.assert_allclose(theirs[row], np.sin(angles * (2 * np.pi / 2**32)), rtol=0, atol=1e-7)


def sky_of(box):
    rng = np.random.default_rng(5)
    return petamap.SkyMap(
        1e-4 * rng.standard_normal((3, box.n_pix)), box, tuple("IQU"), ("K_CMB",) * 3, "equatorial", "COSMO"
    )


@pytest.mark.parametrize("streams", [False, True])
def test_what_sotodlib_modulates_by_a_plate_comes_back(streams):
    one = manager(hwp=True)
    box, _ = patch(one)
    sky = sky_of(box)
    demod.from_map(one, enmap.enmap(sky.to_enmap()), wrap=streams, modulated=not streams)
    if not streams:
        one.signal[:] = demod.from_map(one, sky.to_enmap(), modulated=True)
    fields = ("dsT", "demodQ", "demodU") if streams else "signal"
    maps = petamap.make_map(
        sotodlib_observations(one, fields, noise=NOISE), pixelization=box, options=WHITE, progress=False
    )
    good = np.nan_to_num(maps.rcond.values[0]) > 0.02
    assert good.sum() > 100
    np.testing.assert_allclose(maps.sky.values[:, good], sky.values[:, good], rtol=0, atol=2e-10)


def test_quaternions_of_so3g():
    rng = np.random.default_rng(2)
    lon, lat, psi = rng.uniform(-1, 1, (3, 100)).cumsum(axis=1) * 0.01
    sight = so3g.proj.CelestialSightLine.for_lonlat(lon, lat, psi)
    plane = so3g.proj.FocalPlane.from_xieta(
        np.array([0.01, -0.02]), np.array([0.0, 0.01]), np.array([0.3, 1.2]), P=np.array([1.0, 0.6])
    )
    pointing = so3g_pointing(sight, plane)
    assert pointing.efficiency(1) == pytest.approx(0.6) and pointing.gamma[1] == pytest.approx(1.2)
    theirs = np.asarray(sight.coords(plane))[1]
    vectors, angles = pointing.directions(1, 0, 100)
    np.testing.assert_allclose(np.arcsin(vectors[:, 2]), theirs[:, 1], rtol=0, atol=2e-10)
    np.testing.assert_allclose(
        np.cos(angles * (2 * np.pi / 2**32)), theirs[:, 2] ** 2 - theirs[:, 3] ** 2, rtol=0, atol=4e-9
    )
    again = so3g_pointing(np.array(sight.Q), np.array(plane.quats))
    np.testing.assert_array_equal(again.directions(1, 0, 100)[1], angles)
    with pytest.raises(petamap.DataError, match=r"quaternions .n, 4."):
        scalar_last(np.zeros((3, 3)), "sight")


def test_fitted_noise_is_taken_over():
    one = manager()
    fit = core.AxisManager(one.dets, core.LabelAxis("noise_model_coeffs", ["white_noise", "fknee", "alpha"]))
    values = np.array([[1e-4, 0.5, 2.0]] * 4)
    fit.wrap("fit", values, [(0, "dets"), (1, "noise_model_coeffs")])
    one.wrap("noise_fit_stats", fit)
    (made,) = sotodlib_observations([one], noise="noise_fit_stats")
    model, frequencies = made.noise.noise_model(1, 0), np.array([0.2, 5.0])
    expected = 1e-8 * (1 + (0.5 / frequencies) ** 2)
    np.testing.assert_allclose(petamap.noise_psd(model, frequencies), expected, rtol=1e-14)
    assert petamap.make_map([made], n_side=16, progress=False).summary.solver.converged


def test_what_is_missing_is_named():
    one = manager()
    with pytest.raises(petamap.DataError, match="AxisManager 0: has no 'sky'"):
        sotodlib_observations(one, "sky")
    with pytest.raises(petamap.ConfigError, match="2 streams"):
        sotodlib_observations(one, ("demodQ", "demodU"))
    with pytest.raises(petamap.DataError, match="has no 'cuts'"):
        sotodlib_observations(one, flags="cuts")
    one.focal_plane.xi[1] = np.nan
    with pytest.raises(petamap.DataError, match=r"focal_plane, detector b.*restrict"):
        sotodlib_observations(one)
