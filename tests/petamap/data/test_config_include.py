"""Configurations that include others: precedence, order, lines of errors, cycles."""

import pytest

from petacomm.base.errors import ConfigError
from petamap.data.config import load_config

BASE = """\
[map]
n_side = 32
stokes = "I"

[[source]]
kind = "satellite"
duration = "1 h"
"""


@pytest.fixture
def files(tmp_path):
    def write(**texts):
        for name, text in texts.items():
            path = tmp_path / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return tmp_path / "run.toml"

    return write


def test_own_keys_win_and_sources_follow(files):
    own = 'include = ["base.toml"]\n[map]\nn_side = 64\n[[source]]\nkind = "noise"\nnet = "1 mK s^0.5"\n'
    config = load_config(files(base_toml=BASE, run_toml=own))
    assert (config.map.n_side, config.map.stokes) == (64, "I")
    assert [source.kind for source in config.sources] == ["satellite", "noise"]


def test_the_last_file_wins_and_sources_keep_their_order(files):
    more = '[map]\nn_side = 128\nframe = "ecliptic"\n[[source]]\nkind = "noise"\nnet = "1 mK s^0.5"\n'
    own = 'include = ["base.toml", "more.toml"]\n[[source]]\nkind = "dipole"\n'
    config = load_config(files(base_toml=BASE, more_toml=more, run_toml=own))
    assert (config.map.n_side, config.map.stokes, config.map.frame) == (128, "I", "ecliptic")
    assert [source.kind for source in config.sources] == ["satellite", "noise", "dipole"]


def test_the_command_line_wins_over_all(files):
    path = files(base_toml=BASE, run_toml='include = "base.toml"\n')
    config = load_config(path, ["map.n_side=8", "source.satellite.duration=2 h"])
    assert (config.map.n_side, config.sources[0].options.duration) == (8, 7200.0)


def test_xml_and_toml_include_each_other(files):
    xml = "<petamap><include>base.toml</include><map><n_side>16</n_side></map></petamap>"
    config = load_config(files(base_toml=BASE, middle_xml=xml, run_toml='include = ["middle.xml"]\n'))
    assert (config.map.n_side, config.map.stokes, len(config.sources)) == (16, "I", 1)


def test_a_file_that_is_reached_twice_counts_once(files):
    texts = {f"{name}_toml": 'include = ["base.toml"]\n' for name in ("one", "two")}
    path = files(base_toml=BASE, run_toml='include = ["one.toml", "two.toml"]\n', **texts)
    assert len(load_config(path).sources) == 1


def test_errors_name_file_and_line(files):
    base = BASE.replace("stokes", "stokse")
    own = 'include = ["base.toml"]\n[map]\nframe = "north"\n[[source]]\nkind = "nois"\n'
    with pytest.raises(ConfigError) as found:
        load_config(files(base_toml=base, run_toml=own))
    said = str(found.value)
    assert "base.toml:3: unknown key 'map.stokse'" in said
    assert "run.toml:3: map.frame must be" in said
    assert "run.toml:5: source.1.kind: unknown kind of source 'nois'" in said


def test_syntax_errors_name_the_included_file(files):
    with pytest.raises(ConfigError, match=r"base\.toml:2: not TOML"):
        load_config(files(base_toml="[map]\nn_side = = 2\n", run_toml='include = ["base.toml"]\n'))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('include = ["no.toml"]\n', r"run\.toml:1: there is no file '.*no\.toml' to include"),
        ('\ninclude = [\n"base.toml",\n3]\n', r"run\.toml:4: include is a list of files"),
        ('include = ["run.toml"]\n', r"run\.toml:1: files include each other: run\.toml includes run\.toml"),
        ('include = ["loop.toml"]\n', r"loop\.toml:2: files include each other: run\.toml incl"),
        ('include = ["text.txt"]\n', r"a run configuration is a \.toml or an \.xml file"),
        ('include = [""]\n', r"run\.toml:1: include is a list of files"),
    ],
)  # fmt: skip
def test_what_cannot_be_included(files, text, said):
    path = files(
        run_toml=text, base_toml=BASE, loop_toml='# a comment\ninclude = ["run.toml"]\n', text_txt=""
    )
    with pytest.raises(ConfigError, match=said):
        load_config(path)


def test_paths_are_relative_to_the_file_that_has_them(files, tmp_path):
    part = '[products]\ncompare = "there.fits"\n'
    path = files(base_toml=BASE, sub__part_toml=part, run_toml='include = ["base.toml", "sub/part.toml"]\n')
    with pytest.raises(ConfigError, match=r"sub/part\.toml:2: products\.compare: there is no file"):
        load_config(path)
    (tmp_path / "sub" / "there.fits").write_text("")
    sky = '[[source]]\nkind = "sky-spectra"\nspectra = "cl.txt"\n[[source]]\nkind = "sky-spectra"\n'
    (tmp_path / "sub" / "part.toml").write_text(part + sky)
    config = load_config(path)
    assert [source.options.spectra for source in config.sources[1:]] == ["sub/cl.txt", "planck2018"]
    assert config.folder / config.products.compare == tmp_path / "sub" / "there.fits"
