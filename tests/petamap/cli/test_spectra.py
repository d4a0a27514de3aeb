"""Tests of ``petamap spectra``."""

import numpy as np
from made_maps import SKY, UP, sky, write_run

from petamap.cli.main import main
from petamap.cli.spectra import _cell
from petamap.spectra.bandpower_files import read_bandpowers


def test_table_and_file(tmp_path, make_summary, capsys):
    folder = write_run(tmp_path / "run", make_summary(), sky(), hits=np.ones(SKY.n_pix))
    words = [
        "--fwhm",
        "3 deg",
        "--no-pixel-window",
        "--against",
        "planck2018",
        "--width",
        "8",
        "--l-max",
        "40",
    ]
    assert main(["spectra", str(folder), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "D_l in uK^2; f_sky 1.000 of T, 1.000 of E, B"
    assert lines[1].split() == ["l", "TT", "EE", "BB", "TE", "EB", "TB"]
    assert lines[2].split()[0] == "2-9" and lines[2].count("±") == 6
    assert any(line.startswith("TT against the theory: chi2") for line in lines)
    found = read_bandpowers(folder / "made_spectra.fits")
    assert lines[-1] == str(folder / "made_spectra.fits") and found.binning.ranges[0] == (2, 9)
    assert abs(float(lines[2].split()[1]) - found["TT"][0] * 1e12) < 1
    out = tmp_path / "cross.txt"
    assert main(["spectra", str(folder), str(folder), "--cl", "--out", str(out)]) == 0
    assert "C_l in uK^2" in capsys.readouterr().out and "BT_ERROR" in out.read_text()


def test_errors_are_one_line(tmp_path, make_summary, capsys):
    folder = write_run(tmp_path / "run", make_summary(), np.where(UP > 0, sky(), np.nan))
    (tmp_path / "bad.txt").write_text("# L TT\n2 1\n3 -1\n")
    cases = (
        ([str(tmp_path / "none")], 3, "summary.json"),
        ([str(folder), "--weights", "hit"], 2, "did you mean 'hits'"),
        ([str(folder), "--purify", "E"], 2, "did you mean 'EB'"),
        ([str(folder), "--apodize", "5"], 2, "unknown angle unit"),
        ([str(folder), "--l-max", "200"], 2, "beyond the reach of n_side 32"),
        ([str(folder), "--against", str(tmp_path / "bad.txt")], 3, "l = 3"),
        ([str(folder), "--mask", str(tmp_path / "none.fits")], 3, "no such file"),
        ([str(folder), "--out", "/proc/none/b.fits"], 5, "cannot be written"),
    )
    for words, code, word in cases:
        assert main(["spectra", *words]) == code, words
        error = capsys.readouterr().err.splitlines()
        assert len(error) == 1 and word in error[0], error
    assert not (folder / "made_spectra.fits").exists()


def test_bandpowers_of_any_size_fit_their_columns():
    assert _cell(1234.4, 61.0) == "1234 ± 61"
    assert _cell(0.0123, 0.00456) == "0.0123 ± 0.0046"
    for value in (3.9e-27, -1.2e20):
        text = _cell(value, abs(value) / 3)
        assert len(text) < 20 and float(text.split()[0]) == value
    assert _cell(0.0, 0.0) == "0 ± 0"
