"""Configurations that are written with all defaults are read again, and fit the schema."""

import dataclasses

import pytest
from lxml import etree

from petacomm.base.errors import ConfigError
from petamap.data.config import load_config, parse_config, to_toml, to_xml
from petamap.data.config.xsd import config_xsd
from petamap.examples import TO_PLAN, example_names, find_example


def sections(config):
    """Return all that a configuration says, without files and lines."""
    found = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    found["sources"] = [(one.kind, one.options) for one in config.sources]
    return {name: value for name, value in found.items() if name not in ("file", "folder", "places")}


@pytest.fixture(scope="module")
def schema():
    return etree.XMLSchema(etree.fromstring(config_xsd().encode()))


@pytest.mark.parametrize("name", sorted(set(example_names(TO_PLAN))))
def test_complete_examples_are_read_again(name, schema):
    config = load_config(find_example(name, TO_PLAN))
    toml = to_toml(config, complete=True)
    assert sections(parse_config(toml, config.folder / "a.toml")) == sections(config)
    xml = to_xml(config, complete=True)
    assert sections(parse_config(xml, config.folder / "a.xml")) == sections(config)
    schema.assertValid(etree.fromstring(xml.encode()))


def test_names_that_are_needed_are_not_empty():
    with pytest.raises(ConfigError, match=r"run\.name must be a name"):
        parse_config('[run]\nname = ""\n[map]\nn_side = 4\n[[source]]\nkind = "satellite"\nnet = "1 K s^0.5"')
