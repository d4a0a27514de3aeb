"""Tests of skies of which what detectors see alone is held: all of that, with the bits of the whole."""

import dataclasses
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks

from petacomm.base.errors import DataError
from petacomm.mpi import SerialCommunicator
from petamap.data.config import parse_config
from petamap.data.observation import Observation, add_signals, share_signals
from petamap.data.source import SourceContext
from petamap.mapmaking.memory import sky_bytes
from petamap.mapmaking.run import run
from petamap.pointing import quaternion
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.recorded import RecordedPixels
from petamap.pointing.recorded_response import RecordedResponse
from petamap.pointing.sampled import SampledPointing
from petamap.simulation.seen_pixels import DetectorPointing, SeenPixels
from petamap.simulation.sky import Sky, SkySignal, unpolarized
from petamap.simulation.sky_costs import sky_costs
from petamap.simulation.sky_sources import (
    SkyMapOptions,
    SkyMapSource,
    SkySpectraOptions,
    SkySpectraSource,
)
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map

N_SAMP = 600
RNG = np.random.default_rng(3)


def patch(lon=2.0, lat=-0.5, width=0.1, n_samp=N_SAMP, offsets=((0.0, 0.0), (0.01, 0.02), (-0.03, 0.01))):
    """Return pointing that rasters a patch, of detectors at offsets from the boresight, radians."""
    t = np.linspace(0, 1, n_samp)
    q = quaternion.from_angles(np.pi / 2 - lat + width * (t - 0.5), lon + width * np.sin(40 * t), 0.3 + 0 * t)
    x, y = np.array(offsets).T
    return CompressedPointing(
        Boresight(q, n_samp), quaternion.from_angles(np.hypot(x, y), np.arctan2(y, x), 0 * x)
    )


def all_around():
    """Return pointing that comes near all of the sky."""
    t = np.linspace(0, 1, 50_000)
    return CompressedPointing(
        Boresight(quaternion.from_angles(np.pi * t, 2e4 * t, 0 * t), len(t)), [[0.0, 0.0, 0.0, 1.0]]
    )


def recorded(pointing, lost=()):
    """Return pointing of attitudes of each sample and detector; those of lost samples are nan."""
    attitudes = np.stack([pointing.quaternions(number, 0, N_SAMP) for number in range(pointing.n_det)])
    attitudes[:, list(lost)] = np.nan
    ones = np.ones(pointing.n_det)
    return SampledPointing(lambda one, start, stop: attitudes[one, start:stop], pointing.n_det, N_SAMP, ones)


def as_pixels(pointing, grid, lost=()):
    """Return pointing of which the pixels of each sample and detector are recorded, none of lost samples."""
    pixels = np.empty((pointing.n_det, N_SAMP), np.int32)
    for number, row in enumerate(pixels):
        pointing.expand(grid, number, 0, N_SAMP, row, None)
    pixels[:, list(lost)] = -1
    return RecordedPixels(pixels, grid)


def observation(pointing, name="patch", uid=1):
    names = tuple(f"d{number}" for number in range(pointing.n_det))
    return Observation(name, uid, pointing.n_samp, 10.0, names, pointing=pointing)


def spectra_source(context=None, **options):
    context = context or SourceContext(folder=Path(), seed=3, realization=5)
    return SkySpectraSource(SkySpectraOptions(**({"n_side": 256, "l_max": 300} | options)), context)


def read(signal, detector=1, start=0, stop=N_SAMP):
    out = np.zeros(stop - start)
    signal.add_signal(detector, start, stop, out)
    return out


def whole_of(signal):
    """Return the signal of a sky of which all is held."""
    sky = signal.sky
    return dataclasses.replace(signal, sky=Sky(sky.pixelization, make_rings=sky._make_rings))


