"""Bandpowers in files."""

from pathlib import Path

import numpy as np
import pytest

from petacomm.base.errors import DataError, ResourceError
from petamap.spectra.bandpower_files import read_bandpowers, write_bandpowers
from petamap.spectra.bandpower_plot import bandpower_plot
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.cross_spectra import spectra_names
from petamap.spectra.multipole_bins import Binning

RNG = np.random.default_rng(1)


def some(names=spectra_names("TEB"), of_d=True, unit="K_CMB^2"):  # noqa: B008
    n, binning = len(names), Binning.linear(2, 31, 6, of_d)
    root = RNG.standard_normal((n * 5, n * 5)) * 1e-12
    return Bandpowers(
        RNG.standard_normal((n, 5)) * 1e-12,
        names,
        binning,
        unit,
        (root @ root.T).reshape(n, 5, n, 5),
        RNG.random((n, 5, n, 40)),
    )


@pytest.mark.parametrize("of_d", [True, False])
def test_fits_back_and_forth(tmp_path, of_d):
    whole = some(of_d=of_d)
    for bandpowers in (whole, Bandpowers(whole.values, whole.names, whole.binning)):
        write_bandpowers(tmp_path / "b.fits", bandpowers)
        again = read_bandpowers(tmp_path / "b.fits")
        assert again.names == bandpowers.names and again.unit == "K_CMB^2" and again.binning.of_d == of_d
        np.testing.assert_array_equal(again.binning.edges, bandpowers.binning.edges)
        for part in ("values", "covariance", "windows"):
            np.testing.assert_array_equal(getattr(again, part), getattr(bandpowers, part))


def test_the_same_bytes_each_time(tmp_path):
    bandpowers = some()
    for name in ("a.fits", "b.fits"):
        write_bandpowers(tmp_path / name, bandpowers)
    assert (tmp_path / "a.fits").read_bytes() == (tmp_path / "b.fits").read_bytes()


def test_text(tmp_path):
    bandpowers = some()
    write_bandpowers(tmp_path / "b.txt", bandpowers)
    lines = (tmp_path / "b.txt").read_text().splitlines()
    assert lines[0] == "# D_l in uK^2" and lines[1].startswith("# L_FIRST L_LAST TT TT_ERROR EE")
    table = np.loadtxt(tmp_path / "b.txt")
    np.testing.assert_allclose(table[:, 2], bandpowers["TT"] * 1e12, rtol=1e-9)
    np.testing.assert_allclose(table[:, 5], bandpowers.errors[1] * 1e12, rtol=1e-9)


@pytest.mark.parametrize("cross", [False, True])
def test_sacc(tmp_path, cross):
    sacc = pytest.importorskip("sacc")
    bandpowers = some(spectra_names("TEB", "TEB" if cross else None))
    write_bandpowers(tmp_path / "b.sacc", bandpowers)
    found = sacc.Sacc.load_fits(str(tmp_path / "b.sacc"))
    one, two = ("first", "second") if cross else ("map", "map")
    middle_found, values, covariance, places = found.get_ell_cl(
        "cl_ee", f"{one}_P", f"{two}_P", return_cov=True, return_ind=True
    )
    middle = bandpowers.binning.middle
    np.testing.assert_array_equal(middle_found, middle)
    scale = 2 * np.pi / (middle * (middle + 1))
    np.testing.assert_allclose(values, bandpowers["EE"] * scale * 1e12, rtol=1e-12)
    expected = bandpowers.covariance[1, :, 1] * np.multiply.outer(scale, scale) * 1e24
    np.testing.assert_allclose(covariance, expected, rtol=1e-12)
    window = found.get_bandpower_windows(places)
    np.testing.assert_allclose(window.weight, (bandpowers.windows[1, :, 1] * scale[:, None]).T, rtol=1e-12)
    assert found.tracers[f"{one}_T"].spin == 0 and found.tracers[f"{two}_P"].map_unit == "uK_CMB"
    if cross:
        _, values = found.get_ell_cl("cl_be", "first_P", "second_P")
        np.testing.assert_allclose(values, bandpowers["BE"] * scale * 1e12, rtol=1e-12)


