"""Spectra are unbiased, through the whole pipeline and behind a patch; the full size is in benchmarks/."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from montecarlo_runs import made

from petamap.cli.main import main
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.reader import read_results
from petamap.montecarlo.realizations import Realizations
from petamap.montecarlo.validation import ALL_SPECTRA, ConsistencyCheck, split_halves
from petamap.report.montecarlo_data import read_montecarlo_data

PIPELINE = """
[run]
name = "tiny"
[map]
n_side = 8
[noise]
n_lag = 128
[solver]
tolerance = 1e-6
[resources]
threads = 1
[spectra]
width = 4
l_max = 17
pixel_window = false
keep_dipole = true
[[source]]
kind = "satellite"
focalplane = "planck-lfi"
detectors = ["LFI18", "LFI19", "LFI20", "LFI21", "LFI22", "LFI23"]
duration = "4 h"
year = "4 h"
sample_rate = "1 Hz"
spin_period = "1 min"
opening = "85 deg"
precession_angle = "7.5 deg"
precession_period = "1 h"
[[source]]
kind = "sky-spectra"
n_side = 8
fwhm = "12 deg"
[[source]]
kind = "noise"
net = "5 uK s^0.5"
fknee = "50 mHz"
"""


@pytest.fixture(scope="module")
def benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "unbiased.py"
    spec = importlib.util.spec_from_file_location("unbiased", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["unbiased"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["unbiased"]


def test_from_time_streams_to_spectra(tmp_path):
    """Scan, 1/f noise, map-making, spectra: means, probabilities, noise and transfer function."""
    made(tmp_path, "montecarlo.realizations=80", text=PIPELINE)
    found = read_results(tmp_path)
    realizations = found.realizations
    assert realizations.n == 80 and found.theory["TT"][2] > 0 and not found.failed
    calibration = Calibration.from_realizations(realizations)
    check = ConsistencyCheck.from_realizations(realizations, calibration)
    assert check.failed(0.002) == [] and check.deviations[ALL_SPECTRA].worst < 3.9
    assert calibration.transfer.against_one.probability > 0.002
    one, other = split_halves(realizations)
    assert (
        ConsistencyCheck.from_realizations(other, Calibration.from_realizations(one, divide=True)).failed(
            0.002
        )
        == []
    )
    # noise that is left in lies far off
    raw = replace(realizations, pseudo={"both": realizations.pseudo["both"]})
    assert (
        ConsistencyCheck.from_realizations(raw, replace(calibration, noise=None)).deviations["BB"].probability
        < 1e-12
    )
    told = read_montecarlo_data(tmp_path)
    assert told["n"] == 80 and sum(told["iterations"]["counts"]) == 80


@pytest.mark.long
def test_fixed_signals_do_not_bias(tmp_path):
    """A foreground that is added to all realizations comes off again."""
    foreground = '[[source]]\nkind = "sky-spectra"\nfixed = true\nrealization = 77\nn_side = 8\n'
    text = PIPELINE + foreground
    made(tmp_path, "montecarlo.realizations=60", "montecarlo.fixed=add", text=text)
    realizations = read_results(tmp_path).realizations
    deviations = ConsistencyCheck.from_realizations(
        realizations, Calibration.from_realizations(realizations)
    ).deviations
    assert min(deviations[name].probability for name in realizations.names) > 0.001


@pytest.mark.long
def test_pure_b_behind_a_patch(benchmark, monkeypatch):
    """3 % of the sky: all six spectra with noise, and nothing of E in B."""
    case = replace(benchmark.CASES["patch"], n_side=64, width=10.0, level=1e-6)
    case = replace(case, choices=replace(case.choices, width=24, fwhm=np.radians(1.6)))
    monkeypatch.setitem(benchmark.CASES, "patch", case)
    rows = [benchmark.realization("patch", number) for number in range(40)]
    arrays = {part: np.stack([row[part] for row in rows]) for part in rows[0]}
    true = arrays.pop("input")
    found = Realizations(np.arange(40), benchmark.NAMES, arrays, case.sky, case.weights, true, case.choices)
    check = ConsistencyCheck.from_realizations(found, Calibration.from_realizations(found))
    assert check.failed(0.002) == [] and check.deviations[ALL_SPECTRA].worst < 3.9
    ((text, good),) = benchmark.leakage(case, 3, 1)
    assert good, text


def test_the_benchmark_tells_what_does_not_hold(benchmark, monkeypatch, capsys):
    """A beam that is not what it is said to be ends with status 1."""
    case = replace(benchmark.CASES["cut"], n_side=16, width=5.0)
    case = replace(case, choices=replace(case.choices, fwhm=np.radians(8)))
    monkeypatch.setitem(benchmark.CASES, "cut", case)
    words = ["unbiased.py", "--cases", "cut", "--realizations", "40", "--processes", "1"]
    monkeypatch.setattr(sys, "argv", words)
    assert benchmark.main() == 0
    capsys.readouterr()
    smooth_alm = benchmark.smooth_alm
    monkeypatch.setattr(benchmark, "smooth_alm", lambda alm, l_max, fwhm: smooth_alm(alm, l_max, 0.9 * fwhm))
    assert benchmark.main() == 1
    assert "! cut      TT" in capsys.readouterr().out


@pytest.mark.long
def test_data_of_the_same_scan(tmp_path, capsys):
    """A run's map through `petamap spectra --montecarlo` of the same configuration."""
    config = tmp_path / "tiny.toml"
    config.write_text(PIPELINE)
    mc, run = tmp_path / "mc", tmp_path / "run"
    assert main(["mc", str(config), "--realizations", "40", "--out", str(mc), "products.report=false"]) == 0
    assert main(["run", str(config), "--out", str(run), "run.realization=4711", "products.report=false"]) == 0
    capsys.readouterr()
    assert main(["spectra", str(run), "--montecarlo", str(mc), "--against", "planck2018"]) == 0
    lines = capsys.readouterr().out.splitlines()
    probabilities = [float(line.split()[-1]) for line in lines if "against the theory" in line]
    assert len(probabilities) == 6 and min(probabilities) > 0.001
    assert any("scatter of 40 realizations" in line for line in lines)