@settings(max_examples=40)
@given(
    lon=st.floats(-3.2, 3.2), lat=st.floats(-1.57, 1.57), width=st.floats(0, 1), nest=st.booleans(),
    n_side=st.sampled_from([256, 512]), spread=st.floats(0, 0.4), n_threads=st.sampled_from([1, 3]),
)  # fmt: skip
def test_all_that_detectors_see_is_held(lon, lat, width, nest, n_side, spread, n_threads):
    pointing = patch(lon, lat, width, offsets=((0, 0), (spread, 0.0), (-spread, spread / 2)))
    pixelization = Healpix(n_side, nest)
    seen = SeenPixels(pixelization, [DetectorPointing(pointing, None)], n_threads)
    submaps = seen.submaps()
    assert submaps is seen.submaps()
    if submaps is None:
        assert width + spread > 0.4
        return
    pixels = np.empty(N_SAMP, np.int32)
    for detector in range(pointing.n_det):
        pointing.expand(pixelization, detector, 0, N_SAMP, pixels, None)
        assert (submaps.rows_of(pixels) >= 0).all()
        around, _ = pixelization.interpolation(pointing.directions(detector, 0, N_SAMP)[0])
        assert (submaps.rows_of(around) >= 0).all()


def test_little_is_held_of_a_small_patch():
    pointing = patch(width=0.05)
    found = SeenPixels(Healpix(1024), [DetectorPointing(pointing, None)]).submaps()
    assert found.held.mean() < 0.01
    fewer = SeenPixels(Healpix(1024), [DetectorPointing(pointing, frozenset([0]))]).submaps()
    assert fewer.held.sum() < found.held.sum()
    assert not (fewer.held & ~found.held).any()


def test_where_all_is_held():
    around = all_around()
    recorded = RecordedPixels(np.zeros((1, N_SAMP), np.int32), Healpix(512))  # of other pixels
    assert SeenPixels(Healpix(256), [DetectorPointing(around, None)]).submaps() is None
    assert (
        SeenPixels(
            Healpix(256), [DetectorPointing(patch(), None), DetectorPointing(recorded, None)]
        ).submaps()
        is None
    )
    assert SeenPixels(Healpix(128), [DetectorPointing(patch(), None)]).submaps() is None


@settings(max_examples=20)
@given(
    lon=st.floats(-3.2, 3.2), lat=st.floats(-1.57, 1.57), spread=st.floats(0, 0.6),
    n_threads=st.sampled_from([1, 3]),
)  # fmt: skip
def test_all_that_recorded_attitudes_see_is_held(lon, lat, spread, n_threads):
    sampled = recorded(patch(lon, lat, offsets=((0, 0), (spread, 0.0), (-spread, spread / 2))), lost=[3, 599])
    seen = SeenPixels(Healpix(256), [DetectorPointing(sampled, None)], n_threads)
    submaps, about = seen.submaps(), seen.submaps_about()
    assert about is submaps and submaps.held.mean() < 0.1
    kept = np.setdiff1d(np.arange(N_SAMP), [3, 599])
    for detector in range(3):
        directions, _ = sampled.directions(detector, 0, N_SAMP)
        around, _ = Healpix(256).interpolation(directions[kept])
        assert (submaps.rows_of(around) >= 0).all()
    first = SeenPixels(Healpix(256), [DetectorPointing(sampled, frozenset([0]))]).submaps()
    assert not (first.held & ~submaps.held).any()


def test_recorded_attitudes_have_the_bits_of_the_whole_sky():
    for pointing in (recorded(patch()), RecordedResponse(patch(), None, None, lambda detector: 1.0)):
        (found,) = spectra_source().extend([observation(pointing)])
        (signal,) = found.signals
        assert len(signal.sky.values) < 0.1 * 12 * 256**2
        assert np.array_equal(read(signal), read(whole_of(signal)))


@settings(max_examples=20)
@given(
    lon=st.floats(-3.2, 3.2), lat=st.floats(-1.57, 1.57), spread=st.floats(0, 0.6),
    nest=st.booleans(), given_nest=st.booleans(), n_side=st.sampled_from([256, 1024]),
)  # fmt: skip
def test_all_recorded_pixels_are_held(lon, lat, spread, nest, given_nest, n_side):
    scan = patch(lon, lat, offsets=((0, 0), (spread, 0.0), (-spread, spread / 2)))
    recorded_pixels = as_pixels(scan, Healpix(n_side, given_nest), lost=[3, 599])
    seen = SeenPixels(Healpix(n_side, nest), [DetectorPointing(recorded_pixels, None)], 3)
    submaps = seen.submaps()
    assert submaps.held.mean() < 0.1
    pixels = np.empty(N_SAMP, np.int32)
    for detector in range(3):
        recorded_pixels.expand(Healpix(n_side, nest), detector, 0, N_SAMP, pixels, None)
        rows = submaps.rows_of(pixels)
        assert (rows[[3, 599]] == -1).all() and (np.delete(rows, [3, 599]) >= 0).all()
    first = SeenPixels(Healpix(n_side, nest), [DetectorPointing(recorded_pixels, frozenset([0]))]).submaps()
    assert not (first.held & ~submaps.held).any()


