"""Tests of petamap's own volume format: round trips and detection of damage."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, replace

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_observations import White, flags_of, observation, signal_of

from petacomm.base.errors import DataError, UserError
from petacomm.base.progress import SilentProgress
from petacomm.mpi import SerialCommunicator
from petamap.data.formats import volume_write
from petamap.data.formats.toast import ToastOptions, ToastSource
from petamap.data.formats.toast_write import write_toast
from petamap.data.formats.volume import VolumeOptions, VolumeSource
from petamap.data.formats.volume_set import write_volumes
from petamap.data.formats.volume_write import write_volume
from petamap.data.recorded_azimuth import RecordedAzimuth
from petamap.data.source import SourceContext
from petamap.pointing import quaternion
from petamap.pointing.boresight import Boresight, PiecewiseBoresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import UniformPlate


def read(path, **options):
    return VolumeSource(VolumeOptions(path=path.name, **options), SourceContext(path.parent)).extend([])


def same_noise(one, two) -> bool:
    return type(one) is type(two) and all(map(np.array_equal, astuple(one), astuple(two)))


def assert_same(one, two):
    for name in (
        "frame",
        "name",
        "uid",
        "n_samp",
        "sample_rate",
        "start_time",
        "detectors",
        "intervals",
        "unit",
    ):
        assert getattr(one, name) == getattr(two, name)
    for detector in range(one.n_det):
        assert np.array_equal(signal_of(one, detector), signal_of(two, detector))
        assert np.array_equal(flags_of(one, detector), flags_of(two, detector))
        for interval in range(len(one.intervals)):
            models = (each.noise.noise_model(detector, interval) for each in (one, two))
            assert same_noise(*models)
        vectors, angles = zip(
            *(each.pointing.directions(detector, 0, one.n_samp) for each in (one, two)), strict=True
        )
        np.testing.assert_allclose(vectors[0], vectors[1], rtol=0, atol=2.0**-50)
        assert np.abs((angles[0] - angles[1]).astype(np.int32)).max() <= 4
        assert one.pointing.efficiency(detector) == two.pointing.efficiency(detector)


def piecewise(one):
    turn = quaternion.about_y(np.linspace(1.0, 1.3, 5))
    pieces = [Boresight(turn, 100, 30.0, -2.5), Boresight(turn[1::-1], 200, 250.0, order="slerp")]
    return replace(one, pointing=CompressedPointing(PiecewiseBoresight(pieces), one.pointing.detectors))


def test_round_trip_of_a_piecewise_boresight(tmp_path):
    one = replace(piecewise(observation(n_samp=300)), frame="offset")
    write_volume(tmp_path / "a.h5", [one])
    assert_same(one, read(tmp_path / "a.h5")[0])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [(0, 199, "pieces have 299 samples"), (1, 3, "pieces have 300 samples and 8 knots"), (4, 2, "degree")],
)
def test_pieces_that_do_not_fit_are_told(tmp_path, column, value, message):
    from petamap.data.formats.volume_header import crc32

    write_volume(tmp_path / "a.h5", [piecewise(observation(n_samp=300))])
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        group = file["0000"]
        rows = group["pieces"][()]
        rows[1, column] = value
        group["pieces"][...] = rows
        header = json.loads(group["header"][()].tobytes())
        header["crc"]["pieces"] = crc32(rows)
        replace_header(group, json.dumps(header).encode())
    with pytest.raises(DataError, match=message):
        all_of(tmp_path / "a.h5")


@pytest.mark.parametrize("chunk", [1 << 16, 64])
def test_round_trip(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(volume_write, "_CHUNK", chunk)
    written = [observation("first"), observation("second one", n_samp=1, n_det=1, spacing=1.0)]
    write_volume(tmp_path / "all.h5", written)
    for one, two in zip(written, read(tmp_path / "all.h5"), strict=True):
        assert_same(one, two)
    part = read(tmp_path / "all.h5")[0]
    whole = signal_of(written[0], 2)
    for start, stop in [(0, 1), (63, 65), (130, 300), (299, 300), (5, 5)]:
        assert np.array_equal(signal_of(part, 2, start, stop), whole[start:stop])


def test_reading_by_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(volume_write, "_CHUNK", 50)
    one = observation(n_samp=1000, n_det=4)
    write_volume(tmp_path / "a.h5", [one])
    (back,) = read(tmp_path / "a.h5")
    asked = [(d, s, min(s + 77, 1000)) for d in range(4) for s in range(0, 1000, 77)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda args: signal_of(back, *args), asked))
    for (detector, start, stop), values in zip(asked, found, strict=True):
        assert np.array_equal(values, signal_of(one, detector, start, stop))


def test_uniform_plate_and_omitted_parts(tmp_path):
    one = observation(plate=UniformPlate(0.3, 1e-3))
    write_volume(tmp_path / "a.h5", [one])
    (back,) = read(tmp_path / "a.h5", signal=False, flags=False, noise=False)
    assert back.pointing.plate == UniformPlate(0.3, 1e-3)
    assert (back.signals, back.flags, back.noise) == ((), (), None)
    bare = replace(one, pointing=None, signals=(), flags=(), noise=None)
    write_volume(tmp_path / "b.h5", [bare])
    (back,) = read(tmp_path / "b.h5")
    assert (back.pointing, back.signals, back.flags, back.noise) == (None, (), (), None)


def test_azimuth_is_kept(tmp_path):
    track = RecordedAzimuth(lambda start, stop: np.sin(0.1 * np.arange(start, stop)), str)
    written = replace(observation("a", noise=White()), azimuth=track)
    write_volume(tmp_path / "a.h5", [written])
    write_toast(tmp_path / "toast", [written])
    toast = ToastSource(ToastOptions(path="toast"), SourceContext(tmp_path)).extend([])
    for (one,) in (read(tmp_path / "a.h5"), toast):
        assert np.array_equal(one.azimuth.azimuths(3, 20), track.azimuths(3, 20))
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["0000/azimuth"][5] = 9.0
    (one,) = read(tmp_path / "a.h5")
    with pytest.raises(DataError, match=r"azimuth.*is damaged: its CRC-32"):
        one.azimuth.azimuths(0, 1)


def test_single_precision_is_half_as_large(tmp_path):
    one = observation(n_samp=3000)
    write_volume(tmp_path / "a.h5", [one], "float32")
    (back,) = read(tmp_path / "a.h5")
    assert np.array_equal(signal_of(back, 1), signal_of(one, 1).astype(np.float32))


def test_folder_of_volumes(tmp_path):
    for name in ("b", "a"):
        write_volume(tmp_path / "v" / f"{name}.h5", [observation(name)])
    assert [one.name for one in read(tmp_path / "v")] == ["a", "b"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no \.h5 files"):
        read(tmp_path / "empty")


def all_of(path):
    """Read all content, as a run does."""
    observations = read(path)
    for one in observations:
        assert one.pointing.boresight.n_samp == one.n_samp
        for detector in range(one.n_det):
            signal_of(one, detector), flags_of(one, detector)
            for interval in range(len(one.intervals)):
                one.noise.noise_model(detector, interval)
    return observations


def test_damaged_samples_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(volume_write, "_CHUNK", 100)
    write_volume(tmp_path / "a.h5", [observation()])
    with h5py.File(tmp_path / "a.h5") as file:
        offset = file["0000/signal"].id.get_chunk_info_by_coord((1, 200)).byte_offset
    content = bytearray((tmp_path / "a.h5").read_bytes())
    content[offset + 17] ^= 1
    (tmp_path / "a.h5").write_bytes(content)
    (one,) = read(tmp_path / "a.h5")
    signal_of(one, 1, 0, 200)
    with pytest.raises(DataError, match=r"a\.h5, 0000/signal, first, detector D1, samples 200\.\.299"):
        signal_of(one, 1, 150, 250)


def test_exchanged_chunks_are_detected(tmp_path):
    write_volume(tmp_path / "a.h5", [observation()])
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["0000/signal"][0] = file["0000/signal"][1]
    with pytest.raises(DataError, match=r"detector D0, samples 0\.\.299: is damaged: its CRC-32"):
        signal_of(read(tmp_path / "a.h5")[0], 0)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "a.h5"
    write_volume(path, [observation(n_samp=40, n_det=2)])
    return path.read_bytes()


@settings(max_examples=150, deadline=None)
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=3),
    keep=st.sampled_from([1.0, 1.0, 1.0, 0.0, 0.3, 0.9, 0.999]),
)
def test_random_damage_is_detected(tmp_path_factory, content, flips, keep):
    path = tmp_path_factory.mktemp("fuzz") / "a.h5"
    damaged = bytearray(content)
    for place, flip in flips:
        damaged[int(place * len(damaged))] ^= flip
    path.write_bytes(damaged[: round(keep * len(damaged))])
    try:
        (back,) = all_of(path)
    except UserError as error:
        assert str(path) in str(error)
    else:
        assert_same(observation(n_samp=40, n_det=2), back)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(n_samp=2**50), r"a\.h5, 0000/knots: knots reach"),
        (lambda h: h.update(chunk=100), "signal_crc: has shape .* instead of"),
        (lambda h: h.update(uid=-1), "uid, n_samp, chunk cannot be so"),
        (lambda h: h.update(sample_rate=0), "clock cannot be so"),
        (lambda h: h.update(detectors=["a", "a", "b"]), "names of detectors cannot be so"),
        (lambda h: h.update(intervals=[[0, 10], [5, 20]]), "intervals cannot be so"),
        (lambda h: h.update(surprise=1), "surprise"),
        (lambda h: h["noise"]["index"][0].__setitem__(0, 99), "noise index cannot be so"),
        (lambda h: h["boresight"].update(order="magic"), "boresight cannot be so"),
        (lambda h: h.pop("name"), "name"),
    ],
)
def test_inconsistent_headers(tmp_path, change, message):
    path = tmp_path / "a.h5"
    write_volume(path, [observation()])
    with h5py.File(path, "r+") as file:
        header = json.loads(file["0000/header"][()].tobytes())
        change(header)
        replace_header(file["0000"], json.dumps(header).encode())
    with pytest.raises(DataError, match=message):
        all_of(path)


def replace_header(group, text: bytes) -> None:
    from petamap.data.formats.volume_header import crc32

    del group["header"]
    group["header"] = np.frombuffer(text, np.uint8)
    group["header"].attrs["crc"] = crc32(text)


def test_deep_nesting(tmp_path):
    write_volume(tmp_path / "a.h5", [observation()])
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        replace_header(file["0000"], b"[" * 200_000)
    with pytest.raises(DataError, match="no header of version 1"):
        read(tmp_path / "a.h5")


def test_declared_size_is_checked(tmp_path):
    write_volume(tmp_path / "a.h5", [observation()])
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        del file["0000/knots"]
        file["0000"].create_dataset("knots", (10**15, 4), "f8", chunks=(1 << 16, 4))
    with pytest.raises(DataError, match=r"knots: declares 4000000000000000 values, the file holds 0 bytes"):
        all_of(tmp_path / "a.h5")


@pytest.mark.parametrize("kind", ["external link", "soft link", "external storage"])
def test_references_out_of_the_file(tmp_path, kind):
    path = tmp_path / "a.h5"
    write_volume(path, [observation()])
    (tmp_path / "secret").write_bytes(bytes(10_000))
    with h5py.File(path, "r+") as file:
        group = file["0000"]
        shape = group["knots"].shape
        group.move("knots", "other")
        if kind == "external link":
            group["knots"] = h5py.ExternalLink("b.h5", "/0000/knots")
        elif kind == "soft link":
            group["knots"] = h5py.SoftLink("/0000/other")
        else:
            group.create_dataset("knots", shape, "f8", external=[(tmp_path / "secret", 0, 10_000)])
    with pytest.raises(DataError, match=r"knots: (is a link|keeps its values in other)"):
        all_of(path)


@pytest.mark.parametrize(
    ("keep", "words"),
    [(0.7, "the file is cut short"), (0.0, "it is no HDF5 file"), (1.0, "does not pass its checksum")],
)
def test_damage_is_told_with_the_mend(tmp_path, keep, words):
    path = tmp_path / "a.h5"
    write_volume(path, [observation()])
    with h5py.File(path) as file:
        chunk = file["0000/signal"].id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset + chunk.size // 2] ^= 0xFF
    path.write_bytes(content[: round(keep * len(content))])
    with pytest.raises(DataError, match=words) as caught:
        all_of(path)
    assert "copy" in caught.value.mend and caught.value.where.startswith(str(path))
    assert keep < 1 or "0000/signal, first, detector D0, samples 0" in caught.value.where


def test_other_files(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"no HDF5 at all")
    with pytest.raises(DataError, match=r"a\.h5.*cannot be read"):
        read(tmp_path / "a.h5")
    with h5py.File(tmp_path / "b.h5", "w"):
        pass
    with pytest.raises(DataError, match="no petamap volume"):
        read(tmp_path / "b.h5")
    write_volume(tmp_path / "c.h5", [observation()])
    with h5py.File(tmp_path / "c.h5", "r+") as file:
        file.attrs["version"] = 2
    with pytest.raises(DataError, match=r"is of version 2, known is 1 .update petamap"):
        read(tmp_path / "c.h5")


def test_unsupported_pointing_leaves_no_file(tmp_path):
    with pytest.raises(DataError, match="cannot hold object"):
        write_volume(tmp_path / "a.h5", [replace(observation(), pointing=object())])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("changes", [{"detectors": ()}, {"n_samp": 0}])
def test_observations_without_samples_are_not_written(tmp_path, changes):
    empty = replace(observation("night"), pointing=None, **changes)
    for write in (
        lambda: write_volume(tmp_path / "one.h5", [empty]),
        lambda: write_volumes(tmp_path / "out", [empty], SerialCommunicator(), SilentProgress()),
        lambda: write_toast(tmp_path / "toast", [empty]),
    ):
        with pytest.raises(DataError, match=r"observation night: has .* samples of .* detectors .leave it"):
            write()
    assert not list(tmp_path.iterdir())
