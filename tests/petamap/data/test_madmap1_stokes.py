"""MADmap 1 streams of I, Q and U, with three pairs a sample: what is read, refused, written and mapped."""

from __future__ import annotations

import dataclasses
import gzip
import struct
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks
from scipy.linalg import block_diag, toeplitz
from small_systems import compressed, recorded

from petacomm.base.errors import ConfigError, DataError
from petacomm.mpi import SerialCommunicator
from petamap.data.config import parse_config
from petamap.data.formats.madmap1 import Madmap1Options, Madmap1Source
from petamap.data.formats.madmap1_write import write_madmap1
from petamap.data.formats.volume_write import write_volume
from petamap.data.source import SourceContext
from petamap.mapmaking.run import run
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels

N_DET, N_SAMP, N_PIX = 2, 300, 12
FILES = {"tod": "tod", "filters": "filters", "n_detectors": N_DET}
BAD = 17  # sample of the first detector that tests damage
RUN = """
[map]
pixelization = "numbered"
[noise]
ends = "zero"
[solver]
tolerance = 1e-12
rcond_min = 1e-6
[products]
report = false
[[source]]
kind = "madmap1"
tod = "{tod}"
filters = "filters"
n_detectors = 2
"""


def made(seed=1, **changes):
    """Return an observation with pixels, angles, gains and efficiencies of any kind."""
    return recorded(np.random.default_rng(seed), N_DET, N_SAMP, N_PIX, **changes)


def of_efficiency_1():
    """Return the observation without gains, of detectors with an efficiency of 1."""
    pixels, angles, _ = (
        np.stack(rows) for rows in zip(*(expanded(made(), k) for k in range(N_DET)), strict=True)
    )
    pointing = RecordedPixels(pixels, NumberedPixels(N_PIX), angles=angles)
    return dataclasses.replace(made(), pointing=pointing)


def write(folder, one, **options):
    """Write the files of an observation, and return what they are in the options of a source."""
    (folder / "filters").mkdir(exist_ok=True)
    pixels = getattr(one.pointing, "pixelization", Healpix(4, nest=True))
    write_madmap1(folder / "tod", folder / "filters", [one], pixels, stokes="IQU", **options)
    return Madmap1Options(**FILES)


def read(folder, options):
    (one,) = Madmap1Source(options, SourceContext(folder)).extend([])
    return one


def expanded(one, detector=0, start=0, stop=N_SAMP, pixels=None):
    """Return pixels, angles and gains of samples."""
    n = stop - start
    out = np.empty(n, np.int32), np.empty(n, np.uint32), np.empty(n, np.float32)
    one.pointing.expand(pixels or one.pointing.pixelization, detector, start, stop, *out)
    return out


def responses(one, detector, start=0, stop=N_SAMP):
    """Return the response of samples to I, Q and U, (3, n)."""
    _, angles, gains = expanded(one, detector, start, stop)
    if not one.pointing.has_gains:
        gains[:] = 1
    phi, efficiency = angles * (2 * np.pi / 2**32), one.pointing.efficiency(detector)
    intensity = np.full(stop - start, one.pointing.intensity(detector))
    return gains * np.stack([intensity, efficiency * np.cos(phi), efficiency * np.sin(phi)])


def records(folder, change=None):
    """Return the samples of a little-endian stream, after a change that is written back."""
    pair = np.dtype([("weight", "<f4"), ("number", "<i4")])
    content = bytearray((folder / "tod").read_bytes())
    found = np.frombuffer(content, np.dtype([("signal", "<f8"), ("pairs", pair, (3,))]), offset=32)
    if change is not None:
        change(found)
        (folder / "tod").write_bytes(content)
    return found


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("gains", [None, 2.0, -2.0])
def test_written_samples_are_read(tmp_path, byte_order, interleaved, gains):
    before = made(gains=gains)
    after = read(tmp_path, write(tmp_path, before, byte_order=byte_order, interleaved=interleaved))
    assert after.pointing.pixelization.n_pix == N_PIX and after.n_det == N_DET
    assert after.pointing.has_gains == (gains is not None)
    for detector in range(N_DET):
        assert np.array_equal(expanded(after, detector)[0], expanded(before, detector)[0])
        # weights are rounded to float32, and so is the efficiency
        np.testing.assert_allclose(
            responses(after, detector), responses(before, detector), rtol=0, atol=3 * 2 * 6e-8
        )
        signals = np.zeros((2, N_SAMP))
        for one, out in zip((before, after), signals, strict=True):
            one.signals[0].add_signal(detector, 0, N_SAMP, out)
        assert np.array_equal(*signals)


