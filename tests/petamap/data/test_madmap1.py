"""Tests of MADmap v1 files: reading of hand-written bytes, round trips, damaged files."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import tarfile
from pathlib import Path

import healpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import DataError, UserError
from petamap.data.formats import madmap1_filters
from petamap.data.formats.madmap1 import Madmap1Options, Madmap1Source
from petamap.data.formats.madmap1_write import write_madmap1
from petamap.data.observation import Observation
from petamap.data.source import SourceContext
from petamap.examples import spire
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels

N_PIX = 7


def make(
    folder: Path, order: str = ">", lengths=(5, 5, 5, 5), kinds=(0, 1, 0, 1), weight=1.0, n_pix=7, **options
) -> Madmap1Options:
    """Write a stream with filters of the given lengths and numbers, and return the options."""
    n_samp = sum(lengths)
    tod = struct.pack(order + "4q", 0, n_samp - 1, 1, n_pix)
    for sample in range(n_samp):
        tod += struct.pack(order + "dfi", 0.25 * sample, weight, sample % n_pix)
    (folder / "tod").write_bytes(tod)
    (folder / "filters").mkdir(exist_ok=True)
    start = 0
    for k, (length, kind) in enumerate(zip(lengths, kinds, strict=True)):
        content = struct.pack(order + "3q3d", start, start + length - 1, 2, 4.0 + kind, -1.0, 0.5)
        (folder / "filters" / f"inv.{k}").write_bytes(content)
        start += length
    return Madmap1Options(tod="tod", filters="filters", **options)


def read(folder: Path, options: Madmap1Options) -> list[Observation]:
    return Madmap1Source(options, SourceContext(folder)).extend([])


def contents(observations: list[Observation]) -> list[tuple]:
    """Return all content of the observations."""
    found = []
    for one in observations:
        for detector in range(one.n_det):
            signal, pixels = np.zeros(one.n_samp), np.empty(one.n_samp, np.int32)
            gains = np.empty(one.n_samp, np.float32)
            one.signals[0].add_signal(detector, 0, one.n_samp, signal)
            one.pointing.expand(NumberedPixels(N_PIX), detector, 0, one.n_samp, pixels, None, gains)
            lags = one.noise.noise_model(detector, 0).lags
            found.append((signal.tolist(), pixels.tolist(), gains.tolist(), lags.tolist()))
    return found


@pytest.mark.parametrize("order", "<>")
def test_samples_and_filters(tmp_path, order):
    one, two = read(tmp_path, make(tmp_path, order))
    assert (one.n_det, one.n_samp, two.n_det) == (2, 5, 2)
    out = np.ones(2)
    two.signals[0].add_signal(1, 2, 4, out)
    assert out.tolist() == [1 + 0.25 * 17, 1 + 0.25 * 18]
    pixels, angles = np.empty(2, np.int32), np.empty(2, np.uint32)
    two.pointing.expand(NumberedPixels(N_PIX), 1, 2, 4, pixels, angles)
    assert pixels.tolist() == [17 % N_PIX, 18 % N_PIX] and angles.tolist() == [0, 0]
    assert two.noise.noise_model(1, 0).lags.tolist() == [5.0, -1.0, 0.5]
    assert one.uid != two.uid and one.intervals == ((0, 5),)
    assert not one.pointing.has_gains and one.pointing.efficiency(0) == 0


@pytest.mark.parametrize(
    ("lengths", "kinds", "n_detectors", "shape"),
    [
        ((3,) * 6, (0, 1, 2, 0, 1, 2), 0, [3, 3]),  # the filters repeat
        ((3,) * 4, (0, 0, 0, 0), 0, [4]),  # all equal: blocks cannot be distinguished
        ((3,) * 4, (0, 0, 0, 0), 2, [2, 2]),
        ((3,) * 4, (0, 1, 2, 3), 0, [4]),  # different noise: detectors of one block
        ((3, 3, 4, 4), (0, 1, 2, 3), 0, [2, 2]),  # blocks of different lengths
        ((6,), (0,), 0, [1]),
    ],
)
def test_blocks(tmp_path, lengths, kinds, n_detectors, shape):
    make(tmp_path, lengths=lengths, kinds=kinds)
    options = Madmap1Options(tod="tod", filters="filters", n_detectors=n_detectors)
    assert [one.n_det for one in read(tmp_path, options)] == shape


def test_invalid_number_of_detectors(tmp_path):
    make(tmp_path)
    with pytest.raises(DataError, match="multiple of 3"):
        read(tmp_path, Madmap1Options(tod="tod", filters="filters", n_detectors=3))


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_round_trip(tmp_path, byte_order, weight):
    before = read(tmp_path, make(tmp_path, weight=weight))
    assert before[0].pointing.has_gains == (weight != 1)
    write_madmap1(tmp_path / "copy", tmp_path / "copied", before, NumberedPixels(N_PIX), byte_order)
    options = Madmap1Options(tod="copy", filters="copied", byte_order=byte_order)
    assert contents(read(tmp_path, options)) == contents(before)
    if byte_order == "big":
        assert (tmp_path / "copy").read_bytes() == (tmp_path / "tod").read_bytes()


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_archive_of_filters(tmp_path, mode):
    options = make(tmp_path)
    with tarfile.open(tmp_path / "filters.tar", mode) as archive:
        archive.add(tmp_path / "filters", "some/folder")
    packed = Madmap1Options(tod="tod", filters="filters.tar")
    assert contents(read(tmp_path, packed)) == contents(read(tmp_path, options))


def damage_tod(folder: Path, change) -> None:
    content = bytearray((folder / "tod").read_bytes())
    (folder / "tod").write_bytes(change(content) or content)


def put(offset: int, kind: str, value: float):
    return lambda content: struct.pack_into(kind, content, offset, value)


def damage_filter(folder: Path, offset: int, value: bytes) -> None:
    content = bytearray((folder / "filters/inv.1").read_bytes())
    content[offset : offset + len(value)] = value
    (folder / "filters/inv.1").write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: damage_tod(f, lambda c: c[:-1]), "cut short in sample 19"),
        (lambda f: damage_tod(f, lambda c: c[:20]), "20 bytes are less than a header"),
        (lambda f: damage_tod(f, lambda c: c + b"x"), "353 bytes where the header asks for 352"),
        (
            lambda f: damage_tod(f, put(16, ">q", 2)),
            "2 pairs of weight and number a s",
        ),
        (
            lambda f: damage_tod(f, put(24, ">q", 0)),
            "says 0 pixels",
        ),
        (lambda f: damage_tod(f, put(0, ">q", -1)), "either byte order"),
        (lambda f: (f / "tod").unlink(), "cannot be read"),
        (lambda f: damage_filter(f, 24, struct.pack(">d", np.nan)), "inv.1: 1 inverse-noise values"),
        (lambda f: damage_filter(f, 24, struct.pack(">d", 0)), "inv.1: the inverse noise at lag 0 is 0"),
        (lambda f: damage_filter(f, 48, b"more"), "52 bytes where a header that says n_corr = 2 asks for 48"),
        (lambda f: damage_filter(f, 0, struct.pack(">q", 6)), "sample 5 has no inverse-noise"),
        (lambda f: damage_filter(f, 0, struct.pack(">q", 4)), "samples from 4 have two"),
        (lambda f: (f / "filters/inv.2").unlink(), "sample 10 has no inverse-noise"),
        (lambda f: (f / "filters/inv.3").unlink(), "sample 15 has no inverse-noise"),
        (lambda f: (f / "filters/other.3").write_bytes(b""), "more than one set of filters"),
        (lambda f: [file.unlink() for file in (f / "filters").iterdir()], "no inverse-noise files"),
    ],
)
def test_damaged_files(tmp_path, damage, message):
    options = make(tmp_path)
    damage(tmp_path)
    with pytest.raises(DataError) as caught:
        read(tmp_path, options)
    assert message in str(caught.value) and str(tmp_path) in str(caught.value)


def test_pixel_out_of_range(tmp_path):
    options = make(tmp_path)
    damage_tod(
        tmp_path, lambda c: c.__setitem__(slice(32 + 17 * 16 + 12, 32 + 18 * 16), struct.pack(">i", N_PIX))
    )
    _, two = read(tmp_path, options)
    with pytest.raises(
        DataError, match=r"madmap-0001, detector 0001, sample 2 \(sample 17 of the file\): 1 pixel"
    ):
        two.pointing.expand(NumberedPixels(N_PIX), 1, 0, 5, np.empty(5, np.int32), None)


def test_weight_that_is_not_finite(tmp_path):
    one = read(tmp_path, make(tmp_path, weight=np.nan))[0]
    assert one.pointing.has_gains
    with pytest.raises(DataError, match=r"detector 0000, sample 1 .*weights that are not finite"):
        one.pointing.expand(
            NumberedPixels(N_PIX), 0, 1, 5, np.empty(4, np.int32), None, np.empty(4, np.float32)
        )


def test_other_pixelization(tmp_path):
    one = read(tmp_path, make(tmp_path))[0]
    with pytest.raises(DataError, match=r"as numbered \(n_pix 7\), the map has numbered \(n_pix 12\)"):
        one.pointing.expand(NumberedPixels(12), 0, 0, 5, np.empty(5, np.int32), None)


def test_healpix_numbers_have_the_order_that_is_said(tmp_path):
    bare, ring, nested = (
        read(tmp_path, make(tmp_path, n_pix=12, healpix=order, frame="galactic"))[0]
        for order in ("", "ring", "nested")
    )
    numbers = np.empty((3, 5), np.int32)
    bare.pointing.expand(NumberedPixels(12), 0, 0, 5, numbers[0], None)
    ring.pointing.expand(Healpix(1, nest=True), 0, 0, 5, numbers[1], None)
    nested.pointing.expand(Healpix(1, nest=True), 0, 0, 5, numbers[2], None)
    np.testing.assert_array_equal(numbers[1], healpy.ring2nest(1, numbers[0]))
    np.testing.assert_array_equal(numbers[2], numbers[0])
    assert ring.frame == "galactic"
    with pytest.raises(DataError, match="as numbered"):
        bare.pointing.expand(Healpix(1, nest=True), 0, 0, 5, numbers[1], None)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no readable FITS"), (b"SIMPLE  = nonsense" * 200, "no readable FITS"), (None, "no image of two")],
)
def test_invalid_image(tmp_path, content, message):
    from astropy.io import fits

    make(tmp_path)
    if content is None:
        fits.PrimaryHDU(np.zeros(3)).writeto(tmp_path / "image.fits")
    else:
        (tmp_path / "image.fits").write_bytes(content)
    with pytest.raises(DataError, match=f"image.fits.*{message}"):
        read(tmp_path, Madmap1Options(tod="tod", filters="filters", image="image.fits"))


def test_image_with_other_pixels(tmp_path):
    from astropy.io import fits

    make(tmp_path)
    fits.PrimaryHDU(np.zeros((2, 3))).writeto(tmp_path / "image.fits")
    with pytest.raises(DataError, match="6 finite pixels where the stream has 7"):
        read(tmp_path, Madmap1Options(tod="tod", filters="filters", image="image.fits"))


def test_archive_size_is_limited(tmp_path, monkeypatch):
    make(tmp_path)
    monkeypatch.setattr(madmap1_filters, "_ARCHIVE_LIMIT", 2**20)
    with gzip.open(tmp_path / "bomb.tar.gz", "wb") as file, tarfile.open(fileobj=file, mode="w|") as archive:
        for k in range(3):
            member = tarfile.TarInfo(f"inv.{k}")
            member.size = 2**20
            archive.addfile(member, io.BytesIO(bytes(2**20)))
    with pytest.raises(DataError, match=r"bomb.tar.gz"):
        read(tmp_path, Madmap1Options(tod="tod", filters="bomb.tar.gz"))


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from(["tod", "filters/inv.2", "f.tar", "f.tar.gz", "f.tar.xz"]),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=3),
    keep=st.floats(0, 1),
)
def test_random_damage_raises_data_error(tmp_path_factory, name, flips, keep):
    folder = tmp_path_factory.mktemp("fuzz")
    make(folder)
    for archive_name, mode in [("f.tar", "w"), ("f.tar.gz", "w:gz"), ("f.tar.xz", "w:xz")]:
        with tarfile.open(folder / archive_name, mode) as archive:
            archive.add(folder / "filters", "filters")
    content = bytearray((folder / name).read_bytes())
    for place, flip in flips:
        content[int(place * len(content))] ^= flip
    (folder / name).write_bytes(content[: round(keep * len(content))])
    filters = name if name.startswith("f.") else "filters"
    try:
        contents(read(folder, Madmap1Options(tod="tod", filters=filters)))
    except UserError as error:
        assert str(folder) in str(error)


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_stream(tmp_path, suffix, compress):
    plain = make(tmp_path)
    content = (tmp_path / "tod").read_bytes()
    packed = Madmap1Options(tod="tod" + suffix, filters="filters")

    def write(changed: bytes) -> None:
        (tmp_path / packed.tod).write_bytes(changed)

    write(compress(content))
    assert contents(read(tmp_path, packed)) == contents(read(tmp_path, plain))
    for damaged, message in (
        (compress(content)[:-12], "unpacked"),
        (b"no archive", "read"),
        (compress(content[:-1]), "cut short in sample 19"),
        (compress(content + bytes(10**6)), "bytes where the header asks for"),
    ):
        write(damaged)
        with pytest.raises(DataError, match=message):
            read(tmp_path, packed)


def test_compressed_stream_size_is_limited(tmp_path):
    make(tmp_path)
    header = struct.pack(">4q", 0, 2**40, 1, N_PIX)
    (tmp_path / "tod.xz").write_bytes(lzma.compress(header))
    with pytest.raises(DataError, match=r"tod.xz: unpacks to more than 2048 MiB .unpack it"):
        read(tmp_path, Madmap1Options(tod="tod.xz", filters="filters"))


def test_spire_example_bins_to_the_naive_map(tmp_path):
    from astropy.io import fits

    spire.unpack(tmp_path)
    options = Madmap1Options(tod=spire.TOD, filters=spire.FILTERS, image=spire.NAIVE_MAP)
    observations = read(tmp_path, options)
    assert [(one.n_det, one.n_samp) for one in observations] == [(135, 744)] * 8

    grid = observations[0].pointing.pixelization
    total, hits = np.zeros(grid.n_pix), np.zeros(grid.n_pix)
    signal, pixels = np.empty(744), np.empty(744, np.int32)
    for one in observations:
        assert not one.pointing.has_gains
        for detector in range(one.n_det):
            signal[:] = 0
            one.signals[0].add_signal(detector, 0, 744, signal)
            one.pointing.expand(grid, detector, 0, 744, pixels, None)
            np.add.at(total, pixels, signal)
            np.add.at(hits, pixels, 1)
    with fits.open(tmp_path / spire.NAIVE_MAP) as file:
        image = file["image"].data
    found = np.full(image.size, np.nan)
    found[grid.layout.index] = total / hits
    np.testing.assert_allclose(found.reshape(image.shape), image, rtol=0, atol=1e-16)
    assert grid.layout.shape == (285, 286) and grid.layout.header["CTYPE1"] == "RA---TAN"


def test_damaged_example(tmp_path, monkeypatch):
    content = bytearray((Path(spire.__file__).parent / (spire.TOD + ".xz")).read_bytes())
    content[1000] ^= 1
    (tmp_path / "__init__.py").touch()
    (tmp_path / (spire.TOD + ".xz")).write_bytes(content)
    monkeypatch.setattr(spire, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(DataError, match="install petamap anew"):
        spire.unpack(tmp_path / "out")
    assert not (tmp_path / "out" / spire.TOD).exists()


def test_a_stream_that_becomes_shorter_is_told(tmp_path):
    one, two = read(tmp_path, make(tmp_path))
    with (tmp_path / "tod").open("r+b") as file:
        file.truncate(32 + 16 * 17)
    for observation, samples in ((one, (0, 5)), (two, (0, 2))):
        observation.signals[0].add_signal(1, *samples, np.zeros(samples[1]))
    with pytest.raises(DataError, match=r"tod: has become shorter: sample 17 is not there"):
        two.signals[0].add_signal(1, 0, 5, np.zeros(5))