def test_recorded_pixels_have_the_bits_of_the_whole_sky():
    both = observation(as_pixels(patch(), Healpix(256, nest=False))), observation(patch(lat=0.7), "b", 2)
    for one in spectra_source().extend(both):
        (signal,) = one.signals
        assert len(signal.sky.values) < 0.1 * 12 * 256**2
        assert np.array_equal(read(signal), read(whole_of(signal)))


def test_about_what_many_recorded_detectors_see():
    offsets = [(0.002 * number, 0.0) for number in range(40)]
    few = SeenPixels(Healpix(512), [DetectorPointing(recorded(patch(offsets=offsets)), None)])
    about = few.submaps_about()
    assert 0.8 * few.submaps().held.sum() < about.held.sum() <= few.submaps().held.sum()


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_samples_have_the_bits_of_the_whole_sky(interpolation):
    source = spectra_source(interpolation=interpolation)
    (found,) = source.extend([observation(patch(lat=-1.2))])
    signal = found.signals[0]
    assert np.array_equal(read(signal), read(whole_of(signal)))
    assert 0 < signal.sky.submaps.held.mean() < 0.1
    assert len(signal.sky.values) == signal.sky.submaps.n_rows


def check_on_ranks(comm):
    """Check that skies on ranks of nodes have the bits of one process, and are held in part."""
    one, other = observation(patch(n_samp=601)), observation(patch(1.0, 0.1, n_samp=67), "other", 2)
    for n_threads in 1, 2:
        context = SourceContext(folder=Path(), seed=3, realization=5, n_threads=n_threads)
        found = spectra_source(context).extend([one, other])
        share_signals([[each.signals for each in found]], comm)
        alone = spectra_source().extend([one, other])
        for mine, reference in zip(found, alone, strict=True):
            sky = mine.signals[0].sky
            assert np.array_equal(sky.submaps.held, reference.signals[0].sky.submaps.held)
            stop = mine.n_samp
            assert np.array_equal(
                read(mine.signals[0], stop=stop), read(whole_of(reference.signals[0]), stop=stop)
            )


@pytest.mark.parametrize("n_ranks", cases(1, 3, long=[2, 5]))
def test_ranks_hold_the_same_part(n_ranks, monkeypatch):
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", "2")
    run_ranks(check_on_ranks, n_ranks)


def test_realizations_are_added_in_one_batch():
    context = SourceContext(folder=Path(), seed=3)
    seen_by = [observation(patch())]
    signals = [
        spectra_source(dataclasses.replace(context, realization=number)).extend(seen_by)[0].signals
        for number in range(3)
    ]
    assert len({one.batch_key for (one,) in signals}) == 1
    assert signals[0][0].sky.submaps is signals[2][0].sky.submaps
    outs = np.zeros((3, N_SAMP))
    add_signals(signals, 2, 0, N_SAMP, list(outs))
    for (one,), out in zip(signals, outs, strict=True):
        assert np.array_equal(out, read(whole_of(one), detector=2))


def test_what_is_not_held_is_an_error():
    (found,) = spectra_source(detectors=("d0",)).extend([observation(patch(offsets=((0, 0), (0.5, 0.5))))])
    (signal,) = found.signals
    assert not read(signal, detector=1).any()
    far = dataclasses.replace(signal, detectors=None)
    with pytest.raises(DataError, match=r"patch, detector 1, sample 0: .* no line of sight came near"):
        read(far, detector=1)


def part_of(values, pointing, nest=False):
    """Return the signal of a sky of values of which a part is held."""
    sky = Sky(Healpix(256, nest), lambda: values)
    sky.see([DetectorPointing(pointing, None)], SourceContext(folder=Path()))
    return SkySignal(sky, pointing, where="patch")


