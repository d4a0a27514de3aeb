"""Tests of ``summary.json``: round trip, schema, and errors that name the location."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import DataError
from petacomm.base.records import from_json, to_json
from petamap.data import run_summary as module
from petamap.data.run_summary import MapComparison, Summary, pixels_sha256

SCHEMA = json.loads(Path(module.__file__).with_name("run_summary.schema.json").read_text())
text = st.text(max_size=20)
count = st.integers(0, 2**60)
number = st.floats(allow_nan=False)
st.register_type_strategy(int, count.filter(lambda n: n >= 1))
st.register_type_strategy(float, number)
st.register_type_strategy(str, text)
products = st.builds(module.Product, kind=st.sampled_from(module.PRODUCT_KINDS))
summaries = st.builds(Summary, products=st.lists(products, max_size=3).map(tuple))


@settings(max_examples=15, deadline=None)
@given(summaries)
def test_round_trip(summary):
    document = json.loads(json.dumps(to_json(summary), allow_nan=False))
    jsonschema.validate(document, SCHEMA)
    assert from_json(Summary, document) == summary


def test_schema_file_is_up_to_date():
    assert module.summary_schema() == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@settings(max_examples=5, deadline=None)
@given(summaries.filter(lambda s: s.products))
def test_schema_rejects_invalid_documents(summary):
    document = to_json(summary)
    for wrong in ({"seed": -1}, {"seed": 1.5}, {"extra": 1}, {"command": "petamap"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document | wrong, SCHEMA)
    document["products"][0]["kind"] = "picture"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


@pytest.fixture
def summary(make_summary):
    return make_summary()


def test_files(summary, tmp_path):
    assert summary.write(tmp_path) == tmp_path / "summary.json"
    assert Summary.read(tmp_path) == summary


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("seed"), "'seed' is missing"),
        (lambda d: d.update(sed=1), "unknown key 'sed'.*did you mean 'seed'"),
        (lambda d: d["solver"].update(iterations=0.5), "iterations.*expected int, found 0.5"),
        (lambda d: d.update(seed="1"), "seed.*expected int, found '1'"),
        (lambda d: d.update(seed=True), "seed.*expected int"),
        (lambda d: d["phases"][0].update(calls=None), r"phases\[0\] calls.*expected int"),
        (lambda d: d["memory"].update(bytes_per_sample="many"), "bytes_per_sample.*expected a number"),
        (lambda d: d.update(warnings="one"), "warnings.*expected a list"),
        (lambda d: d.update(totals=[]), "totals.*expected an object"),
    ],
)
def test_errors_name_the_location(summary, tmp_path, change, words):
    document = to_json(summary)
    change(document)
    (tmp_path / "summary.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=f"summary.json.*{words}"):
        Summary.read(tmp_path)


def test_missing_and_invalid_files(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        Summary.read(tmp_path)
    for text in ("{", 99_999 * "[", '{"a":' * 99_999):
        (tmp_path / "summary.json").write_text(text)
        with pytest.raises(DataError, match="is not JSON"):
            Summary.read(tmp_path)


def test_sha256_does_not_depend_on_memory_layout():
    pixels = np.arange(12.0).reshape(3, 4)
    digest = pixels_sha256(pixels)
    assert digest == pixels_sha256(pixels.astype(">f8")) == pixels_sha256(np.asfortranarray(pixels))
    assert digest == pixels_sha256(pixels.astype(np.float32))
    pixels[2, 3] = np.nextafter(11.0, 12.0)
    assert digest != pixels_sha256(pixels)


def test_comparison_with_nan_never_passes():
    good = MapComparison(name="a", reference="b", max_abs=1.0, rms=0.5, limit=1.0, unit="K")
    assert good.passed
    assert replace(good, max_abs=5.0, limit=None).passed
    assert not replace(good, max_abs=1.1).passed
    assert not replace(good, max_abs=float("nan")).passed
