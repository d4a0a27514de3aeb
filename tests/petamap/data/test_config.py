"""Tests of run configurations: reading, errors and their messages, writing."""

import contextlib
import dataclasses
import math
import sys
import types
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petacomm.base.units import parse_quantity
from petamap.data.config import (
    SECTIONS,
    MapOptions,
    NoiseOptions,
    RunConfig,
    SourceConfig,
    load_config,
    parse_config,
    to_toml,
    to_xml,
)
from petamap.data.config.fields import option_fields

MAP = "[map]\nn_side = 64\n"


@dataclasses.dataclass(frozen=True)
class FileOptions:
    """Source with options of all types."""

    file: str = option(path=True, help="the time stream")
    names: tuple[str, ...] = option((), help="of the detectors")
    comment: str = option("", help="any text")
    fwhm: float = option(0.1, dimension="angle", minimum=0.0, maximum=1.0, help="beam")
    net: float | None = option(None, dimension="noise", help="white noise")
    poles: tuple[float, float] = option((0.0, 1.0), help="two numbers")
    sizes: tuple[int, ...] = option((), minimum=1, help="sizes")
    memory: int | None = option(None, dimension="bytes", help="bytes")
    out: Path | None = option(None, help="a path that need not exist")  # noqa: RUF009
    fast: bool = option(False, help="faster")
    mode: str = option("linear", choices=("linear", "nearest"), help="how")


@dataclasses.dataclass(frozen=True)
class StrictOptions:
    """Options that must be consistent."""

    fast: bool = option(False, help="faster")

    def __post_init__(self):
        if self.fast:
            raise ConfigError("fast needs more")


