"""Types of options: a number or a word, or a percentage, in TOML, XML and on the command line."""

import dataclasses

import pytest

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petamap.data.config import load_config, parse_config, to_toml, to_xml
from petamap.data.config.fields import option_fields

REST = '[map]\nn_side = 64\n[[source]]\nkind = "satellite"\nnet = "1 uK s^0.5"\n'


def test_a_word_in_the_place_of_a_number(tmp_path):
    path = tmp_path / "run.toml"

    def read(line, overrides=()):
        path.write_text(f"[noise]\n{line}\n{REST}")
        return load_config(path, overrides)

    def error_of(line):
        with pytest.raises(ConfigError) as caught:
            read(line)
        return str(caught.value)

    assert read("").noise.n_lag == read('n_lag = "auto"').noise.n_lag == "auto"
    assert read("n_lag = 512").noise.n_lag == 512
    assert read("", ["noise.n_lag=64"]).noise.n_lag == 64
    assert read("n_lag = 3", ["noise.n_lag=auto"]).noise.n_lag == "auto"
    for wrong in ('"automatic"', "0", "2.5", "true", '"512"'):
        told = error_of(f"n_lag = {wrong}")
        assert "noise.n_lag" in told and "run.toml:2" in told
    assert "auto, or an integer, 1 to 16777216" in error_of('n_lag = "long"')
    for config in (read(""), read("n_lag = 7")):
        for form, text in (
            (".toml", to_toml(config)),
            (".xml", to_xml(config)),
        ):
            assert parse_config(text, config.file.with_suffix(form)).noise.n_lag == config.noise.n_lag


def test_a_percentage_in_the_place_of_a_number(tmp_path):
    path = tmp_path / "run.toml"

    def read(line, overrides=()):
        path.write_text(f"[solver]\n{line}\n{REST}")
        return load_config(path, overrides)

    def error_of(line):
        with pytest.raises(ConfigError) as caught:
            read(line)
        return str(caught.value)

    assert read("").solver.tolerance == 1e-6
    assert read('tolerance = "0.5% of noise"').solver.tolerance == "0.5% of noise"
    assert read("", ["solver.tolerance=1% of noise"]).solver.tolerance == "1% of noise"
    assert read("", ["solver.tolerance=1e-3"]).solver.tolerance == 1e-3
    for wrong in ("1%", "1 % of noise", "1% of the noise", "-1% of noise", "1e1% of noise", "noise"):
        told = error_of(f'tolerance = "{wrong}"')
        assert "run.toml:2: solver.tolerance" in told and '"1% of noise"' in told
    assert "above 0%, up to 100%" in error_of('tolerance = "0.0% of noise"')
    assert "above 0%, up to 100%" in error_of('tolerance = "101% of noise"')
    config = read('tolerance = "1% of noise"')
    for form, text in ((".toml", to_toml(config)), (".xml", to_xml(config))):
        assert parse_config(text, path.with_suffix(form)).solver.tolerance == "1% of noise"


def test_options_of_unsupported_type():
    @dataclasses.dataclass(frozen=True)
    class Odd:
        field: dict = option((), help="x")  # noqa: RUF009

    with pytest.raises(TypeError, match="option 'field'"):
        option_fields(Odd)
