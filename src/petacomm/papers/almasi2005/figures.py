"""Orderings that the text of Almasi et al. 2005 states for Figures 5 to 10, compared with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

from petacomm.papers.almasi2005.all_to_all import PLATEAU, AllToAllRow
from petacomm.papers.almasi2005.benchmarks import BlueGeneBenchmarks
from petacomm.papers.almasi2005.roles import BOUND, CALIBRATED, PREDICTED

_SHAPES = ("4x4x2", "8x4x2", "8x4x4", "8x8x4", "8x8x8", "8x16x8", "8x16x16", "8x32x16")
# Values by name, at each abscissa.
Points: TypeAlias = Sequence[tuple[str, Mapping[str, float]]]


@dataclass(frozen=True)
class Ordering:
    """An ordering that the source states for a figure. The attributes are also the keys of its JSON.

    Attributes
    ----------
    figure : str
    what : str
        Description of the ordering.
    points : sequence of (str, mapping of str to float)
        Modelled values at each abscissa, in the stated order.
    unit : str
    holds : bool or None
        Whether the model has the ordering; None if it does not cover it.
    note : str
    role : str
        ``predicted``; or what the values are that alone decide it, as of cells.
    """

    figure: str
    what: str
    points: Points
    unit: str
    holds: bool | None
    note: str = ""
    role: str = PREDICTED


def _ordered(figure: str, what: str, points: Points, unit: str, note: str = "") -> Ordering:
    """Return an ordering that holds if the values decrease at each point, or times increase."""
    up = unit == "us"
    holds = all((a < b) if up else (a > b) for _, values in points for a, b in pairwise(values.values()))
    return Ordering(figure, what, points, unit, holds, note)


def figure_orderings(
    bench: BlueGeneBenchmarks,
    cells: Sequence[Any],
    rows: Mapping[str, Any],
    simulated: Mapping[str, AllToAllRow],
) -> list[Ordering]:
    """Return all orderings; those of bandwidths are computed from the cells of Table 3."""
    broadcast, integers, doubles = (
        {cell.column: cell.ours for cell in cells if (cell.table, cell.row) == (3, row)}
        for row in ("broadcast", "allreduce of integers", "allreduce of doubles")
    )
    shapes = [shape for shape in _SHAPES if shape in rows]
    names = ("tree", "torus", "MPICH2")
    by_size = [(shape, _short(bench, 8, shape)) for shape in shapes]
    by_bytes = [(f"{n} B", _short(bench, n, "8x8x8")) for n in (8, 64, 128, 232)]
    return [
        _bandwidths("5 (a)", "broadcast: tree > torus > MPICH2", {name: broadcast[name] for name in names}),
        _crossover(bench),
        _bandwidths(
            "6 (a)", "all-reduce of integers: tree > Hamiltonian path > MPICH2",
            {name: integers[name] for name in names},
        ),
        _latencies(bench),
        _bandwidths(
            "7", "all-reduce of doubles: Hamiltonian path > MPICH2",
            {name: doubles[name] for name in names[1:]},
        ),
        _bandwidths(
            "7", "on the torus doubles are quicker than integers",
            {"doubles": doubles["torus"], "integers": integers["torus"]},
            "both are calibrated, so this is an order of constants",
            CALIBRATED,
        ),
        _bandwidths(
            "7", "all-reduce of doubles: torus > tree",
            {"torus": doubles["torus"], "tree at most": doubles["tree"]},
            "the tree's is an upper bound: what software takes at least; 25.5 MB/s were measured",
            BOUND,
        ),
        _all_to_all(bench, shapes, rows, simulated),
        _ordered("9 (a)", "all-reduce of 8 bytes: tree < torus < MPICH2 on all sizes", by_size, "us"),
        _ordered("9 (b)", "all-reduce of 8 to 232 bytes: tree < torus < MPICH2", by_bytes, "us"),
        _barriers(bench, shapes),
    ]  # fmt: skip


def _bandwidths(
    figure: str, what: str, values: Mapping[str, float], note: str = "", role: str = PREDICTED
) -> Ordering:
    return replace(_ordered(figure, what, [("512 nodes", values)], "MB/s", note), role=role)


def _microseconds(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: 1e6 * value for name, value in seconds.items()}


def _crossover(bench: BlueGeneBenchmarks) -> Ordering:
    """Return the ordering of 5 (b): the decision makes the optimized broadcast slower up to about 2 KB."""
    points = []
    for n in (16, 64, 256, 512, 1024, 2048, 4096, 8192):
        times = {"default": bench.default_broadcast(n), "torus": bench.torus_broadcast(n)}
        points.append((f"{n} B", _microseconds(times)))
    crossed = next((int(at.split()[0]) for at, v in points if v["torus"] < v["default"]), None)
    near = crossed is not None and 1024 <= crossed <= 4096
    note = (
        f"ours crosses {f'by {crossed} B' if crossed else 'nowhere'}; within a factor of two counts as near"
    )
    what = "the default broadcast is the quicker up to about 2 KB, for the decision takes time"
    return Ordering("5 (b)", what, points, "us", near, note)


def _latencies(bench: BlueGeneBenchmarks) -> Ordering:
    points = []
    for n in (64, 1024):
        times = {
            "tree": bench.tree("allreduce", n),
            "lines": bench.simulated("allreduce", "lines", n, True),
            "Hamiltonian path": bench.simulated("allreduce", "hamiltonian", n, True),
        }
        points.append((f"{n} B", _microseconds(times)))
    return _ordered(
        "6 (b)", "short all-reduce: tree < lines < Hamiltonian path, whose latency is high", points, "us"
    )


def _all_to_all(
    bench: BlueGeneBenchmarks,
    shapes: Sequence[str],
    rows: Mapping[str, Any],
    simulated: Mapping[str, AllToAllRow],
) -> Ordering:
    points = []
    for shape in shapes:
        if shape not in ("4x4x2", "8x4x4", "8x8x8"):
            continue
        n, long = bench.partition(shape).n_ranks, rows[shape]["long"]
        default = (n - 1) * long / bench.mpich2("alltoall", long, shape) / 1e6
        points.append((shape, {"random order": simulated[shape].aggregate(PLATEAU) / n, "MPICH2": default}))
    note = "the text does not name the three sizes of the figure"
    return _ordered("8", "all-to-all of long messages: random order > MPICH2", points, "MB/s", note)


def _short(bench: BlueGeneBenchmarks, n_bytes: int, shape: str) -> dict[str, float]:
    return _microseconds(
        {
            "tree": bench.tree("allreduce", n_bytes, shape),
            "torus": bench.simulated("allreduce", "lines", n_bytes, True, shape),
            "MPICH2": bench.mpich2("allreduce", n_bytes, shape),
        }
    )


def _barriers(bench: BlueGeneBenchmarks, shapes: Sequence[str]) -> Ordering:
    points = []
    for shape in shapes:
        part = bench.partition(shape)
        times = {"GI": bench.closed("barrier", "interrupt", shape=shape)} if part.has_interrupts else {}
        times |= {
            "tree": bench.tree("barrier", 0, shape),
            "torus": bench.simulated("barrier", "lines", 0, False, shape),
            "MPICH2": bench.mpich2("barrier", 0, shape),
        }
        points.append((shape, _microseconds(times)))
    note = "interrupt wires serve 32, 128, 512 nodes and multiples of 512"
    return _ordered("10", "barrier: GI < tree < torus < MPICH2 on all sizes", points, "us", note)