@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize("n_stokes", [1, 3])
def test_skies_that_are_made_whole(n_stokes, nest):
    values, pointing = RNG.standard_normal((n_stokes, 12 * 256**2)), patch()
    signal, whole = (
        part_of(values, pointing, nest),
        SkySignal(Sky(Healpix(256, nest), lambda: values), pointing),
    )
    assert np.array_equal(read(signal), read(whole))
    assert len(signal.sky.values) < 0.1 * values.shape[1]
    intensity = unpolarized(signal, pointing)
    assert len(intensity.sky.values) == len(signal.sky.values)
    assert np.array_equal(read(intensity), read(unpolarized(whole, pointing)))


def test_pixels_without_value_and_largest_values():
    values, pointing = np.zeros((3, 12 * 256**2)), patch()
    pixels = np.empty(N_SAMP, np.int32)
    pointing.expand(Healpix(256), 1, 0, N_SAMP, pixels, None)
    values[:, pixels] = [[1.0], [3.0], [-4.0]]
    signal = part_of(values, pointing)
    assert signal.largest == 6
    values[1, pixels[123]] = np.nan
    first = int(np.flatnonzero(pixels == pixels[123])[0])
    with pytest.raises(DataError, match=f"patch, detector 1, sample {first}: looks at a pixel where"):
        read(part_of(values, pointing))


def test_intensities_of_pixels_of_a_map():
    values, pointing = RNG.standard_normal((1, 12 * 256**2)), patch()
    signal, fine = part_of(values, pointing), Healpix(512, nest=True)
    pixels = np.empty(N_SAMP, np.int32)
    pointing.expand(fine, 1, 0, N_SAMP, pixels, None)
    assert np.array_equal(signal.of_pixels(fine, pixels.astype(np.int64)), read(signal))
    far = np.empty(N_SAMP, np.int32)
    patch(lat=1.0).expand(fine, 1, 0, N_SAMP, far, None)
    both = signal.of_pixels(fine, np.append(far, pixels).astype(np.int64))
    assert np.isnan(both[:N_SAMP]).all()
    assert np.array_equal(both[N_SAMP:], read(signal))
    assert signal.of_pixels(Healpix(128), np.zeros(1, np.int64)) is None


def test_a_sky_that_is_seen_from_elsewhere_later():
    values, first, second = RNG.standard_normal((1, 12 * 256**2)), patch(), patch(lat=1.0)
    signal = part_of(values, first)
    before, largest = read(signal), signal.largest
    signal.sky.see([DetectorPointing(second, None)], SourceContext(folder=Path()))
    signal.sky.share(SerialCommunicator())
    later = dataclasses.replace(signal, pointing=second)
    assert np.array_equal(read(signal), before)
    assert np.array_equal(read(later), read(SkySignal(Sky(Healpix(256), lambda: values), second)))
    assert signal.largest >= largest


def test_pointing_of_files_leaves_memory():
    from petamap.data.formats.lazy import LazyPointing

    loaded = []

    def load():
        loaded.append(1)
        return patch()

    lazy = LazyPointing(N_SAMP, 3, load)
    found = SeenPixels(Healpix(256), [DetectorPointing(lazy, None)]).submaps()
    assert len(loaded) == 1 and not lazy.is_read
    assert np.array_equal(
        found.held, SeenPixels(Healpix(256), [DetectorPointing(patch(), None)]).submaps().held
    )
    with mock.patch.object(lazy, "release") as release:
        assert read(SkySignal(Sky(Healpix(1), lambda: np.ones((1, 12))), lazy))[0] == 1
        SeenPixels(Healpix(256), [DetectorPointing(lazy, None)]).submaps()
        assert not release.called


def write_skies(folder, frame="galactic"):
    """Write a sky to a file of all pixels, and to one of those of a northern part, and return its values."""
    values = np.random.default_rng(6).standard_normal((3, 12 * 256**2))
    part = np.where(np.arange(values.shape[1]) < 400_000, values, np.nan)
    for name, columns, partial in ("whole", values, False), ("part", part, True):
        write_map(
            folder / f"{name}.fits", columns, Healpix(256), names="IQU", unit="K_CMB", run_id="x",
            frame=frame, partial=partial,
        )  # fmt: skip
    return values


