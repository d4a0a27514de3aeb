"""Products that are not what their summary says: files and entries swapped."""

import json
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


def edit(folder, change):
    """Change the text of a summary, and leave its checksum away: one that was edited on purpose."""
    path = folder / "summary.json"
    content = json.loads(change(path.read_text()))
    del content["checksum"]
    path.write_text(json.dumps(content))


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


@pytest.mark.parametrize("other", ["hits", "map"])
def test_a_file_in_the_place_of_the_covariance(copy, capsys, other):
    shutil.copy(file_of(copy, other), file_of(copy, "covariance"))
    assert f"is a product of kind {other}, not covariance (put back the file" in refused(capsys, copy)


def test_the_map_of_another_run(copy, made, capsys):
    shutil.copy(file_of(made / "ring", "map"), file_of(copy, "map"))
    assert "is of run" in refused(capsys, copy)


def test_pixels_of_which_the_summary_has_another_digest(copy, capsys):
    def change(text):
        content = json.loads(text)
        for one in content["products"]:
            one["sha256"] = one["sha256"].translate(str.maketrans("0123456789", "1234567890"))
        return json.dumps(content)

    edit(copy, change)
    assert "is not the file that the run has written" in refused(capsys, copy)
    assert main(["compare", str(copy), str(copy)]) == 1
    assert "is not the file that the run has written" in capsys.readouterr().out


def test_a_misspelt_kind(copy, capsys):
    edit(copy, lambda text: text.replace('"covariance"', '"covarance"'))
    assert "unknown kind 'covarance' (did you mean 'covariance'?" in refused(capsys, copy)


def test_kinds_that_are_swapped(copy, capsys):
    def swap(text):
        for before, after in (('"hits"', '"?"'), ('"covariance"', '"hits"'), ('"?"', '"covariance"')):
            text = text.replace(f'"kind": {before}', f'"kind": {after}')
        return text

    edit(copy, swap)
    assert "is a product of kind" in refused(capsys, copy)
