"""Tests of spectrum files: text of CAMB, FITS of HEALPix and healpy, round trips."""

from pathlib import Path

import healpy
import numpy as np
import pytest
from astropy.io import fits

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petamap.sky.power_spectra import Spectra, cl_to_dl_factor
from petamap.sky.spectrum_file import SPECTRUM_NAMES, read_spectrum_file, write_spectrum_file

RNG = np.random.default_rng(1)
SIX = Spectra(RNG.standard_normal((6, 30)) * 1e-12, SPECTRUM_NAMES)


@pytest.mark.parametrize("name", ["a.fits", "a.fits.gz"])
def test_fits_round_trip(tmp_path, name):
    write_spectrum_file(tmp_path / name, SIX)
    again = read_spectrum_file(tmp_path / name)
    assert again.names == SIX.names and again.unit == "K_CMB^2"
    assert np.array_equal(again.values, SIX.values)


def test_text_round_trip(tmp_path):
    nine = Spectra(RNG.standard_normal((9, 12)) * 1e-12, (*SPECTRUM_NAMES, "ET", "BE", "BT"))
    write_spectrum_file(tmp_path / "a.dat", nine)
    again = read_spectrum_file(tmp_path / "a.dat")
    assert again.names == nine.names and again.unit == "K_CMB^2"
    np.testing.assert_allclose(again.values[:, 1:], nine.values[:, 1:], rtol=1e-14)
    other = Spectra(nine.values, nine.names, "(Jy/beam)^2")
    write_spectrum_file(tmp_path / "b.dat", other)
    again = read_spectrum_file(tmp_path / "b.dat")
    assert again.unit == "(Jy/beam)^2"
    np.testing.assert_allclose(again.values[:, 1:], nine.values[:, 1:], rtol=1e-14)


def test_healpy_reads_and_writes_the_same(tmp_path):
    """healpy reads columns by position and calls the fifth, EB, C-T."""
    write_spectrum_file(tmp_path / "ours.fits", SIX)
    np.testing.assert_array_equal(healpy.read_cl(tmp_path / "ours.fits"), SIX.values)
    healpy.write_cl(tmp_path / "theirs.fits", SIX.values, dtype=np.float64, column_units="K^2")
    theirs = read_spectrum_file(tmp_path / "theirs.fits")
    for name in SPECTRUM_NAMES:
        np.testing.assert_array_equal(theirs[name], SIX[name])
    healpy.write_cl(tmp_path / "tt.fits", SIX["TT"], dtype=np.float64, column_units="uK^2")
    tt = read_spectrum_file(tmp_path / "tt.fits")
    assert tt.names == ("TT",)
    np.testing.assert_allclose(tt["TT"], SIX["TT"] * 1e-12)


def test_column_names_of_healpix(tmp_path):
    from astropy.io import fits

    names = ("TEMPERATURE", "GRADIENT", "CURL", "G-T", "C-T", "C-G")
    columns = [
        fits.Column(name, "E15.7", unit="^2", array=np.full(3, i), ascii=True) for i, name in enumerate(names)
    ]
    table = fits.TableHDU.from_columns(columns)
    table.header["CREATOR"] = "ANAFAST"
    fits.HDUList([fits.PrimaryHDU(), table]).writeto(tmp_path / "cl.fits")
    found = read_spectrum_file(tmp_path / "cl.fits", unit="mK^2")
    assert found["TB"][0] == pytest.approx(4e-6) and found["EB"][0] == pytest.approx(5e-6)
    assert read_spectrum_file(tmp_path / "cl.fits").unit == ""


@pytest.mark.parametrize(
    ("columns", "names"), [(1, ("TT",)), (3, ("TT", "EE", "TE")), (4, ("TT", "EE", "BB", "TE"))]
)
def test_text_without_names_has_the_columns_of_camb(tmp_path, columns, names):
    l = np.arange(2, 9)  # noqa: E741
    table = np.column_stack((l, np.full((len(l), columns), 5.0) + np.arange(columns)))
    np.savetxt(tmp_path / "cl.dat", table)
    found = read_spectrum_file(tmp_path / "cl.dat", unit="uK^2")
    assert found.names == names and found.l_max == 8 and np.all(found.values[:, :2] == 0)
    np.testing.assert_allclose(found.values[:, 2:] * cl_to_dl_factor(l) * 1e12, table[:, 1:].T, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("# L TT\n2 1\n3 x\n", "cl.dat:3: is no table of spectra.*'x'"),
        ("# L TT\n2 1\n\n4 1\n", "cl.dat:4: multipoles do not count up"),
        ("# L TT\n2 1\n3 1 1\n", "cl.dat:3: has 3 columns instead of 2"),
        ("# L TT EE\n2 1\n", "cl.dat:2: has 2 columns instead of 3"),
        ("3 1\n", "cl.dat:1: multipoles"),
        ("2 1 1 1 1 1 1\n", "has 7 columns without names.*# L TT"),
        ("# L TT\n", "no numbers"),
    ],
)
def test_errors_in_text_name_the_line(tmp_path, text, word):
    (tmp_path / "cl.dat").write_text(text)
    with pytest.raises(DataError, match=word):
        read_spectrum_file(tmp_path / "cl.dat")


def test_invalid_files(tmp_path):
    for name, content in (
        ("none.dat", None),
        ("bytes.dat", b"\xff\xfe\x00"),
        ("a.fits", b"SIMPLE"),
        ("b.fits", None),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=name):
            read_spectrum_file(tmp_path / name)
    with pytest.raises(ConfigError, match="unknown unit"):
        read_spectrum_file(tmp_path / "none.dat", unit="Jy")
    with pytest.raises(ResourceError, match="cannot be written"):
        write_spectrum_file(Path("/proc/none/a.dat"), SIX)


def test_damaged_headers_without_checksums(tmp_path):
    path = tmp_path / "theirs.fits"
    healpy.write_cl(path, SIX.values, dtype=np.float64, column_units="K^2")
    content = path.read_bytes()
    for card, damaged in (
        (b"'GRADIENT' ", b"'GRADIENT'("),
        (b"BITPIX", b"\xc2ITPIX"),
        (b"TFORM2", b"TFORM\xb2"),
    ):
        assert card in content
        path.write_bytes(content.replace(card, damaged))
        with pytest.raises(DataError, match=r"theirs\.fits: "):
            read_spectrum_file(path)
    fits.HDUList([fits.PrimaryHDU(np.zeros(3))]).writeto(tmp_path / "image.fits")
    with pytest.raises(DataError, match=r"image\.fits: is no FITS table of spectra: no table"):
        read_spectrum_file(tmp_path / "image.fits")


def test_bandpowers_are_no_spectra(tmp_path):
    bands = fits.BinTableHDU.from_columns([fits.Column("L_FIRST", "K", array=[2])], name="BANDPOWERS")
    bands.writeto(tmp_path / "bands.fits")
    with pytest.raises(DataError, match=r"bands.fits: holds bandpowers, .*petamap compare"):
        read_spectrum_file(tmp_path / "bands.fits")


def test_select():
    chosen = SIX.select(("BB", "BT"), 5)
    assert chosen.l_max == 5 and np.array_equal(chosen["BB"], SIX["BB"][:6]) and not chosen["BT"].any()
    with pytest.raises(DataError, match="end at l = 29"):
        SIX.select(("TT",), 30)
    with pytest.raises(DataError, match="no ET spectrum"):
        SIX["ET"]
    with pytest.raises(DataError, match="are no spectra"):
        Spectra(np.zeros((2, 3)), ("TT",))