@pytest.mark.parametrize("name", ["whole", "part"])
def test_maps_of_files(name, tmp_path):
    values, context = write_skies(tmp_path), SourceContext(folder=tmp_path)
    source = SkyMapSource(SkyMapOptions(map=f"{name}.fits", scale=2.0), context)
    pointings = patch(lat=0.3), patch(lat=1.0)
    for pointing in pointings:  # the file is read again for the second
        (found,) = source.extend([observation(pointing)])
        (signal,) = found.signals
        expected = read(SkySignal(Sky(Healpix(256), lambda: 2 * values), pointing))
        assert np.array_equal(read(signal), expected)
        assert len(signal.sky.values) < 0.2 * values.shape[1]
        assert signal.sky._stored.found is None
    polarized = SkyMapSource(SkyMapOptions(map=f"{name}.fits", polarized=False), context)
    ((seen,),) = (one.signals for one in polarized.extend([observation(pointings[0])]))
    assert np.array_equal(read(seen), read(SkySignal(Sky(Healpix(256), lambda: values[:1]), pointings[0])))
    (far,) = source.extend([observation(patch(lat=-1.0))])
    if name == "part":
        with pytest.raises(DataError, match="looks at a pixel where the sky map has no value"):
            read(far.signals[0])


def check_files_on_ranks(comm):
    """Check that ranks of a node hold what is seen of a map in a file once."""
    folder = Path(comm.bcast(tempfile.mkdtemp()))
    values = write_skies(folder) if comm.rank == 0 else None
    comm.barrier()
    values, pointing = comm.bcast(values), patch(lat=0.3)
    context = SourceContext(folder=folder, comm=comm)
    (found,) = SkyMapSource(SkyMapOptions(map="whole.fits"), context).extend([observation(pointing)])
    share_signals([[found.signals]], comm)
    (signal,) = found.signals
    assert np.array_equal(read(signal), read(SkySignal(Sky(Healpix(256), lambda: values), pointing)))
    node = comm.node()
    if node.rank == 0:
        signal.sky.values[0, 0] = 77
    node.barrier()
    assert signal.sky.values[0, 0] == 77


@pytest.mark.parametrize("n_ranks", cases(3, long=[2, 5]))
def test_ranks_of_a_node_share_what_is_seen_of_a_file(n_ranks, monkeypatch):
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", "2")
    run_ranks(check_files_on_ranks, n_ranks)


def test_costs_are_those_of_what_is_held():
    comm = SerialCommunicator()
    around, local = (
        spectra_source().extend([observation(one)])[0] for one in (all_around(), patch(width=0.05))
    )
    (whole,), (part,) = sky_costs([around]), sky_costs([local])
    assert whole.n_bytes == 3 * 8 * 12 * 256**2 and whole.is_drawn
    assert whole.seconds(2) == 256 * 300**2 * 1e-9 / 2
    read(local.signals[0])
    assert part.n_bytes == local.signals[0].sky.values.nbytes < 0.02 * whole.n_bytes
    assert part.bytes_to_make(1) < whole.bytes_to_make(1) and part.seconds(1) < whole.seconds(1)
    assert sky_costs([local]) == (part,)
    assert sky_bytes([around, local], comm) == (whole.n_bytes, whole.bytes_to_make(1))
    made = SkySignal(Sky(Healpix(4), lambda: np.ones((1, 192))), patch())
    assert sky_bytes([dataclasses.replace(local, signals=(made, made))], comm) == (
        3 * 8 * 192,
        2 * 3 * 8 * 192,
    )


RUN = """
[run]
name = "field"
[map]
n_side = 128
[noise]
n_lag = 32
[[source]]
kind = "raster"
n_det = 4
spacing = "30 arcmin"
net = "300 uK s^0.5"
fknee = "50 mHz"
sample_rate = "10 Hz"
duration = "8 min"
longitude = "83 deg"
latitude = "-35 deg"
width = "6 deg"
height = "6 deg"
row_spacing = "40 arcmin"
speed = "1 deg/s"
acceleration = "2 deg/s^2"
[[source]]
kind = "sky-spectra"
n_side = 256
l_max = 300
interpolation = "bilinear"
[[source]]
kind = "gain-drift"
rms = 0.01
map = "whole.fits"
"""


def test_maps_of_runs_are_those_of_whole_skies(tmp_path):
    write_skies(tmp_path, "equatorial")
    config = parse_config(RUN, tmp_path / "run.toml")
    found = run(config, progress=False)
    with mock.patch.object(SeenPixels, "may_be_few", False):
        whole = run(config, progress=False)
    assert np.array_equal(found.sky.values, whole.sky.values, equal_nan=True)
    assert np.isfinite(found.sky.values).any()
