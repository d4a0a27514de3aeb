"""Tests of the report in a browser: drawing without errors, and values of pixels."""

import json
import re
from functools import partial
from html import unescape
from pathlib import Path

import healpy
import numpy as np
import pytest
from pages import BROWSER, run

import petacomm.report.page as page_module
import petamap.report.run_page as module
from petacomm.papers.almasi2005.figures import Ordering
from petacomm.papers.almasi2005.tables import Almasi2005Results, TableCell
from petacomm.report.almasi2005_page import write_almasi2005_page
from petamap.data import run_summary as s
from petamap.report.embedding import MapLayer, MapSheet
from petamap.report.run_page import report_page, write_report
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")

PAGE = Path(module.__file__).with_name("page")
SHARED = Path(page_module.__file__).with_name("page")
# Selects each map in turn, points at positions, and writes the read-out of each.
PROBE = """
<pre id="probe"></pre><script>
addEventListener("load", () => setTimeout(() => {
  const canvas = document.querySelector("canvas.map");
  const said = [...document.querySelectorAll("input[name=layer]")].map(input => {
    input.click();
    const box = canvas.getBoundingClientRect();
    return PLACES.map(([x, y]) => {
      canvas.dispatchEvent(new PointerEvent("pointermove",
        { clientX: box.left + x * box.width, clientY: box.top + y * box.height }));
      return document.querySelector("output").textContent;
    });
  });
  document.getElementById("probe").textContent = JSON.stringify(said);
}, 100));
</script></body>"""
PLACES = [[0.5, 0.5], [0.3, 0.4], [0.62, 0.71], [0.45, 0.2], [0.7, 0.55], [0.01, 0.01]]


def probed(text, tmp_path):
    path = tmp_path / "probe.html"
    path.write_text(text.replace("</body>", PROBE.replace("PLACES", json.dumps(PLACES))))
    dom, console = run(path, tmp_path)
    assert console == []
    return json.loads(unescape(re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S)[1]))


