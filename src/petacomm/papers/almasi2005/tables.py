"""Reproduction of Tables 2 to 4 of Almasi et al. 2005, and of the orderings stated for Figures 5 to 10."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.toml import parse_toml
from petacomm.network.closed_forms import alltoall_peak_bandwidth
from petacomm.papers.almasi2005.all_to_all import (
    PLATEAU,
    SHORT_MESSAGES,
    AllToAllRow,
    count_nodes,
    simulate_rows,
)
from petacomm.papers.almasi2005.benchmarks import DEFAULT_SHAPE, BlueGeneBenchmarks, half_bandwidth_bytes
from petacomm.papers.almasi2005.figures import Ordering, figure_orderings
from petacomm.papers.almasi2005.roles import (
    BOUND,
    CALIBRATED,
    FROM_PUBLISHED,
    NOT_COVERED,
    PREDICTED,
    RESTATED,
)
from petacomm.topology import Machine

PUBLISHED_FILE = Path(__file__).with_name("published.toml")
# Message size of bandwidths, not stated in the source: eight times the largest n_1/2 of Table 3.
LONG_MESSAGE = 1 << 23
SHORT_FACTOR = 1.6
# Tolerance of bandwidths, except of short messages, and of latencies.
_PART = {2: 0.15, 3: 0.15, 4: 0.2}


@dataclass(frozen=True)
class TableCell:
    """A published number and its reproduction. The attributes are also the keys of its JSON.

    Attributes
    ----------
    table : int
    group : str
        Group of cells with the same tolerance.
    row, column, unit : str
    published : float
    ours : float or None
        None if the model does not cover it.
    role : str
        ``predicted``; ``calibrated``, if a constant was derived from it; ``restated``, if another cell has
        the same measurement; ``from the published value``, if it follows from a number or a formula of the
        source itself; ``bound``; or ``not covered``. Only predicted cells are counted.
    tolerance : str
        Description of the tolerance.
    inside : bool or None
        Whether it is within the tolerance; None unless it is predicted or restated.
    how, why : str
        Method of the reproduction, and the reason why it is outside or not covered.
    """

    table: int
    group: str
    row: str
    column: str
    unit: str
    published: float
    ours: float | None
    role: str
    tolerance: str
    inside: bool | None
    how: str
    why: str = ""


@dataclass(frozen=True)
class Almasi2005Results:
    """Results of the reproduction.

    Attributes
    ----------
    title : str
    cells : list of TableCell
    orderings : list of Ordering
    constants : list of (str, str, str)
        Name, value and source of each calibrated constant.
    choices : list of (str, str, str)
        Choices between models that were made by looking at compared cells: what, the choice, and the cells.
    curves : mapping of str to list of (float, float)
        Bytes and simulated MB/s of the all-to-all, by shape, at the published sizes.
    printed : mapping of str to list of (float, float)
        The published curves.
    left_out : list of str
        Results that were not computed.
    """

    title: str
    cells: list[TableCell]
    orderings: list[Ordering]
    constants: list[tuple[str, str, str]]
    choices: list[tuple[str, str, str]]
    curves: Mapping[str, list[tuple[float, float]]]
    printed: Mapping[str, list[tuple[float, float]]]
    left_out: list[str] = field(default_factory=list)

    @property
    def groups(self) -> dict[str, tuple[int, int]]:
        """Number of predicted cells within the tolerance, and of all predicted cells, for each group."""
        predicted = [cell for cell in self.cells if cell.role == PREDICTED]
        return {
            name: (
                sum(bool(cell.inside) for cell in predicted if cell.group == name),
                sum(cell.group == name for cell in predicted),
            )
            for name in dict.fromkeys(cell.group for cell in predicted)
        }

    @property
    def summary(self) -> str:
        """One-line summary of the predicted cells, and of what is not predicted."""
        inside, predicted = (sum(count[i] for count in self.groups.values()) for i in (0, 1))
        known = [bool(order.holds) for order in self.orderings if order.role == PREDICTED]
        roles = [cell.role for cell in self.cells]
        others = ", ".join(
            f"{roles.count(role)} {role}"
            for role in (CALIBRATED, RESTATED, FROM_PUBLISHED, BOUND, NOT_COVERED)
            if role in roles
        )
        return (
            f"{inside} of {predicted} predicted cells inside the tolerances (of {len(roles)} cells; "
            f"{others}); {sum(known)} of {len(known)} predicted orders hold; {len(self.constants)} "
            f"calibrated constants and {len(self.choices)} choices made by looking at compared cells"
        )


@cache
def published_almasi2005() -> dict[str, Any]:
    """Return the published tables, read from ``published.toml``."""
    tree, _ = parse_toml(PUBLISHED_FILE.read_text(encoding="utf-8"), str(PUBLISHED_FILE))
    return tree


def reproduce_almasi2005(max_nodes: int = 4096, progress: Progress | None = None) -> Almasi2005Results:
    """Return the reproduction of the tables and orderings.

    Parameters
    ----------
    max_nodes : int
        All-to-alls on more nodes are left out.
    progress : Progress, optional
    """
    listener = progress or SilentProgress()
    bench, published = BlueGeneBenchmarks(), published_almasi2005()
    rows = {s: row for s, row in published["table2"]["rows"].items() if count_nodes(s) <= max_nodes}
    sizes = published["table2"]["bytes"]
    simulated = simulate_rows(bench, rows, sizes, listener)
    listener.begin("tables and orders", 3, "tables")
    cells = _table2(bench, rows, simulated)
    listener.advance(1)
    cells += _table3(bench, published["table3"], published["half"], simulated.get(DEFAULT_SHAPE))
    listener.advance(1)
    cells += _table4(bench, published["table4"])
    orders = figure_orderings(bench, cells, rows, simulated)
    listener.end()
    printed = {shape: _points(sizes, row["values"]) for shape, row in rows.items()}
    return Almasi2005Results(
        published["title"],
        [_explained(cell) for cell in cells],
        orders,
        _constants(bench.model.machine),
        [(choice["of"], choice["chosen"], choice["cells"]) for choice in published["choice"]],
        {
            shape: [(n_bytes, simulated[shape].aggregate(int(n_bytes))) for n_bytes, _ in points]
            for shape, points in printed.items()
        },
        printed,
        _left_out(published["table2"]["rows"], rows),
    )


def _points(sizes: Sequence[int], values: Sequence[float]) -> list[tuple[float, float]]:
    return [(float(n_bytes), value) for n_bytes, value in zip(sizes, values, strict=False)]


def _table2(
    bench: BlueGeneBenchmarks, rows: Mapping[str, Any], simulated: Mapping[str, AllToAllRow]
) -> list[TableCell]:
    cells = []
    for shape, row in rows.items():
        grid = bench.partition(shape).grid
        peak = grid.n_nodes * alltoall_peak_bandwidth(grid, bench.link) / 1e6
        how = "the source's formula and link: 4 L / max(m, n, p) a node of a mesh, 8 L of a torus"
        if "misprint" in row:
            how += f"; printed as {row['misprint']}, a dropped digit"
        place = shape, "peak", "MB/s"
        cells.append(_cell((2, "Table 2, peaks"), place, row["peak"], peak, _PEAK, how, FROM_PUBLISHED))
        for n_bytes, value in zip(published_almasi2005()["table2"]["bytes"], row["values"], strict=False):
            cells.append(_bandwidth(shape, n_bytes, value, simulated[shape]))
        ours = 100 * simulated[shape].aggregate(PLATEAU) / peak
        how = f"packets, a slice of {row['long']} B of long messages"
        place, points = (shape, "best", "% of peak"), _difference(f"{row['points']} points", row["points"])
        cells.append(_cell((2, "Table 2, best"), place, row["best"], ours, points, how, RESTATED))
    return cells


def _bandwidth(shape: str, n_bytes: int, value: float, simulated: AllToAllRow) -> TableCell:
    """Return the cell of a bandwidth of Table 2."""
    short, longest = n_bytes in SHORT_MESSAGES, simulated.longest_before(n_bytes)
    group = f"Table 2, {SHORT_MESSAGES[-1]} B and less" if short else "Table 2, longer messages"
    tolerance = _factor(SHORT_FACTOR) if short else _part(2, value)
    role = CALIBRATED if shape == DEFAULT_SHAPE and n_bytes in SHORT_MESSAGES[1:] else PREDICTED
    how = "packets" if longest == n_bytes else f"packets to {longest} B, then at the rate of long messages"
    place, ours = (shape, f"{n_bytes} B", "MB/s"), simulated.aggregate(n_bytes)
    return _cell((2, group), place, value, ours, tolerance, how, role)


class Tolerance(NamedTuple):
    """Description of a tolerance, and whether two numbers agree within it, the published one first."""

    text: str
    agree: Callable[[float, float], bool]


_PEAK = Tolerance("equal", math.isclose)


def _factor(factor: float) -> Tolerance:
    return Tolerance(f"factor {factor}", lambda value, ours: 1 / factor <= ours / value <= factor)


def _part(table: int, value: float) -> Tolerance:
    return _difference(f"{100 * _PART[table]:.0f} %", _PART[table] * value)


def _difference(text: str, most: float) -> Tolerance:
    return Tolerance(text, lambda value, ours: abs(ours - value) <= most)


def _cell(
    group: tuple[int, str],
    place: tuple[str, str, str],
    value: float,
    ours: float | None,
    tolerance: Tolerance,
    how: str,
    role: str = PREDICTED,
) -> TableCell:
    """Return the cell of a table and group, at a row and column with a unit."""
    role = NOT_COVERED if ours is None else role
    inside = tolerance.agree(value, ours) if ours is not None and role in (PREDICTED, RESTATED) else None
    return TableCell(*group, *place, value, ours, role, tolerance.text, inside, how)  # fmt: skip


_ROUNDS = "links: rounds wait for their busiest link"
_TREE = "337 MB/s of section 2.1"
_DECIDED = "MPICH2's all-reduce to decide"
_STREAMS = "packets, six streams, lines of half rings"
# By row and column: function that returns the value, its method, and the role of the cell.
_Methods = dict[tuple[str, str], tuple[Callable[[], float], str, str]]


def _table3(
    bench: BlueGeneBenchmarks,
    published: Mapping[str, Any],
    half: Mapping[str, Any],
    all_to_all: AllToAllRow | None,
) -> list[TableCell]:
    """Return Table 3: MB/s with 8 MiB (all-to-all: 1 MiB to each node), and the n_1/2."""
    curves = _bandwidths(bench)
    best: _Methods = {
        of: (lambda seconds=seconds: LONG_MESSAGE / seconds(LONG_MESSAGE) / 1e6, how, role)  # type: ignore[misc]
        for of, (seconds, how, role) in curves.items()
    }
    best["alltoall, a node", "MPICH2"] = (
        lambda: 511 * 2**20 / bench.mpich2("alltoall", 1 << 20) / 1e6, _ROUNDS, PREDICTED,
    )  # fmt: skip
    if all_to_all is not None:
        node = all_to_all.aggregate(PLATEAU) / 512
        best["alltoall, a node", "torus"] = (lambda: node, "packets, a slice of long messages", RESTATED)
    cells = _cells(3, published, best)
    reached = {(cell.row, cell.column): cell.ours for cell in cells}
    return cells + _halves(bench, half, curves, reached)


def _bandwidths(bench: BlueGeneBenchmarks) -> dict[tuple[str, str], tuple[Callable[[int], float], str, str]]:
    """Return functions of the message size that return seconds, their methods, and the roles of the cells."""
    integers, doubles, broadcast = "allreduce of integers", "allreduce of doubles", "broadcast"

    def default(n: int) -> float:
        return bench.mpich2("allreduce", n)

    def path(n: int, integer: bool) -> float:
        return bench.simulated("allreduce", "hamiltonian", n, integer)

    return {
        (integers, "MPICH2"): (default, _ROUNDS, PREDICTED),
        (integers, "torus"): (partial(path, integer=True), "packets, Hamiltonian path", CALIBRATED),
        (integers, "tree"): (partial(bench.tree, "allreduce"), f"closed form, {_TREE}", FROM_PUBLISHED),
        (doubles, "MPICH2"): (default, _ROUNDS, PREDICTED),
        (doubles, "torus"): (partial(path, integer=False), "packets, Hamiltonian path", CALIBRATED),
        (doubles, "tree"): (bench.tree_doubles, "an upper bound", BOUND),
        (broadcast, "MPICH2"): (bench.default_broadcast, _ROUNDS, PREDICTED),
        (broadcast, "torus"): (bench.torus_broadcast, f"{_DECIDED}, then {_STREAMS}", PREDICTED),
        (broadcast, "tree"): (
            lambda n: bench.decision() + bench.tree("broadcast", n),
            f"{_DECIDED}, closed form, {_TREE}",
            FROM_PUBLISHED,
        ),
    }


def _halves(
    bench: BlueGeneBenchmarks,
    published: Mapping[str, Any],
    curves: Mapping[tuple[str, str], tuple[Callable[[int], float], str, str]],
    reached: Mapping[tuple[str, str], float | None],
) -> list[TableCell]:
    """Return the message sizes that reach half of the bandwidth; published are powers of two."""

    def alltoall(n: int) -> float:
        return bench.simulate_all_to_all(DEFAULT_SHAPE, n).seconds / 511

    methods = {of: (seconds, how, PREDICTED) for of, (seconds, how, role) in curves.items() if role != BOUND}
    methods["alltoall, a node", "torus"] = (alltoall, "packets", RESTATED)
    cells = []
    for row, columns in published.items():
        for column, value in columns.items():
            best, ours, how, role = reached.get((row, column)), None, "", NOT_COVERED
            if best is not None and (row, column) in methods:
                seconds, how, role = methods[row, column]
                ours = half_bandwidth_bytes(seconds, 1e6 * best) / 1024
            place = row, f"{column}/2", "KB"
            cells.append(_cell((3, "Table 3, half"), place, value, ours, _factor(2), how, role))
    return cells


def _table4(bench: BlueGeneBenchmarks, published: Mapping[str, Any]) -> list[TableCell]:
    """Return Table 4, in microseconds."""
    levels = "the full system's, by levels of a tree"
    methods: _Methods = {
        ("barrier", "MPICH2"): (lambda: bench.mpich2("barrier", 0), _ROUNDS, CALIBRATED),
        ("barrier", "torus"): (lambda: bench.simulated("barrier", "lines", 0), "packets", PREDICTED),
        ("barrier", "tree"): (lambda: bench.tree("barrier"), "closed form", PREDICTED),
        ("barrier", "GI"): (lambda: bench.closed("barrier", "interrupt"), levels, PREDICTED),
    }
    return _cells(4, published, methods | _short_messages(bench, 16) | _short_messages(bench, 256), 1e6)


def _short_messages(bench: BlueGeneBenchmarks, n: int) -> _Methods:
    allreduce, broadcast = f"allreduce, {n} B", f"broadcast, {n} B"
    curves, overlap = _bandwidths(bench), "one after the other: what the root takes for each"
    return {
        (allreduce, "MPICH2"): (lambda: bench.mpich2("allreduce", n), _ROUNDS, PREDICTED),
        (allreduce, "torus"): (
            lambda: bench.simulated("allreduce", "lines", n, True), "packets, of integers", PREDICTED),
        (allreduce, "tree"): (lambda: bench.tree("allreduce", n), "closed form", PREDICTED),
        (broadcast, "MPICH2"): (lambda: bench.default_broadcast(n), overlap, PREDICTED),
    } | {
        (broadcast, column): (
            partial(curves["broadcast", column][0], n), curves["broadcast", column][1], PREDICTED)
        for column in ("torus", "tree")
    }  # fmt: skip


def _cells(
    table: int, published: Mapping[str, Any], methods: _Methods, scale: float = 1.0
) -> list[TableCell]:
    unit, cells = {3: "MB/s", 4: "us"}[table], []
    for row, columns in published.items():
        for column, value in columns.items():
            compute, how, role = methods.get((row, column), (None, "", PREDICTED))
            ours = None if compute is None else scale * compute()
            place, group = (row, column, unit), (table, f"Table {table}")
            cells.append(_cell(group, place, value, ours, _part(table, value), how, role))
    return cells


def _explained(cell: TableCell) -> TableCell:
    """Return a cell with the reason why it is outside, a bound or not covered."""
    if cell.why or (cell.inside is not False and cell.role not in (NOT_COVERED, BOUND)):
        return cell
    reasons = published_almasi2005()["why"]
    keys = [f"{cell.row}, {cell.column}", f"half, {cell.column}"]
    if cell.table == 2:
        short = cell.column in [f"{n_bytes} B" for n_bytes in SHORT_MESSAGES]
        keys.append("short" if short else "plateau")
    why = next((reasons[key] for key in keys if key in reasons), "no cause was found")
    return replace(cell, why=why)


def _constants(machine: Machine) -> list[tuple[str, str, str]]:
    """Return the calibrated numbers of the machine's file: name, value and source."""
    calibrated = [
        (key, str(machine.network[key]), source)
        for key, source in machine.network_sources.items()
        if source.startswith("calibrated")
    ]
    if machine.sources["latency"].startswith("calibrated"):
        calibrated.append(("latency", f"{1e6 * machine.latency:.3g} us", machine.sources["latency"]))
    return [(key, value, source.removeprefix("calibrated: ")) for key, value, source in calibrated]


def _left_out(all_rows: Mapping[str, Any], rows: Mapping[str, Any]) -> list[str]:
    missing = [shape for shape in all_rows if shape not in rows]
    return [f"all-to-alls on {', '.join(missing)}: more nodes than asked for"] if missing else []