@pytest.fixture(autouse=True)
def sample_sources(monkeypatch):
    """Register the kinds 'sample', 'strict', and 'absent', whose module cannot be imported."""
    module = types.ModuleType("sample_sources")
    module.Sample = type("Sample", (), {"options": FileOptions})
    module.Strict = type("Strict", (), {"options": StrictOptions})
    monkeypatch.setitem(sys.modules, "sample_sources", module)
    monkeypatch.setattr(
        "petamap.data.source._KINDS",
        {
            "sample": "sample_sources:Sample",
            "strict": "sample_sources:Strict",
            "absent": "module_that_nobody_has:Source",
        },
    )


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a configuration next to the data file x.dat."""
    (tmp_path / "x.dat").touch()

    def written(text, name="run.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


def error_of(path, overrides=()):
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value).replace(f"{path.parent}/", "")


SOURCE = '[[source]]\nkind = "sample"\nfile = "x.dat"\n'


def test_values_and_defaults(write):
    path = write(
        MAP + SOURCE + 'fwhm = "7.5 arcmin"\nnames = ["a", "b.1"]\nnet = "60 uK s^0.5"\npoles = [1, 2.5]\n'
        'memory = "64 MiB"\nout = "../o"\n[noise]\ninterval = "1.5 h"'
    )
    config = load_config(path)
    assert config.map == MapOptions(n_side=64)
    assert config.noise.interval == 5400.0 and config.solver.tolerance == 1e-6
    (source,) = config.sources
    assert (source.kind, source.line) == ("sample", 3)
    expected = FileOptions(
        "x.dat",
        ("a", "b.1"),
        "",
        math.radians(0.125),
        parse_quantity("60 uK s^0.5", "noise"),
        (1.0, 2.5),
        (),
        64 * 2**20,
        Path("../o"),
    )
    assert source.options == expected
    assert (config.folder, config.file) == (path.parent, path)


def test_defaults_are_allowed():
    for cls in SECTIONS.values():
        for field in option_fields(cls).values():
            assert field.help and field.default is not dataclasses.MISSING
            if field.choices:
                assert field.default in field.choices
            if isinstance(field.default, int | float) and field.minimum is not None:
                assert field.minimum <= field.default <= (field.maximum or math.inf)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[solver]\ntolerence = 1", "4: unknown key 'solver.tolerence' (did you mean 'tolerance'?)"),
        ("[noise]\nreduction = 1", "4: unknown key 'noise.reduction' ('reduction' belongs to [comm])"),
        ("[slover]", "3: unknown section 'slover' (did you mean 'solver'?)"),
        ('[run]\nseed = "1"', "4: run.seed must be an integer, >= 0, not '1'"),
        ("[run]\nseed = true", "4: run.seed must be an integer, >= 0, not true"),
        ("[run]\nseed = 1.0", "4: run.seed must be an integer, >= 0, not 1.0"),
        ("[run]\nseed = -1", "4: run.seed is out of bounds: -1 (allowed: >= 0)"),
        ("[run]\ntitle = 3", "4: run.title must be text, not 3"),
        ('[run]\nname = "../x"', "4: run.name must be a name (at most 128 letters, digits, _ - . +; no dot"),
        ('[run]\nname = ".x"', "4: run.name must be a name"),
        ('[run]\nname = ""', "4: run.name must be a name"),
        ('[run]\ntitle = "a\\u001bb"', "4: run.title must be one line without control characters"),
        ('[run]\ntitle = "!!python/object/apply:os.system"', "4: run.title looks like a tag"),
        ("[solver]\ntolerance = nan", "4: solver.tolerance must be finite, not nan"),
        ("[solver]\nbinned_only = 1", "4: solver.binned_only must be true or false, not 1"),
        ('[solver]\nflags = "gaps"', "4: solver.flags must be one of exact, levels, cut, not 'gaps' (known"),
        ("[noise]\ninterval = 3", "4: noise.interval must be a quantity with its unit, as \"1.5 h\", not 3"),
        ('[noise]\ninterval = "3"', "4: noise.interval must be a quantity with its unit"),
        ('[noise]\ninterval = "3 arcmin"', "4: noise.interval: unknown time unit 'arcmin' in '3 arcmin'"),
        ('[noise]\ninterval = "inf s"', "4: noise.interval must be finite, not 'inf s'"),
        ('[noise]\ninterval = "-1 s"', "4: noise.interval is out of bounds: '-1 s' (allowed: >= 1.0 s)"),
        ('[comm]\nbuffer = "2000.5 B"', "4: comm.buffer must be a quantity with its unit"),
        ('[products]\ncompare = "no.fits"', "4: products.compare: there is no file 'no.fits' (rel"),
        ("[products]\ncompare = ''", "4: products.compare is an empty path"),
        ("[run]\nseed = 1\nseed = 2", "5: 'run.seed' is given twice (first in line 4)"),
        ("[map]", "3: [map] is given twice (first in line 1)"),
        ("[run]\nname = spire", "4: not TOML: invalid value of 'run.name' (text, and numbers with units,"),
        ("[run]\nname = 'a", "4: the text of 'run.name' has no closing quote"),
        ("[run]\nseed = 1" + "0" * 5000, "4: the value of 'run.seed' is longer than"),
        ("[run]\nname = [" + "[" * 9000, "4: nested deeper than 16"),
        ("[run.a]", "3: unknown key 'run.a'"),
        ("source = 3", "3: unknown key 'map.source'"),
        ('[[source]]\nkind = "smaple"', "4: source.0.kind: unknown kind of source 'smaple' (did you"),
        ('[[source]]\nkind = "absent"', "4: source.0.kind: kind of source 'absent' needs the mod"),
        ("[[source]]", "3: source.0.kind is missing"),
        ('[[source]]\nkind = "sample"', "3: source.0.file is missing: the path of a file that exists (th"),
        (SOURCE + "fil = 3", "6: unknown key 'source.0.fil' (did you mean 'file'?)"),
        (SOURCE + 'names = "a"', "6: source.0.names must be a list, not 'a'"),
        (SOURCE + 'names = [\n"a",\n\n"/a"]', "9: source.0.names[1] must be a name (at most 128 letters"),
        (SOURCE + "poles = [1]", "6: source.0.poles must have 2 items, not 1"),
        (SOURCE + "sizes = [1, 0]", "6: source.0.sizes[1] is out of bounds: 0 (allowed: >= 1)"),
        (SOURCE + "fwhm = 0\nsizes = 1", "7: source.0.sizes must be a list, not 1"),
        (SOURCE + "mode = {}", "6: source.0.mode must be one of linear, nearest, not a table"),
    ],
)  # fmt: skip
def test_errors_have_line_key_and_suggestion(write, text, expected):
    source = "" if "source" in text.lower() else "\n" + SOURCE
    assert f"run.toml:{expected}" in error_of(write(MAP + text + source))


def test_messages_list_at_most_ten_problems(write):
    text = error_of(write(MAP + "[run]\n" + "".join(f"k{n} = 1\n" for n in range(20))))
    lines = text.splitlines()
    assert lines[0] == "run.toml: 20 problems" and lines[-1] == "  and 10 more" and len(lines) == 12
    assert "run.k0" in lines[1]


def test_messages_are_printable_and_short(write):
    text = error_of(
        write('[run]\n"\\u001b[2J" = 1\n["\\u0007"]\n[[source]]\nkind = "\\u001b' + "x" * 9000 + '"')
    )
    assert "\x1b" not in text and "\x07" not in text and "unknown key 'run.\\x1b[2J'" in text
    assert len(text) < 2000
    assert len(error_of(write("[run]\n" + "x" * 9000 + ' = "'))) < 1000


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_files(write, data):
    form = data.draw(st.sampled_from([".toml", ".xml"]))
    text = XML if form == ".xml" else MAP + SOURCE + 'names = [\n"a", "b.1"]\nfwhm = "7.5 arcmin"\n'
    path = write(text, f"run{form}")
    bytes_ = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(bytes_) - 1))
        length = data.draw(st.integers(0, 6))
        bytes_[place : place + length] = data.draw(st.binary(max_size=4) | st.sampled_from(_SHARDS))
    path.write_bytes(bytes_)
    with contextlib.suppress(ConfigError):
        assert isinstance(load_config(path), RunConfig)


_SHARDS = (
    b"[",
    b"]]",
    b'"""',
    b"'",
    b"{",
    b"=",
    b"\n[map]",
    b"<a>",
    b"</",
    b"<![CDATA[",
    b"&#0;",
    b"1979-05-27",
    b"inf",
)


