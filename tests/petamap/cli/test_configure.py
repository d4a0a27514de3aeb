"""Tests of ``petamap init``, ``check`` and ``convert``."""

import argparse
import dataclasses
import sys
import types

import pytest

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.options import option
from petamap.cli import configure
from petamap.data.config import load_config
from petamap.data.observation import Observation


@dataclasses.dataclass(frozen=True)
class Options:
    """Two detectors."""

    n_samp: int = option(help="samples")
    name: str = option("one", help="of the observation")
    table: str | None = option(None, path=True, help="a file")
    unsafe: bool = option(False, help="give a name that leads out of a folder")


class Source:
    options = Options

    def __init__(self, options, context):
        self.given = options
        assert context.folder.is_dir() and context.seed == 1

    def extend(self, observations):
        detectors = ("a", "../b" if self.given.unsafe else "b")
        return [*observations, Observation(self.given.name, 1, self.given.n_samp, 50.0, detectors)]


class Empty:
    options = dataclasses.make_dataclass("EmptyOptions", [], frozen=True)

    def __init__(self, options, context):
        pass

    def extend(self, observations):
        return list(observations)


@pytest.fixture(autouse=True)
def kinds(monkeypatch, tmp_path):
    module = types.ModuleType("configure_sources")
    module.Source, module.Empty = Source, Empty
    monkeypatch.setitem(sys.modules, "configure_sources", module)
    kinds = {
        "pair": "configure_sources:Source",
        "empty": "configure_sources:Empty",
        "lost": "nobody_has:X",
    }
    monkeypatch.setattr("petamap.data.source._KINDS", kinds)
    monkeypatch.chdir(tmp_path)


def petamap(*words):
    parser = argparse.ArgumentParser()
    configure.add_commands(parser.add_subparsers())
    arguments = parser.parse_args(words)
    return arguments.handler(arguments)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        '[map]\nn_side = 64\n[[source]]\nkind = "pair"\nn_samp = 90000\n'
        '[[source]]\nkind = "pair"\nname = "two"\nn_samp = 90000\ntable = "run.toml"\n'
    )
    return path


def test_check(config, capsys):
    assert petamap("check", "run.toml", "solver.tolerance=1e-9", "run.title=A title") == 0
    text = capsys.readouterr().out
    assert "run        run, seed 1, realization 0: A title\n" in text
    assert "map        healpix n_side 64, nest, IQU, galactic\n" in text
    assert "solver     to 1e-09 in 200 iterations at most" in text
    data, checksums = text.splitlines()[-2:]
    assert data == "data       2 observations, 2 detectors, 360,000 samples, 1 h"
    assert checksums.startswith("checksums  ") and "run.toml has no checksums" in checksums


def test_check_of_a_fraction(config, capsys):
    assert petamap("check", "run.toml", "run.fraction=0.4") == 0
    assert "run        run, seed 1, realization 0, the first 0.4 of the samples\n" in capsys.readouterr().out


def test_check_names_that_lead_out_of_a_folder(config):
    with pytest.raises(DataError, match=r"'\.\./b' could lead out of a folder"):
        petamap("check", "run.toml", "source.1.unsafe=true")


def test_check_duplicate_observations(config):
    with pytest.raises(DataError, match="two observations are called 'one'"):
        petamap("check", "run.toml", "source.1.name=one")


def test_check_sources_without_observations(tmp_path):
    (tmp_path / "run.toml").write_text('[map]\nn_side = 1\n[[source]]\nkind = "empty"\n')
    with pytest.raises(ConfigError, match=r"run.toml:3: the sources give no observation"):
        petamap("check", "run.toml")


def test_init_writes_a_new_valid_file(tmp_path, capsys):
    assert petamap("init", "--kind", "pair", "new.toml") == 0
    assert petamap("check", "new.toml") == 0
    assert "1 observation, 2 detectors, 2 samples" in capsys.readouterr().out
    before = (tmp_path / "new.toml").read_text()
    with pytest.raises(ConfigError, match=r"new\.toml: exists already"):
        petamap("init", "--kind", "pair", "new.toml")
    assert (tmp_path / "new.toml").read_text() == before


def test_init_without_a_file_prints(capsys, tmp_path):
    assert petamap("init", "--kind", "pair") == 0
    (tmp_path / "a.toml").write_text(capsys.readouterr().out)
    assert load_config(tmp_path / "a.toml").sources[0].options == Options(1)


def test_init_lists_all_kinds(capsys):
    assert petamap("init", "--list") == 0
    text = capsys.readouterr().out
    assert "pair: Two detectors.\n  n_samp           samples [an integer; required]\n" in text
    assert (
        "  unsafe           give a name that leads out of a folder [true or false; default false]\n" in text
    )
    assert "needs the module 'nobody_has'" in text


def test_init_writes_the_schema(capsys):
    assert petamap("init", "--xsd") == 0
    assert "<xs:schema" in capsys.readouterr().out


def test_convert_round_trip(config, tmp_path):
    (tmp_path / "sub").mkdir()
    assert petamap("convert", "run.toml", "sub/run.xml") == 0
    assert petamap("convert", "--complete", "sub/run.xml", "back.toml") == 0
    assert load_config("sub/run.xml").sources[1].options.table == "../run.toml"
    assert load_config("back.toml") == load_config("run.toml")
    assert "max_iterations = 200" in (tmp_path / "back.toml").read_text()


def test_convert_to_other_formats_and_existing_files(config):
    with pytest.raises(ConfigError, match=r"run\.yaml: a run configuration is a \.toml"):
        petamap("convert", "run.toml", "run.yaml")
    with pytest.raises(ConfigError, match="exists already"):
        petamap("convert", "run.toml", "run.toml")
