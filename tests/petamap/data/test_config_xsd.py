"""Tests of the XML schema and the templates against the reader of configurations."""

import dataclasses
import sys
import types

import pytest
from lxml import etree

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petamap.data.config import RunConfig, SourceConfig, load_config, parse_config, to_xml
from petamap.data.config.template import ConfigTemplate, config_template
from petamap.data.config.xsd import config_xsd


@dataclasses.dataclass(frozen=True)
class ScanOptions:
    """A scan -- of something."""

    name: str = option(help="of the observation")
    spin: float = option(dimension="time", help="period; <one> turn")
    n_samp: int = option(minimum=10, help="samples")
    size: float = option(1.0, dimension="angle", help="size")
    poles: tuple[float, float] = option((0.0, 1.0), help="two")
    names: tuple[str, ...] = option(("a",), help="of detectors")
    mode: str = option("a & b", choices=("a & b", "c"), help="which")
    step: float | None = option(None, minimum=0.5, maximum=2.0, help="any")


@dataclasses.dataclass(frozen=True)
class NoiseOptions:
    """Noise."""

    size: str = option("", help="the same key, another type")
    file: str = option("", path=True, help="a table")


@pytest.fixture(autouse=True)
def two_kinds(monkeypatch):
    module = types.ModuleType("two_kinds")
    module.Scan = type("Scan", (), {"options": ScanOptions})
    module.Noise = type("Noise", (), {"options": NoiseOptions})
    monkeypatch.setitem(sys.modules, "two_kinds", module)
    kinds = {"satellite": "two_kinds:Scan", "noise": "two_kinds:Noise", "lost": "module_nobody_has:Lost"}
    monkeypatch.setattr("petamap.data.source._KINDS", kinds)
    chosen = ConfigTemplate({"run.name": "first", "map.n_side": 256}, (("satellite", {}), ("noise", {})))
    monkeypatch.setattr("petamap.data.config.template.TEMPLATES", {"satellite": chosen})


@pytest.fixture
def schema():
    return etree.XMLSchema(etree.fromstring(config_xsd().encode()))


XML = """<petamap xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="p.xsd">
  <solver><tolerance>1e-8</tolerance><binned_only>true</binned_only></solver>
  <map><n_side> 64 </n_side></map>
  <source kind="satellite">
    <n_samp>100</n_samp><name>a</name><spin>1 min</spin><size>0</size>
    <names><item>x.1</item><item>y</item></names><poles><item>.5</item><item>2e3</item></poles>
    <step>0.5</step><mode>c</mode>
  </source>
  <noise/>
  <source kind="noise"><size>large</size></source>
</petamap>
"""


def test_a_number_or_a_word(schema):
    for text, valid in (("auto", True), (" 512 ", True), ("0", False), ("long", False)):
        document = f"<petamap><noise><n_lag>{text}</n_lag></noise></petamap>"
        assert schema.validate(etree.fromstring(document)) is valid


def test_schema_and_reader_accept_valid_documents(schema, tmp_path):
    schema.assertValid(etree.fromstring(XML))
    assert parse_config(XML, tmp_path / "a.xml").sources[0].options.n_samp == 100


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1e-8", "nan"),
        ("1e-8", "2"),
        ("true", "1"),
        (" 64 ", "6.4"),
        (" 64 ", "0"),
        ("tolerance>", "tolerence>"),
        ("<noise/>", "<nosie/>"),
        ("satellite", "sattelite"),
        ("1 min", "1 arcmin"),
        ("1 min", "60"),
        ("x.1", "../x"),
        ("<item>.5</item>", ""),
        ("2e3", "2 e3"),
        ("<mode>c", "<mode>d"),
        (">0.5<", ">0.4<"),
        ("<n_samp>100</n_samp>", "<n_samp>100</n_samp><n_samp>100</n_samp>"),
        (">100<", ">9<"),
        ("</source>\n  <noise/>", "text</source>\n  <noise/>"),
        ("<source kind", "<source sort='1' kind"),
    ],
)
def test_schema_and_reader_reject_invalid_documents(schema, tmp_path, old, new):
    bad = XML.replace(old, new)
    assert bad != XML and not schema.validate(etree.fromstring(bad))
    with pytest.raises(ConfigError):
        parse_config(bad, tmp_path / "a.xml")


def test_schema_is_documented():
    text = config_xsd()
    assert "satellite: period; &lt;one&gt; turn" in text and "key of all random numbers" in text
    assert "lost" not in text


@pytest.mark.parametrize("complete", [False, True])
def test_written_configurations_are_valid(schema, complete):
    sources = (
        SourceConfig("satellite", ScanOptions("a", 3.0, 10, step=0.7)),
        SourceConfig("noise", NoiseOptions()),
    )
    schema.assertValid(etree.fromstring(to_xml(RunConfig(sources=sources), complete=complete).encode()))


@pytest.mark.parametrize("form", [".toml", ".xml"])
def test_templates_have_the_defaults(schema, tmp_path, form):
    path = tmp_path / f"a{form}"
    path.write_text(config_template("satellite", form))
    config = load_config(path)
    assert config.map.n_side == 256 and config.solver == RunConfig().solver
    assert [source.kind for source in config.sources] == ["satellite", "noise"]
    assert config.sources[0].options == ScanOptions("NAME", 5400.0, 10)
    if form == ".xml":
        schema.assertValid(etree.parse(path))


def test_options_commented_out_are_valid(tmp_path):
    text = config_template("satellite").replace('file = ""', 'file = "a.toml"').replace('"PATH"', '"a.toml"')
    lines = [line[1:] if line[:1] == "#" and line[1:2].isalpha() else line for line in text.splitlines()]
    path = tmp_path / "a.toml"
    lines = [line for line in lines if not line.startswith("n_side")]  # of another pixelization
    path.write_text("\n".join(lines).replace('"healpix"', '"car"'))
    config = load_config(path)
    assert config.sources[0].options.step == 1.0 and config.map.resolution > 0
    assert config.noise == dataclasses.replace(RunConfig().noise, interval=5400.0)


def test_names_of_templates():
    assert 'kind = "noise"' in config_template("noise") and "satellite" not in config_template("noise")
    with pytest.raises(ConfigError, match="did you mean 'noise'"):
        config_template("niose")