def test_reading_stops_after_a_hundred_problems(write):
    text = error_of(write(MAP + '[[source]]\nkind = "x"\n' * 5000))
    assert text.startswith("run.toml: 100 problems or more\n") and text.endswith("\n  and 90 more")


def test_other_files(write, tmp_path):
    assert "no such configuration" in error_of(tmp_path / "none.toml")
    assert ".toml or an .xml" in error_of(write("a: !!python/object", "run.yaml"))
    assert "more than 131072 bytes" in error_of(write("#" * 300_000))
    path = write("")
    path.write_bytes(b"[run]\n\ntitle = '\xff'")
    assert "run.toml:3: not UTF-8" in error_of(path)
    (tmp_path / "folder.toml").mkdir()
    assert "cannot be read" in error_of(tmp_path / "folder.toml")


def test_a_misspelt_kind_hides_no_other_problem(write):
    text = error_of(
        write(
            '[map]\nn_side = 63\n[slover]\ntolerence = 1\n[[source]]\nkind = "smaple"\nfiel = "x"\n'
            '[[source]]\nkind = 7\nfile = "x.dat"\nnobody = 1\n[[source]]\nkind = "zzz"\nfilo = "x.dat"\n'
        )
    )
    told = [
        "2: map.n_side must be a power of two, not 63",
        "3: unknown section 'slover' (did you mean 'solver'?)",
        "4: unknown key 'solver.tolerence' (did you mean 'tolerance'?)",
        "6: source.0.kind: unknown kind of source 'smaple' (did you mean 'sample'?)",
        "7: unknown key 'source.0.fiel' (did you mean 'file'?)",
        "9: source.1.kind must be text",
        "11: unknown key 'source.1.nobody': no kind of source has it",
        "13: source.2.kind: unknown kind of source 'zzz' (known: ",
        "14: unknown key 'source.2.filo': no kind of source has it (did you mean 'file'?)",
    ]
    assert [line for line in told if line not in text] == []
    assert "source.1.file" not in text


def test_keys_of_a_misspelt_kind_that_are_right_are_no_problem(write):
    text = error_of(write(MAP + SOURCE.replace("sample", "smaple").replace("[map]", "")))
    assert text.count("\n") == 0 and "unknown kind of source 'smaple'" in text


def test_error_of_the_options_class_has_a_line(write):
    text = MAP + '[[source]]\nkind = "strict"\nfast = '
    assert load_config(write(text + "false")).sources[0].options == StrictOptions()
    assert error_of(write(text + "true")) == "run.toml:3: source.0: fast needs more"


# the command line


def test_overrides(write, tmp_path, monkeypatch):
    path = write(MAP + SOURCE)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/y.dat").touch()
    monkeypatch.chdir(tmp_path / "sub")
    changed = load_config(
        path,
        [
            "solver.tolerance=1e-8", "run.name=2024", "run.title=two words", "map.stokes=QU",
            "noise.interval=2 h", "resources.memory='2 GiB'", "solver.binned_only=true",
            'source.0.names=["a", "b"]', "source.0.fwhm=7.5 arcmin", "source.0.file=y.dat",
        ],
    )  # fmt: skip
    assert changed.solver.tolerance == 1e-8 and changed.solver.binned_only is True
    assert (changed.run.name, changed.run.title, changed.map.stokes) == ("2024", "two words", "QU")
    assert changed.noise.interval == 7200.0 and changed.resources.memory == 2**31
    source = changed.sources[0]
    assert source.options.names == ("a", "b") and source.options.file == str(tmp_path / "sub/y.dat")
    assert (source.line, changed.folder, changed.map.n_side) == (3, tmp_path, 64)
    for written, names in (("a,b", ("a", "b")), ("a", ("a",)), ("", ())):
        assert load_config(path, [f"source.0.names={written}"]).sources[0].options.names == names


