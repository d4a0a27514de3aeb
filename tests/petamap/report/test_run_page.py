"""Tests of the report as a file: self-contained, small, complete, escaped."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from pages import Elements, data_of

from petacomm.base.errors import DataError
from petacomm.base.records import from_json, to_json
from petacomm.report.page import fill_template
from petamap.data.run_summary import Summary, pixels_sha256
from petamap.report.embedding import MapLayer, MapSheet
from petamap.report.run_page import report_page, write_report
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map
from petamap.sky.numbered import NumberedPixels

EVIL = "</script><script>alert(1)</script><!-- <script> <img src=x> {{data}} {{script}} & \u2028"


def test_summary_and_maps_are_embedded(out_dir):
    path = write_report(out_dir.folder)
    data = data_of(path.read_text())
    assert from_json(Summary, data["summary"]) == Summary.read(out_dir.folder)
    shown = [(layer["kind"], layer["component"]) for layer in data["layers"]]
    expected = [(kind, stokes) for kind in ("map", "binned", "residual") for stokes in "IQU"]
    assert shown == [*expected, ("hits", ""), ("rcond", "")]


def test_difference_where_there_is_no_residual(out_dir):
    summary = Summary.read(out_dir.folder)
    kept = tuple(product for product in summary.products if product.kind != "residual")
    replace(summary, products=kept).write(out_dir.folder)
    layers = data_of(write_report(out_dir.folder).read_text())["layers"]
    assert [layer["component"] for layer in layers if layer["kind"] == "difference"] == ["I", "Q", "U"]
    difference = out_dir.maps["map"][1] - out_dir.maps["binned"][1]
    assert layers[7]["kind"] == "difference"
    assert np.isclose(layers[7]["rms"], np.sqrt(np.mean(difference**2)))


def test_page_is_self_contained(out_dir):
    text = write_report(out_dir.folder).read_text()
    tags = Elements(text).tags
    assert not [tag for tag, _ in tags if tag in ("link", "img", "iframe", "object", "embed", "base")]
    assert not [attrs for _, attrs in tags if "src" in attrs or not attrs.get("href", "#").startswith("#")]
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(|innerHTML|eval\(", text)
    assert "default-src 'none'" in text


def test_names_are_escaped(make_summary):
    summary = make_summary(
        name=EVIL, title=EVIL, warnings=(EVIL,), configuration=EVIL, command=(EVIL,), run_id=EVIL
    )
    layer = MapLayer(EVIL, "map", EVIL, EVIL, lambda: np.arange(12.0))
    text = report_page(summary, [MapSheet(Healpix(1), EVIL, [layer])])
    found = Elements(text)
    assert len(found.scripts) == 2
    assert not [tag for tag, _ in found.tags if tag == "img"]
    data = json.loads(found.scripts[0])
    assert from_json(Summary, data["summary"]) == summary
    assert data["layers"][0]["product"] == EVIL


def test_parts_are_not_searched_for_more():
    assert fill_template("a {{x}} b {{y}} c", x="{{y}}", y="{{x}}") == "a {{y}} b {{x}} c"


def test_stays_below_5_megabytes(make_summary):
    values = np.random.default_rng(0).normal(size=12 * 256**2)
    layers = [MapLayer(f"map {i // 3}", "map", "IQU"[i % 3], "K_CMB", lambda: values) for i in range(14)]
    assert len(report_page(make_summary(), [MapSheet(Healpix(256), "galactic", layers)])) < 5_000_000


def test_binning_alone_without_maps(make_summary):
    summary = make_summary(ranks=1, solver=None, noise=None, phases=(), comparisons=(), warnings=())
    data = data_of(report_page(summary, []))
    assert data["layers"] == []
    assert data["summary"] == json.loads(json.dumps(to_json(summary)))


def test_pixels_without_positions(make_summary):
    text = report_page(
        make_summary(),
        [MapSheet(NumberedPixels(10), "", [MapLayer("m", "map", "I", "K", lambda: np.arange(10.0))])],
    )
    grid = data_of(text)["grids"][0]
    assert (grid["nx"], grid["ny"], grid["wcs"]) == (4, 3, None)


def test_missing_map_is_named(out_dir):
    (out_dir.folder / "hits.fits").unlink()
    with pytest.raises(DataError, match=r"hits\.fits"):
        write_report(out_dir.folder)
    assert not (out_dir.folder / "report.html").exists()


def test_missing_summary_is_named(tmp_path):
    with pytest.raises(DataError, match=r"summary\.json"):
        write_report(tmp_path)


def test_other_names_of_columns_are_kept(out_dir):
    summary = Summary.read(out_dir.folder)
    only = tuple(replace(p, name=f"<{p.name}>") for p in summary.products if p.kind == "hits")
    replace(summary, products=only).write(out_dir.folder)
    layers = data_of(write_report(out_dir.folder).read_text())["layers"]
    assert [(layer["product"], layer["component"]) for layer in layers] == [("<Hits>", "")]


def test_pixels_without_hits_are_not_part_of_the_map(out_dir):
    """Unobserved pixels have zero hits and condition; the view shows the observed ones."""
    pixelization = Healpix(32)
    patch = pixelization.directions_of(np.arange(pixelization.n_pix)) @ [0, 1, 0] > 0.97
    summary, products = Summary.read(out_dir.folder), []
    said = {"unit": "", "run_id": summary.run_id, "frame": "galactic"}
    for product in summary.products[3:]:
        values = np.where(patch, out_dir.maps[product.kind][0], 0.0)
        path = out_dir.folder / product.file
        write_map(path, values, pixelization, names=[product.kind.upper()], **said)
        products.append(replace(product, sha256=pixels_sha256(values)))
    replace(summary, products=tuple(products)).write(out_dir.folder)
    data = data_of(write_report(out_dir.folder).read_text())
    assert [layer["seen"] for layer in data["layers"]] == [patch.sum()] * 2
    assert max(data["grids"][0]["reach"]) < 0.4
    assert np.allclose(np.degrees(data["grids"][0]["centre"]), [90, 0], atol=0.5)