def numbers(text):
    """Return the numbers of a read-out by name; '' is the value."""
    plain = text.replace("−", "-").replace("°", "")
    found = re.fullmatch(r"(\S+) (\S*?)(l|RA) ([-\d.]+)(b|Dec) ([-\d.]+)pixel (.*)", plain)
    assert found, text
    value, unit, _, lon, _, lat, pixel = found.groups()
    mantissa, _, exponent = value.replace(",", "").partition("×10")
    power = int(exponent.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")) or 0)
    return float(mantissa) * 10.0**power, unit, float(lon), float(lat), pixel


def test_all_sections_are_drawn(out_dir, tmp_path):
    dom, console = run(write_report(out_dir.folder), tmp_path)
    assert console == []
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", dom)
    assert titles == [
        "Maps",
        "Convergence",
        "Time, traffic and memory",
        "Comparisons",
        "Totals and products",
        "Reproduce this",
    ]
    assert dom.count("<polyline") == 2 * 3  # residual, error and that of large scales
    assert "map error / noise, at most, in any mode" in dom
    assert "3 pixels have a reciprocal condition" in dom
    assert "mpiexec -n 3 petamap run --example planck-lfi --out 'my maps'" in dom


def test_templates_are_told_and_drawn(make_summary, tmp_path):
    amplitudes = [
        {"name": "offsets", "unit": "K_CMB", "n": 4, "detectors": ["a", "b"], "rms": [0.1, 0.3]},
        {"name": "gain-drift", "unit": "", "n": 20, "detectors": ["a", "b"], "rms": [0.01, 0.02]},
    ]
    page = tmp_path / "page.html"
    page.write_text(report_page(make_summary(), [], None, amplitudes), encoding="utf-8")
    dom, console = run(page, tmp_path)
    assert console == []
    section = dom[dom.index(">Templates</h2>") :]
    rows = re.findall(r"<tr>(.*?)</tr>", section[: section.index("<figure")], re.S)
    told = [re.sub(r"<[^>]*>", " ", row).split() for row in rows[1:]]
    assert told[0][:3] == ["offsets", "4", "2"] and "(a)" in told[0] and "(b)" in told[0]
    assert told[1][0] == "gain-drift" and "0.0158" in told[1]
    assert section[: section.index("Time, traffic")].count("<polyline") == 2


def test_read_out(make_summary, tmp_path):
    rng = np.random.default_rng(0)
    pixelizations = [Healpix(64), Healpix(64, nest=True)]
    pixelizations += [
        FlatPatch.box((120.0, 60.5), (3.0, 2.0), 0.05),
        CarPatch.box((350.0, -20.0), (30.0, 20.0), 0.5),
    ]
    maps = [rng.normal(0, 1e-4, pixelization.n_pix) for pixelization in pixelizations]
    sheets = [
        MapSheet(
            pixelization, frame, [MapLayer(f"map {frame}", "map", "I", "K_CMB", partial(np.copy, values))]
        )
        for pixelization, values, frame in zip(
            pixelizations, maps, ("galactic", "galactic", "equatorial", "equatorial"), strict=True
        )
    ]
    said = probed(report_page(make_summary(), sheets), tmp_path)
    for pixelization, values, texts in zip(pixelizations, maps, said, strict=True):
        found = [text for text in texts if not text.startswith("Point at the map")]
        assert 4 <= len(found) < len(PLACES)
        for text in found:
            check_reading(pixelization, values, text)


def check_reading(pixelization, values, text):
    value, unit, lon, lat, place = numbers(text)
    assert unit == "µKᴄᴍʙ"
    there = healpy.ang2vec(lon, lat, lonlat=True)
    if isinstance(pixelization, Healpix):
        pixel = int(place)
        near = healpy.query_disc(64, there, 1e-4, inclusive=True, fact=64, nest=pixelization.nest)
        assert pixel in near
    else:
        column, row = map(int, place.split(", "))
        pixel = row * pixelization.shape[1] + column
        (centre,) = pixelization.directions_of(np.array([pixel]))
        apart = np.degrees(np.arccos(np.clip(centre @ there, -1, 1)))
        assert apart < 0.71 * abs(pixelization.cdelt[1]) + 1e-3
    assert value * 1e-6 == pytest.approx(values[pixel], rel=1e-4)


def test_pixels_and_words_of_the_scripts(tmp_path):
    """Pixels equal those of healpy; positions convert to directions and back; the palette is even."""
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(4000, 3))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    directions = np.column_stack((vectors[:, 2], np.arctan2(vectors[:, 1], vectors[:, 0])))
    code = """
      const out = {};
      for (const n of [1, 2, 64, 1024]) for (const f of [ringPixel, nestPixel])
        out[f.name + n] = DIRECTIONS.map(([z, phi]) => f(n, z, phi));
      const grid = { n_side: 64, nest: false };
      const back = p => DIRECTIONS.map(([z, phi]) => {
        const at = p.place(phi, Math.asin(z)), sky = at && p.skyAt(...at);
        return sky ? Math.hypot(Math.sin(sky[1]) - z, Math.cos(sky[0] - phi) - 1) : null;
      }).filter(d => d !== null);
      out.mollweide = Math.max(...back(new Mollweide(grid, [1, 0])));
      out.globe = Math.max(...back(new Globe(grid, [1, 0.4])));
      out.seen = back(new Globe(grid, [1, 0.4])).length;
      out.dusk = Array.from({ length: 101 }, (_, i) => PALETTES.dusk(i / 100));
      out.figures = [0, 1234567, 0.00012346, -12.3456, 1e-30, NaN].map(v => figure(v));
      document.getElementById("probe").textContent = JSON.stringify(out);
    """
    scripts = "\n".join(
        path.read_text() for path in (SHARED / "colour.js", PAGE / "sphere.js", SHARED / "text.js")
    )
    text = f"<meta charset='utf-8'><body><pre id='probe'></pre><script>{scripts}\n{code}</script></body>"
    path = tmp_path / "unit.html"
    path.write_text(text.replace("DIRECTIONS", json.dumps(directions.tolist())), encoding="utf-8")
    dom, console = run(path, tmp_path)
    assert console == []
    out = json.loads(unescape(re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S)[1]))
    for n_side in (1, 2, 64, 1024):
        for name, nest in (("ringPixel", False), ("nestPixel", True)):
            assert np.array_equal(out[f"{name}{n_side}"], healpy.vec2pix(n_side, *vectors.T, nest=nest))
    assert out["mollweide"] < 1e-5
    assert out["globe"] < 1e-7
    assert 1800 < out["seen"] < 2200
    light = 0.2126 * np.array(out["dusk"])[:, 0] + np.array(out["dusk"]) @ [0, 0.7152, 0.0722]
    assert (np.diff(light) > 0).all()
    assert out["figures"] == ["0", "1.235×10⁶", "1.235×10⁻⁴", "−12.35", "1.000×10⁻³⁰", "–"]


