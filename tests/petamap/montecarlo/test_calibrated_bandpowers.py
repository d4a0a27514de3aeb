"""Tests of bandpowers calibrated by a Monte Carlo, in Python and by ``petamap spectra --montecarlo``."""

from dataclasses import replace

import numpy as np
import pytest
from made_maps import write_run
from made_realizations import (
    CHOICES,
    FWHM,
    L_MAX,
    N_SIDE,
    SKY,
    draw,
    noise,
    realizations,
    spectra,
    weights,
    write,
)
from montecarlo_runs import made

from petacomm.base.errors import ConfigError, DataError
from petamap.cli.main import main
from petamap.montecarlo.calibrated_bandpowers import measure_calibrated
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.reader import read_results
from petamap.montecarlo.statistics import hotelling_probability, quadratic_form
from petamap.simulation.sky_spectra import smooth_alm, synthesize
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.spectra.bandpower_files import read_bandpowers
from petamap.spectra.run_maps import RunMaps

THEORY = Spectra(spectra(), ("TT", "EE", "BB", "TE"))


@pytest.fixture(scope="module")
def data():
    """Return a map of another realization, unobserved where the weight is zero."""
    values = synthesize(smooth_alm(draw(500), L_MAX, FWHM), L_MAX, N_SIDE) + noise(500)
    return np.where(weights()[0] > 0, values, np.nan)


@pytest.fixture
def folders(tmp_path, make_summary, data):
    mc = tmp_path / "mc"
    mc.mkdir()
    write(mc / "made_mc.h5", realizations(), frame="galactic")
    return write_run(tmp_path / "run", make_summary(), data, sky_pixels=SKY), mc


def test_bandpowers_against_theory(folders):
    run, mc = folders
    found = measure_calibrated(RunMaps(run), mc)
    bandpowers, expected = found.bandpowers, found.expected(THEORY)
    n = bandpowers.values.size
    value = quadratic_form(
        bandpowers.covariance.reshape(n, n), (bandpowers.values - expected.values).reshape(1, n)
    )
    assert hotelling_probability(value, 99, n)[0] > 0.005
    made = realizations()
    scatter = Calibration.from_realizations(made).realization_bandpowers(made).std(axis=0, ddof=1)
    np.testing.assert_allclose(bandpowers.errors, scatter, rtol=1e-9)
    assert found.n_realizations == 100 and found.f_sky["TT"] == pytest.approx(0.5, abs=0.2)
    assert "scatter of 100 realizations" in found.notes[0] and "to 7 %" in found.notes[0]


def test_map_in_other_ordering(folders, tmp_path, make_summary, data):
    run, mc = folders
    nest = Healpix(N_SIDE, nest=True)
    turned = data[:, nest.reordered(np.arange(nest.n_pix))]
    other = write_run(tmp_path / "nest", make_summary(), turned, sky_pixels=nest)
    one, two = (measure_calibrated(RunMaps(folder), mc).bandpowers for folder in (run, other))
    np.testing.assert_allclose(two.values, one.values, rtol=1e-9)


def test_transfer_function_is_divided_out(folders, tmp_path, make_summary):
    run, _ = folders
    write(tmp_path / "filtered_mc.h5", realizations(filtered=0.3))
    plain = measure_calibrated(RunMaps(run), tmp_path / "filtered_mc.h5")
    assert any("transfer function is not 1" in note for note in plain.notes)
    divided = measure_calibrated(RunMaps(run), tmp_path / "filtered_mc.h5", divide=True)
    ratio = plain.bandpowers["TT"][0] / divided.bandpowers["TT"][0]
    assert ratio == pytest.approx(0.49, abs=0.05) and "divided out" in divided.notes[2]
    # the covariance is that of divided bandpowers
    assert divided.bandpowers.errors[0, 0] > 1.5 * plain.bandpowers.errors[0, 0]


def test_command(folders, tmp_path, capsys):
    run, mc = folders
    out = tmp_path / "spectra.fits"
    words = ["spectra", str(run), "--montecarlo", str(mc), "--against", "planck2018", "--out", str(out)]
    assert main([*words, "--width", "10", "--l-max", "31", "--cl"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("C_l in uK^2") and lines[2].split()[0] == "2-11"
    assert sum("against the theory: chi2" in line for line in lines) == 6
    found = read_bandpowers(out)
    assert found.binning.ranges == [(2, 11), (12, 21), (22, 31)] and not found.binning.of_d
    assert np.count_nonzero(found.covariance) == found.values.size**2
    sacc = pytest.importorskip("sacc")
    assert main([*words[:-1], str(tmp_path / "spectra.sacc")]) == 0
    matrix = sacc.Sacc.load_fits(str(tmp_path / "spectra.sacc")).covariance.covmat
    assert matrix.shape == (30, 30) and np.count_nonzero(matrix - np.diag(np.diag(matrix))) > 800


def test_inconsistent_arguments(folders, tmp_path, make_summary, data, capsys):
    run, mc = folders
    for words, code, word in (
        (["--mask", "galaxy.fits"], 2, "--mask cannot be chosen with --montecarlo"),
        ([str(run)], 2, "a second run cannot be chosen"),
        (["--l-max", "60"], 2, "beyond the reach"),
    ):
        assert main(["spectra", str(run), *words, "--montecarlo", str(mc)]) == code
        assert word in capsys.readouterr().err
    assert main(["spectra", str(run), "--transfer"]) == 2
    assert "--montecarlo MC" in capsys.readouterr().err
    made = realizations().select(slice(0, 3))
    write(mc / "made_mc.h5", made, frame="equatorial")
    with pytest.raises(DataError, match="in frame galactic, the Monte Carlo in frame equatorial"):
        measure_calibrated(RunMaps(run), mc)
    write(mc / "made_mc.h5", replace(made, unit="K_RJ^2"))
    with pytest.raises(DataError, match=r"in K_CMB\^2, the Monte Carlo in K_RJ\^2"):
        measure_calibrated(RunMaps(run), mc)
    only = replace(made, names=("TT",), pseudo={"sky": made.pseudo["sky"][:, :1]}, input=None)
    write(mc / "made_mc.h5", replace(only, choices=replace(CHOICES, l_max=31)), theory=False)
    with pytest.raises(ConfigError, match="the map has IQU, the Monte Carlo TT"):
        measure_calibrated(RunMaps(run), mc)
    write(mc / "made_mc.h5", made)
    coarse = write_run(tmp_path / "coarse", make_summary(), data[:, :768], sky_pixels=Healpix(8))
    with pytest.raises(DataError, match="n_side 8, the Monte Carlo 16"):
        measure_calibrated(RunMaps(coarse), mc)
    holes = np.where(np.arange(SKY.n_pix) < 500, np.nan, data)
    with pytest.raises(DataError, match="has a weight and no value"):
        measure_calibrated(RunMaps(write_run(tmp_path / "holes", make_summary(), holes, sky_pixels=SKY)), mc)


def test_bins_end_where_the_skies_do(tmp_path):
    made(tmp_path, "source.1.l_max=4", "montecarlo.realizations=4")
    found = read_results(tmp_path).realizations
    calibration = Calibration.from_realizations(found)
    assert calibration.binning.edges.tolist() == [2, 5] and calibration.transfer.values.shape[-1] == 1
    asked = replace(found, choices=replace(found.choices, l_max=7))
    with pytest.raises(DataError, match="no power in a bin"):
        Calibration.from_realizations(asked)
