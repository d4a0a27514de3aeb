"""Coordinate files of launchers: Fujitsu's vcoordfile and Blue Gene's map files."""

from __future__ import annotations

import re

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.base.text import shape_text
from petacomm.base.typing import Int64Array
from petacomm.mapping.launchers.target import (
    LauncherFile,
    LaunchTarget,
    content_lines,
    require_slots_in_order,
)
from petacomm.mapping.placement import Placement
from petacomm.topology import Torus

_VCOORD = re.compile(r"\(\s*(\d{1,9}(?:\s*,\s*\d{1,9}){0,2})\s*\)")


class VcoordFile(LauncherFile):
    """Fujitsu's vcoordfile: one line ``(x,y,z)`` per rank, job-logical coordinates of 1 to 3 dimensions."""

    title = "Fujitsu MPI (K, FX100, Fugaku)"
    usage = "mpiexec --vcoordfile {file}"

    def format(self, placement: Placement, target: LaunchTarget) -> str:
        """Return the text of the file, one line per rank."""
        grid = _grid(target, (1, 2, 3), "a vcoordfile")
        require_slots_in_order(placement, "a vcoordfile")
        rows = grid.coordinates(placement.nodes).tolist()
        return "".join(f"({','.join(map(str, row))})\n" for row in rows)

    def parse(self, text: str, target: LaunchTarget, file: str) -> Placement:
        """Return the placement of a file's text."""
        grid = _grid(target, (1, 2, 3), "a vcoordfile")
        rows = []
        for line, where in content_lines(text, file):
            match = _VCOORD.fullmatch(line)
            if not match:
                raise ConfigError(f"'{printable(line)}' is no place", where=where, mend="write (x,y,z)")
            rows.append(_checked_row([int(word) for word in match[1].split(",")], grid.shape, where))
        nodes = grid.node_at(_table(rows, grid.n_dimensions, file))
        return Placement.from_nodes(nodes, grid, target.ranks_per_node)


class BlueGeneMapFile(LauncherFile):
    """Blue Gene's map file: one line ``x y z t`` (L, P) or ``a b c d e t`` (Q) per rank of the partition."""

    title = "Blue Gene"
    usage = "BGLMPI_MAPPING={file} (L), BG_MAPPING={file} (P) or runjob --mapping {file} (Q)"

    def format(self, placement: Placement, target: LaunchTarget) -> str:
        """Return the text of the file, one line per rank; the ranks must fill the partition."""
        grid = _grid(target, (3, 5), "a map file of Blue Gene")
        n_slots = grid.n_nodes * placement.ranks_per_node
        if placement.n_ranks != n_slots:
            raise ConfigError(
                f"a map file of Blue Gene maps the whole partition: {n_slots} places, not "
                f"{placement.n_ranks} ranks",
                mend="use all places",
            )
        rows = np.column_stack([grid.coordinates(placement.nodes), placement.slots]).tolist()
        return "".join(f"{' '.join(map(str, row))}\n" for row in rows)

    def parse(self, text: str, target: LaunchTarget, file: str) -> Placement:
        """Return the placement of a file's text."""
        grid = _grid(target, (3, 5), "a map file of Blue Gene")
        sizes = (*grid.shape, target.ranks_per_node)
        rows = []
        for line, where in content_lines(text, file):
            words = line.split()
            if not all(word.isdecimal() and len(word) < 10 for word in words):
                raise ConfigError(f"'{printable(line)}' is no place", where=where, mend="write x y z t")
            rows.append(_checked_row([int(word) for word in words], sizes, where))
        table = _table(rows, len(sizes), file)
        nodes = grid.node_at(table[:, :-1])
        return Placement(nodes, table[:, -1], target.ranks_per_node, grid.n_nodes)


def _grid(target: LaunchTarget, dimensions: tuple[int, ...], title: str) -> Torus:
    grid = target.network
    if not isinstance(grid, Torus) or grid.n_dimensions not in dimensions:
        what = f"{grid.n_dimensions} dimensions" if isinstance(grid, Torus) else "a switched network"
        raise ConfigError(
            f"{title} cannot name nodes of {what}",
            mend=f"it has {' or '.join(map(str, dimensions))} dimensions",
        )
    return grid


def _checked_row(row: list[int], sizes: tuple[int, ...], where: str) -> list[int]:
    if len(row) != len(sizes):
        raise ConfigError(f"{len(row)} coordinates", where=where, mend=f"{len(sizes)} are needed")
    if any(value >= size for value, size in zip(row, sizes, strict=True)):
        raise ConfigError(f"{tuple(row)} lies outside {shape_text(sizes)}", where=where, mend="count from 0")
    return row


def _table(rows: list[list[int]], width: int, file: str) -> Int64Array:
    if not rows:
        raise ConfigError("has no coordinates", where=file, mend="write a line a rank")
    return np.array(rows, np.int64).reshape(-1, width)
