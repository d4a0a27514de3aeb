"""Readers of communication graphs: METIS, Matrix Market, edge lists as CSV, programs, and recordings."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from petacomm.base.arguments import require_integer
from petacomm.base.errors import ConfigError, printable
from petacomm.base.files import read_text, require_path
from petacomm.base.progress import Progress
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mapping.graph import MOST_BYTES, CommunicationGraph
from petacomm.mapping.recorded_graph import recording_graph
from petacomm.recording import read_recording
from petacomm.schedule.goal import parse_goal
from petacomm.schedule.simgrid_trace import parse_simgrid

_RECORDED = (".npz", ".xml", ".otf2", ".prof")


def read_graph(
    path: str | os.PathLike[str], n_ranks: int | None = None, progress: Progress | None = None
) -> CommunicationGraph:
    r"""Read a communication graph, in the format given by the suffix of the file name.

    ``.graph`` and ``.metis``: METIS, undirected; the weight of an edge is the bytes in each direction.
    ``.mtx``: Matrix Market coordinates; the value in row i and column j is the bytes from rank i - 1 to rank
    j - 1. ``.csv``: one line ``source,target,bytes`` per message, ranks counted from 0, with an optional
    header. ``.goal``: all sends of a program for LogGOPSim. ``.tit``: those of a time-independent trace of
    SimGrid, in one file. ``.npz``: a recording of `petacomm record`, all phases, collectives by their
    schedules; ``.ipm.xml``, ``.otf2`` and ``.prof``: likewise, of a profile of IPM, a trace, or Open MPI's
    monitoring.

    Parameters
    ----------
    path : path
    n_ranks : int, optional
        Number of ranks of a CSV file, which does not state it; by default the highest rank plus one.
    progress : Progress, optional
        Is told of what had to be assumed of a profile or a trace.

    Returns
    -------
    CommunicationGraph

    Raises
    ------
    ConfigError
        If there is no such file, or a line is malformed; the error names the line.

    Examples
    --------
    >>> import petacomm
    >>> with open("halo.csv", "w") as file:
    ...     _ = file.write("0,1,100\n1,0,100\n")
    >>> petacomm.read_graph("halo.csv").n_ranks
    2
    """
    path = require_path(path)
    if n_ranks is not None:
        require_integer(n_ranks, "n_ranks", 1)
    if path.suffix in _RECORDED or path.suffix in _READERS:
        try:
            graph = _read(path, n_ranks, progress)
        except ConfigError as error:  # of the graph itself, which knows no file
            raise ConfigError(error.what, where=error.where or str(path), mend=error.mend) from None
    elif path.suffix == ".mpiP":
        raise ConfigError(
            "a report of mpiP does not tell to which ranks was sent", where=str(path),
            mend="petacomm record show FILE.mpiP --halos 16x8 --out FILE.csv assumes halos; or record it",
        )  # fmt: skip
    else:
        known = ", ".join([*_READERS, *_RECORDED])
        raise ConfigError("no graph: the format is told by the ending", where=str(path), mend=f"use {known}")
    if n_ranks not in (None, graph.n_ranks):
        what = f"a graph of {graph.n_ranks} ranks, not {n_ranks}"
        raise ConfigError(what, where=str(path), mend=f"ask for {graph.n_ranks} ranks, or give another file")
    return graph


def _read(path: Path, n_ranks: int | None, progress: Progress | None) -> CommunicationGraph:
    if path.suffix in _RECORDED:
        return recording_graph(read_recording(path, progress))
    return _READERS[path.suffix](_Text(str(path), read_text(path).splitlines()), n_ranks)


class _Text:
    """The lines of a file, and errors that name them."""

    def __init__(self, file: str, lines: Sequence[str]) -> None:
        self.file = file
        self.lines = lines

    def error(self, index: int, what: str, mend: str | None = None) -> ConfigError:
        return ConfigError(printable(what), where=f"{self.file}:{index + 1}", mend=mend)

    def content(self, comment: str) -> list[int]:
        """Return the indices of the lines that are not comments."""
        return [i for i, line in enumerate(self.lines) if not line.lstrip().startswith(comment)]

    def numbers(self, rows: Sequence[int], separator: str | None = None) -> tuple[FloatArray, Int64Array]:
        """Return the numbers in some lines, concatenated, and the count of each line."""
        words = [self.lines[i].split(separator) for i in rows]
        counts = np.array([len(line) for line in words], np.int64)
        try:
            return np.array(list(itertools.chain.from_iterable(words)), np.float64), counts
        except ValueError:
            for i, line in zip(rows, words, strict=True):
                for word in line:
                    if not _is_number(word):
                        raise self.error(i, f"'{word.strip()}' is not a number") from None
            raise

    def integers(self, index: int, minimum: int) -> list[int]:
        """Return the integers in a line, which has at least `minimum`."""
        words = self.lines[index].split()
        if len(words) < minimum or not all(word.isdecimal() and len(word) < 19 for word in words):
            raise self.error(index, f"'{self.lines[index]}' are not {minimum} or more whole numbers")
        return [int(word) for word in words]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _edges(
    text: _Text, rows: Int64Array, n_ranks: int, source: FloatArray, target: FloatArray, n_bytes: FloatArray
) -> CommunicationGraph:
    """Return the graph of edges, given the line of each for error messages."""
    for ends in (source, target):
        wrong = np.flatnonzero(~((ends >= 0) & (ends < n_ranks) & (ends == np.floor(ends))))
        if len(wrong):
            rank = f"{ends[wrong[0]]:g}"
            raise text.error(int(rows[wrong[0]]), f"there is no rank {rank} among {n_ranks}, counted from 0")
    wrong = np.flatnonzero(~((n_bytes >= 0) & (n_bytes <= MOST_BYTES)))
    if len(wrong):
        raise text.error(int(rows[wrong[0]]), f"{n_bytes[wrong[0]]:g} bytes", f"give 0 to {MOST_BYTES:.1g}")
    return CommunicationGraph.from_edges(n_ranks, source.astype(np.int64), target.astype(np.int64), n_bytes)


def _read_metis(text: _Text, n_ranks: int | None) -> CommunicationGraph:
    content = text.content("%")
    if not content:
        raise text.error(0, "no METIS graph: it is empty")
    first, *rest = content
    n, n_edges, *more = text.integers(first, 2)
    form = f"{more[0] if more else 0:03d}"
    if len(form) > 3 or set(form) - set("01"):
        raise text.error(first, f"unknown format '{form}' of a METIS graph", "use 0, 1, 10, 11, 100 to 111")
    # The last lines may be empty if the last ranks have no edges.
    rows = np.array(rest[:n], np.int64)
    if len(rows) < n or any(text.lines[i].strip() for i in rest[n:]):
        raise text.error(first, f"{n} ranks are announced, and {len(rest)} lines follow")
    values, counts = text.numbers(rows.tolist())
    n_weights = (form[0] == "1") + (form[1] == "1") * (more[1] if len(more) > 1 else 1)
    width = 1 + (form[2] == "1")
    odd = np.flatnonzero((counts < n_weights) | ((counts - n_weights) % width != 0))
    if len(odd):
        raise text.error(int(rows[odd[0]]), f"{counts[odd[0]]} numbers do not make whole edges")
    line_of = np.repeat(np.arange(n), counts)
    within = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    targets = np.flatnonzero((within >= n_weights) & ((within - n_weights) % width == 0))
    if len(targets) != 2 * n_edges:
        raise text.error(
            first, f"{n_edges} edges are announced, and each must stand in the lines of both ends"
        )
    n_bytes = values[targets + 1] if width == 2 else np.ones(len(targets))
    source = line_of[targets]
    graph = _edges(text, rows[source], n, source.astype(np.float64), values[targets] - 1, n_bytes)
    _check_symmetric(text, graph, rows)
    return graph


def _check_symmetric(text: _Text, graph: CommunicationGraph, rows: Int64Array) -> None:
    lists = graph.partner_lists
    different = np.flatnonzero(lists.to != lists.from_)
    if len(different):
        rank = int(np.searchsorted(lists.offsets, different[0], "right")) - 1
        other = int(lists.partners[different[0]])
        raise text.error(
            int(rows[rank]), f"the edge to {other + 1} is not the same in the line of {other + 1}",
            "METIS graphs are undirected",
        )  # fmt: skip


def _read_matrix_market(text: _Text, n_ranks: int | None) -> CommunicationGraph:
    head = text.lines[0].lower().split() if text.lines else []
    if head[:3] != ["%%matrixmarket", "matrix", "coordinate"] or len(head) != 5:
        raise text.error(0, "not '%%MatrixMarket matrix coordinate ...'")
    field, symmetry = head[3:]
    if field not in ("real", "integer", "pattern") or symmetry not in ("general", "symmetric"):
        raise text.error(0, f"a {field} {symmetry} matrix", "real, integer or pattern; general or symmetric")
    content = [i for i in text.content("%") if text.lines[i].strip()]
    if not content:
        raise text.error(len(text.lines) - 1, "no line with the size of the matrix")
    size = text.integers(content[0], 3)
    if size[0] != size[1]:
        raise text.error(content[0], f"{size[0]} rows and {size[1]} columns", "both are ranks")
    table, rows = _table(text, content[1:], 2 if field == "pattern" else 3)
    if len(table) != size[2]:
        raise text.error(content[0], f"{size[2]} values are announced, and {len(table)} lines follow")
    n_bytes = np.ones(len(table)) if field == "pattern" else table[:, 2]
    source, target = table[:, 0] - 1, table[:, 1] - 1
    if symmetry == "symmetric":
        source, target = np.append(source, target), np.append(target, source)
        n_bytes, rows = np.tile(n_bytes, 2), np.tile(rows, 2)
    return _edges(text, rows, size[0], source, target, n_bytes)


def _read_csv(text: _Text, n_ranks: int | None) -> CommunicationGraph:
    content = [i for i in text.content("#") if text.lines[i].strip()]
    if content and not any(map(_is_number, text.lines[content[0]].split(","))):
        content = content[1:]  # a header
    table, rows = _table(text, content, 3, ",")
    if not len(table):
        raise text.error(max(0, len(text.lines) - 1), "no edges", "write lines like 0,1,4096")
    if n_ranks is None:
        n_ranks = int(np.clip(np.nan_to_num(table[:, :2]).max(), 0, 2**31 - 1)) + 1
    return _edges(text, rows, n_ranks, table[:, 0], table[:, 1], table[:, 2])


def _table(
    text: _Text, rows: Sequence[int], width: int, separator: str | None = None
) -> tuple[FloatArray, Int64Array]:
    """Return lines of `width` numbers as a table (n, width), and the index of each line in the file."""
    values, counts = text.numbers(rows, separator)
    odd = np.flatnonzero(counts != width)
    if len(odd):
        raise text.error(rows[int(odd[0])], f"{counts[odd[0]]} numbers where {width} are due")
    return values.reshape(-1, width), np.array(rows, np.int64)


def _read_goal(text: _Text, n_ranks: int | None) -> CommunicationGraph:
    found = parse_goal(text.file, text.lines)
    return CommunicationGraph.from_edges(found.n_ranks, found.source, found.destination, found.bytes)


def _read_simgrid(text: _Text, n_ranks: int | None) -> CommunicationGraph:
    found = parse_simgrid(text.file, text.lines)
    return CommunicationGraph.from_edges(found.n_ranks, found.source, found.destination, found.bytes)


_READERS: dict[str, Callable[[_Text, int | None], CommunicationGraph]] = {
    ".graph": _read_metis,
    ".metis": _read_metis,
    ".mtx": _read_matrix_market,
    ".csv": _read_csv,
    ".goal": _read_goal,
    ".tit": _read_simgrid,
}
