"""Writers of communication graphs: edge lists as CSV, Matrix Market and METIS."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from petacomm.base.arguments import require_instance
from petacomm.base.errors import ConfigError
from petacomm.base.files import require_path, write_text
from petacomm.base.typing import FloatArray
from petacomm.mapping.graph import CommunicationGraph


def write_graph(graph: CommunicationGraph, path: str | os.PathLike[str]) -> Path:
    """Write a communication graph, in the format given by the suffix of the file name.

    Parameters
    ----------
    graph : CommunicationGraph
    path : path
        With the suffix ``.csv``, ``.mtx``, ``.graph`` or ``.metis``, as of `read_graph`. METIS is undirected:
        an edge has the mean of the bytes of both directions, rounded up.

    Returns
    -------
    Path

    Raises
    ------
    ConfigError
        If there is no such format.
    ResourceError
        If the file cannot be written.

    Examples
    --------
    >>> import petacomm
    >>> graph = petacomm.CommunicationGraph.from_edges(2, [0, 1], [1, 0], [100, 100])
    >>> petacomm.read_graph(petacomm.write_graph(graph, "ring.mtx")).total_bytes
    200.0
    """
    require_instance(graph, "graph", CommunicationGraph)
    path = require_path(path)
    require_writable_format(path)
    write_text(path, _WRITERS[path.suffix](graph))
    return path


def require_writable_format(path: Path) -> None:
    """Raise a ConfigError unless the suffix names a format that graphs are written in."""
    if path.suffix not in _WRITERS:
        raise ConfigError(
            "no graph: the format is told by the ending", where=str(path), mend=f"use {', '.join(_WRITERS)}"
        )


def _csv(graph: CommunicationGraph) -> str:
    edges = zip(graph.sources, graph.targets, _numbers(graph.n_bytes), strict=True)
    lines = [f"{source},{target},{n_bytes}" for source, target, n_bytes in edges]
    # The reader takes the number of ranks from the highest one, which may neither send nor receive.
    last = graph.n_ranks - 1
    if not lines or int(max(graph.sources.max(), graph.targets.max())) < last:
        lines.append(f"{last},{last},0")
    return "\n".join(["source,target,bytes", *lines, ""])


def _matrix_market(graph: CommunicationGraph) -> str:
    edges = zip(graph.sources + 1, graph.targets + 1, _numbers(graph.n_bytes), strict=True)
    head = "%%MatrixMarket matrix coordinate real general\n% bytes from rank (row) - 1 to rank (column) - 1"
    lines = [f"{source} {target} {n_bytes}" for source, target, n_bytes in edges]
    return "\n".join([head, f"{graph.n_ranks} {graph.n_ranks} {graph.n_edges}", *lines, ""])


def _metis(graph: CommunicationGraph) -> str:
    lists = graph.partner_lists
    weights = np.ceil((lists.to + lists.from_) / 2)
    lines = [f"{graph.n_ranks} {len(weights) // 2} 001"]
    for begin, end in zip(lists.offsets[:-1], lists.offsets[1:], strict=True):
        row = zip(lists.partners[begin:end] + 1, weights[begin:end], strict=True)
        lines.append(" ".join(f"{partner} {weight:.0f}" for partner, weight in row))
    return "\n".join([*lines, ""])


def _numbers(n_bytes: FloatArray) -> list[str]:
    return [repr(float(value)).removesuffix(".0") for value in n_bytes]


_WRITERS: dict[str, Callable[[CommunicationGraph], str]] = {
    ".csv": _csv,
    ".mtx": _matrix_market,
    ".graph": _metis,
    ".metis": _metis,
}
