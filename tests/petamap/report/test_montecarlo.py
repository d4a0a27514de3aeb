"""Tests of the Monte Carlo sections: data, and drawing in a browser."""

import json
import re
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from made_realizations import realizations, write
from pages import BROWSER, data_of, run

from petacomm.base.errors import DataError
from petamap.montecarlo import transfer
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.validation import ConsistencyCheck
from petamap.report.montecarlo_data import read_montecarlo_data
from petamap.report.run_page import report_page, write_report


@pytest.fixture
def folder(tmp_path, make_summary):
    replace(make_summary(), products=()).write(tmp_path)
    rng = np.random.default_rng(0)
    made = replace(realizations(), iterations=rng.poisson(50, (100, 2)))
    write(tmp_path / "made_mc.h5", made, failed=("<b>no</b>",), left=2)
    return tmp_path


def test_data_of_the_page(folder):
    told = data_of(write_report(folder).read_text())["montecarlo"]
    made = realizations()
    check = ConsistencyCheck.from_realizations(made, Calibration.from_realizations(made))
    assert (told["n"], told["left"], told["failed"]) == (100, 2, [[100, "<b>no</b>"]])
    first = told["bandpowers"]["spectra"][0]
    np.testing.assert_allclose(first["value"], 1e12 * check.bandpowers[:, 0].mean(axis=0))
    np.testing.assert_allclose(first["error"], 1e12 * check.bandpowers[:, 0].std(axis=0, ddof=1))
    np.testing.assert_allclose(first["pull"], check.deviations["TT"].pulls)
    tests = {test["name"]: test for test in told["tests"]}
    assert tests["all"]["bins"] == 30 and tests["EB"]["null"] and not tests["TT"]["null"]
    assert tests["all"]["probability"] == pytest.approx(check.deviations["all"].probability)
    assert all(sum(bars["counts"]) == 100 for bars in told["probabilities"])
    assert sum(told["iterations"]["counts"]) == 100
    assert [s["name"] for s in told["transfer"]["spectra"]] == ["TT", "EE"]
    assert told["convergence"]["hartlap"] == pytest.approx((100 - 30 - 2) / 99)


def test_without_input_or_with_few(tmp_path, make_summary):
    few = realizations().select(slice(0, 12))
    write(tmp_path / "made_mc.h5", replace(few, input=None, pseudo={"noise": few.pseudo["noise"]}))
    told = read_montecarlo_data(tmp_path)
    assert told["tests"] == [] and told["transfer"] is None and told["convergence"] is None
    json.dumps(told, allow_nan=False)
    write(tmp_path / "made_mc.h5", few)
    told = read_montecarlo_data(tmp_path)
    assert told["tests"][-1]["probability"] is None  # 12 realizations of 30 numbers
    json.dumps(told, allow_nan=False)
    write(tmp_path / "made_mc.h5", few.select(slice(0, 2)))
    assert read_montecarlo_data(tmp_path) is None
    with mock.patch.object(
        transfer, "solve_linear", side_effect=DataError("too little sky", mend="take wider")
    ):
        write(tmp_path / "made_mc.h5", few)
        assert read_montecarlo_data(tmp_path) == {"n": 12, "untold": "too little sky (take wider)"}
    (tmp_path / "made_mc.h5").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"made_mc\.h5"):
        read_montecarlo_data(tmp_path)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("width", [400, 1200])
def test_all_sections_are_drawn(folder, tmp_path, make_summary, width):
    dom, console = run(write_report(folder), tmp_path, width)
    assert console == []
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", dom)
    first = ["Monte Carlo", "Bandpowers", "Comparison with the input", "Transfer function"]
    assert titles[:6] == [*first, "Histograms", "Covariance"]
    shown = re.sub(r"<script.*?</script>", "", dom, flags=re.S)
    assert "NaN" not in shown and "undefined" not in shown and "&lt;b&gt;no&lt;/b&gt;" in shown
    assert shown.count('class="band k1"') == 30
    few = realizations().select(slice(0, 12))
    write(folder / "made_mc.h5", replace(few, input=None, pseudo={"noise": few.pseudo["noise"]}))
    path = tmp_path / "few.html"
    path.write_text(report_page(make_summary(), [], read_montecarlo_data(folder)))
    dom, console = run(path, tmp_path, width)
    assert console == [] and "is not known" in dom
    path.write_text(report_page(make_summary(), [], {"n": 12, "untold": "too little <sky>"}))
    dom, console = run(path, tmp_path, width)
    assert console == [] and "12 realizations have no bandpowers" in dom and "too little &lt;sky&gt;" in dom
