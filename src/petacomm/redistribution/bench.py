"""Benchmarks of all exchange methods: times, correctness, and a fitted cost model."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from petacomm.base.text import shape_text
from petacomm.base.typing import AnyArray
from petacomm.mpi.agreement import agree
from petacomm.mpi.autotuner import time_interleaved
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.array_layout import ArrayLayout, DatatypeError
from petacomm.redistribution.exchange_cost import ExchangeCosts, ExchangeWork
from petacomm.redistribution.exchanges import METHODS
from petacomm.redistribution.halo import HALO_METHODS, LatticeField
from petacomm.redistribution.lattice import N_PARITIES, Lattice
from petacomm.redistribution.redistribution import Redistribution

SUBJECTS = ("transpose", "halo")
# Divisors of the given shape: the model is fitted to the timings of all sizes.
_SIZES = (4, 2, 1)
_IN_WINDOW = "shared, direct"


@dataclass(frozen=True)
class BenchmarkRow:
    """Benchmark result of one method.

    Attributes
    ----------
    case, method : str
    n_bytes : int
        Bytes that the busiest rank receives in one exchange, its own included.
    seconds, copy_seconds : float
        Least seconds of the slowest rank: of the exchange, and of a memory copy of as many bytes on all ranks
        at the same time.
    correct : bool
        Whether all bits of the result are correct.
    modelled, packing : float
        Seconds by the fitted model, and the fraction of them that is spent on explicit copies.
    """

    case: str
    method: str
    n_bytes: int
    seconds: float
    copy_seconds: float
    correct: bool
    modelled: float = 0.0
    packing: float = 0.0

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.n_bytes / self.seconds


@dataclass(frozen=True)
class BenchmarkResult:
    """Rows of a benchmark, and the fitted costs as text."""

    rows: list[BenchmarkRow]
    costs: str


@dataclass(frozen=True)
class _Case:
    """Methods of one exchange: calls, work and correctness by name."""

    name: str
    n_bytes: int
    run: dict[str, Callable[[], object]]
    work: dict[str, ExchangeWork]
    correct: dict[str, bool]


def bench(
    comm: Communicator,
    subject: str = "transpose",
    shape: tuple[int, ...] | None = None,
    dtype: str = "complex128",
    turns: int = 7,
) -> BenchmarkResult:
    """Time all methods of one kind of exchange. Collective.

    Parameters
    ----------
    comm : Communicator
    subject : str
        "transpose": from slabs along the first axis to slabs along the second, in C order and with reversed
        memory order. "halo": vectors on a periodic lattice, both parities.
    shape : tuple of int, optional
        Shape of the global array, by default 512 x 512, or of a rank's block, by default 8 x 8 x 8 x 8.
    dtype : str
        Dtype of the transposed array.
    turns : int
        Calls of each method.

    Raises
    ------
    DatatypeError
        On all ranks, if these do not fit.
    """
    shape = shape or ((512, 512) if subject == "transpose" else (8, 8, 8, 8))
    agree(comm, _argument_error(subject, shape, dtype))
    cases = _transposes(comm, shape, dtype) if subject == "transpose" else _halos(comm, shape)
    rows: list[BenchmarkRow] = []
    works: list[ExchangeWork] = []
    for case in cases:
        copy_seconds = _copy_seconds(comm, case.n_bytes, turns)
        for method, seconds in time_interleaved(comm, case.run, turns).items():
            correct = comm.max(not case.correct[method]) == 0
            rows.append(BenchmarkRow(case.name, method, case.n_bytes, seconds, copy_seconds, correct))
            works.append(case.work[method].busiest(comm))
    costs = ExchangeCosts.fit(works, [row.seconds for row in rows])
    with_model = [
        replace(row, modelled=costs.predict(work), packing=costs.packing_share(work))
        for row, work in zip(rows, works, strict=True)
    ]
    return BenchmarkResult(with_model, costs.describe())


def _argument_error(subject: str, shape: tuple[int, ...], dtype: str) -> DatatypeError | None:
    if subject not in SUBJECTS:
        return DatatypeError(f"nothing known of '{subject}'", mend=f"known: {', '.join(SUBJECTS)}")
    if min(shape) < 1 or (subject == "transpose" and len(shape) < 2):
        return DatatypeError(f"a shape of {shape}", mend="two axes or more, none empty")
    if subject == "halo" and any(n % 2 for n in shape):
        return DatatypeError(f"a lattice of {shape} sites a rank", mend="even numbers")
    try:
        np.dtype(dtype)
    except TypeError:
        return DatatypeError(f"no dtype '{dtype}'", mend="such as complex128, float32 or int64")
    return None


def _sizes(shape: tuple[int, ...], least: int) -> list[tuple[int, ...]]:
    """Return a quarter, a half and all of a shape, without duplicates; parts are multiples of `least`."""
    smaller = [tuple(max(least, n // part // least * least) for n in shape) for part in _SIZES]
    return sorted({*smaller[:-1], shape}, key=lambda sizes: int(np.prod(sizes)))


def _transposes(comm: Communicator, shape: tuple[int, ...], dtype: str) -> Iterator[_Case]:
    for sizes in _sizes(shape, 1):
        n = len(sizes)
        before = ArrayLayout(sizes, (comm.size, *[1] * (n - 1)))
        for order in (tuple(range(n)), tuple(range(n - 1, -1, -1))):
            after = ArrayLayout(sizes, (1, comm.size, *[1] * (n - 2)), order)
            turned = "" if order[0] == 0 else ", turned"
            yield _transpose(comm, before, after, dtype, f"{shape_text(sizes)}{turned}")


def _transpose(comm: Communicator, before: ArrayLayout, after: ArrayLayout, dtype: str, case: str) -> _Case:
    target = after.empty(comm.rank, dtype)
    expected = _numbered(after, comm.rank, dtype)
    plans = {name: Redistribution(comm, before, after, dtype, name, "first") for name in METHODS}
    plans[_IN_WINDOW] = Redistribution(comm, before, after, dtype, "shared", "first")
    run: dict[str, Callable[[], object]] = {}
    work, correct = {}, {}
    for name, plan in plans.items():
        source = plan.empty_source() if name == _IN_WINDOW else before.empty(comm.rank, dtype)
        source[...] = _numbered(before, comm.rank, dtype)
        after.in_memory_order(target).reshape(-1).view(np.uint8)[...] = 255
        correct[name] = bool(np.array_equal(plan.run(source, target), expected))
        work[name] = plan.work()
        run[name] = functools.partial(plan.run, source, target)
    return _Case(case, int(comm.max(target.nbytes)), run, work, correct)


def _numbered(layout: ArrayLayout, rank: int, dtype: str) -> AnyArray:
    """Return this rank's part of an array of element numbers, modulo 127 for small dtypes."""
    steps = np.cumprod([1, *layout.shape[:0:-1]])[::-1]
    part = np.ix_(*(np.arange(p.start, p.stop) * n for p, n in zip(layout.box(rank), steps, strict=True)))
    numbers = sum(part, np.zeros((), np.int64))
    return (np.asarray(numbers) % 127 if np.dtype(dtype).itemsize < 8 else np.asarray(numbers)).astype(dtype)


