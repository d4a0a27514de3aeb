"""Tests of map files: round trips, reading by healpy and astropy, files of other programs, damaged files."""

import contextlib
import resource
import tracemalloc
import warnings
from dataclasses import replace
from pathlib import Path

import healpy
import numpy as np
import pytest
from astropy.io import fits
from astropy.wcs import WCS
from changed_files import write_anew

import petamap.examples
from petacomm.base.errors import ConfigError, DataError, ResourceError, UserError
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.map_conventions import UNSEEN
from petamap.sky.map_file import read_map, write_map
from petamap.sky.map_header import file_origin, make_map_header
from petamap.sky.map_units import to_kelvin
from petamap.sky.numbered import ImageLayout, NumberedPixels
from petamap.sky.stokes import Stokes

EXAMPLES = Path(petamap.examples.__file__).parent
IQU = ("I", "Q", "U")
FLAT = FlatPatch.box((266.4, -29.0), (3.0, 2.0), 0.1)
CAR = CarPatch.full_sky(6.0)


def values_on(pixelization, n_columns=3, seed=1):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n_columns, pixelization.n_pix)) * 1e-4
    values[:, rng.random(pixelization.n_pix) < 0.3] = np.nan
    return values


def write_iqu(path, pixelization, values=None, **more):
    values = values_on(pixelization) if values is None else values
    options = {"names": IQU, "unit": "K_CMB", "run_id": "test-1", "frame": "galactic"}
    write_map(path, values, pixelization, **(options | more))
    return values


@pytest.mark.parametrize(
    "pixelization",
    [Healpix(8), Healpix(8, nest=True), Healpix(5), CAR, FLAT],
    ids=lambda p: p.describe()["kind"],
)
@pytest.mark.parametrize("name", ["map.fits", "map.fits.gz"])
def test_round_trip(tmp_path, pixelization, name):
    values = write_iqu(tmp_path / name, pixelization)
    read = read_map(tmp_path / name)
    np.testing.assert_array_equal(read.values, values)
    assert read.pixelization == pixelization and read.stokes is Stokes.IQU and read.unit == "K_CMB"
    assert (read.frame, read.polarization, read.warnings) == ("galactic", "COSMO", ())


@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize("partial", [False, True])
def test_healpy_reads_healpix(tmp_path, nest, partial):
    path = tmp_path / "map.fits"
    values = values_on(Healpix(8, nest))
    values[:, 100:] = np.nan  # healpy's writer fails if the largest pixel is below 128
    write_iqu(path, Healpix(8, nest), values, partial=partial)
    read = healpy.read_map(path, field=None, nest=nest, dtype=np.float64)
    np.testing.assert_array_equal(read, np.where(np.isnan(values), UNSEEN, values))
    np.testing.assert_array_equal(read_map(path).values, values)


def test_header(tmp_path):
    write_iqu(tmp_path / "map.fits", Healpix(8, nest=True), partial=True, cards={"NITER": 30})
    header = fits.getheader(tmp_path / "map.fits", 1)
    expected = {
        "ORDERING": "NESTED", "COORDSYS": "G", "POLCCONV": "COSMO", "NSIDE": 8, "FIRSTPIX": 0, "LASTPIX": 767,
        "INDXSCHM": "EXPLICIT", "RUNID": "test-1", "TUNIT2": "K_CMB", "BAD_DATA": UNSEEN, "NITER": 30,
    }  # fmt: skip
    assert {name: header[name] for name in expected} == expected
    with warnings.catch_warnings(), fits.open(tmp_path / "map.fits", checksum=True) as hdus:
        warnings.simplefilter("error")
        assert all(hdu.verify_checksum() == 1 and hdu.verify_datasum() == 1 for hdu in hdus)


@pytest.mark.parametrize("pixelization", [Healpix(4), FLAT], ids=["healpix", "flat"])
@pytest.mark.parametrize("suffix", ["fits", "fits.gz"])
def test_equal_maps_give_equal_bytes(tmp_path, pixelization, suffix):
    for name in ("a", "b"):
        write_iqu(tmp_path / f"{name}.{suffix}", pixelization)
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


LAYOUT = ImageLayout((30, 40), np.random.default_rng(0).permutation(1200)[:777], FLAT.wcs_cards())


