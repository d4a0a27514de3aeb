"""Tests of TOAST volumes: a file written by TOAST 3.0.6 against TOAST's own results, round trips, damage.

``toast_3.0.6`` holds a simulated observation of 14 detectors, 60 samples, a half-wave plate; and pixels
(N_side 256, nested) and weights of the detectors that are not flagged, as its operators expand them. And
``ground.h5``: 150 s of two detectors at 5 Hz in Atacama that sweep from azimuth 150 to 170 degrees at an
elevation of 50; with noise, offsets of 0.1 and 0.2 K, and 0.02 and 0.04 K a radian of azimuth.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from astropy.io import fits
from hypothesis import given, settings
from hypothesis import strategies as st
from made_observations import White, flags_of, observation, signal_of

from petacomm.base.errors import DataError, UserError
from petamap.data.config import parse_config
from petamap.data.formats.toast import ToastOptions, ToastSource
from petamap.data.formats.toast_write import write_toast
from petamap.data.source import SourceContext
from petamap.mapmaking.run import run
from petamap.noise.model import InverseLags, OneOverF
from petamap.noise.psd import noise_psd
from petamap.pointing import quaternion
from petamap.pointing.frames import frame_rotation, horizon_pointing, horizon_to_equatorial
from petamap.pointing.half_wave_plate import UniformPlate
from petamap.sky.healpix import Healpix
from petamap.templates.subscans import find_subscans, scan_directions

GIVEN = Path(__file__).parent / "toast_3.0.6"
NOISE = OneOverF(0.05, 0.005, 1e-5, -1.0)  # of all detectors of the file
TURN = 2 * np.pi / 2**32


def read(path, **options):
    return ToastSource(ToastOptions(path=path.name, **options), SourceContext(path.parent)).extend([])


def weights_of(one, detector) -> tuple[np.ndarray, np.ndarray]:
    pixels, angles = np.empty(one.n_samp, np.int32), np.empty(one.n_samp, np.uint32)
    one.pointing.expand(Healpix(256, True), detector, 0, one.n_samp, pixels, angles)
    e = one.pointing.efficiency(detector)
    phi = angles * TURN
    return pixels, np.stack([np.ones(one.n_samp), e * np.cos(phi), e * np.sin(phi)], axis=1)


@pytest.fixture
def copy(tmp_path) -> Path:
    return Path(shutil.copy(GIVEN / "observation.h5", tmp_path / "a.h5"))


def test_file_against_toast():
    expected = np.load(GIVEN / "expected.npz")
    (one,) = read(GIVEN / "observation.h5")
    assert list(one.detectors) == expected["detectors"].tolist()
    assert (one.n_samp, one.sample_rate, one.unit, one.start_time) == (60, 10.0, "K_CMB", 1677110400.0)
    with h5py.File(GIVEN / "observation.h5") as file:
        names = json.loads(file.attrs["observation_detectors"])
        assert one.uid == file.attrs["observation_uid"]
        for detector, name in enumerate(one.detectors):
            row = names.index(name)
            assert np.array_equal(signal_of(one, detector), file["detdata/signal"][row])
            bad = (file["detdata/flags"][row] | file["shared/flags"][()]) > 0
            assert np.array_equal(flags_of(one, detector), bad)
    for detector in range(one.n_det):
        pixels, weights = weights_of(one, detector)
        assert np.array_equal(pixels, expected["pixels"][detector])
        np.testing.assert_allclose(weights, expected["weights"][detector], rtol=0, atol=5e-9)
    assert one.noise.noise_model(2, 0) == NOISE


def test_azimuth_and_subscans_of_a_ground_scan():
    (one,) = read(GIVEN / "ground.h5")
    with h5py.File(GIVEN / "ground.h5") as file:
        azimuth, elevation = (file[f"shared/{name}"][()] for name in ("azimuth", "elevation"))
        times = file["shared/times"][()]
        throws, right = (
            np.searchsorted(times, file[f"intervals/{name}"][0] - 1e-3)
            for name in ("throw", "throw_leftright")
        )
    assert np.array_equal(one.azimuth.azimuths(0, one.n_samp), azimuth)
    assert np.array_equal(one.azimuth.azimuths(7, 30), azimuth[7:30])
    # from north to east: with the elevation, it is where TOAST's boresight looks
    seconds = np.arange(one.n_samp) / one.sample_rate
    site = np.radians([-22.958064, -67.786222])
    horizon = horizon_to_equatorial(one.start_time, seconds, *site)
    sight = quaternion.multiply(horizon, horizon_pointing(azimuth, elevation))
    looks = [
        quaternion.rotate(q, [0.0, 0.0, 1.0]) for q in (sight, one.pointing.quaternions(0, 0, one.n_samp))
    ]
    assert quaternion.angle_between(*looks).max() < np.radians(35 / 3600)
    edges = find_subscans(one, 0, one.n_samp)
    assert len(edges) == len(throws) + 1 and np.abs(edges[:-1] - throws).max() <= 1
    assert scan_directions(one, 0, one.n_samp, edges).sum() == len(right)
    (one,) = read(GIVEN / "ground.h5", azimuth="")
    assert one.azimuth is None
    assert read(GIVEN / "observation.h5")[0].azimuth is None


def test_pickup_of_a_ground_scan_is_solved_for(tmp_path):
    text = '[map]\npixelization = "car"\nresolution = "30 arcmin"\nframe = "equatorial"\nstokes = "I"\n'
    text += f'[[source]]\nkind = "toast"\npath = "{GIVEN / "ground.h5"}"\n[[source]]\nkind = "offsets"\n'
    text += '[[source]]\nkind = "azimuth-synchronous"\norder = 1\nrms = "100 mK"\n'
    run(parse_config(text, tmp_path / "run.toml", ["solver.tolerance=1e-9"]), out=tmp_path / "maps")
    table = fits.getdata(tmp_path / "maps" / "run_amplitudes.fits")
    (one,) = read(GIVEN / "ground.h5")
    half = np.ptp(one.azimuth.azimuths(0, one.n_samp)) / 2
    for template, values, error in (
        ("offsets", [0.1, 0.2], 2e-3), ("azimuth-synchronous", [0.02 * half, 0.04 * half], 4e-4),
    ):  # fmt: skip
        found = table["VALUE"][table["TEMPLATE"] == template]
        np.testing.assert_allclose(found, values, rtol=0, atol=error)


def test_an_azimuth_that_is_not_finite_is_told(tmp_path):
    path = Path(shutil.copy(GIVEN / "ground.h5", tmp_path / "a.h5"))
    with h5py.File(path, "r+") as file:
        file["shared/azimuth"][31] = np.nan
    (one,) = read(path)
    with pytest.raises(DataError, match=r"a.h5.*azimuth, sample 31: the azimuth is nan \(mend or cut"):
        one.azimuth.azimuths(20, 40)
    with pytest.raises(DataError, match="compass"):
        read(path, azimuth="compass")


def test_masks():
    (one,) = read(GIVEN / "observation.h5", shared_mask=7, detector_mask=1)
    assert not flags_of(one, 0).any()
    (one,) = read(GIVEN / "observation.h5", shared_mask=8, detector_flags="")
    assert np.flatnonzero(flags_of(one, 0)).tolist() == [20, 21, 22, 23]
    (one,) = read(GIVEN / "observation.h5", detector_mask=0)
    assert one.n_det == 14


def test_intervals_against_toast():
    (one,) = read(GIVEN / "observation.h5", intervals="scan")
    assert one.intervals == ((3, 25), (30, 60))


def test_accuracy_of_thinned_boresight():
    full, thin = (read(GIVEN / "observation.h5", thin=thin)[0] for thin in (0.0, 1e-6))
    assert len(thin.pointing.boresight.knots) < 30
    exact, near = (one.pointing.directions(0, 0, 60)[0] for one in (full, thin))
    assert np.abs(exact - near).max() < 1e-6


def test_tabulated_against_analytic_noise(copy):
    with h5py.File(copy, "r+") as file:
        del file["metadata/noise_model/analytic"]
    (one,) = read(copy)
    model = one.noise.noise_model(0, 0)
    np.testing.assert_allclose(model.values, noise_psd(NOISE, model.frequencies), rtol=1e-5)


def test_mixed_noise_streams(copy):
    with h5py.File(copy, "r+") as file:
        group = file["metadata/noise_model"]
        del group["analytic"]
        mixing = group["mixing_matrix"][()].tolist()
        first, other = mixing[0][0], mixing[2][0]
        mixing[0] = (first, first, 3.0)
        mixing.append((first, other, 2.0))
        dtype = group["mixing_matrix"].dtype
        del group["mixing_matrix"]
        group["mixing_matrix"] = np.array(mixing, dtype)
    model = read(copy)[0].noise.noise_model(0, 0)
    expected = noise_psd(NOISE, model.frequencies)
    np.testing.assert_allclose(model.values, (9 + 4) * expected, rtol=1e-5)


def test_noise_of_the_focal_plane(copy):
    with h5py.File(copy, "r+") as file:
        del file["metadata/noise_model"]
    assert read(copy)[0].noise.noise_model(1, 0) == NOISE


def test_round_trip(tmp_path):
    plates = {"a": None, "b": "sampled", "c": UniformPlate(0.3, 0.02)}
    written = [observation(name, noise=White(), plate=plate) for name, plate in plates.items()]
    write_toast(tmp_path / "volume", written)
    found = read(tmp_path / "volume", intervals="stationary")
    assert len(found) == 3
    for one, two in zip(written, found, strict=True):
        for name in ("name", "uid", "n_samp", "sample_rate", "start_time", "detectors", "intervals"):
            assert getattr(one, name) == getattr(two, name)
        assert two.unit == "uK" and (one.frame, two.frame) == ("galactic", "equatorial")
        turned = one.pointing.rotated(frame_rotation("galactic", "equatorial"))
        for detector in range(one.n_det):
            assert np.array_equal(signal_of(one, detector), signal_of(two, detector))
            assert np.array_equal(flags_of(one, detector), flags_of(two, detector))
            model, back = (each.noise.noise_model(detector, 0) for each in (one, two))
            np.testing.assert_allclose(
                [back.net, back.fknee, back.fmin, back.alpha],
                [model.net, model.fknee, model.fmin, model.alpha],
                rtol=1e-14,
            )
            looks = [each.directions(detector, 0, one.n_samp) for each in (turned, two.pointing)]
            np.testing.assert_allclose(looks[0][0], looks[1][0], rtol=0, atol=1e-14)
            assert np.abs((looks[0][1] - looks[1][1]).astype(np.int32)).max() < 8
    with sqlite3.connect(tmp_path / "volume" / "index.sqlite") as index:
        rows = index.execute(
            "SELECT name, path, uid, samples, valid_dets, start FROM observations"
        ).fetchall()
    assert rows == [(one.name, f"{one.name}.h5", one.uid, 300, 3, one.start_time) for one in written]


def test_changed_texts_of_attributes_are_refused(tmp_path):
    write_toast(tmp_path, [observation("a", noise=White())])
    path = tmp_path / "a.h5"
    for name, key, text in (
        ("/", "observation_detector_flags", '{"d0": 1}'),
        ("detdata/signal", "units", "mK"),
    ):
        with h5py.File(path, "r+") as file:
            before = file[name].attrs[key]
            file[name].attrs[key] = text
        with pytest.raises(DataError, match=f"a.h5, {name}: attribute '{key}' has changed since"):
            read(tmp_path)
        with h5py.File(path, "r+") as file:
            file[name].attrs[key] = before
        assert len(read(tmp_path)) == 1
    with h5py.File(path, "r+") as file:  # as the message says
        file["detdata/signal"].attrs["units"] = "mK"
        del file["detdata/signal"].attrs["petamap_text_sha256"]
    assert read(tmp_path)[0].unit == "mK"


def test_measured_noise_is_written_as_a_table(tmp_path):
    class Lags:
        def noise_model(self, detector, interval):
            return InverseLags(np.array([4.0, -1.0, 0.1]))

    write_toast(tmp_path, [observation("a", noise=Lags())])
    model = read(tmp_path)[0].noise.noise_model(0, 0)
    angle = 2 * np.pi * model.frequencies / 10.0
    # one-sided: 2 / (rate * N^-1(f)), N^-1(f) = lag 0 + 2 sum of lags * cosines
    expected = 2 / (10.0 * (4 - 2 * np.cos(angle) + 0.2 * np.cos(2 * angle)))
    np.testing.assert_allclose(model.values, expected, rtol=1e-4)


def test_unsupported_observations(tmp_path):
    with pytest.raises(DataError, match="noise that differs between intervals"):
        write_toast(tmp_path, [observation()])
    with pytest.raises(DataError, match="is no name for a file"):
        write_toast(tmp_path, [observation("../up", noise=White())])
    with pytest.raises(DataError, match="cannot hold NoneType"):
        write_toast(tmp_path, [replace(observation(noise=White()), pointing=None)])
    for frame in (None, "offset"):
        with pytest.raises(DataError, match="cannot be turned into equatorial"):
            write_toast(tmp_path, [replace(observation(noise=White()), frame=frame)])
    assert list(tmp_path.iterdir()) == []


def change(path, action):
    with h5py.File(path, "r+") as file:
        action(file)


def replaced(name, values):
    def action(file):
        attrs = dict(file[name].attrs)
        del file[name]
        file[name] = values
        file[name].attrs.update(attrs)

    return action


def all_of(observations):
    for one in observations:
        assert one.pointing.boresight.n_samp == one.n_samp
        for detector in range(one.n_det):
            signal_of(one, detector), flags_of(one, detector), one.noise.noise_model(detector, 0)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda f: f.attrs.update(toast_format_version=1), "format version 2"),
        (lambda f: f.attrs.update(observation_detectors="[1, 2"), "no JSON"),
        (lambda f: f.attrs.update(observation_detectors="[1, 2]"), "not what it should be"),
        (lambda f: f.attrs.update(observation_detectors='["X"]'), "instead of"),
        (lambda f: f.attrs.update(observation_samples=61), r"instead of \(14, 61\)"),
        (lambda f: f.attrs.update(observation_samples="60"), "is no int"),
        (lambda f: f.attrs.__delitem__("observation_name"), "no attribute 'observation_name'"),
        (lambda f: f.__delitem__("detdata/signal"), "detdata/signal: is missing"),
        (lambda f: f.__delitem__("shared/times"), "shared/times: is missing"),
        (lambda f: f.__delitem__("shared/boresight_radec"), "boresight_radec: is missing"),
        (replaced("shared/times", np.arange(60.0)[::-1]), r"shared/times, sample 1: times do not increase"),
        (
            replaced("shared/times", 1e9 + np.arange(60) / 20.0),
            "shared/times: times are those of 20 Hz, and the sample rate is 10 Hz",
        ),
        (
            replaced("shared/times", 1e9 + np.arange(60) / 10.0 + 9.0 * (np.arange(60) > 29)),
            r"shared/times, sample 29: times leap by 9.1 s .*by intervals",
        ),
        (replaced("shared/boresight_radec", np.zeros((60, 4))), r"boresight_radec, knot 0: .*no rotation"),
        (replaced("instrument/focalplane", np.zeros(3)), "instrument/focalplane: is of type float64"),
        (lambda f: f["detdata/signal"].attrs.update(units="parsec"), "cannot be turned into 'parsec"),
        (lambda f: f["metadata/noise_model"].attrs.update(psd_units="no unit at all"), None),
    ],
)
def test_damaged_structure(copy, action, message):
    change(copy, action)
    if message is None:  # the analytic model does not need it
        all_of(read(copy))
        return
    with pytest.raises(DataError, match=message) as caught:
        all_of(read(copy))
    assert str(copy) in str(caught.value)


def test_missing_datasets():
    for options in ({"shared_flags": "flogs"}, {"detector_flags": "flogs"}):
        with pytest.raises(DataError, match="flogs: is missing"):
            all_of(read(GIVEN / "observation.h5", **options))
    for options in ({"signal": "signel"}, {"intervals": "scon"}):
        with pytest.raises(DataError, match=r"signel: is missing|scon: is missing"):
            read(GIVEN / "observation.h5", **options)


def test_all_detectors_flagged(copy):
    with h5py.File(copy, "r+") as file:
        names = json.loads(file.attrs["observation_detectors"])
        file.attrs["observation_detector_flags"] = json.dumps(dict.fromkeys(names, 1))
    with pytest.raises(DataError, match=r"all detectors of its 1 observations are flagged .clear bits"):
        read(copy)


def test_a_folder_without_files_is_no_folder_of_flagged_detectors(tmp_path):
    (tmp_path / "obs.hdf5").touch()
    with pytest.raises(DataError, match=r"no .h5 files here.*name the folder of a volume") as caught:
        read(tmp_path)
    assert caught.value.where == str(tmp_path)


def test_flac_without_its_package(copy, monkeypatch):
    monkeypatch.setitem(sys.modules, "flacarray", None)
    monkeypatch.setitem(sys.modules, "flacarray.hdf5", None)
    with h5py.File(copy, "r+") as file:
        del file["detdata/signal"]
        file["detdata/signal/compressed"] = np.zeros(10, np.uint8)
        file["detdata/signal"].attrs["units"] = "K"
    with pytest.raises(DataError, match=r"detdata/signal: is compressed with FLAC.*flacarray .pip install"):
        read(copy)


def test_declared_size_is_checked(copy):
    def action(file):
        file.attrs["observation_samples"] = 10**15
        for name in ("shared/times", "detdata/signal"):
            del file[name]
        file["shared"].create_dataset("times", (10**15,), "f8", chunks=(1000,))
        file["detdata"].create_dataset("signal", (14, 10**15), "f8", chunks=(1, 1000))

    change(copy, action)
    with pytest.raises(DataError, match="declares 14000000000000000 values, the file holds 0 bytes"):
        read(copy)


def test_classes_are_not_imported(copy):
    def action(file):
        file["instrument"].attrs["focalplane_class"] = "antigravity.Focalplane"
        file["metadata/noise_model"].attrs["class"] = "antigravity.Noise"

    change(copy, action)
    all_of(read(copy))
    assert "antigravity" not in sys.modules


@settings(max_examples=60, deadline=None)
@given(
    places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=3),
    keep=st.sampled_from([1.0, 1.0, 0.0, 0.5, 0.95, 0.999]),
)
def test_random_damage_raises_data_error(tmp_path_factory, places, keep):
    path = tmp_path_factory.mktemp("fuzz") / "a.h5"
    content = bytearray((GIVEN / "observation.h5").read_bytes())
    for place, flip in places:
        content[int(place * len(content))] ^= flip
    path.write_bytes(content[: round(keep * len(content))])
    try:
        all_of(read(path))
    except UserError as error:
        assert str(path) in str(error)