def _halos(comm: Communicator, block: tuple[int, ...]) -> Iterator[_Case]:
    grid = even_grid(comm.size, len(block))
    for sizes in _sizes(block, 2):
        shape = tuple(n * p for n, p in zip(sizes, grid, strict=True))
        lattice = Lattice(shape, grid, comm.rank)
        yield _halo(comm, lattice, f"{shape_text(sizes)} a rank")


def _halo(comm: Communicator, lattice: Lattice, case: str) -> _Case:
    site = np.arange(np.prod(lattice.shape)).reshape(lattice.shape)
    values = np.repeat(site[..., None], 3, axis=-1).astype(complex)
    run: dict[str, Callable[[], object]] = {}
    work, correct = {}, {}
    for name in HALO_METHODS:
        field = LatticeField(comm, lattice, "vector", method=name)
        field.values[...] = lattice.local_rows(values)

        def exchange(field: LatticeField = field) -> None:
            for parity in range(N_PARITIES):
                field.exchange(parity)

        exchange()
        correct[name] = all(
            np.array_equal(
                field.values[lattice.neighbours[:, to.number]],
                lattice.local_rows(np.roll(values, -1 if to.up else 1, to.axis))[: lattice.n_sites],
            )
            for to in lattice.directions
        )
        comm.barrier()
        work[name], run[name] = field.work(), exchange
    ghosts = (lattice.n_rows - lattice.n_sites) * 48
    return _Case(case, int(comm.max(ghosts)), run, work, correct)


def even_grid(n_ranks: int, n_axes: int) -> tuple[int, ...]:
    """Return the grid of `n_ranks` ranks whose sides are as equal as possible, in decreasing order."""
    grid = [1] * n_axes
    remaining, factor, factors = n_ranks, 2, []
    while remaining > 1:
        while remaining % factor == 0:
            factors.append(factor)
            remaining //= factor
        factor += 1
    for factor in sorted(factors, reverse=True):
        grid[int(np.argmin(grid))] *= factor
    return tuple(sorted(grid, reverse=True))


def _copy_seconds(comm: Communicator, n_bytes: int, turns: int) -> float:
    source, target = np.ones(max(1, n_bytes), np.uint8), np.empty(max(1, n_bytes), np.uint8)
    return time_interleaved(comm, {"copy": lambda: np.copyto(target, source)}, turns)["copy"]


def benchmark_table(result: BenchmarkResult, environment: dict[str, Any]) -> str:
    """Return a benchmark result as text; `environment` is that of `tuning_environment`."""
    ranks = "one rank" if environment["ranks"] == 1 else f"{environment['ranks']} ranks"
    lines = [f"{ranks} on {environment['cores']} cores, {environment['mpi']}"]
    head = f"  {'method':14}{'time':>11}{'GB/s':>8}{'of a copy':>11}{'correct':>9}{'model':>11}{'packing':>9}"
    case = ""
    for row in result.rows:
        if row.case != case:
            case = row.case
            lines += ["", f"{case}, {row.n_bytes:,} bytes a rank", head]
        lines.append(
            f"  {row.method:14}{1e3 * row.seconds:>8.3f} ms{row.bandwidth / 1e9:>8.2f}"
            f"{row.copy_seconds / row.seconds:>11.0%}{'yes' if row.correct else 'NO':>9}"
            f"{1e3 * row.modelled:>8.3f} ms{row.packing:>9.0%}"
        )
    return "\n".join([*lines, "", f"model: {result.costs}"])


_JSON_KEYS = {"method": "way", "copy_seconds": "of_a_copy"}


def benchmark_json(result: BenchmarkResult, environment: dict[str, Any]) -> str:
    """Return a benchmark result as JSON, times in seconds."""
    rows = [
        {_JSON_KEYS.get(key, key): value for key, value in asdict(row).items()} | {"bandwidth": row.bandwidth}
        for row in result.rows
    ]
    return json.dumps({"where": environment, "rows": rows, "model": result.costs}, indent=2)
