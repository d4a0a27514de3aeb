"""TOAST's data in memory are mapped as its volumes are, to the bit, and its maps are TOAST's again."""

import json
import os

import numpy as np
import pytest

os.environ.setdefault("TOAST_LOGLEVEL", "ERROR")
pytest.importorskip("toast", reason="no TOAST: make test-interop has one")

import made_observations
import toast
import toast.io
import toast.noise
import toast.ops
from astropy import units
from astropy.table import QTable
from toast.instrument import Focalplane, SpaceSite, Telescope
from toast.observation import default_values as defaults

from petacomm.base.errors import ConfigError, DataError
from petamap.data.config import parse_config
from petamap.data.formats.toast_write import write_toast
from petamap.data.observation import read_signal
from petamap.interop.toast import MapMaker
from petamap.mapmaking.run import run
from petamap.pointing import quaternion

N_SAMP, N_SIDE, RATE = 4000, 16, 10.0
NAMES = ("A", "B", "C", "D")


def focalplane():
    angles = np.radians([0.0, 90.0, 45.0, 135.0])
    quats = quaternion.multiply(quaternion.about_y(0.01 * np.arange(4)), quaternion.about_z(angles))
    table = {
        "name": NAMES, "quat": quats, "gamma": angles * units.rad,
        "pol_leakage": [0.0, 0.01, 0.02, 0.0],
        "psd_net": np.array([1.0, 1.1, 1.2, 1.3]) * 1e-4 * units.K * np.sqrt(1 * units.second),
        "psd_fknee": np.full(4, 0.05) * units.Hz, "psd_fmin": np.full(4, 1e-3) * units.Hz,
        "psd_alpha": np.ones(4),
    }  # fmt: skip
    return Focalplane(QTable(table), field_of_view=10 * units.degree, sample_rate=RATE * units.Hz)


def observation(comm, name, uid, hwp):
    rng, t = np.random.default_rng(uid), np.arange(N_SAMP)
    plane = focalplane()
    one = toast.Observation(comm, Telescope("t", focalplane=plane, site=SpaceSite("L2")), N_SAMP, name, uid)
    columns = {
        defaults.boresight_radec: quaternion.from_angles(1.4 + 0.3 * np.sin(0.031 * t), 0.0012 * t, 0.01 * t),
        defaults.times: 1.7e9 + t / RATE, defaults.shared_flags: (rng.random(N_SAMP) < 0.02).astype(np.uint8),
        defaults.azimuth: 0.3 * np.sin(0.031 * t),
    }  # fmt: skip
    columns[defaults.shared_flags] *= rng.choice([1, 128], N_SAMP).astype(np.uint8)  # 128 is no fault
    if hwp:
        columns[defaults.hwp_angle] = 0.4 * t % (2 * np.pi)
    for key, values in columns.items():
        one.shared.create_column(key, values.shape, values.dtype.type)
        one.shared[key].set(values)
    one.detdata.create(defaults.det_flags, dtype=np.uint8)
    one.detdata.create(defaults.det_data, dtype=np.float64, units=units.K)
    one.detdata[defaults.det_flags][:] = rng.random((4, N_SAMP)) < 0.01
    one.detdata[defaults.det_data][:] = 1e-4 * rng.standard_normal((4, N_SAMP))
    one.update_local_detector_flags({"C": defaults.det_mask_invalid})
    spans = [(columns[defaults.times][k], columns[defaults.times][k + 1500]) for k in (10, 2000)]
    one.intervals["still"] = toast.intervals.IntervalList(one.shared[defaults.times], timespans=spans)
    one["name"] = name
    return one


def noise_of(one, tabulated):
    if not tabulated:
        return
    frequencies = np.geomspace(1e-4, RATE / 2, 50)
    spectra = {name: 1e-8 * (1 + 0.05 * (k + 1) / frequencies) for k, name in enumerate(NAMES)}
    one["noise_model"] = toast.noise.Noise(
        detectors=list(NAMES), freqs=dict.fromkeys(NAMES, frequencies * units.Hz),
        psds={name: psd * units.K**2 * units.second for name, psd in spectra.items()},
    )  # fmt: skip


