"""Templates of ``petamap init``: each runs as it is written."""

import json
import re

import pytest
from cases import cases
from pysm_templates import write_pysm_templates

from petamap.cli.main import main
from petamap.data.config import load_config
from petamap.data.config.template import TEMPLATES
from petamap.data.source import source_kinds

KINDS = sorted(set(TEMPLATES) | set(source_kinds()))
SAME = {"files", "madmap1", "noise", "sky-spectra"}
LONG = [  # those that take longest
    "azimuth-synchronous", "baselines", "noise-table", "offsets", "plate-synchronous", "polynomials",
    "sky-pysm", "splits", "table", "time-constants",
]  # fmt: skip
DIFFERENT = [kind for kind in KINDS if kind not in SAME.union(LONG)]


def test_every_kind_of_source_has_a_template():
    assert set(source_kinds()) <= set(TEMPLATES)
    for kind, same in (("files", "volume"), ("madmap1", "madmap"), ("noise", "satellite")):
        assert TEMPLATES[kind] == TEMPLATES[same]


@pytest.mark.parametrize("kind", cases(*DIFFERENT, long=LONG))
def test_a_template_runs_as_it_is_written(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    if kind == "sky-pysm":
        pytest.importorskip("pysm3")
        write_pysm_templates(tmp_path)
        monkeypatch.setenv("PYSM_LOCAL_DATA", str(tmp_path))
    assert main(["init", "first.toml", "--kind", kind]) == 0
    assert main(["check", "first.toml"]) == 0
    said = capsys.readouterr().out
    assert "can be mapped" in said and "WARNING" not in said
    assert main(["run", "first.toml", "--out", "maps"]) == 0
    summary = json.loads((tmp_path / "maps" / "summary.json").read_text())
    totals = summary["totals"]
    assert summary["solver"]["converged"]
    assert 2 * totals["samples_used"] > totals["samples"]
    mapped = totals["pixels_observed"] - totals["pixels_cut"]
    assert 2 * mapped > totals["pixels_observed"]
    if kind == "components":  # of all bands together, not of each
        return
    found = re.findall(r"pixels(?: \S+)? +([\d,]+) of ([\d,]+) seen, ([\d,]+) can be mapped", said)
    seen, n_pix, foreseen = (
        sum(int(text.replace(",", "")) for text in column) for column in zip(*found, strict=True)
    )
    assert (seen, n_pix) == (totals["pixels_observed"], totals["pixels"])
    assert foreseen == pytest.approx(mapped, rel=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_the_xml_form_says_the_same(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toml").mkdir()
    (tmp_path / "xml").mkdir()
    assert main(["init", "toml/first.toml", "--kind", kind]) == 0
    assert main(["init", "xml/first.xml", "--kind", kind]) == 0
    one, other = load_config(tmp_path / "toml/first.toml"), load_config(tmp_path / "xml/first.xml")
    assert [(s.kind, s.options) for s in one.sources] == [(s.kind, s.options) for s in other.sources]
    assert one.map == other.map and one.noise == other.noise


def test_nothing_is_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample.h5").write_text("mine")
    assert main(["init", "first.toml", "--kind", "volume"]) == 2
    assert "sample.h5: exists already" in capsys.readouterr().err
    assert (tmp_path / "sample.h5").read_text() == "mine" and not (tmp_path / "first.toml").exists()
