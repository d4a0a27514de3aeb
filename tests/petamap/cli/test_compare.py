"""``petamap compare``: differences of files and runs, tolerances, exit codes."""

from pathlib import Path

import numpy as np
import pytest

from petacomm.base.errors import Termination
from petamap.cli.main import main
from petamap.data import product_file
from petamap.data.run_summary import Product, Summary, pixels_sha256
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map
from petamap.spectra.bandpower_files import write_bandpowers
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.multipole_bins import Binning

N_SIDE = 8
VALUES = np.random.default_rng(5).normal(size=(3, 12 * N_SIDE**2)) * 1e-4


@pytest.fixture
def save(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def save(
        name, values=VALUES, unit="K_CMB", nest=False, frame="galactic", names=("I", "Q", "U"), run_id="a"
    ):
        write_map(
            name, values, Healpix(N_SIDE, nest=nest), names=list(names), unit=unit, run_id=run_id, frame=frame
        )
        return name

    return save


def changed(size, row=0):
    values = VALUES.copy()
    values[row] += size
    return values


def test_equal_maps_are_the_same_in_any_order_and_unit(save, capsys):
    nested = VALUES[:, Healpix(N_SIDE, nest=True).reordered(np.arange(VALUES.shape[1]))]
    save("a.fits")
    save("b.fits", nested * 1e6, unit="uK_CMB", nest=True)
    assert main(["compare", "a.fits", "b.fits", "--tolerance", "1e-14"]) == 0
    said = capsys.readouterr().out
    assert "pixels: 768 in both, 0 in A alone, 0 in B alone" in said and "16-23" in said
    assert said.splitlines()[-1].startswith("same within 1e-14 of A")


def test_a_unit_that_is_taken_from_the_other_map_is_told(save, capsys):
    known, unknown = save("a.fits"), save("b.fits", unit="")
    for pair, which in (((known, unknown), "B"), ((unknown, known), "A")):
        assert main(["compare", *map(str, pair)]) == 0
        told = capsys.readouterr().out.splitlines()
        assert told[1] == f"{which} has no unit of I, Q, U: taken to be that of the other"
    assert main(["compare", str(unknown), str(unknown)]) == 0
    assert "no unit" not in capsys.readouterr().out
    assert main(["compare", str(known), str(known)]) == 0
    assert "no unit" not in capsys.readouterr().out


def test_a_difference_is_on_its_scale(save, capsys):
    save("a.fits")
    save("b.fits", changed(1e-5))  # a monopole of I alone
    assert main(["compare", "a.fits", "b.fits"]) == 1
    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = {row[0]: row for row in said if row}
    assert rows["I"][1:3] == ["1.00e-05", "1.00e-05"] and rows["Q"][1:3] == ["0.00e+00", "0.00e+00"]
    assert float(rows["0-1"][1]) > 0.1 and float(rows["8-15"][1]) < 1e-3
    assert {row[2] for name, row in rows.items() if "-" in name and name[0].isdigit()} == {"0.00e+00"}
    assert main(["compare", "a.fits", "b.fits", "--absolute", "10.01 uK", "-q"]) == 0
    assert main(["compare", "a.fits", "b.fits", "--absolute", "9 uK", "-q"]) == 1
    assert capsys.readouterr().out == ""


def test_a_difference_of_one_scale_hides_in_no_other(save):
    """A small error on a scale where the map has little is found, though the map's rms is much larger."""
    values = VALUES.copy()
    values[0] += 1.0
    save("a.fits", values)
    save("b.fits", values + np.array([[1e-7], [0], [0]]) * np.sign(np.arange(768) % 2 - 0.5))
    assert main(["compare", "a.fits", "b.fits", "-q"]) == 1


def test_pixels_of_one_map_alone(save, capsys):
    values = VALUES.copy()
    values[:, :7] = np.nan
    save("a.fits")
    save("b.fits", values)
    save("mask.fits", np.isfinite(values[:1]).astype(float), unit="", names=["MASK"])
    assert main(["compare", "a.fits", "b.fits"]) == 1
    assert "761 in both, 7 in A alone, 0 in B alone" in capsys.readouterr().out
    assert main(["compare", "a.fits", "b.fits", "--mask", "mask.fits"]) == 0


def test_columns_that_one_map_alone_has(save, capsys):
    save("a.fits")
    save("b.fits", VALUES[:1], names=["I"])
    assert main(["compare", "a.fits", "b.fits"]) == 1
    assert "columns of one alone: Q, U" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"frame": "ecliptic"}, "one map is galactic, the other ecliptic"),
        ({"unit": "MJy/sr"}, "I is in K_CMB in one map, in MJy/sr in the other"),
        ({"names": ("HITS", "II", "QQ")}, "none to compare"),
    ],
)
def test_maps_that_cannot_be_compared(save, capsys, changes, said):
    save("a.fits")
    save("b.fits", **changes)
    assert main(["compare", "a.fits", "b.fits"]) == 3
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("card", "damaged"),
    [
        (b"'MAP     ' ", b"'MAP     '\0"),
        (b"NAXIS   =                    0", b"NAXIS   =                    1"),
        (b"NAXIS2  = ", b"NAXIS2  =\xa0"),
    ],
)
def test_damaged_headers(save, capsys, card, damaged):
    save("a.fits")
    path = Path(save("b.fits"))
    assert card in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(card, damaged))
    for words in (["a.fits", "b.fits"], ["b.fits", "a.fits"]):
        assert main(["compare", *words]) == 3
        assert "b.fits" in capsys.readouterr().err


