"""The nlpkkt matrices (Schenk, Waechter and Weiser 2008) and communication graphs of their products.

Each is the symmetric matrix of the optimality conditions of a problem on a cube of N^3 points with a control
on its six faces: n = 2 N^3 + 6 N^2 rows, 2 (3N - 2)^3 + N^3 + 6 N^2 + 12 (3N - 2)^2 non-zeros. The first N^3
+ 6 N^2 rows are variables, the points of an (N + 2)^3 grid in order, without edges and corners, each with a
diagonal element. The following N^3 rows are equations, one for each interior point, with elements for the
point and its 26 neighbours. The sizes are exact; the order of the rows is recalled, not verified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.host import require_memory
from petacomm.base.typing import Int64Array
from petacomm.mapping.graph import CommunicationGraph

_LINE_BYTES = 1200  # of memory for each line of the grid, and each rank; measured are 1280 to 1580


def nlpkkt_size(n_grid: int) -> tuple[int, int]:
    """Return the numbers of rows and of non-zeros of the matrix of a cube with `n_grid` points per side."""
    n, face = n_grid, 3 * n_grid - 2
    return 2 * n**3 + 6 * n**2, 2 * face**3 + n**3 + 6 * n**2 + 12 * face**2


def row_bounds(n_rows: int, n_ranks: int) -> Int64Array:
    """Return the bounds of near-equal blocks of rows: int64 (n_ranks + 1,)."""
    return np.arange(n_ranks + 1, dtype=np.int64) * n_rows // n_ranks


def nlpkkt_graph(n_grid: int, n_ranks: int, value_bytes: float = 8.0) -> CommunicationGraph:
    """Return the communication graph of a product with a vector, both distributed in equal blocks of rows.

    A rank receives each value that its rows need and that it does not own once. The matrix is not assembled;
    the graph is computed from lines of the grid.

    Parameters
    ----------
    n_grid : int
        N, 2 or more.
    n_ranks : int
        At most the number of rows.
    value_bytes : float
        Bytes of an element of the vector.

    Raises
    ------
    ConfigError
        If the cube has fewer than 2 points a side, or there are more ranks than rows.
    ResourceError
        If there is no memory for the lines of the grid, about 1.3 kB each.
    """
    if n_grid < 2:
        raise ConfigError(f"nlpkkt of {n_grid} points a side", mend="give 2 or more")
    n_rows, _ = nlpkkt_size(n_grid)
    if not 1 <= n_ranks <= n_rows:
        raise ConfigError(f"{n_ranks} ranks for {n_rows} rows", mend="give between 1 and as many as rows")
    _require_memory(n_grid, n_ranks)
    bounds = row_bounds(n_rows, n_ranks)
    variables, equations = _blocks(n_grid)
    needed = np.concatenate(
        [_needed(variables, equations, bounds), _needed(equations, variables, bounds)], axis=1
    )
    source, target, count = _owners(*_merge_ranges(*needed), bounds)
    return CommunicationGraph.from_edges(n_ranks, source, target, value_bytes * count)


def _require_memory(n_grid: int, n_ranks: int) -> None:
    n_lines = (n_grid + 2) ** 2
    require_memory(
        _LINE_BYTES * (n_lines + n_ranks),
        f"the {n_lines:,} lines of nlpkkt{n_grid}",
        mend="give fewer points a side",
    )


@dataclass(frozen=True)
class _Block:
    """Rows of the matrix for points of the (N + 2)^3 grid, by lines along the last dimension.

    Attributes
    ----------
    first : int64 (N + 2, N + 2)
        Row of the first point of each line.
    low, high : int64 (N + 2, N + 2)
        The points of each line are those from `low` to `high` - 1; both 0 if it has none.
    """

    first: Int64Array
    low: Int64Array
    high: Int64Array


def _blocks(n: int) -> tuple[_Block, _Block]:
    """Return the blocks of the variables and of the equations."""
    inside = np.zeros((n + 2, n + 2), np.bool_)
    inside[1:-1, 1:-1] = True
    # Interior lines include their end points, on two faces; lines on faces exclude theirs, on edges. Lines
    # along edges have no points.
    edge = np.zeros((n + 2, n + 2), np.bool_)
    edge[np.ix_([0, -1], [0, -1])] = True
    low = np.where(inside | edge, 0, 1)
    high = np.where(edge, 0, np.where(inside, n + 2, n + 1))
    first = np.cumsum((high - low).ravel()).reshape(low.shape) - (high - low)
    before: Int64Array = np.cumsum(inside.ravel()).reshape(low.shape) - inside
    numbers = np.asarray(n**3 + 6 * n**2 + n * before, np.int64)
    ones = inside.astype(np.int64)
    return _Block(np.asarray(first, np.int64), low, high), _Block(numbers, ones, (n + 1) * ones)


def _needed(rows: _Block, columns: _Block, bounds: Int64Array) -> Int64Array:
    """Return ranges of columns of one block that rows of the other need: rank, begin, end; int64 (3, n)."""
    line, rank, begin, end = _line_segments(rows, bounds)
    width = rows.first.shape[0]
    a, b = np.divmod(line, width)
    ranges = []
    for da in (-1, 0, 1):
        for db in (-1, 0, 1):
            fits = (a + da >= 0) & (a + da < width) & (b + db >= 0) & (b + db < width)
            neighbour = a[fits] + da, b[fits] + db
            low, high, first = columns.low[neighbour], columns.high[neighbour], columns.first[neighbour]
            start, stop = np.maximum(begin[fits] - 1, low), np.minimum(end[fits] + 1, high)
            nonempty = stop > start
            shift = (first - low)[nonempty]
            ranges.append(np.stack([rank[fits][nonempty], start[nonempty] + shift, stop[nonempty] + shift]))
    return np.concatenate(ranges, axis=1)


def _line_segments(
    block: _Block, bounds: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Return the segments of lines that ranks own: line, rank, first point and end of each."""
    lines = np.flatnonzero(block.high.ravel() > block.low.ravel())
    first = block.first.ravel()[lines]
    length = (block.high - block.low).ravel()[lines]
    end = first[-1] + length[-1]
    cuts = np.unique(np.concatenate([first, bounds[(bounds > first[0]) & (bounds < end)]]))
    which = np.searchsorted(first, cuts, "right") - 1
    rank = np.searchsorted(bounds, cuts, "right") - 1
    shift = block.low.ravel()[lines[which]] - first[which]
    return lines[which], rank, cuts + shift, np.append(cuts[1:], end) + shift


def _merge_ranges(
    rank: Int64Array, begin: Int64Array, end: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the union of the ranges of each rank, as disjoint ranges."""
    span = int(end.max(initial=0)) + 1
    start, stop = rank * span + begin, rank * span + end
    order = np.argsort(start, kind="stable")
    start, stop = start[order], np.maximum.accumulate(stop[order])
    opens = np.append(True, start[1:] > stop[:-1])
    closes = np.append(opens[1:], True)
    return start[opens] // span, start[opens] % span, stop[closes] - start[opens] // span * span


def _owners(
    rank: Int64Array, begin: Int64Array, end: Int64Array, bounds: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the owners of ranges of columns, the ranks that need them, and the numbers of columns."""
    first = np.searchsorted(bounds, begin, "right") - 1
    last = np.searchsorted(bounds, end - 1, "right") - 1
    counts = last - first + 1
    index = np.repeat(np.arange(len(rank)), counts)
    owner = first[index] + np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    length = np.minimum(end[index], bounds[owner + 1]) - np.maximum(begin[index], bounds[owner])
    return owner, rank[index], length
