"""All ways beside each other: their times, whether they are right, and what the model says of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.mpi.agreement import agree
from petacomm.mpi.autotuner import time_in_turns
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.array_layout import DatatypeError, Layout
from petacomm.redistribution.exchange_cost import Costs, Work
from petacomm.redistribution.exchanges import WAYS
from petacomm.redistribution.halo import HALO_WAYS, Field
from petacomm.redistribution.lattice import N_PARITIES, Lattice
from petacomm.redistribution.redistribution import Redistribution

SUBJECTS = ("transpose", "halo")
# Besides what is asked for, halves and quarters of it: the model is fitted to all.
_SIZES = (4, 2, 1)
_IN_WINDOW = "shared, lent"


@dataclass(frozen=True)
class Row:
    """What was found of one way.

    Attributes
    ----------
    case, way : str
    n_bytes : int
        Of the busiest rank's part: what it fills in one exchange.
    seconds, of_a_copy : float
        The least time, of the slowest rank; and of a memory copy of as many bytes, on all ranks at once.
    correct : bool
        Whether all bits are where they belong.
    modelled, packing : float
        Seconds by the fitted model, and the share of them that goes into copying by hand.
    """

    case: str
    way: str
    n_bytes: int
    seconds: float
    of_a_copy: float
    correct: bool
    modelled: float = 0.0
    packing: float = 0.0

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.n_bytes / self.seconds


@dataclass(frozen=True)
class Found:
    """All rows, and the fitted costs in words."""

    rows: list[Row]
    costs: str


@dataclass(frozen=True)
class _Case:
    """Ways of one exchange: what runs each, what of it is work, and whether it did right."""

    name: str
    n_bytes: int
    run: dict[str, Callable[[], object]]
    work: dict[str, Work]
    correct: dict[str, bool]


def bench(
    comm: Communicator,
    subject: str = "transpose",
    shape: tuple[int, ...] | None = None,
    dtype: str = "complex128",
    turns: int = 7,
) -> Found:
    """Time all ways of one subject. Collective.

    Parameters
    ----------
    comm : Communicator
    subject : str
        "transpose": slabs along the first axis become slabs along the second, in C order and with the axes of
        memory turned round. "halo": the vectors of a periodic lattice, both parities.
    shape : tuple of int, optional
        Of the whole array, by default 512 x 512; of a rank's block, by default 8 x 8 x 8 x 8.
    dtype : str
        Of what is transposed.
    turns : int
        Calls of each way.

    Raises
    ------
    DatatypeError
        On all ranks, if these do not fit.
    """
    shape = shape or ((512, 512) if subject == "transpose" else (8, 8, 8, 8))
    agree(comm, _fault(subject, shape, dtype))
    cases = _transposes(comm, shape, dtype) if subject == "transpose" else _halos(comm, shape)
    rows: list[Row] = []
    works: list[Work] = []
    for case in cases:
        of_a_copy = _copy_seconds(comm, case.n_bytes, turns)
        for way, seconds in time_in_turns(comm, case.run, turns).items():
            correct = comm.max(not case.correct[way]) == 0
            rows.append(Row(case.name, way, case.n_bytes, seconds, of_a_copy, correct))
            works.append(case.work[way].busiest(comm))
    costs = Costs.fit(works, [row.seconds for row in rows])
    told = [
        replace(row, modelled=costs.predict(work), packing=costs.packing_share(work))
        for row, work in zip(rows, works, strict=True)
    ]
    return Found(told, costs.told())


def _fault(subject: str, shape: tuple[int, ...], dtype: str) -> DatatypeError | None:
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
    """Return quarters, halves and the whole of a shape, as far as they are not too small."""
    smaller = [tuple(max(least, n // part // least * least) for n in shape) for part in _SIZES]
    return sorted({*smaller[:-1], shape}, key=lambda sizes: int(np.prod(sizes)))


def _transposes(comm: Communicator, shape: tuple[int, ...], dtype: str) -> Iterator[_Case]:
    for sizes in _sizes(shape, 1):
        n = len(sizes)
        before = Layout(sizes, (comm.size, *[1] * (n - 1)))
        for order in (tuple(range(n)), tuple(range(n - 1, -1, -1))):
            after = Layout(sizes, (1, comm.size, *[1] * (n - 2)), order)
            turned = "" if order[0] == 0 else ", turned"
            yield _transpose(comm, before, after, dtype, f"{'x'.join(map(str, sizes))}{turned}")


def _transpose(comm: Communicator, before: Layout, after: Layout, dtype: str, name: str) -> _Case:
    target = after.empty(comm.rank, dtype)
    expected = _numbered(after, comm.rank, dtype)
    plans = {way: Redistribution(comm, before, after, dtype, way, "first") for way in WAYS}
    plans[_IN_WINDOW] = Redistribution(comm, before, after, dtype, "shared", "first")
    run: dict[str, Callable[[], object]] = {}
    work, correct = {}, {}
    for way, plan in plans.items():
        source = plan.empty_source() if way == _IN_WINDOW else before.empty(comm.rank, dtype)
        source[...] = _numbered(before, comm.rank, dtype)
        after.lying(target).reshape(-1).view(np.uint8)[...] = 255
        correct[way] = bool(np.array_equal(plan.run(source, target), expected))
        work[way] = plan.work()
        run[way] = functools.partial(plan.run, source, target)
    return _Case(name, int(comm.max(target.nbytes)), run, work, correct)


def _numbered(layout: Layout, rank: int, dtype: str) -> AnyArray:
    """Return this rank's part of an array in which each element is its number, as far as the dtype goes."""
    steps = np.cumprod([1, *layout.shape[:0:-1]])[::-1]
    part = np.ix_(*(np.arange(p.start, p.stop) * n for p, n in zip(layout.box(rank), steps, strict=True)))
    numbers = sum(part, np.zeros((), np.int64))
    return (np.asarray(numbers) % 127 if np.dtype(dtype).itemsize < 8 else np.asarray(numbers)).astype(dtype)