def test_words_that_make_no_sense(save, tmp_path, capsys):
    save("a.fits")
    (tmp_path / "text.fits").write_text("no map")
    assert main(["compare", "a.fits", "."]) == 2
    assert main(["compare", "a.fits", "a.fits", "--tolerance", "-1"]) == 2
    assert main(["compare", "a.fits", "a.fits", "--absolute", "1 deg"]) == 2
    assert main(["compare", "a.fits", "no.fits"]) == 3
    assert main(["compare", "text.fits", "a.fits"]) == 3
    assert capsys.readouterr().err.count("petamap: error:") == 5


def test_bandpowers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bins = Binning.linear(2, 21, 10)
    for name, factor in (("a.fits", 1.0), ("b.fits", 1 + 1e-4)):
        write_bandpowers(name, Bandpowers(np.array([[1e-10, 2e-10]]) * factor, ("TT",), bins))
    assert main(["compare", "a.fits", "b.fits"]) == 1
    assert "TT" in capsys.readouterr().out
    assert main(["compare", "a.fits", "b.fits", "--tolerance", "2e-4", "-q"]) == 0


@pytest.fixture
def run_folder(save, make_summary, tmp_path):
    def make(name, values, of="", **changes):
        (tmp_path / name).mkdir()
        file = save(f"{name}/map.fits", values, run_id=make_summary().run_id).partition("/")[2]
        product = Product(
            name=f"map of {of}" if of else "map", file=file, kind="map", unit="K_CMB", stokes="IQU",
            sha256=pixels_sha256(values), of=of,
        )  # fmt: skip
        make_summary(products=(product,), **changes).write(name)
        assert Summary.read(name).products

    return make


def test_runs(run_folder, capsys):
    run_folder("a", VALUES)
    run_folder("b", VALUES)
    run_folder("c", changed(1e-12, row=2))
    run_folder("d", changed(1e-6, row=1))
    assert main(["compare", "a", "b"]) == 0
    assert "same bits" in capsys.readouterr().out
    assert main(["compare", "a", "c"]) == 0
    assert "within the tolerance" in capsys.readouterr().out
    assert main(["compare", "a", "d"]) == 1
    assert "DIFFERENT: 1 of 1" in capsys.readouterr().out
    assert main(["compare", "a/summary.json", "d/summary.json"]) == 1
    assert "DIFFERENT: 1 of 1" in capsys.readouterr().out
    assert main(["compare", "a/summary.json", "b"]) == 0


def test_a_pixel_of_one_run_alone_is_a_difference(run_folder, capsys):
    run_folder("a", VALUES)
    run_folder("b", np.where(np.arange(VALUES.shape[1]) == 7, np.nan, VALUES))
    assert main(["compare", "a", "b"]) == 1
    assert "1 pixel of one alone" in capsys.readouterr().out


def test_a_signal_is_no_difference_of_maps(run_folder, monkeypatch):
    def stopped(*_):
        raise Termination("terminated")

    run_folder("a", VALUES)
    run_folder("b", changed(1e-6))
    monkeypatch.setattr(product_file, "read_product", stopped)
    assert main(["compare", "a", "b"]) == 143


def test_a_mask_that_leaves_nothing_or_is_none_is_an_error(save, capsys, run_folder):
    save("a.fits")
    save("nothing.fits", np.zeros((1, VALUES.shape[1])), unit="", names=("MASK",))
    assert main(["compare", "a.fits", "a.fits", "--mask", "nothing.fits"]) == 3
    assert "the mask leaves no pixel of either map" in capsys.readouterr().err
    run_folder("one", VALUES)
    assert main(["compare", "one", "one", "--mask", "none.fits"]) == 3
    assert "none.fits: no such file" in capsys.readouterr().err


def test_a_map_of_a_band_is_named_once(run_folder, capsys):
    run_folder("a", VALUES, of="x")
    run_folder("b", VALUES, of="x")
    assert main(["compare", "a", "b"]) == 0
    assert "map of x  " in capsys.readouterr().out.replace("map of x x", "twice")
