"""``petamap init``, ``check`` and ``convert`` as their handlers see them."""

import argparse
import dataclasses
import sys
import types

import pytest

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.options import option
from petamap.cli import configure
from petamap.data.config import load
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


def test_check_says_what_would_run(config, capsys):
    assert petamap("check", "run.toml", "solver.tolerance=1e-9", "run.title=A title") == 0
    text = capsys.readouterr().out
    assert "run        run, seed 1, realization 0: A title\n" in text
    assert "map        healpix n_side 64, nest, IQU, galactic\n" in text
    assert "solver     to 1e-09 in 200 iterations at most" in text
    assert text.endswith("data       2 observations, 2 detectors, 360,000 samples, 1 h\n")


def test_check_refuses_names_from_files_that_lead_out_of_a_folder(config):
    with pytest.raises(DataError, match=r"'\.\./b' could lead out of a folder"):
        petamap("check", "run.toml", "source.1.unsafe=true")


def test_check_refuses_an_observation_given_twice(config):
    with pytest.raises(DataError, match="two observations are called 'one'"):
        petamap("check", "run.toml", "source.1.name=one")


def test_check_refuses_sources_without_observations(tmp_path):
    (tmp_path / "run.toml").write_text('[map]\nn_side = 1\n[[source]]\nkind = "empty"\n')
    with pytest.raises(ConfigError, match=r"run.toml:3: the sources give no observation"):
        petamap("check", "run.toml")


def test_init_writes_a_file_that_check_accepts_and_never_writes_over_one(tmp_path, capsys):
    assert petamap("init", "--kind", "pair", "new.toml") == 0
    assert petamap("check", "new.toml") == 0
    assert "1 observation, 2 detectors, 2 samples" in capsys.readouterr().out
    before = (tmp_path / "new.toml").read_text()
    with pytest.raises(ConfigError, match=r"new\.toml: exists already"):
        petamap("init", "--kind", "pair", "new.toml")
    assert (tmp_path / "new.toml").read_text() == before


def test_init_without_a_file_writes_to_the_screen(capsys, tmp_path):
    assert petamap("init", "--kind", "pair") == 0
    (tmp_path / "a.toml").write_text(capsys.readouterr().out)
    assert load(tmp_path / "a.toml").sources[0].options == Options(1)


def test_init_lists_all_kinds_and_why_one_cannot_be_used(capsys):
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


def test_convert_there_and_back_keeps_the_meaning(config, tmp_path):
    (tmp_path / "sub").mkdir()
    assert petamap("convert", "run.toml", "sub/run.xml") == 0
    assert petamap("convert", "--complete", "sub/run.xml", "back.toml") == 0
    assert load("sub/run.xml").sources[1].options.table == "../run.toml"
    assert load("back.toml") == load("run.toml")
    assert "max_iterations = 200" in (tmp_path / "back.toml").read_text()


def test_convert_refuses_other_forms_and_files_that_exist(config):
    with pytest.raises(ConfigError, match=r"run\.yaml: a run configuration is a \.toml"):
        petamap("convert", "run.toml", "run.yaml")
    with pytest.raises(ConfigError, match="exists already"):
        petamap("convert", "run.toml", "run.toml")
