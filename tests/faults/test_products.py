"""Products that are not what their summary says: bits that have flipped, and files and entries swapped."""

import json
import random
import shutil

import pytest
from montecarlo_runs import TINY

from petacomm.base.errors import DataError
from petamap.cli.main import main
from petamap.data.config import parse_config
from petamap.data.product_file import read_product
from petamap.data.run_summary import Summary
from petamap.mapmaking.run import run

KINDS = ("map", "covariance", "hits")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders of two runs, in nested order and in that of rings."""
    out = tmp_path_factory.mktemp("made")
    for ordering in ("nest", "ring"):
        text = TINY.replace('ordering = "ring"', f'ordering = "{ordering}"')
        run(parse_config(text), out=out / ordering)
    return out


@pytest.fixture
def copy(made, tmp_path):
    shutil.copytree(made / "nest", tmp_path / "run")
    return tmp_path / "run"


def file_of(folder, kind):
    return folder / next(one.file for one in Summary.read(folder).products if one.kind == kind)


def refused(capsys, folder):
    """Return what is said when spectra of a folder are asked for."""
    assert main(["spectra", str(folder), "--out", str(folder / "cl.fits")]) == DataError.exit_code
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("petamap: error: ")
    return said


@pytest.mark.parametrize("name", ["nest", "ring"])
def test_products_are_what_their_run_has_written(made, name):
    summary = Summary.read(made / name)
    assert {one.kind for one in summary.products} >= set(KINDS)
    for product in summary.products:
        read_product(made / name, summary, product)


@pytest.mark.parametrize("kind", KINDS)
def test_no_flip_is_silent(copy, kind):
    """100 flips of each file: refused, or where nothing is said, as in the padding of headers."""
    summary, path, chance = Summary.read(copy), file_of(copy, kind), random.Random(kind)
    product = next(one for one in summary.products if one.kind == kind)
    whole = path.read_bytes()
    expected, refusals = read_product(copy, summary, product), 0
    for _ in range(100):
        spoilt = bytearray(whole)
        spoilt[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(spoilt)
        try:
            found = read_product(copy, summary, product)
        except DataError as error:
            assert path.name in str(error)
            refusals += 1
        else:
            assert found.values.tobytes() == expected.values.tobytes()
            assert (found.names, found.units, found.frame) == (expected.names, expected.units, expected.frame)
    assert refusals >= 50


@pytest.mark.parametrize("other", ["hits", "map"])
def test_a_file_in_the_place_of_the_covariance(copy, capsys, other):
    shutil.copy(file_of(copy, other), file_of(copy, "covariance"))
    assert f"is a product of kind {other}, not covariance (put back the file" in refused(capsys, copy)


def test_the_map_of_another_run(copy, made, capsys):
    shutil.copy(file_of(made / "ring", "map"), file_of(copy, "map"))
    assert "is of run" in refused(capsys, copy)


def test_pixels_of_which_the_summary_has_another_digest(copy, capsys):
    summary = json.loads((copy / "summary.json").read_text())
    for one in summary["products"]:
        one["sha256"] = one["sha256"].translate(str.maketrans("0123456789", "1234567890"))
    (copy / "summary.json").write_text(json.dumps(summary))
    assert "is not the file that the run has written" in refused(capsys, copy)
    assert main(["compare", str(copy), str(copy)]) == 1
    assert "is not the file that the run has written" in capsys.readouterr().out


def test_a_misspelt_kind(copy, capsys):
    text = (copy / "summary.json").read_text().replace('"covariance"', '"covarance"')
    (copy / "summary.json").write_text(text)
    assert "unknown kind 'covarance' (did you mean 'covariance'?" in refused(capsys, copy)


def test_kinds_that_are_swapped(copy, capsys):
    text = (copy / "summary.json").read_text()
    for before, after in (('"hits"', '"?"'), ('"covariance"', '"hits"'), ('"?"', '"covariance"')):
        text = text.replace(f'"kind": {before}', f'"kind": {after}')
    (copy / "summary.json").write_text(text)
    assert "is a product of kind" in refused(capsys, copy)