def made(tabulated=False, hwp=False):
    data = toast.Data(toast.Comm())
    for uid, name in enumerate(("one", "two")):
        data.obs.append(observation(data.comm, name, uid + 5, hwp))
    toast.ops.DefaultNoiseModel(noise_model="noise_model").apply(data)
    for one in data.obs:
        noise_of(one, tabulated)
    return data


CONFIGURATION = """
[map]
n_side = 16
frame = "equatorial"
[[source]]
kind = "toast"
path = "toast"
shared_mask = 15
detector_mask = 7
intervals = "{view}"
"""


@pytest.mark.parametrize(
    "tabulated, hwp, view", [(False, False, ""), (True, False, "still"), (False, True, "")]
)
def test_maps_have_the_bits_of_those_of_the_volume(tmp_path, tabulated, hwp, view):
    data = made(tabulated, hwp)
    toast.ops.SaveHDF5(volume=str(tmp_path / "toast"), volume_index=None).apply(data)
    mapper = MapMaker(name="ml", nside=N_SIDE, view=view or None)
    mapper.apply(data)
    volume = run(parse_config(CONFIGURATION.format(view=view), tmp_path / "run.toml"))
    assert volume.summary.totals.detectors == 3  # one is flagged in full
    assert set(volume) == set(mapper.maps) and len(volume) == 6
    for name in volume:
        np.testing.assert_array_equal(mapper.maps[name].values, volume[name].values, err_msg=name)


def test_maps_are_objects_of_toast():
    data = made()
    mapper = MapMaker(name="ml", nside=N_SIDE, nside_submap=4)
    mapper.apply(data)
    for product, key, n_value in (("map", "map", 3), ("hits", "hits", 1), ("covariance", "cov", 6)):
        found = data[f"ml_{key}"]
        assert isinstance(found, toast.PixelData) and found.n_value == n_value
        mine = np.nan_to_num(mapper.maps[product].values)
        there = np.zeros((n_value, 12 * N_SIDE**2))
        n = found.distribution.n_pix_submap
        for local, submap in enumerate(found.distribution.local_submaps):
            there[:, submap * n : submap * n + n] = found.data[local].T
        np.testing.assert_array_equal(there, mine)
    assert data["ml_map"].units == units.K and data["ml_cov"].units == units.K**2
    assert data["ml_hits"].distribution.n_local_submap < data["ml_hits"].distribution.n_submap
    assert mapper.maps.sky.frame == "equatorial"


# K: of I alone, and of I, Q and U, whose angles are of 32 bits here
@pytest.mark.parametrize(("stokes", "most"), [("I", [1e-18]), ("IQU", [1e-12, 1e-11, 1.5e-11])])
def test_hits_and_binned_map_are_those_that_toast_makes(stokes, most):
    data = made()
    options = {"solver.binned_only": True, "noise.kernel": "white"}
    MapMaker(name="ml", nside=N_SIDE, mode=stokes, options=options).apply(data)
    look = toast.ops.PointingDetectorSimple()
    pixels = toast.ops.PixelsHealpix(detector_pointing=look, nside=N_SIDE, nest=True)
    weights = toast.ops.StokesWeights(detector_pointing=look, mode=stokes)
    binning = toast.ops.BinMap(
        pixel_pointing=pixels, stokes_weights=weights, noise_model="noise_model", pixel_dist="dist",
        covariance="covariance", binned="binned",
    )  # fmt: skip
    toast.ops.BuildPixelDistribution(pixel_dist="dist", pixel_pointing=pixels).apply(data)
    toast.ops.CovarianceAndHits(
        pixel_dist="dist", pixel_pointing=pixels, stokes_weights=weights, noise_model="noise_model",
        covariance="covariance", hits="hits", rcond="rcond", rcond_threshold=1e-3,
    ).apply(data)  # fmt: skip
    binning.apply(data)
    values = {key: full(data[key]) for key in ("hits", "binned", "ml_hits", "ml_binmap")}
    np.testing.assert_array_equal(values["ml_hits"], values["hits"])
    solved = (values["ml_binmap"] != 0).all(axis=0) & (values["binned"] != 0).all(axis=0)
    assert solved.sum() > 100
    off = np.abs(values["ml_binmap"] - values["binned"])[:, solved].max(axis=1)
    assert (off <= most).all(), off


