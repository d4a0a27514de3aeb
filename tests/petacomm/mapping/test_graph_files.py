"""Graphs from files, and the errors of malformed files."""

from dataclasses import replace
from pathlib import Path

import pytest
from graphs import as_dict
from parsers import made_recording

from petacomm.base.errors import ConfigError
from petacomm.mapping.graph_files import read_graph


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


GOOD = [
    ("a.csv", "source,target,bytes\n0,1,8\n# a comment\n\n2,0,4.5\n0,1,8\n", {(0, 1): 16.0, (2, 0): 4.5}),
    ("b.csv", "0,1,8\n", {(0, 1): 8.0}),
    ("c.csv", "\ufeff0,1,8\r\n", {(0, 1): 8.0}),  # as Windows' editors write it
    ("a.graph", "% three ranks\n3 2 001\n2 5\n1 5 3 7\n2 7\n", {(0, 1): 5, (1, 0): 5, (1, 2): 7, (2, 1): 7}),
    ("b.metis", "3 1\n2\n1\n\n", {(0, 1): 1, (1, 0): 1}),
    ("c.graph", "2 1 11 2\n9 9 2 5\n9 9 1 5\n", {(0, 1): 5, (1, 0): 5}),
    (
        "a.mtx",
        "%%MatrixMarket matrix coordinate real general\n% x\n3 3 2\n1 2 8\n3 1 4.5\n",
        {(0, 1): 8.0, (2, 0): 4.5},
    ),
    (
        "b.mtx",
        "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n",
        {(0, 1): 1.0, (1, 0): 1.0},
    ),
]


@pytest.mark.parametrize(("name", "text", "edges"), GOOD, ids=[name for name, *_ in GOOD])
def test_formats_are_read(tmp_path: Path, name: str, text: str, edges: dict) -> None:
    assert as_dict(read_graph(written(tmp_path, name, text))) == edges


MM = "%%MatrixMarket matrix coordinate real general\n"
WRONG = [
    ("a.csv", "0,1,8\n0,x,8\n", ":2: 'x' is not a number"),
    ("a.csv", "O,1,8\n1,0,8\n", ":1: 'O' is not a number"),
    ("a.csv", "0,1,8\n0,1\n", ":2: 2 numbers where 3 are due"),
    ("a.csv", "0,1,8\n\n0,1.5,8\n", ":3: there is no rank 1.5"),
    ("a.csv", "0,1,8\n1,0,-4\n", ":2: -4 bytes"),
    ("a.csv", "source,target,bytes\n", ":1: no edges"),
    ("a.csv", "", ":1: no edges"),
    ("a.csv", "0,1e30,8\n", ":1: there is no rank 1e"),
    ("a.csv", "0,nan,8\n", ":1: there is no rank nan"),
    ("a.csv", "0,1,inf\n", ":1: inf bytes"),
    ("a.graph", "", ":1: no METIS graph"),
    ("a.graph", "3 x\n", ":1: '3 x' are not 2 or more whole numbers"),
    ("a.graph", "3 2 001\n2 5\n1 5 3 7\n", ":1: 3 ranks are announced, and 2 lines follow"),
    ("a.graph", "3 2 001\n2 5\n1 5 3\n2 7\n", ":3: 3 numbers do not make whole edges"),
    ("a.graph", "3 3\n2\n1 3\n2\n", ":1: 3 edges are announced"),
    ("a.graph", "3 2\n2\n1 4\n2\n", ":3: there is no rank 3 among 3"),
    ("a.graph", "3 2 001\n2 5\n1 6 3 7\n2 7\n", ":2: the edge to 2 is not the same in the line of 2"),
    ("a.graph", "2 1 7\n2\n1\n", ":1: unknown format '007'"),
    ("a.mtx", "3 3 1\n1 2 8\n", ":1: not '%%MatrixMarket"),
    ("a.mtx", "%%MatrixMarket matrix coordinate complex general\n", ":1: a complex general matrix"),
    ("a.mtx", MM + "3 2 1\n1 2 8\n", ":2: 3 rows and 2 columns"),
    ("a.mtx", MM + "3 3 2\n1 2 8\n", ":2: 2 values are announced, and 1 lines follow"),
    ("a.mtx", MM + "3 3 1\n1 4 8\n", ":3: there is no rank 3 among 3"),
    ("a.mtx", MM + "% only\n", ":2: no line with the size"),
    ("a.dot", "digraph {}\n", "the format is told by the ending"),
]


@pytest.mark.parametrize(("name", "text", "says"), WRONG)
def test_a_malformed_graph_is_one_error_with_its_line(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(ConfigError) as caught:
        read_graph(path)
    assert says in str(caught.value) and "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_graph(tmp_path / "none.csv")


def test_the_number_of_ranks_is_checked(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "0,1,8\n")
    assert read_graph(path, 5).n_ranks == 5
    with pytest.raises(ConfigError, match="no rank 1 among 1"):
        read_graph(path, 1)
    with pytest.raises(ConfigError, match="a graph of 3 ranks, not 4"):
        read_graph(written(tmp_path, "b.metis", "3 1\n2\n1\n\n"), 4)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.goal", "num_ranks 444444444\n"),
        ("a.csv", "0,400000000,1\n"),
        ("a.mtx", "%%MatrixMarket matrix coordinate real general\n400000000 400000000 1\n1 2 5\n"),
    ],
)
def test_few_bytes_take_no_memory_of_many_ranks(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=rf"{name}: a graph of 4\d\d,\d*,\d* ranks") as caught:
        read_graph(tmp_path / name)
    assert caught.value.mend == "give 1 to 33,554,432"


def test_small_recordings_take_no_memory_of_many_ranks(tmp_path: Path) -> None:
    replace(made_recording(), n_ranks=444_444_444).save(tmp_path / "a.npz")
    with pytest.raises(ConfigError, match=r"a\.npz: a graph of 444,444,444 ranks"):
        read_graph(tmp_path / "a.npz")