def test_override_of_a_missing_option(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write('[[source]]\nkind = "sample"\n')
    config = load_config(path, ["source.0.file=x.dat", "map.n_side=8"])
    assert config.map.n_side == 8 and config.sources[0].options.file == str(tmp_path / "x.dat")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("solver.tolerence=1", "unknown key 'solver.tolerence' (did you mean 'tolerance'?)"),
        ("tolerance=1", "'tolerance=1' is not key=value"),
        ("solver.tolerance", "'solver.tolerance' is not key=value"),
        ("sovler.tolerance=1", "unknown key 'sovler.tolerance' (did you mean 'solver.tolerance'?)"),
        ("sources.0.file=x", "unknown key 'sources.0.file' (did you mean 'source.0.file'?)"),
        ("solver.tolerance=x", "solver.tolerance must be a number, 0.0 to 1.0, or a percentage as \"1% of "),
        ("solver.rcond_min=x", "solver.rcond_min must be a number, 0.0 to 1.0, not 'x'"),
        ("solver.rcond_min='1'", "solver.rcond_min must be a number, 0.0 to 1.0, not '1' (with"),
        ("noise.interval=2", "noise.interval must be a quantity with its unit, as \"1.5 h\", not '2'"),
        ("source.1.fwhm=1 deg", "there is no source 1 (there are 1, counted from 0)"),
        ("source.x.fwhm=1 deg", "there is no source of kind 'x' (known: sample)"),
        ("source.0.kind=sample", "the kind of a source cannot be overridden"),
        ("source.0.names=[a", "the value of 'names' is not TOML: [a"),
        ("source.0.names=[" + "[" * 5000, "the value of 'names' is not TOML: [["),
        (1.5, "an override must be text, not float (write e.g. \"solver.tolerance=1e-8\")"),
    ],
)  # fmt: skip
def test_invalid_overrides(write, override, expected):
    text = error_of(write(MAP + SOURCE), [override])
    assert text.startswith(f"command line: {expected}")


# XML

XML = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment -->
<petamap xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="petamap.xsd">
  <map><n_side> 64 </n_side></map>
  <source kind="sample">
    <file>x.dat</file>
    <names><item>a</item> <item>b.1</item></names>
    <fwhm>7.5 arcmin</fwhm> <poles><item>1</item><item>2.5</item></poles>
    <sizes/>
    <fast>true</fast>
  </source>