@pytest.mark.parametrize(
    ("pixelization", "partial"),
    [
        (Healpix(8), False), (Healpix(8, nest=True), False), (Healpix(5), False), (Healpix(8), True),
        (CAR, False), (FLAT, False), (NumberedPixels(777), False), (NumberedPixels(777, LAYOUT), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("names", "unit"),
    [
        (IQU, "K_CMB"),
        (("HITS",), ""),
        (("II", "IQ", "IU", "QQ", "QU", "UU"), "K_CMB^2"),
        (("A", "B"), ("", "Jy")),
    ],
)
def test_astropy_writes_the_same_bytes(tmp_path, pixelization, partial, names, unit):
    """The file equals what astropy writes from its headers and values, checksums included."""
    frame = None if isinstance(pixelization, NumberedPixels) else "galactic"
    values = values_on(pixelization, len(names))
    options = {"names": names, "unit": unit, "frame": frame, "partial": partial, "cards": {"LONG": "x" * 99}}
    write_iqu(tmp_path / "map.fits", pixelization, values, **options)
    with fits.open(tmp_path / "map.fits") as hdus:
        made = fits.HDUList([type(hdu)(data=hdu.data, header=hdu.header) for hdu in hdus])
        n_axis = made[0].header["NAXIS"]  # astropy drops EXTEND from a copied header
        made[0].header.set("EXTEND", True, after=f"NAXIS{n_axis or ''}")
        for hdu in made:
            del hdu.header["CHECKSUM"], hdu.header["DATASUM"]
            hdu.add_checksum(when="by petamap")
        made.writeto(tmp_path / "astropy.fits")
    assert (tmp_path / "map.fits").read_bytes() == (tmp_path / "astropy.fits").read_bytes()


@pytest.mark.parametrize(
    "pixelization", [Healpix(8192), CarPatch.full_sky(1 / 60)], ids=lambda p: p.describe()["kind"]
)
def test_headers_are_made_without_values(pixelization):
    options = {"names": IQU, "unit": "K_CMB", "run_id": "test-1", "frame": "galactic"}
    make_map_header(pixelization, **options)
    tracemalloc.start()
    header = make_map_header(pixelization, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20 and header.data.n_rows == pixelization.n_pix
    assert header.data.begin == len(header.to_bytes(2**32 - 1)) and header.data.begin % 2880 == 0


def test_a_partial_map_without_pixels(tmp_path):
    write_iqu(tmp_path / "map.fits", Healpix(2), np.full((3, 48), np.nan), partial=True)
    assert np.isnan(read_map(tmp_path / "map.fits").values).all()


@pytest.mark.parametrize("patch", [CAR, FLAT], ids=["car", "flat"])
def test_astropy_places_images(tmp_path, patch):
    values = write_iqu(tmp_path / "map.fits", patch, frame="equatorial")
    with fits.open(tmp_path / "map.fits") as hdus:
        header, planes = hdus[0].header, hdus[0].data
        assert planes.shape == (3, *patch.shape) and header["CTYPE3"] == "STOKES"
        np.testing.assert_array_equal(planes.reshape(3, -1), values)
    lon, lat, stokes = WCS(header).all_pix2world(3, 5, [0, 1, 2], 0)
    x, y, z = patch.directions_of(np.array([5 * patch.shape[1] + 3]))[0]
    np.testing.assert_allclose(lon % 360, np.degrees(np.arctan2(y, x)) % 360, rtol=1e-12)
    np.testing.assert_allclose(lat, np.degrees(np.arcsin(z)), rtol=1e-12)
    assert stokes.tolist() == [1, 2, 3]


def test_columns_with_other_names(tmp_path):
    names = ("II", "IQ", "IU", "QQ", "QU", "UU")
    values = values_on(Healpix(4), 6)
    write_iqu(tmp_path / "cov.fits", Healpix(4), values, names=names, unit="K_CMB^2")
    read = read_map(tmp_path / "cov.fits")
    assert read.names == names and read.unit == "K_CMB^2" and read.stokes is None
    np.testing.assert_array_equal(read.values, values)
    one = read_map(tmp_path / "cov.fits", columns=["QQ"])
    np.testing.assert_array_equal(one.values, values[3:4])
    with pytest.raises(DataError, match="no column 'QX'"):
        read_map(tmp_path / "cov.fits", columns=["QX"])


def test_numbered_pixels(tmp_path):
    index = np.array([3, 11, 5, 0])
    layout = ImageLayout((3, 4), index, FlatPatch.box((10, 20), (4, 3), 1.0).wcs_cards())
    values = np.array([[1.0, 2.0, np.nan, 4.0]])
    common = {"names": ["I"], "unit": "Jy/beam", "run_id": "x"}
    write_map(tmp_path / "image.fits", values, NumberedPixels(4, layout), **common)
    image = fits.getdata(tmp_path / "image.fits")[0]
    assert image.ravel()[index].tolist()[:2] == [1, 2] and np.isnan(image).sum() == 9
    assert read_map(tmp_path / "image.fits", frame="equatorial").unit == "Jy/beam"
    write_map(tmp_path / "table.fits", values, NumberedPixels(4), **common)
    read = read_map(tmp_path / "table.fits")
    np.testing.assert_array_equal(read.values, values)
    assert read.pixelization.describe() == {"kind": "numbered", "n_pix": 4}


def test_toast_like_file(tmp_path):
    """Nested, float32, units numbered from TUNIT0, neither COORDSYS nor POLCCONV."""
    values = np.random.default_rng(3).standard_normal((3, 768)).astype(np.float32)
    values[:, 7] = UNSEEN
    units = [(f"TUNIT{i}", unit) for i, unit in enumerate(["mK", "K", "uK"])]
    healpy.write_map(
        tmp_path / "toast.fits", values, nest=True, dtype=np.float32, fits_IDL=False, extra_header=units
    )
    read = read_map(tmp_path / "toast.fits")
    expected = values.astype(np.float64) * np.array([[1e-3], [1.0], [1e-6]])
    np.testing.assert_allclose(np.delete(read.values, 7, 1), np.delete(expected, 7, 1), rtol=1e-15)
    assert np.isnan(read.values[:, 7]).all()
    assert read.pixelization == Healpix(8, nest=True) and read.unit == "K_CMB" and read.frame is None
    polarization, frame = read.warnings
    assert "POLCCONV" in polarization and "COORDSYS" in frame


@pytest.mark.parametrize("in_file", [True, False])
def test_iau_becomes_cosmo(tmp_path, in_file):
    values = np.arange(36.0).reshape(3, 12)
    header = [("POLCCONV", "IAU")] if in_file else []
    healpy.write_map(tmp_path / "iau.fits", values, dtype=np.float64, coord="C", extra_header=header)
    read = read_map(tmp_path / "iau.fits", polarization=None if in_file else "IAU", unit="uK")
    np.testing.assert_allclose(read.values, values * np.array([[1e-6], [1e-6], [-1e-6]]))
    assert read.polarization == "COSMO" and read.frame == "equatorial" and read.warnings == ()


def test_polarization_without_convention_warns(tmp_path):
    healpy.write_map(tmp_path / "map.fits", np.ones((3, 12)), dtype=np.float64, coord="G", column_units="K")
    (warning,) = read_map(tmp_path / "map.fits").warnings
    assert "POLCCONV" in warning and "map.fits" in warning
    assert read_map(tmp_path / "map.fits", columns=["TEMPERATURE"]).warnings == ()


def test_pixell_like_image(tmp_path):
    """Planes T, Q, U without STOKES axis or POLCCONV, float32, poles on pixel centres."""
    header = fits.Header({"CTYPE1": "RA---CAR", "CTYPE2": "DEC--CAR", "CRVAL1": 0.0, "CRVAL2": 0.0})
    header.update({"CRPIX1": 36.0, "CRPIX2": 10.0, "CDELT1": -5.0, "CDELT2": 10.0, "CUNIT1": "deg"})
    patch = CarPatch((0.0, 0.0), (36.0, 10.0), (-5.0, 10.0), (19, 72))
    planes = np.random.default_rng(4).standard_normal((3, 19, 72)).astype(np.float32)
    fits.PrimaryHDU(planes, header).writeto(tmp_path / "car.fits")
    read = read_map(tmp_path / "car.fits", polarization="IAU", unit="uK")
    assert read.pixelization == patch and read.names == IQU and read.frame == "equatorial"
    np.testing.assert_allclose(read.values[2], -1e-6 * planes[2].ravel().astype(np.float64), rtol=1e-12)


def test_wmap():
    path = EXAMPLES / "planck_lfi/wmap_w_n32.fits"
    read = read_map(path, unit="mK", polarization="COSMO", frame="galactic")
    expected = healpy.read_map(path, field=None, dtype=np.float64) * 1e-3
    np.testing.assert_allclose(read.values, expected, rtol=1e-15)
    assert read.pixelization == Healpix(32) and read.stokes is Stokes.IQU and read.warnings == ()
    assert len(read_map(path).warnings) == 3


def test_spire_image_between_unreadable_tables():
    read = read_map(EXAMPLES / "spire/madmapSpirePSW.fits.gz", hdu="image", frame="equatorial")
    assert read.pixelization.shape == (285, 286) and np.isfinite(read.values).sum() > 60_000


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("K", (1, "K_CMB")), ("K_CMB", (1, "K_CMB")), ("Kcmb", (1, "K_CMB")), ("mK", (1e-3, "K_CMB")),
        ("mK,thermodynamic", (1e-3, "K_CMB")), ("mK (thermodynamic)", (1e-3, "K_CMB")),
        ("uK_CMB", (1e-6, "K_CMB")), ("microK", (1e-6, "K_CMB")), ("µK", (1e-6, "K_CMB")),
        ("muK", (1e-6, "K_CMB")), ("muK^2", (1e-12, "K_CMB^2")),
        ("K_CMB^2", (1, "K_CMB^2")), ("mK^2", (1e-6, "K_CMB^2")),
        ("K_RJ", (1, "K_RJ")), ("MK", (1, "MK")), ("MJy/sr", (1, "MJy/sr")), ("", (1, "")),
    ],
)  # fmt: skip
def test_units(unit, expected):
    factor, name = to_kelvin(unit)
    assert (pytest.approx(factor), name) == expected


@pytest.mark.parametrize("pixelization", [Healpix(4), FLAT], ids=["healpix", "flat"])
def test_flipped_bits_are_detected(tmp_path, pixelization):
    path = tmp_path / "map.fits"
    write_iqu(path, pixelization)
    intact = path.read_bytes()
    rng = np.random.default_rng(5)
    for place in rng.integers(0, len(intact), 60):
        damaged = bytearray(intact)
        damaged[place] ^= 1 << int(rng.integers(0, 8))
        write_anew(path, damaged)
        with pytest.raises(DataError, match=r"map\.fits"):
            read_map(path)


@pytest.mark.parametrize("pixelization", [Healpix(4), FLAT], ids=["healpix", "flat"])
def test_truncation_is_detected(tmp_path, pixelization):
    path = tmp_path / "map.fits"
    write_iqu(path, pixelization)
    intact = path.read_bytes()
    for length in [0, 1, 79, 80, 2879, 2880, 2881, 5760, 7000, len(intact) - 2880, len(intact) - 1]:
        write_anew(path, intact[:length])
        with pytest.raises(DataError, match=r"map\.fits"):
            read_map(path)


def test_damaged_headers_without_checksums(tmp_path):
    path = tmp_path / "map.fits"
    healpy.write_map(path, np.ones((3, 192)), dtype=np.float32)
    intact = path.read_bytes()
    rng = np.random.default_rng(6)
    places = [place for place in range(8640) if intact[place] != ord(" ")]
    for place in rng.choice(places, 300):
        damaged = bytearray(intact)
        damaged[place] = int(rng.integers(0, 256))
        write_anew(path, damaged)
        with contextlib.suppress(DataError):
            read_map(path)


def table(path, columns, **cards):
    hdu = fits.BinTableHDU.from_columns([fits.Column(n, f, array=np.array(a)) for n, f, a in columns])
    hdu.header.update(cards)
    hdu.writeto(path)
    return path


@pytest.mark.parametrize(
    ("columns", "cards", "words"),
    [
        ([("I", "D", [1.0] * 12)], {"NSIDE": 1}, "ORDERING"),
        ([("I", "D", [1.0] * 12)], {"NSIDE": 2, "ORDERING": "RING"}, "12 values for 48 pixels"),
        ([("I", "D", [1.0] * 12)], {"NSIDE": 3, "ORDERING": "NESTED"}, "power of two"),
        ([("I", "D", [1.0] * 12)], {"NSIDE": "many", "ORDERING": "RING"}, "NSIDE"),
        ([("I", "D", [1.0] * 11 + [np.inf])], {"NSIDE": 1, "ORDERING": "RING"}, "pixel 11 of I is infinite"),
        ([("U", "D", [1.0] * 12)], {"NSIDE": 1, "ORDERING": "RING", "POLCCONV": "LEFT"}, "POLCCONV"),
        (
            [("PIXEL", "J", [0, 12]), ("I", "D", [1.0, 2.0])],
            {"NSIDE": 1, "ORDERING": "RING", "INDXSCHM": "EXPLICIT"},
            "row 1 has pixel 12",
        ),
        (
            [("PIXEL", "J", [3, 3]), ("I", "D", [1.0, 2.0])],
            {"NSIDE": 1, "ORDERING": "RING", "INDXSCHM": "EXPLICIT"},
            "twice",
        ),
        ([("I", "D", [1.0] * 12)], {}, "no HEALPix table"),
    ],
)
def test_invalid_tables(tmp_path, columns, cards, words):
    with pytest.raises(DataError, match=words) as caught:
        read_map(table(tmp_path / "bad.fits", columns, **cards))
    assert "bad.fits" in str(caught.value)


def test_rotated_images_raise(tmp_path):
    header = fits.Header(FLAT.wcs_cards() | {"CROTA2": 12.0})
    fits.PrimaryHDU(np.zeros(FLAT.shape), header).writeto(tmp_path / "rotated.fits")
    with pytest.raises(DataError, match="rotated"):
        read_map(tmp_path / "rotated.fits")


@pytest.mark.parametrize(
    ("card", "damaged"),
    [(b"BITPIX", b"\xc2ITPIX"), (b"'test-1  '", b"'test-1  #"), (b"NAXIS2  = ", b"NAXIS2  =\xa0")],
)
def test_damaged_files_do_not_say_where_they_are_from(tmp_path, card, damaged):
    path = tmp_path / "a.fits"
    write_iqu(path, Healpix(2))
    assert file_origin(path) == ("test-1", "")
    begin, _, end = path.read_bytes().rpartition(card)
    path.write_bytes(begin + damaged + end)
    assert file_origin(path) == ("", "")


def test_missing_files_and_other_formats(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_map(tmp_path / "none.fits")
    (tmp_path / "text.fits").write_text("map\n" * 2000)
    with pytest.raises(DataError, match=r"text\.fits"):
        read_map(tmp_path / "text.fits")
    with pytest.raises(ConfigError, match="did you mean 'galactic'"):
        read_map(tmp_path / "none.fits", frame="galactical")


@pytest.mark.parametrize(
    ("pixelization", "more"),
    [
        (Healpix(4), {"frame": None}),
        (Healpix(4), {"frame": "lunar"}),
        (Healpix(4), {"names": ("I", "Q")}),
        (Healpix(4), {"unit": ("K", "K")}),
        (FLAT, {"partial": True}),
    ],
)
def test_invalid_arguments_of_write_map(tmp_path, pixelization, more):
    with pytest.raises(ConfigError):
        write_iqu(tmp_path / "map.fits", pixelization, **more)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pixelization", [Healpix(4, nest=True), FLAT])
def test_a_map_is_written_as_it_is(tmp_path, pixelization):
    write_iqu(tmp_path / "map.fits", pixelization)
    found = read_map(tmp_path / "map.fits")
    write_map(tmp_path / "again.fits", found, run_id="a")
    again = read_map(tmp_path / "again.fits")
    np.testing.assert_array_equal(again.values, found.values)
    for name in ("pixelization", "names", "units", "frame", "polarization"):
        assert getattr(again, name) == getattr(found, name)
    write_map(tmp_path / "of-nowhere.fits", replace(found, frame=None), frame="ecliptic")
    assert read_map(tmp_path / "of-nowhere.fits").frame == "ecliptic"
    for said in ({"unit": "uK"}, {"frame": "galactic"}, {"names": "IQU"}, {"pixelization": Healpix(4)}):
        with pytest.raises(ConfigError, match=f"{next(iter(said))} is part of the map"):
            write_map(tmp_path / "no.fits", found, **said)
    with pytest.raises(ConfigError, match="or a SkyMap"):
        write_map(tmp_path / "no.fits", found.values)


def test_failed_write_leaves_the_old_map(tmp_path):
    values = write_iqu(tmp_path / "map.fits", Healpix(4))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(ResourceError, match="File too large"):
            write_iqu(tmp_path / "map.fits", Healpix(4), 2 * values)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    np.testing.assert_array_equal(read_map(tmp_path / "map.fits").values, values)
    assert len(list(tmp_path.iterdir())) == 1 and issubclass(ResourceError, UserError)


@pytest.mark.parametrize("pixelization", [Healpix(1), CarPatch.box((0, 0), (4, 4), 1)])
def test_units_beyond_ascii(tmp_path, pixelization):
    values = np.ones((1, pixelization.n_pix))
    write_map(
        tmp_path / "a.fits", values, pixelization, names=["A"], unit="µV/α", run_id="x", frame="galactic"
    )
    assert read_map(tmp_path / "a.fits").units == ("uV/\\u03b1",)