def test_rounded_sines_and_cosines_have_an_efficiency_of_1(tmp_path):
    one = read(tmp_path, write(tmp_path, of_efficiency_1()))
    assert [one.pointing.efficiency(detector) for detector in range(N_DET)] == [1.0, 1.0]
    assert not one.pointing.has_gains
    assert abs((expanded(one)[1] - expanded(made())[1]).astype(np.int32)).max() < 6e-8 * 2**32 / (2 * np.pi)


def test_the_other_convention_turns_u(tmp_path):
    options = write(tmp_path, made())
    cosmo = responses(read(tmp_path, options), 0)
    iau = responses(read(tmp_path, dataclasses.replace(options, polarization="IAU")), 0)
    np.testing.assert_allclose(iau, cosmo * [[1], [1], [-1]], rtol=0, atol=1e-8)


def test_streams_of_polarization_alone(tmp_path):
    """A stream without weights of I has gains of its polarization."""
    before = made(gains=2.0, intensities=[0.0, 1.0])
    after = read(tmp_path, write(tmp_path, before))
    assert [after.pointing.intensity(detector) for detector in range(N_DET)] == [0, 1]
    assert after.pointing.efficiency(0) == 1
    for detector in range(N_DET):
        np.testing.assert_allclose(
            responses(after, detector), responses(before, detector), rtol=0, atol=3 * 3 * 6e-8
        )


@pytest.mark.parametrize("numbers", [(0, 0, 0), (3 * N_PIX - 1, 5, 5)])
def test_samples_without_weights_may_have_any_numbers(tmp_path, numbers):
    def blank(found):
        found["pairs"]["weight"][:BAD] = 0
        found["pairs"]["number"][:BAD] = numbers

    options, expected = write(tmp_path, made()), responses(made(), 0)
    expected[:, :BAD] = 0
    records(tmp_path, blank)
    one = read(tmp_path, options)
    assert one.pointing.has_gains and (expanded(one)[0] < N_PIX).all()
    np.testing.assert_allclose(responses(one, 0), expected, rtol=0, atol=2e-7)


def test_a_detector_that_sees_nothing(tmp_path):
    options = write(tmp_path, made())
    records(tmp_path, lambda found: found["pairs"]["weight"].__setitem__(slice(0, N_SAMP), 0))
    assert not responses(read(tmp_path, options), 0).any()


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, N_SAMP), min_size=2, max_size=5, unique=True).map(sorted))
def test_samples_do_not_depend_on_the_pieces(tmp_path_factory, edges):
    folder = tmp_path_factory.mktemp("stream")
    one = read(folder, write(folder, made(gains=1.0)))
    whole = expanded(one, 1, edges[0], edges[-1])
    parts = [expanded(one, 1, a, b) for a, b in pairwise(edges)]
    for values, pieces in zip(whole, zip(*parts, strict=True), strict=True):
        assert np.array_equal(np.concatenate(pieces), values)


