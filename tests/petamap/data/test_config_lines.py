"""Tests of the lines of TOML keys, with generated documents whose lines are known."""

import json

import pytest
import tomllib
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.base.toml import locate_keys

words = st.text(st.sampled_from("abcdefgh_-XY09"), min_size=1, max_size=6)
quoted = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
noise = st.sampled_from(["", "# = [x] \"'''\n", "\n\n", "  \t\n", "# a.b = [[1\r\n", "\r\n"])
texts = [
    '"a # b = [c] \\" \\\\"',
    "'lit\\'",
    "'''\nmulti = 1\n[x]\n''' ''",
    '"""\n[[y]]\nk = "v" \\\n  \\""" ""x"""',
    '"""a"""""',
    "''''''",
    '""',
]
scalars = st.sampled_from(
    ["1", "-2.5e3", "true", "1979-05-27 07:32:00Z", "0xff", "inf", *texts[:2], *texts[3:]]
)


@st.composite
def keys(draw):
    """Draw a key of a table: as written, and its value."""
    name = draw(st.one_of(words, quoted))
    if set(name) <= set("abcdefgh_-XY09") and name and draw(st.booleans()):
        return name, name
    if "'" not in name and draw(st.booleans()):
        return f"'{name}'", name
    return json.dumps(name, ensure_ascii=False), name


@st.composite
def values(draw, depth=0):
    """Draw a value as text, and the lines of its parts relative to its first line."""
    kind = draw(st.sampled_from(["scalar", "scalar", "array", "table"] if depth < 2 else ["scalar"]))
    if kind == "scalar":
        return draw(scalars), {}
    text, lines = ("[" if kind == "array" else "{ "), {}
    names = draw(st.lists(keys(), max_size=3, unique_by=lambda key: key[1]))
    for index, (written, name) in enumerate(names):
        part: str | int = name
        if kind == "array":
            text, part, written = text + draw(noise), index, ""
        inner, inside = draw(values(depth + 1))
        line = text.count("\n")
        text += (f"{written} = " if written else "") + inner
        lines |= {(part,): line} | {(part, *path): line + more for path, more in inside.items()}
        last = index == len(names) - 1
        text += draw(noise) if kind == "array" else ""
        text += "" if last and (kind == "table" or draw(st.booleans())) else ", "
    return text + ("]" if kind == "array" else " }"), lines


@st.composite
def documents(draw):
    """Draw a TOML text, and the line of each path in it."""
    text, lines = draw(noise), {}
    tables = draw(st.lists(keys(), min_size=1, max_size=4, unique_by=lambda key: key[1]))
    for written, name in tables:
        for index in range(draw(st.integers(1, 3)) if (array := draw(st.booleans())) else 1):
            text += draw(noise)
            path = (name, index) if array else (name,)
            lines.setdefault((name,), text.count("\n") + 1)
            lines[path] = text.count("\n") + 1
            text += f"[[ {written} ]] # x\n" if array else f"[{written}]\r\n"
            for key, meant in draw(st.lists(keys(), max_size=4, unique_by=lambda key: key[1])):
                text += draw(noise)
                inner, inside = draw(values())
                line = text.count("\n") + 1
                text += f"{key} = {inner}\n"
                lines |= {(*path, meant): line}
                lines |= {(*path, meant, *rest): line + more for rest, more in inside.items()}
    return text, lines


def paths(tree, path=()):
    yield path
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, inside in children:
        yield from paths(inside, (*path, key))


@settings(max_examples=60, deadline=None)
@given(documents())
def test_lines_of_all_paths(document):
    text, lines = document
    assert locate_keys(text, "f.toml") == lines
    assert set(paths(tomllib.loads(text))) - {()} == set(lines)


def test_dotted_keys_and_tables_below_arrays_of_tables():
    text = 'a.b.c = 1\na.b."d.e" = 2\n[[s]]\nx = 1\n[s.t]\ny = 2\n[[s]]\n[s.t]\ny = 3\n[[s.u]]\nz = 4\n'
    lines = locate_keys(text, "f")
    assert lines["a", "b", "c"] == 1 and lines["a", "b", "d.e"] == 2 and lines["a", "b"] == 1
    assert lines["s", 0, "t", "y"] == 6 and lines["s", 1, "t", "y"] == 9 and lines["s", 1, "u", 0, "z"] == 11
    assert all(path in lines for path in paths(tomllib.loads(text)) if path)


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("[a]\nb = 1\n\nb = 2\n", 4, "a.b"),
        ("a.b = 1\na = 2\n", 2, "a"),
        ('[a]\n"b" = """\n\n"""\n\'b\' = 1', 5, "a.b"),
        ("[a]\nx = { b = 1, b = 2 }", 2, "a.x.b"),
    ],
)
def test_duplicate_keys(text, line, name):
    with pytest.raises(ConfigError, match=rf"^f:{line}: '{name}' is given twice \(first in line \d"):
        locate_keys(text, "f")


@settings(deadline=None)
@given(st.text(st.sampled_from("ab=.[]{}\"'\\\n#, 1"), max_size=40))
def test_arbitrary_text(text):
    """Only texts that the TOML parser rejects may be rejected."""
    try:
        locate_keys(text, "f")
    except ConfigError:
        with pytest.raises(tomllib.TOMLDecodeError):
            tomllib.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{a=" * 100_000,
        "a." * 100_000 + "b = 1",
        "[" + "a." * 100_000 + "b]",
    ],
)
def test_depth_is_limited(text):
    with pytest.raises(ConfigError, match=r"f:1: .*16"):
        locate_keys(text, "f")