</petamap>
"""


def test_xml_against_toml(write):
    toml = SOURCE + 'names = ["a", "b.1"]\nfwhm = "7.5 arcmin"\npoles = [1, 2.5]\nfast = true'
    xml = load_config(write(XML, "run.xml"))
    assert xml == load_config(write(MAP + toml))
    assert xml.sources[0].line == 5


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("<!-- a comment -->", '<!DOCTYPE a [<!ENTITY b "c">]>', "2: <!DOCTYPE is not allowed"),
        ("<!-- a comment -->", '\n<!doctype a SYSTEM "file:///etc/passwd">', "3: <!doctype is not allowed"),
        ("64", "&b;", "4: not XML: Entity 'b' not defined"),
        (">x.dat<", "><a>" + "<a>" * 20_000 + "<", "6: not XML: Excessive depth"),
        (">x.dat<", "><a><a/></a><", "6: <a> inside <file>"),
        ("</map>", "", "12: not XML: Opening and ending tag mismatch"),
        ("<map>", "<map/>\n<map>", "5: section 'map' is given twice (first in line 4)"),
        ("<fast>", "<file>y</file><fast>", "10: 'source.file' is given twice (first in line 6"),
        ("<fast>", "<kind>y</kind><fast>", "10: <kind> is an attribute"),
        (' kind="sample"', "", "5: source.0.kind is missing"),
        ("<fast>", "<fast x='1'>", "10: unknown attribute 'x' of <fast>"),
        ("<fast>", "word <fast>", "5: text between the elements of <source>"),
        ("<petamap", "<petamap a='1'", "3: unknown attribute 'a' of <petamap>"),
        ("petamap", "pettamap", "3: the root is <pettamap> (it must be <petamap>)"),
        ("true", "yes", "10: source.0.fast must be true or false, not 'yes'"),
        ("true", "True", "10: source.0.fast must be true or false, not 'True' (write true)"),
        ("7.5 arcmin", "7.5", "8: source.0.fwhm must be a quantity with its unit"),
        ("b.1", "../b", "7: source.0.names[1] must be a name"),
        ("2.5", "nan", "8: source.0.poles[1] must be a number, not 'nan'"),
        ("2.5", "1e999", "8: source.0.poles[1] must be finite"),
        ("<sizes/>", "<sizes>3</sizes>", "9: source.0.sizes must be a list, not '3'"),
        ("64", "6_4", "4: map.n_side must be an integer"),
    ],
)
def test_errors_of_xml_have_a_line(write, old, new, expected):
    assert f"run.xml:{expected}" in error_of(write(XML.replace(old, new), "run.xml"))


def test_encoding_that_hides_a_document_type(write):
    text = XML.replace("UTF-8", "UTF-7").replace("<!-- a comment -->", "+ADwAIQ-DOCTYPE a+AD4-")
    assert "not XML" in error_of(write(text, "run.xml"))


def test_processing_instructions_are_ignored(write):
    text = XML.replace("<fast>", "<?php echo 1 ?><comment>!!python/object/new:os.system</comment><fast>")
    assert "run.xml:10: source.0.comment looks like a tag" in error_of(write(text, "run.xml"))


# writing

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(
    lambda text: text.isprintable() and text == text.strip() and not text.startswith("!")
)
names = st.from_regex(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,8}", fullmatch=True)
finite = st.floats(allow_nan=False, allow_infinity=False)


def of_field(field):
    """Return a strategy for the values that a field allows."""
    if field.choices:
        item = st.sampled_from(field.choices)
    elif field.scalar is bool:
        item = st.booleans()
    elif field.scalar is int:
        item = st.integers(int(field.minimum or 0), int(min(field.maximum or 2**50, 2**63 - 1)))
    elif field.scalar is float:
        item = st.floats(field.minimum, field.maximum, allow_nan=False, allow_infinity=False)
    elif field.path:
        item = st.sampled_from(["x.dat", "./x.dat"])
    elif field.is_path:
        item = texts.filter(bool).map(Path)
    else:
        item = names if field.is_name else texts
    if field.length is None:
        return item if field.required or field.default is not None else st.none() | item
    return st.lists(item, min_size=field.length, max_size=field.length or 4).map(tuple)


def of_options(cls):
    return st.builds(cls, **{name: of_field(field) for name, field in option_fields(cls).items()})


def of_one_pixelization(made):
    """Return drawn options of the map with those of the pixels that the pixelization heeds."""
    image = made.pixelization in ("car", "flat")
    if image:
        sizes = {
            "resolution": made.resolution or 1e-3,
            "width": made.width or None,
            "height": made.height or None,
        }
    else:
        sizes = dict.fromkeys(("resolution", "centre_lon", "centre_lat", "width", "height"))
    n_side = 64 if made.pixelization == "healpix" else None
    return dataclasses.replace(made, n_side=n_side, **sizes)


maps = of_options(MapOptions).map(of_one_pixelization)
noises = of_options(NoiseOptions).map(
    lambda made: dataclasses.replace(made, n_modes=made.n_modes if made.kernel == "estimate" else 0)
)
configs = st.builds(
    RunConfig,
    **{name: of_options(cls) for name, cls in SECTIONS.items() if name not in ("map", "noise")},
    map=maps,
    noise=noises,
    sources=st.lists(
        st.builds(SourceConfig, st.just("sample"), of_options(FileOptions)), min_size=1, max_size=2
    ).map(tuple),
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(configs, st.booleans())
def test_round_trip(tmp_path, config, complete):
    (tmp_path / "x.dat").touch()
    toml = parse_config(to_toml(config, complete=complete), tmp_path / "a.toml")
    xml = parse_config(to_xml(config, complete=complete), tmp_path / "a.xml")
    assert toml == config and xml == config
    assert parse_config(to_xml(toml), tmp_path / "a.xml") == config
    changed = parse_config(to_toml(config), tmp_path / "a.toml", ["run.realization=7"])
    assert changed.run.realization == 7 and changed.sources == config.sources


def test_relative_paths_in_another_folder(write, tmp_path):
    config = load_config(write(MAP + SOURCE + 'out = "o"'))
    (tmp_path / "sub").mkdir()
    moved = parse_config(to_toml(config, tmp_path / "sub"), tmp_path / "sub/a.toml")
    assert moved.sources[0].options.file == "../x.dat" and moved.sources[0].options.out == Path("../o")
    assert load_config(write(MAP + SOURCE)).map == moved.map