def put(name, values):
    """Return a change of the pairs of a sample."""
    return lambda found: found["pairs"][name].__setitem__(BAD, values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("number", (3, 3 + N_PIX, 4 + 2 * N_PIX)), "1 samples whose unknowns are not I, Q and U of"),
        (put("number", (3 + N_PIX, 3, 3 + 2 * N_PIX)), "the first is 15, 3, 27"),
        (put("number", (3, 3 + N_PIX, 3 * N_PIX)), "1 pixel numbers outside 0..35, the first is 3, 15, 36"),
        (put("number", (-1, -1 + N_PIX, -1 + 2 * N_PIX)), "1 pixel numbers outside 0..35"),
        (put("weight", (1, np.nan, 0)), "1 weights that are not finite, the first is 1.0, nan, 0.0"),
        (put("weight", (np.inf, 1, 0)), "1 weights that are not finite"),
        (put("weight", (1, 0.5, 0)), "1 weights of another polarization efficiency than the detector's, 1,"),
        (put("weight", (0, 1, 0)), "(one efficiency, 0 to 1, a detector: write samples of another as a"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("start", [0, 10])
def test_damaged_samples(tmp_path, change, message, start):
    options = write(tmp_path, of_efficiency_1())
    records(tmp_path, change)
    with pytest.raises(DataError) as caught:
        expanded(read(tmp_path, options), 0, start)
    assert message in str(caught.value)
    place = f"{tmp_path / 'tod'}, madmap-0000, detector 0000, sample {BAD} (sample {BAD} of the file)"
    assert place in str(caught.value)


def test_polarization_alone_must_stay_so(tmp_path):
    options = write(tmp_path, made(intensities=[0.0, 1.0]))
    records(tmp_path, put("weight", (0.5, 1, 0)))
    with pytest.raises(DataError, match=rf"sample {BAD} .*weights of I in a stream of polarization alone"):
        expanded(read(tmp_path, options))


def test_more_polarization_than_intensity(tmp_path):
    options = write(tmp_path, made())
    records(tmp_path, lambda found: found["pairs"]["weight"].__setitem__(slice(0, N_SAMP), (0.5, 1, 0)))
    with pytest.raises(DataError, match=r"detector 0000, sample 0 .*of 2, above 1 \(check the weights"):
        read(tmp_path, options).pointing.efficiency(0)


def test_weights_of_0_are_no_unit(tmp_path):
    options = dataclasses.replace(write(tmp_path, made()), weights="unit")
    assert not read(tmp_path, options).pointing.has_gains
    records(tmp_path, put("weight", 0))
    with pytest.raises(DataError, match=rf"sample {BAD} .*samples without weights.*weights = \"recorded\""):
        expanded(read(tmp_path, options))


@pytest.mark.parametrize(
    ("n_stokes", "n_unknown", "numbers", "message"),
    [
        (2, 36, (0, 1), "2 pairs of weight and number a sample (one is supported, of I, or three"),
        (2**40, 36, (0,), "1099511627776 pairs"),
        (3, 35, (0, 1, 2), "35 unknowns, which are not I, Q and U of some"),
        (
            3,
            36,
            (5, 9, 12),
            "sample 0: the unknowns 5, 9, 12 of 36 are not I, Q and U of one pixel (read are p",
        ),
        (3, 36, (4, 4, 4), "the unknowns 4, 4, 4"),
        (3, 36, (4, 5, 6), "the unknowns 4, 5, 6"),
        (3, 36, (2**31 - 1, -(2**31) + 11, 23), "the unknowns 2147483647"),
    ],
)
def test_other_unknowns(tmp_path, n_stokes, n_unknown, numbers, message):
    pairs = b"".join(struct.pack("<fi", 1.0, number) for number in numbers)
    content = struct.pack("<4qd", 0, 0, n_stokes, n_unknown, 0.5) + pairs
    (tmp_path / "tod").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(tmp_path, Madmap1Options(**FILES))
    assert message in str(caught.value) and str(tmp_path / "tod") in str(caught.value)


def test_a_single_pixel_has_both_orders(tmp_path):
    one = recorded(np.random.default_rng(1), N_DET, N_SAMP, 1)
    assert not expanded(read(tmp_path, write(tmp_path, one, interleaved=True)))[0].any()


@pytest.mark.parametrize(
    ("changes", "options", "error", "message"),
    [
        ({"outside": 0.1}, {}, DataError, "outside of the pixels"),
        ({"flagged": 0.1}, {}, DataError, "cannot hold flags"),
        ({}, {"stokes": "QU"}, ConfigError, "of I, or of I, Q and U"),
    ],
)
def test_what_cannot_be_written(tmp_path, changes, options, error, message):
    with pytest.raises(error, match=message):
        write_madmap1(
            tmp_path / "tod",
            tmp_path,
            [made(**changes)],
            NumberedPixels(N_PIX),
            **{"stokes": "IQU"} | options,
        )
    with pytest.raises(ConfigError, match="more unknowns"):
        write_madmap1(tmp_path / "tod", tmp_path, [], NumberedPixels(2**30), stokes="IQU")


# --- maps


def dense_map(folder, one):
    """Return the maximum-likelihood map of a stream by dense algebra, of the weights as they are recorded."""
    found = records(folder)
    response = np.zeros((len(found), 3 * N_PIX))
    rows = np.arange(len(found))
    for stokes in range(3):
        np.add.at(response, (rows, found["pairs"]["number"][:, stokes]), found["pairs"]["weight"][:, stokes])
    blocks = []
    for detector in range(N_DET):
        lags = one.noise.noise_model(detector, 0).lags
        blocks.append(toeplitz(np.pad(lags, (0, N_SAMP - len(lags)))))
    inverse = block_diag(*blocks)
    rhs = response.T @ inverse @ found["signal"]
    return np.linalg.solve(response.T @ inverse @ response, rhs)


def maps_of(folder, text):
    """Return the map of a run of this process, (n_stokes, n_pix)."""
    return run(parse_config(text, folder / "run.toml"), comm=SerialCommunicator()).sky.values


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("changes", [{}, {"gains": 1.5}, {"gains": 1.5, "intensities": [0.0, 1.0]}])
def test_the_map_is_that_of_dense_algebra(tmp_path, interleaved, changes):
    one = made(**changes)
    write(tmp_path, one, interleaved=interleaved)
    expected = dense_map(tmp_path, one).reshape(3, N_PIX)
    if interleaved:
        expected = expected.reshape(N_PIX, 3).T
    found = maps_of(tmp_path, RUN.format(tod="tod"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_the_same_response_makes_the_same_bits(tmp_path):
    """Whether unknowns stand in blocks, big-endian or packed; and from arrays in memory."""
    one = of_efficiency_1()
    write(tmp_path, one)
    expected = maps_of(tmp_path, RUN.format(tod="tod"))
    weights = records(tmp_path)["pairs"]["weight"].reshape(N_DET, N_SAMP, 3)
    (tmp_path / "tod.gz").write_bytes(gzip.compress((tmp_path / "tod").read_bytes()))
    assert np.array_equal(maps_of(tmp_path, RUN.format(tod="tod.gz")), expected)
    phi = np.arctan2(weights[..., 2].astype(np.float64), weights[..., 1].astype(np.float64))
    angles = np.round(np.mod(phi / (2 * np.pi), 1) * 2**32).astype(np.uint64).astype(np.uint32)
    pixels = np.stack([expanded(one, detector)[0] for detector in range(N_DET)])
    pointing = RecordedPixels(pixels, NumberedPixels(N_PIX), angles=angles)
    text = RUN.partition("[[source]]")[0]
    memory = run(parse_config(text), observations=[dataclasses.replace(one, pointing=pointing)])
    assert np.array_equal(memory.sky.values, expected)
    write(tmp_path, one, interleaved=True, byte_order="big")
    assert np.array_equal(maps_of(tmp_path, RUN.format(tod="tod")), expected)


HEALPIX = """
[map]
n_side = 4
frame = "galactic"
[noise]
ends = "zero"
[solver]
tolerance = 1e-12
[products]
report = false
[[source]]
"""


def test_the_map_is_that_of_a_volume(tmp_path):
    """Weights of 24 bits and response angles of 32 bits make maps that differ by the rounding of weights."""
    one = compressed(np.random.default_rng(3), n_samp=5000, n_det=4)
    write_volume(tmp_path / "volume.h5", [one])
    write(tmp_path, one)
    volume = maps_of(tmp_path, HEALPIX + 'kind = "volume"\npath = "volume.h5"\n')
    stream = 'kind = "madmap1"\ntod = "tod"\nfilters = "filters"\nhealpix = "nested"\nframe = "galactic"\n'
    found = maps_of(tmp_path, HEALPIX + stream)
    assert np.array_equal(np.isnan(found), np.isnan(volume)) and np.isfinite(volume).sum() > 100
    np.testing.assert_allclose(found, volume, rtol=0, atol=1e-6 * np.nanmax(np.abs(volume)))


def test_a_map_of_i_alone(tmp_path):
    """Without Q and U in the map, the stream is that of a stream of I."""
    one = made(gains=1.5)
    write(tmp_path, one)
    found = maps_of(tmp_path, RUN.format(tod="tod").replace("[map]", '[map]\nstokes = "I"'))
    write_madmap1(tmp_path / "tod", tmp_path / "filters", [one], NumberedPixels(N_PIX))
    alone = maps_of(tmp_path, RUN.format(tod="tod").replace("[map]", '[map]\nstokes = "I"'))
    assert np.array_equal(found, alone)


def check_ranks(comm):
    folder = Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None))
    if comm.rank == 0:
        write(folder, made(gains=1.5), interleaved=True)
    comm.barrier()
    text = RUN.format(tod="tod")
    done = run(parse_config(text, folder / "run.toml"), comm=comm)
    if comm.rank == 0:
        assert np.array_equal(done.sky.values, maps_of(folder, text))


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_maps_do_not_depend_on_ranks(n_ranks):
    run_ranks(check_ranks, n_ranks)
