"""Coordinate files: text files with the coordinates of each rank's node and its core."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, located, printable
from petacomm.base.files import read_text, write_text
from petacomm.base.text import shape_text
from petacomm.topology.manager import TopologyManager
from petacomm.topology.torus import Torus, parse_shape


def read_coordinates(path: str | Path) -> TopologyManager:
    """Read a coordinate file.

    It has one line per rank, in order: the coordinates of its node, its core, and optionally the host name. A
    first line ``torus 8x8x8`` or ``mesh 8x8x8`` gives the machine; without it, the machine is the smallest
    mesh that contains all coordinates. Text after ``#`` is a comment.

    Raises
    ------
    ConfigError
        If it cannot be read, or a line is wrong; the error names the line.
    """
    grid: Torus | None = None
    rows: list[list[int]] = []
    hosts: list[str] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.split("#")[0].split()
        where = f"{path}:{number}"
        if words and words[0] in ("torus", "mesh") and not rows and grid is None and len(words) == 2:
            with located(where):
                grid = Torus(parse_shape(words[1]), words[0] == "torus")
        elif words:
            _append_line(words, rows, hosts, where)
    if not rows:
        raise ConfigError("has no coordinates", where=str(path), mend="write a line a rank: x y z core")
    if hosts and len(hosts) != len(rows):
        raise ConfigError("names the hosts of some ranks", where=str(path), mend="name all or none")
    table = np.array(rows, np.int64)
    grid = grid or Torus((table[:, :-1].max(0) + 1).tolist(), False)
    outside = (
        np.flatnonzero((table[:, :-1] >= grid.shape).any(1)) if table.shape[1] - 1 == len(grid.shape) else [0]
    )
    if len(outside):
        raise ConfigError(f"rank {outside[0]} lies outside {grid}", where=str(path), mend="count from 0")
    nodes = grid.node_at(table[:, :-1])
    return TopologyManager(grid, nodes, table[:, -1], hosts=hosts or None, source=str(path))


def _append_line(words: list[str], rows: list[list[int]], hosts: list[str], where: str) -> None:
    numbers = words
    if any(letter.isalpha() for letter in words[-1]):
        hosts.append(words[-1])
        numbers = words[:-1]
    if not all(word.isdecimal() and len(word) < 11 for word in numbers) or len(numbers) < 2:
        raise ConfigError(f"'{printable(' '.join(words))}' is no place", where=where, mend="write x y z core")
    if rows and len(numbers) != len(rows[0]):
        raise ConfigError(
            f"{len(numbers)} numbers after {len(rows[0])}", where=where, mend="write as many a line"
        )
    rows.append([int(word) for word in numbers])


def write_coordinates(manager: TopologyManager, path: str | Path) -> None:
    """Write the coordinate file of ranks on a torus or mesh, which `read_coordinates` reads back.

    Raises
    ------
    ConfigError
        If the network is switched, or has rings in only some dimensions, which the file cannot express.
    """
    grid = manager.network
    rings = (
        {ring for ring, size in zip(grid.wrap, grid.shape, strict=True) if size > 1}
        if isinstance(grid, Torus)
        else set()
    )
    if not isinstance(grid, Torus) or len(rings) > 1:
        raise ConfigError("only ranks on a torus or a mesh have a file of coordinates", mend=None)
    kind = "torus" if rings == {True} else "mesh"
    rows = np.column_stack([grid.coordinates(manager.nodes), manager.slots]).tolist()
    lines = [f"{kind} {shape_text(grid.shape)}"]
    for rank, row in enumerate(rows):
        lines.append(" ".join(map(str, row)) + (f" {manager.hosts[rank]}" if manager.hosts else ""))
    write_text(path, "\n".join(lines) + "\n")