def test_failed_run_is_drawn(make_summary, tmp_path):
    """A run that failed at once: nothing finite, nothing converged, empty maps."""
    nan = float("nan")
    start = s.SolverStep(iteration=0, relative_residual=nan, seconds=0.0)
    none = s.RankStatistics(min=0.0, mean=0.0, max=0.0)
    summary = make_summary(
        ranks=1,
        title="",
        solver=s.Solver(
            converged=False,
            reason="indefinite",
            iterations=0,
            tolerance=0.0,
            relative_residual=1.0,
            history=(start,),
        ),
        phases=(s.PhaseCost(name="data", seconds=none, calls=0, bytes=none, messages=none),),
        memory=s.Memory(predicted_bytes=0, peak_bytes=0, bytes_per_sample=nan),
        comparisons=(
            s.MapComparison(name="map", reference="x", max_abs=nan, rms=nan, limit=1.0, unit="K_CMB"),
            s.MapComparison(name="map", reference="y", max_abs=float("inf"), rms=nan, limit=None, unit=""),
        ),
    )
    maps = (np.full(48, nan), np.zeros(48), np.full(48, 1e30))
    layers = [MapLayer("empty", "map", "IQU"[i], "K_CMB", partial(np.copy, maps[i])) for i in range(3)]
    path = tmp_path / "odd.html"
    path.write_text(report_page(summary, [MapSheet(Healpix(2), "", layers)]))
    dom, console = run(path, tmp_path)
    assert console == []
    assert "NaN" not in re.sub(r"<script.*?</script>", "", dom, flags=re.S)
    assert "1 of 2 comparisons outside limits" in dom
    assert "The solver did not converge: " in dom


def test_tables_of_a_network_are_drawn(tmp_path):
    cells = [
        TableCell(2, "", "4x4x2", "peak", "MB/s", 4928, 4928.0, "predicted", "equal", True, "formula"),
        TableCell(
            2,
            "Table 2",
            "4x4x2",
            "16 B",
            "MB/s",
            237,
            90.0,
            "predicted",
            "factor 1.6",
            False,
            "packets",
            "x < y",
        ),
        TableCell(
            3, "Table 3", "broadcast", "torus", "MB/s", 243.8, 236.0, "calibrated", "15 %", None, "packets"
        ),
        TableCell(
            3, "Table 3", "broadcast", "tree", "MB/s", 336.1, 336.0, "restated", "15 %", True, "packets"
        ),
        TableCell(4, "Table 4", "barrier", "tree", "us", 4.04, None, "not covered", "20 %", None, ""),
    ]
    order = Ordering("10", "tree < torus", [("8x8x8", {"tree": 3.0, "torus": 8.0})], "us", True)
    points = {"4x4x2": [(16.0, 237.0), (64.0, 619.0)]}
    found = Almasi2005Results(
        "a source", cells, [order], [("packet_cycles", "205", "Table 3")], [("a policy", "fair", "Table 2")],
        points, points,
    )  # fmt: skip
    dom, console = run(write_almasi2005_page(found, tmp_path / "network.html"), tmp_path)
    assert console == []
    assert "1 of 2 predicted cells inside the tolerances (of 5 cells; 1 calibrated, 1 restated, 1 not" in dom
    assert "1 calibrated constants and 1 choices made by looking at compared cells" in dom
    assert ">fair</td>" in dom
    badges = re.findall(r'<span class="badge \w+">([^<]*)</span>', dom)
    assert badges == [
        "predicted, inside", "predicted, outside", "calibrated", "restated, inside", "not covered",
        "predicted, holds",
    ]  # fmt: skip
    assert dom.count("<polyline") == 3 and "4x4x2, 16 B: x &lt; y." in dom
