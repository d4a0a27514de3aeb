"""Monte Carlo of filter-and-bin maps: their transfer function, and bandpowers that it corrects."""

import dataclasses
import os
from pathlib import Path

import healpy
import numpy as np
import pytest
from montecarlo_runs import arrays, configured, made
from mpi import run_ranks

from petacomm.base.errors import ConfigError, DataError
from petamap.cli.main import main
from petamap.mapmaking.run import run
from petamap.montecarlo.calibrated_bandpowers import measure_calibrated
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.reader import read_results
from petamap.sky.map_file import read_map
from petamap.spectra.run_maps import RunMaps

TEXT = """
[run]
name = "tiny"
[map]
n_side = 8
ordering = "ring"
[solver]
rcond_min = 1e-6
[resources]
threads = 1
[spectra]
width = 5
l_max = 16
weights = "uniform"
pixel_window = false
[montecarlo]
estimator = "filter-and-bin"
parts = "sky"
[[source]]
kind = "satellite"
n_det = 2
duration = "12 h"
sample_rate = "0.5 Hz"
spin_period = "10 min"
opening = "60 deg"
precession_angle = "40 deg"
precession_period = "3 h"
[[source]]
kind = "sky-spectra"
n_side = 8
fwhm = "12 deg"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "50 mHz"
[[source]]
kind = "baselines"
length = "10 min"
"""


@pytest.fixture(scope="module")
def skies(tmp_path_factory):
    """Return the folder of 120 filtered skies."""
    out = tmp_path_factory.mktemp("filtered")
    made(out, "montecarlo.realizations=120", "montecarlo.maps=true", text=TEXT)
    return out


def halves(skies):
    realizations = read_results(skies).realizations
    return realizations.select(slice(0, None, 2)), realizations.select(slice(1, None, 2))


def test_maps_are_those_of_a_run_and_the_file_has_unfiltered_spectra(tmp_path, skies):
    settings = ["products.filtered=true", "products.binned_weights=uniform", "run.realization=3"]
    text = TEXT.replace('kind = "noise"', 'kind = "noise"\nscale = 0.0')
    run(configured(*settings, text=text), out=tmp_path)
    found, found_map = arrays(skies), read_map(tmp_path / "tiny_filtered.fits").values
    np.testing.assert_array_equal(found["maps/sky"][3], found_map)
    binned = read_map(tmp_path / "tiny_binned.fits").values
    seen = np.isfinite(binned[0])
    weights = found["weights"][0] * seen
    assert np.isfinite(found["pseudo/unfiltered"]).all() and (weights > 0).sum() > 100
    seen_map = np.where(weights > 0, weights * np.nan_to_num(binned[0]), 0.0)
    expected = healpy.anafast(seen_map, lmax=16, iter=10)
    np.testing.assert_allclose(found["pseudo/unfiltered"][3, 0, 6:17], expected[6:], rtol=0.2)
    assert (found["pseudo/sky"][:, 0].sum(axis=1) < found["pseudo/unfiltered"][:, 0].sum(axis=1)).all()
    assert read_results(skies).estimator == "filter-and-bin"


def test_corrected_bandpowers_are_unbiased(skies):
    """One half of the skies calibrates the other, which is held against its own input."""
    one, two = halves(skies)
    calibration = Calibration.from_realizations(one, divide=True)
    transfer = calibration.transfer
    assert transfer.names == ("TT", "EE", "BB") and (transfer.values[0, :2] < 0.99).all()
    differences = calibration.values(two.main, noisy=False) - calibration.expected(two.input)
    mean, error = differences.mean(axis=0), differences.std(axis=0, ddof=1) / np.sqrt(two.n)
    for row in range(3):  # the calibration has an error as large
        assert np.abs(mean[row] / error[row]).max() < 3 * np.sqrt(2), (row, mean[row] / error[row])
    uncorrected = Calibration.from_realizations(one).values(two.main, noisy=False)
    bias = (uncorrected - calibration.expected(two.input)).mean(axis=0) / error
    assert bias[0, 0] < -3 and np.abs(bias[1:3]).max() > 6


def test_unfiltered_maps_make_the_errors_smaller(skies):
    one, _ = halves(skies)
    ratio = Calibration.from_realizations(one).transfer
    alone = Calibration.from_realizations(dataclasses.replace(one, unfiltered=None)).transfer
    assert (ratio.errors[0] < 0.7 * alone.errors[0]).all()
    assert (np.abs(ratio.values[0] - alone.values[0]) < 4 * alone.errors[0]).all()


def test_what_is_left_of_all_multipoles_is_the_transfer_function(skies):
    one, _ = halves(skies)
    rng = np.random.default_rng(2)
    left = 0.8 * one.unfiltered * (1 + 1e-3 * rng.normal(size=one.unfiltered.shape))
    transfer = Calibration.from_realizations(dataclasses.replace(one, pseudo={"sky": left})).transfer
    np.testing.assert_allclose(transfer.values[:2], 0.8, rtol=2e-3)
    assert transfer.errors[:2].max() < 1e-3


def test_the_filtered_map_of_a_run_is_measured(tmp_path, skies, capsys):
    run(configured("products.filtered=true", "montecarlo.parts=sky", text=TEXT), out=tmp_path / "maps")
    words = ["spectra", str(tmp_path / "maps"), "--montecarlo", str(skies), "--transfer"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "note: bandpowers are those of the filter-and-bin map" in said
    assert "note: the transfer function is divided out" in said
    measured = measure_calibrated(RunMaps(tmp_path / "maps"), skies, divide=True)
    less = measure_calibrated(RunMaps(tmp_path / "maps", kind="filtered"), skies)
    assert (measured.bandpowers.values[0] > less.bandpowers.values[0])[:2].all()
    run(configured(text=TEXT), out=tmp_path / "without")
    with pytest.raises(
        DataError, match=r"has written no filter-and-bin map \(set products.filtered = true\)"
    ):
        measure_calibrated(RunMaps(tmp_path / "without"), skies)


def files(comm):
    out = _folder(comm)
    made(out, "montecarlo.realizations=3", "montecarlo.parts=apart", comm=comm, text=TEXT)
    if comm.rank == 0:
        (out.parent / f"{comm.size}.h5").write_bytes((out / "tiny_mc.h5").read_bytes())


def _folder(comm):
    return Path(os.environ["PETAMAP_FILTERED"]) / f"{comm.size}-ranks"


def test_ranks_do_not_change_a_byte(tmp_path, monkeypatch):
    monkeypatch.setenv("PETAMAP_FILTERED", str(tmp_path))
    for n_ranks in (1, 2, 3):
        run_ranks(files, n_ranks)
    one, two, three = ((tmp_path / f"{n}.h5").read_bytes() for n in (1, 2, 3))
    assert one == two == three


@pytest.mark.parametrize(
    ("settings", "text", "message"),
    [
        (["montecarlo.vectors=4"], TEXT, r"a filter needs no vectors \(montecarlo.vectors = 0\)"),
        (
            [],
            TEXT.replace('[[source]]\nkind = "baselines"\nlength = "10 min"\n', ""),
            "no template that would be filt",
        ),
    ],
)
def test_what_cannot_be_filtered_is_told(tmp_path, settings, text, message):
    with pytest.raises((ConfigError, DataError), match=message):
        made(tmp_path, "montecarlo.realizations=2", *settings, text=text)
