"""Bands and components of a configuration, and what does not fit together in them."""

from pathlib import Path

import pytest

from petacomm.base.errors import ConfigError
from petamap.data.config import parse_config, to_toml, to_xml

HEAD = '[map]\nn_side = 8\n[[source]]\nkind = "satellite"\nduration = "1 h"\nsample_rate = "1 Hz"\n'
LOW = '[[band]]\nname = "low"\ndetectors = ["a*", "b1"]\nfrequency = "90 GHz"\n'
HIGH = '[[band]]\nname = "high"\ndetectors = ["c"]\nfrequency = "220 GHz"\n'
CMB = '[[component]]\nname = "cmb"\nspectrum = "cmb"\n'


def component(name, **options):
    return f'[[component]]\nname = "{name}"\n' + "".join(
        f"{key} = {value}\n" for key, value in options.items()
    )


DUST = component("dust", spectrum='"dust"', beta=1.6, polarization_beta=1.5)


@pytest.mark.parametrize("write", [to_toml, to_xml])
def test_bands_and_components_are_written_and_read(write):
    config = parse_config(HEAD + LOW + HIGH + CMB + DUST)
    again = parse_config(write(config), Path(f"again.{write.__name__[3:]}"))
    assert (again.bands, again.components) == (config.bands, config.components)
    assert [band.frequency for band in again.bands] == [90e9, 220e9]
    dust = again.components[1]
    assert (dust.reference_frequency, dust.temperature) == (353e9, 19.6)
    assert (dust.index(polarized=False), dust.index(polarized=True)) == (1.6, 1.5)


def test_synchrotron_is_a_power_law_with_defaults():
    (found,) = parse_config(HEAD + LOW + component("s", spectrum='"synchrotron"')).components
    assert (found.index(polarized=True), found.reference_frequency) == (-3.1, 30e9)


BARE = LOW.replace('frequency = "90 GHz"\n', "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LOW + CMB + DUST, r":14: more components than bands: 2 and 1"),
        (BARE + HIGH + CMB + DUST, r":7: band 'low' has no frequency, and component 'dust' needs one"),
        (LOW + HIGH + component("x", spectrum='"factors"', factors=[1.0]), r":15: 1 factors for 2 bands"),
        (LOW + component("x", spectrum='"factors"'), "factors are missing"),
        (LOW + component("x", spectrum='"power-law"', beta=1), "a power law needs beta and reference"),
        (LOW + component("x", spectrum='"cmb"', beta=1), "beta: not of spectrum = 'cmb'"),
        (LOW + component("x", spectrum='"dust"', polarized="false", polarization_beta=1), "not polarized"),
        (LOW + LOW, r":11: two tables \[\[band\]\] are called 'low' \(the first one: .*:7\)"),
        (LOW + '[[split]]\nname = "x"\nby = "time"\n', r":7: maps of bands are not split"),
        (
            LOW.replace("[[band]]", "[[bands]]"),
            r":7: there are no tables \[\[bands\]\] \(did you mean 'band'",
        ),
        (CMB, r":7: more components than bands: 1 and 0"),
        (LOW.replace("90 GHz", "90 deg"), "frequency"),
    ],
)
def test_what_does_not_fit_is_told_with_its_line(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(HEAD + text)


def test_a_cmb_alone_needs_no_frequency():
    assert len(parse_config(HEAD + BARE + CMB).components) == 1
