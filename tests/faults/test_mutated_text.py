"""Configurations, machine files and job files with random changes: accepted, or refused by a typed error."""

import random
import resource
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from cases import cases

from petacomm.mapping.job import load_mapping_job
from petacomm.topology.machine import load_machine
from petamap.cli.configure import describe_config
from petamap.data.config import load_config, open_sources, parse_config, to_xml
from petamap.examples import find_example

ROOT = Path(__file__).parents[2]
_WORDS = (
    "-1", "0", "1e300", "nan", "-inf", "1e-300", "99999999999999999999", "''", '"', "[", "]", "{", "=",
    "[[source]]", "\x00", "\u2028", "é", "1 h", "0 Hz", '"1 TB"', "[1, 'a']", "#", "<", "&lol;", "1979-05-27",
    "true",
)  # fmt: skip
JOB = """
ranks = 128
ranks_per_node = 2
[graph]
grid = "4x4x8"
bytes = 100
[machine]
name = "bluegene-l"
shape = [4, 4, 4]
"""
_MOST_BYTES = 1 << 30


def mutated(text: str, chance: random.Random) -> str:
    """Return a text with one to three changes of characters, words or lines."""
    for _ in range(chance.randint(1, 3)):
        place, lines = chance.randrange(len(text)), text.split("\n")
        row = chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                text = text[:place] + chance.choice(_WORDS) + text[place + 1 :]
            case 1:
                text = text[:place] + text[place + chance.randint(1, 20) :]
            case 2:
                lines.insert(row, chance.choice(lines))
                text = "\n".join(lines)
            case 3:
                key, equals, _ = lines[row].partition("=")
                lines[row] = f"{key}{equals} {chance.choice(_WORDS)}"
                text = "\n".join(lines)
            case 4:
                del lines[row]
                text = "\n".join(lines)
            case _:
                digits = [k for k, letter in enumerate(text) if letter.isdigit()] or [place]
                place = chance.choice(digits)
                text = (
                    text[:place] + chance.choice("0123456789e.-") * chance.randint(1, 9) + text[place + 1 :]
                )
        text = text or " "
    return text


@contextmanager
def limited_memory():
    """Let this process have a GB more than it has now, so that more is a MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def check(path: Path) -> str:
    config = load_config(path)
    return describe_config(config, open_sources(config))


def accept(read: Callable[[Path], object], path: Path) -> None:
    """Read a file, whatever it holds."""
    read(path)


def texts(kind: str) -> list[str]:
    """Return the texts that are changed."""
    if kind == "machine":
        return [path.read_text() for path in sorted((ROOT / "src").rglob("machines/*.toml"))]
    if kind == "job":
        return [JOB]
    configurations = [find_example(name).read_text() for name in ("ground", "atacama")]
    if kind == "toml":
        return configurations
    return [to_xml(parse_config(text), Path()) for text in configurations]


READERS = {
    "toml": (".toml", check),
    "xml": (".xml", check),
    "machine": (".toml", lambda path: load_machine(str(path))),
    "job": (".toml", load_mapping_job),
}


@pytest.mark.parametrize("n_tries", cases(40, long=(400,)))
@pytest.mark.parametrize("kind", READERS)
def test_changes(kind, n_tries, tmp_path, outcomes):
    suffix, read = READERS[kind]
    chance, found = random.Random(kind), texts(kind)
    assert found
    for number in range(n_tries):
        path = tmp_path / f"{number}{suffix}"
        path.write_text(mutated(chance.choice(found), chance))
        with limited_memory():
            outcomes.tried(repr(path.read_text()), partial(accept, read, path), None, "")
    assert not outcomes.bad, outcomes.bad[0]