@pytest.mark.parametrize("cross, of_d, unit", [(False, True, "K_CMB^2"), (True, False, "(MJy/sr)^2")])
def test_sacc_back_and_forth(tmp_path, cross, of_d, unit):
    pytest.importorskip("sacc")
    bandpowers = some(spectra_names("TEB", "TEB" if cross else None), of_d, unit)
    write_bandpowers(tmp_path / "b.sacc", bandpowers)
    again = read_bandpowers(tmp_path / "b.sacc")
    assert set(again.names) == set(bandpowers.names) and again.unit == unit and again.binning.of_d == of_d
    np.testing.assert_array_equal(again.binning.edges, bandpowers.binning.edges)
    rows = [bandpowers.names.index(name) for name in again.names]
    np.testing.assert_allclose(again.values, bandpowers.values[rows], rtol=1e-12)
    np.testing.assert_allclose(again.covariance, bandpowers.covariance[rows][:, :, rows], rtol=1e-12)
    for row, other in enumerate(rows):
        np.testing.assert_allclose(
            again.windows[row, :, row], bandpowers.windows[other, :, other], rtol=1e-12
        )


def test_sacc_of_others(tmp_path):
    sacc = pytest.importorskip("sacc")
    made, middle = sacc.Sacc(), np.array([6.5, 16.5, 29.0])  # bins 2 to 11, 12 to 21, 22 to 36
    made.add_tracer("Map", "a", 2, np.arange(50), np.ones(50), map_unit="uK_CMB")
    made.add_tracer("Map", "b", 2, np.arange(50), np.ones(50), map_unit="uK_CMB")
    made.add_ell_cl("cl_ee", "a", "a", middle, np.array([1.0, 2.0, 3.0]))
    made.save_fits(str(tmp_path / "a.sacc"))
    found = read_bandpowers(tmp_path / "a.sacc")
    assert found.names == ("EE",) and not found.binning.of_d and found.covariance is None
    assert found.binning.ranges == [(2, 11), (12, 21), (22, 36)]
    np.testing.assert_allclose(found["EE"], [1e-12, 2e-12, 3e-12])
    made.add_ell_cl("cl_ee", "a", "b", middle, np.array([1.0, 2.0, 3.0]))
    made.save_fits(str(tmp_path / "b.sacc"))
    with pytest.raises(DataError, match=r"cl_ee of 2 pairs.*keep_selection"):
        read_bandpowers(tmp_path / "b.sacc")
    (tmp_path / "c.sacc").write_bytes(b"nothing")
    with pytest.raises(DataError, match="no file of bandpowers"):
        read_bandpowers(tmp_path / "c.sacc")


@pytest.mark.parametrize(
    "bins", ["[", 9999 * "[", "{}", '{"edges": [2, "a"], "of_d": true}', '{"edges": 3, "of_d": 0}']
)
def test_sacc_with_damaged_bins(tmp_path, bins):
    sacc = pytest.importorskip("sacc")
    made = sacc.Sacc()
    made.add_tracer("Map", "a", 2, np.arange(50), np.ones(50), map_unit="uK_CMB")
    made.add_ell_cl("cl_ee", "a", "a", np.array([6.5, 16.5]), np.ones(2))
    made.metadata["petamap_bins"] = bins
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sacc.Sacc, "load_fits", lambda *_: made)
        (tmp_path / "a.sacc").write_bytes(b"")
        with pytest.raises(DataError, match=r"a\.sacc: "):
            read_bandpowers(tmp_path / "a.sacc")


def test_bad_files_and_full_disks(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_bandpowers(tmp_path / "none.fits")
    (tmp_path / "a.fits").write_bytes(b"nothing")
    with pytest.raises(DataError, match="no file of bandpowers"):
        read_bandpowers(tmp_path / "a.fits")
    write_bandpowers(tmp_path / "b.fits", some())
    content = bytearray((tmp_path / "b.fits").read_bytes())
    content[-4000] ^= 1
    (tmp_path / "b.fits").write_bytes(bytes(content))
    with pytest.raises(DataError, match="no file of bandpowers"):
        read_bandpowers(tmp_path / "b.fits")
    with pytest.raises(ResourceError):
        write_bandpowers(Path("/proc/none/b.fits"), some())


def test_what_is_drawn_is_json():
    import json

    bandpowers = some()
    drawn = bandpower_plot(bandpowers)
    assert json.loads(json.dumps(drawn)) == drawn
    assert drawn["unit"] == "uK^2" and drawn["power"] == "D_l" and len(drawn["spectra"]) == 6
    first = drawn["spectra"][0]
    assert first["first"] == [2, 8, 14, 20, 26] and first["line"] is None and len(first["error"]) == 5
