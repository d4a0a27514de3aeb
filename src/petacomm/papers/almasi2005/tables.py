"""Reproduction of Tables 2 to 4 of Almasi et al. 2005, and of the orderings stated for Figures 5 to 10."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.threads import available_threads, map_threads
from petacomm.base.toml import parse_toml
from petacomm.network.closed_forms import alltoall_peak_bandwidth
from petacomm.papers.almasi2005.benchmarks import DEFAULT_SHAPE, BlueGeneBenchmarks, half_bandwidth_bytes
from petacomm.papers.almasi2005.figures import Ordering, figure_orderings
from petacomm.topology import Machine, parse_shape

PUBLISHED_FILE = Path(__file__).with_name("published.toml")
# Message size of bandwidths, not stated in the source: eight times the largest n_1/2 of Table 3.
LONG_MESSAGE = 1 << 23
SHORT_MESSAGES, SHORT_FACTOR = (16, 64, 256), 1.6
# Maximum number of packet hops of a simulated all-to-all, except for short messages.
_MAX_HOPS = 60e6
PLATEAU = 0  # stands for a message size: the limit of long messages
COMPARED, CALIBRATED, NOT_COVERED = "compared", "calibrated", "not covered"


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
        ``compared``; ``calibrated``, if a constant was derived from it; or ``not covered``.
    tolerance : str
        Description of the tolerance.
    inside : bool or None
        Whether it is within the tolerance; None unless it is compared.
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
    curves : mapping of str to list of (float, float)
        Bytes and simulated MB/s of the all-to-all, by shape; the last point is the plateau, at the longest
        published message.
    printed : mapping of str to list of (float, float)
        The published curves.
    left_out : list of str
        Results that were not computed.
    """

    title: str
    cells: list[TableCell]
    orderings: list[Ordering]
    constants: list[tuple[str, str, str]]
    curves: Mapping[str, list[tuple[float, float]]]
    printed: Mapping[str, list[tuple[float, float]]]
    left_out: list[str] = field(default_factory=list)

    @property
    def groups(self) -> dict[str, tuple[int, int]]:
        """Number of cells within the tolerance, and of compared cells, for each group."""
        compared = [cell for cell in self.cells if cell.role == COMPARED]
        return {
            name: (
                sum(bool(cell.inside) for cell in compared if cell.group == name),
                sum(cell.group == name for cell in compared),
            )
            for name in dict.fromkeys(cell.group for cell in compared)
        }

    @property
    def summary(self) -> str:
        """One-line summary of the cells within the tolerances."""
        inside, compared = (sum(count[i] for count in self.groups.values()) for i in (0, 1))
        known = [ordering for ordering in self.orderings if ordering.holds is not None]
        roles = [cell.role for cell in self.cells]
        return (
            f"{inside} of {compared} cells inside the tolerances, {roles.count(CALIBRATED)} more used to "
            f"calibrate, {roles.count(NOT_COVERED)} not covered; {sum(bool(o.holds) for o in known)} of "
            f"{len(known)} orders hold; {len(self.constants)} calibrated constants"
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
    rows = {shape: row for shape, row in published["table2"]["rows"].items() if _nodes(shape) <= max_nodes}
    reached = _all_to_alls(bench, _jobs(rows, published["table2"]["bytes"]), listener)
    listener.begin("tables and orders", 3, "tables")
    cells = _table2(bench, rows, reached)
    listener.advance(1)
    cells += _table3(bench, published["table3"], published["half"], reached.get((DEFAULT_SHAPE, PLATEAU)))
    listener.advance(1)
    cells += _table4(bench, published["table4"])
    orders = figure_orderings(bench, cells, rows, reached)
    listener.end()
    sizes = published["table2"]["bytes"]
    return Almasi2005Results(
        published["title"],
        [_explained(cell) for cell in cells],
        orders,
        _constants(bench.model.machine),
        {shape: _curve(shape, row, sizes, reached) for shape, row in rows.items()},
        {shape: list(zip(map(float, sizes), row["values"], strict=False)) for shape, row in rows.items()},
        _left_out(published["table2"]["rows"], rows),
    )


def _nodes(shape: str) -> int:
    return math.prod(parse_shape(shape))


def _hops(shape: str, n_bytes: int) -> float:
    """Return the approximate number of packet hops of an all-to-all."""
    sizes = parse_shape(shape)
    ring = _nodes(shape) >= 512
    mean = sum(size / 4 if ring else (size - 1 / size) / 3 for size in sizes)
    return _nodes(shape) ** 2 * mean * math.ceil(n_bytes / 240)


def _jobs(rows: Mapping[str, Any], sizes: Sequence[int]) -> list[tuple[str, int]]:
    """Return the shapes and message sizes (or `PLATEAU`) to be simulated, the most expensive first."""
    jobs = {
        (shape, n_bytes)
        for shape in rows
        for n_bytes in sizes
        if n_bytes in SHORT_MESSAGES or _hops(shape, n_bytes) < _MAX_HOPS
    }
    jobs |= {(shape, PLATEAU) for shape in rows}
    return sorted(jobs, key=lambda job: -_hops(job[0], _simulated_bytes(*job)))


def _simulated_bytes(shape: str, n_bytes: int) -> int:
    return int(published_almasi2005()["table2"]["rows"][shape]["long"]) if n_bytes == PLATEAU else n_bytes


def _curve(
    shape: str, row: Mapping[str, Any], sizes: Sequence[int], reached: Mapping[tuple[str, int], float]
) -> list[tuple[float, float]]:
    longest = sizes[len(row["values"]) - 1]
    return sorted((longest if b == PLATEAU else b, mbs) for (s, b), mbs in reached.items() if s == shape)


def _all_to_alls(
    bench: BlueGeneBenchmarks, jobs: Sequence[tuple[str, int]], listener: Progress
) -> dict[tuple[str, int], float]:
    """Return the aggregate MB/s of each job, counting messages between different nodes."""
    total = sum(_hops(shape, _simulated_bytes(shape, n)) for shape, n in jobs)
    listener.begin("all-to-alls, packet by packet", total, "hops")

    def work(job: tuple[str, int]) -> float:
        shape, n_bytes = job[0], _simulated_bytes(*job)
        run = bench.simulate_all_to_all(shape, n_bytes, slice_of_long=job[1] == PLATEAU)
        listener.advance(_hops(shape, n_bytes), f"{shape}, {n_bytes} B")
        return _nodes(shape) * (_nodes(shape) - 1) * n_bytes / run.seconds / 1e6

    bandwidths = map_threads(work, jobs, min(4, available_threads()))
    listener.end()
    return dict(zip(jobs, bandwidths, strict=True))


def _table2(
    bench: BlueGeneBenchmarks, rows: Mapping[str, Any], reached: Mapping[tuple[str, int], float]
) -> list[TableCell]:
    cells = []
    for shape, row in rows.items():
        grid = bench.partition(shape).grid
        peak = grid.n_nodes * alltoall_peak_bandwidth(grid, bench.link) / 1e6
        how = "4 L / max(m, n, p) a node of a mesh, 8 L of a torus"
        if "misprint" in row:
            how += f"; printed as {row['misprint']}, a dropped digit"
        equal = Tolerance("equal", math.isclose)
        cells.append(_cell((2, "Table 2, peaks"), (shape, "peak", "MB/s"), row["peak"], peak, equal, how))
        for n_bytes, value in zip(published_almasi2005()["table2"]["bytes"], row["values"], strict=False):
            if n_bytes in SHORT_MESSAGES:
                group = 2, f"Table 2, {SHORT_MESSAGES[-1]} B and less"
                role = CALIBRATED if shape == DEFAULT_SHAPE and n_bytes != SHORT_MESSAGES[0] else COMPARED
                place, ours = (shape, f"{n_bytes} B", "MB/s"), reached[shape, n_bytes]
                cells.append(_cell(group, place, value, ours, _factor(SHORT_FACTOR), "packets", role))
        ours = 100 * reached[shape, PLATEAU] / peak
        how = f"packets, a slice of {row['long']} B of long messages"
        place, points = (shape, "best", "% of peak"), _difference(f"{row['points']} points", row["points"])
        cells.append(_cell((2, "Table 2, best"), place, row["best"], ours, points, how))
    return cells


class Tolerance(NamedTuple):
    """Description of a tolerance, and whether two numbers agree within it, the published one first."""

    text: str
    agree: Callable[[float, float], bool]


def _factor(factor: float) -> Tolerance:
    return Tolerance(f"factor {factor}", lambda value, ours: 1 / factor <= ours / value <= factor)


def _difference(text: str, most: float) -> Tolerance:
    return Tolerance(text, lambda value, ours: abs(ours - value) <= most)


def _cell(
    group: tuple[int, str],
    place: tuple[str, str, str],
    value: float,
    ours: float | None,
    tolerance: Tolerance,
    how: str,
    role: str = COMPARED,
) -> TableCell:
    """Return the cell of a table and group, at a row and column with a unit."""
    role = NOT_COVERED if ours is None else role
    inside = tolerance.agree(value, ours) if ours is not None and role == COMPARED else None
    return TableCell(*group, *place, value, ours, role, tolerance.text, inside, how)  # fmt: skip


_ROUNDS = "links: rounds wait for their busiest link"
_DECIDED = "MPICH2's all-reduce to decide"
_STREAMS = "packets, six streams, lines of half rings"
# By row and column: function that returns the value, its method, and the role of the cell.
_Methods = dict[tuple[str, str], tuple[Callable[[], float], str, str]]


def _table3(
    bench: BlueGeneBenchmarks,
    published: Mapping[str, Any],
    half: Mapping[str, Any],
    all_nodes: float | None,
) -> list[TableCell]:
    """Return Table 3: MB/s with 8 MiB (all-to-all: 1 MiB to each node), and the n_1/2."""
    curves = _bandwidths(bench)
    best: _Methods = {
        of: (lambda seconds=seconds: LONG_MESSAGE / seconds(LONG_MESSAGE) / 1e6, how, role)  # type: ignore[misc]
        for of, (seconds, how, role) in curves.items()
    }
    best["alltoall, a node", "MPICH2"] = (
        lambda: 511 * 2**20 / bench.mpich2("alltoall", 1 << 20) / 1e6, _ROUNDS, COMPARED,
    )  # fmt: skip
    if all_nodes is not None:
        node = all_nodes / 512
        best["alltoall, a node", "torus"] = (lambda: node, "packets, a slice of long messages", COMPARED)
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
        (integers, "MPICH2"): (default, _ROUNDS, COMPARED),
        (integers, "torus"): (partial(path, integer=True), "packets, Hamiltonian path", CALIBRATED),
        (integers, "tree"): (partial(bench.tree, "allreduce"), "closed form", COMPARED),
        (doubles, "MPICH2"): (default, _ROUNDS, COMPARED),
        (doubles, "torus"): (partial(path, integer=False), "packets, Hamiltonian path", CALIBRATED),
        (doubles, "tree"): (bench.tree_doubles, "an upper bound", NOT_COVERED),
        (broadcast, "MPICH2"): (bench.default_broadcast, _ROUNDS, COMPARED),
        (broadcast, "torus"): (bench.torus_broadcast, f"{_DECIDED}, then {_STREAMS}", COMPARED),
        (broadcast, "tree"): (
            lambda n: bench.decision() + bench.tree("broadcast", n),
            f"{_DECIDED}, closed form",
            COMPARED,
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

    methods = {key: (seconds, how) for key, (seconds, how, role) in curves.items() if role != NOT_COVERED}
    methods["alltoall, a node", "torus"] = (alltoall, "packets")
    cells = []
    for row, columns in published.items():
        for column, value in columns.items():
            best, ours, how = reached.get((row, column)), None, ""
            if best is not None and (row, column) in methods:
                seconds, how = methods[row, column]
                ours = half_bandwidth_bytes(seconds, 1e6 * best) / 1024
            place = row, f"{column}/2", "KB"
            cells.append(_cell((3, "Table 3, half"), place, value, ours, _factor(2), how))
    return cells


def _table4(bench: BlueGeneBenchmarks, published: Mapping[str, Any]) -> list[TableCell]:
    """Return Table 4, in microseconds."""
    levels = "the full system's, by levels of a tree"
    methods: _Methods = {
        ("barrier", "MPICH2"): (lambda: bench.mpich2("barrier", 0), _ROUNDS, CALIBRATED),
        ("barrier", "torus"): (lambda: bench.simulated("barrier", "lines", 0), "packets", COMPARED),
        ("barrier", "tree"): (lambda: bench.tree("barrier"), "closed form", COMPARED),
        ("barrier", "GI"): (lambda: bench.closed("barrier", "interrupt"), levels, COMPARED),
    }
    return _cells(4, published, methods | _short_messages(bench, 16) | _short_messages(bench, 256), 1e6)


def _short_messages(bench: BlueGeneBenchmarks, n: int) -> _Methods:
    allreduce, broadcast = f"allreduce, {n} B", f"broadcast, {n} B"
    curves, overlap = _bandwidths(bench), "one after the other: what the root takes for each"
    return {
        (allreduce, "MPICH2"): (lambda: bench.mpich2("allreduce", n), _ROUNDS, COMPARED),
        (allreduce, "torus"): (
            lambda: bench.simulated("allreduce", "lines", n, True), "packets, of integers", COMPARED),
        (allreduce, "tree"): (lambda: bench.tree("allreduce", n), "closed form", COMPARED),
        (broadcast, "MPICH2"): (lambda: bench.default_broadcast(n), overlap, COMPARED),
    } | {
        (broadcast, column): (
            partial(curves["broadcast", column][0], n), curves["broadcast", column][1], COMPARED)
        for column in ("torus", "tree")
    }  # fmt: skip


def _cells(
    table: int, published: Mapping[str, Any], methods: _Methods, scale: float = 1.0
) -> list[TableCell]:
    part, unit = {3: (0.15, "MB/s"), 4: (0.2, "us")}[table]
    cells = []
    for row, columns in published.items():
        for column, value in columns.items():
            compute, how, role = methods.get((row, column), (None, "", COMPARED))
            ours = None if compute is None else scale * compute()
            tolerance = _difference(f"{100 * part:.0f} %", part * value)
            place = row, column, unit
            cells.append(_cell((table, f"Table {table}"), place, value, ours, tolerance, how, role))
    return cells


def _explained(cell: TableCell) -> TableCell:
    """Return a cell with the reason why it is outside or not covered."""
    if cell.why or (cell.inside is not False and cell.role != NOT_COVERED):
        return cell
    reasons = published_almasi2005()["why"]
    keys = [f"{cell.row}, {cell.column}", f"half, {cell.column}"]
    if cell.table == 2:
        name = "plateau" if cell.column == "best" else "short"
        keys += [f"{name}, {_nodes(cell.row)}", name]
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