def _halos(comm: Communicator, block: tuple[int, ...]) -> Iterator[_Case]:
    grid = spread(comm.size, len(block))
    for sizes in _sizes(block, 2):
        shape = tuple(n * p for n, p in zip(sizes, grid, strict=True))
        lattice = Lattice(shape, grid, comm.rank)
        yield _halo(comm, lattice, f"{'x'.join(map(str, sizes))} a rank")


def _halo(comm: Communicator, lattice: Lattice, name: str) -> _Case:
    site = np.arange(np.prod(lattice.shape)).reshape(lattice.shape)
    whole = np.repeat(site[..., None], 3, axis=-1).astype(complex)
    run: dict[str, Callable[[], object]] = {}
    work, correct = {}, {}
    for way in HALO_WAYS:
        field = Field(comm, lattice, "vector", way=way)
        field.values[...] = lattice.take(whole)

        def both(field: Field = field) -> None:
            for parity in range(N_PARITIES):
                field.exchange(parity)

        both()
        correct[way] = all(
            np.array_equal(
                field.values[lattice.neighbours[:, to.number]],
                lattice.take(np.roll(whole, -1 if to.up else 1, to.axis))[: lattice.n_sites],
            )
            for to in lattice.directions
        )
        comm.barrier()
        work[way], run[way] = field.work(), both
    ghosts = (lattice.n_rows - lattice.n_sites) * 48
    return _Case(name, max(1, int(comm.max(ghosts))), run, work, correct)


def spread(n_ranks: int, n_axes: int) -> tuple[int, ...]:
    """Return a grid of so many ranks, as even as their factors let it be; the first axes get more."""
    grid = [1] * n_axes
    left, factor, factors = n_ranks, 2, []
    while left > 1:
        while left % factor == 0:
            factors.append(factor)
            left //= factor
        factor += 1
    for factor in sorted(factors, reverse=True):
        grid[int(np.argmin(grid))] *= factor
    return tuple(sorted(grid, reverse=True))


def _copy_seconds(comm: Communicator, n_bytes: int, turns: int) -> float:
    source, target = np.ones(n_bytes, np.uint8), np.empty(n_bytes, np.uint8)
    return time_in_turns(comm, {"copy": lambda: np.copyto(target, source)}, turns)["copy"]


def table(found: Found, where: dict[str, Any]) -> str:
    """Return what was found as text; `where` is that of `measured.place`."""
    ranks = "one rank" if where["ranks"] == 1 else f"{where['ranks']} ranks"
    lines = [f"{ranks} on {where['cores']} cores, {where['mpi']}"]
    head = f"  {'way':14}{'time':>11}{'GB/s':>8}{'of a copy':>11}{'correct':>9}{'model':>11}{'packing':>9}"
    case = ""
    for row in found.rows:
        if row.case != case:
            case = row.case
            lines += ["", f"{case}, {row.n_bytes:,} bytes a rank", head]
        lines.append(
            f"  {row.way:14}{1e3 * row.seconds:>8.3f} ms{row.bandwidth / 1e9:>8.2f}"
            f"{row.of_a_copy / row.seconds:>11.0%}{'yes' if row.correct else 'NO':>9}"
            f"{1e3 * row.modelled:>8.3f} ms{row.packing:>9.0%}"
        )
    return "\n".join([*lines, "", f"model: {found.costs}"])


def as_json(found: Found, where: dict[str, Any]) -> str:
    """Return what was found as JSON, times in seconds."""
    rows = [{**asdict(row), "bandwidth": row.bandwidth} for row in found.rows]
    return json.dumps({"where": where, "rows": rows, "model": found.costs}, indent=2)