def test_toast_has_the_same_signs():
    data = made()
    look = toast.ops.PointingDetectorSimple(shared_flag_mask=0)
    toast.ops.StokesWeights(detector_pointing=look, mode="IQU", weights="weights").apply(data)
    found, one = next(iter(MapMaker(name="ml").observations(data))), data.obs[0]
    for row, name in enumerate(found.detectors):
        _, angles = found.pointing.directions(row, 0, N_SAMP)
        phi, efficiency = angles * (2 * np.pi / 2**32), found.pointing.efficiency(row)
        expected = np.stack([np.ones(N_SAMP), efficiency * np.cos(phi), efficiency * np.sin(phi)], axis=1)
        np.testing.assert_allclose(one.detdata["weights"][name], expected, rtol=0, atol=2e-9)


def test_toast_reads_volumes_of_petamap(tmp_path):
    written = made_observations.observation("day", noise=made_observations.White())
    write_toast(tmp_path, [written])
    found = toast.io.load_hdf5(str(tmp_path / "day.h5"), toast.Comm())
    assert found.name == "day" and tuple(found.local_detectors) == written.detectors
    assert found.detdata["signal"].units == units.uK
    expected = [read_signal(written, row, 0, written.n_samp) for row in range(written.n_det)]
    np.testing.assert_array_equal(found.detdata["signal"][:], expected)


def full(pixel_data):
    n, dist = pixel_data.distribution.n_pix_submap, pixel_data.distribution
    values = np.zeros((pixel_data.n_value, dist.n_pix))
    for local, submap in enumerate(dist.local_submaps):
        values[:, submap * n : submap * n + n] = pixel_data.data[local].T
    return values


def test_options_and_mistakes():
    data = made()
    mapper = MapMaker(name="ml", nside=N_SIDE, mode="I", coord_out="G", options={"products.residual": False})
    mapper.apply(data)
    assert mapper.maps.sky.names == ("I",) and "residual" not in mapper.maps
    assert json.dumps(mapper.maps.sky.frame) == '"galactic"'
    with pytest.raises(ConfigError, match="coord_out is 'X'"):
        MapMaker(name="ml", coord_out="X").apply(data)
    del data.obs[0]["noise_model"]
    with pytest.raises(ConfigError, match="no source gives the noise"):
        MapMaker(name="ml", nside=N_SIDE).apply(data)


@pytest.mark.parametrize(
    ("trait", "name", "mend"),
    [
        ("det_data", "signa", "did you mean 'signal'"),
        ("times", "time", "did you mean 'times'"),
        ("boresight", "sight", "known: azimuth, boresight_radec"),
        ("view", "stil", "did you mean 'still'"),
        ("noise_model", "noise", "did you mean 'noise_model'"),
        ("det_flags", "glitches", "known: flags, signal"),
        ("shared_flags", "flag", "did you mean 'flags'"),
        ("hwp_angle", "hwp", "known: azimuth"),
        ("azimuth", "azimut", "did you mean 'azimuth'"),
    ],
)
def test_what_a_trait_names_must_be_there(trait, name, mend):
    with pytest.raises(DataError, match=f"observation one: has no '{name}', which {trait} names .*{mend}"):
        MapMaker(name="ml", nside=N_SIDE, **{trait: name}).apply(made())
