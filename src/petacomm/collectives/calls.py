"""Collectives by schedules: the algorithm is chosen by all ranks together, checked, and then executed.

All functions are collective on their communicator. `algorithm` is "auto" or a name of
`petacomm.schedule.algorithms`; `grid` says where the ranks are, if they fill a rectangle. The tree and
the interrupt wires are there in name only: their messages are sent like all others.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.collectives.executor import Moved, execute
from petacomm.mpi.agreement import agree
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.schedule import Call, Schedule, ScheduleError, in_segments, make
from petacomm.schedule.schedule import Collective
from petacomm.topology import Torus

# Bytes of the parts that follow each other through a tree or a path.
SEGMENT = 1 << 17


@dataclass(frozen=True)
class Done:
    """A collective that has been done.

    Attributes
    ----------
    values : array
        The result; None where a rank gets none.
    schedule : Schedule
    moved : Moved
    """

    values: Any
    schedule: Schedule
    moved: Moved


@dataclass(frozen=True)
class Place:
    """Where ranks are: on which grid, and the rank at each of its nodes if these are not their numbers."""

    grid: Torus | None
    ranks: Int64Array | None


def broadcast(
    comm: Communicator,
    array: AnyArray,
    root: int = 0,
    *,
    algorithm: str = "auto",
    grid: Torus | None = None,
    ranks: Int64Array | None = None,
    segment: int = SEGMENT,
) -> Done:
    """Give all ranks the array of `root`, in place.

    Parameters
    ----------
    comm : Communicator
    array : array
        Of any dtype without Python objects and any strides; of one shape and dtype on all ranks.
    root : int
    algorithm : str
    grid : Torus, optional
    ranks : int64 (size,), optional
        The rank at each node of the grid, as `petacomm.schedule.on_machine` says. By default its number.
    segment : int
        Most bytes of a part that is passed on alone.

    Raises
    ------
    ScheduleError
        On all ranks, if their calls differ or the algorithm cannot be used.
    """
    return _vector(comm, "broadcast", array, array, "sum", root, algorithm, Place(grid, ranks), segment)


def reduce(
    comm: Communicator,
    array: AnyArray,
    op: Operation = "sum",
    root: int = 0,
    *,
    out: AnyArray | None = None,
    algorithm: str = "auto",
    grid: Torus | None = None,
    ranks: Int64Array | None = None,
    segment: int = SEGMENT,
) -> Done:
    """Reduce the arrays of all ranks on `root`: into `out`, which may be `array` itself, or a new array.

    Elsewhere nothing is written, and the values of the result are None.
    """
    target = array.copy() if out is None or comm.rank != root else out
    done = _vector(comm, "reduce", array, target, op, root, algorithm, Place(grid, ranks), segment)
    return done if comm.rank == root else Done(None, done.schedule, done.moved)


def allreduce(
    comm: Communicator,
    array: AnyArray,
    op: Operation = "sum",
    *,
    out: AnyArray | None = None,
    algorithm: str = "auto",
    grid: Torus | None = None,
    ranks: Int64Array | None = None,
    segment: int = SEGMENT,
) -> Done:
    """Reduce the arrays of all ranks on all: into `out`, which may be `array` itself, or a new array.

    All ranks get the same bits. Floating-point sums depend on the algorithm and the number of ranks;
    `petacomm.collectives.exact_allreduce` makes some that do not.
    """
    target = np.empty_like(array) if out is None else out
    return _vector(comm, "allreduce", array, target, op, 0, algorithm, Place(grid, ranks), segment)


def alltoall(
    comm: Communicator,
    array: AnyArray,
    *,
    out: AnyArray | None = None,
    algorithm: str = "auto",
    grid: Torus | None = None,
) -> Done:
    """Send ``array[r]`` to each rank r, and return what came from each: into `out`, or a new array.

    Parameters
    ----------
    array : array (size, ...)
        Of one shape and dtype on all ranks. `out` may be `array` itself.
    """
    error = None
    if not array.ndim or array.shape[0] != comm.size:
        error = ScheduleError(
            f"an array of shape {array.shape} for {comm.size} ranks", mend="give each rank one of its rows"
        )
    agree(comm, error)
    call = _call(comm, "alltoall", array, array.size // comm.size, 0, algorithm, Place(grid, None))
    schedule = _agreed(comm, call, algorithm, 0)
    target = np.empty(array.shape, array.dtype) if out is None else out
    received = _flat(np.empty(array.shape, array.dtype))
    moved = _exchange(comm, schedule, _flat(array), received)
    target[...] = received.reshape(array.shape)
    return Done(target, schedule, moved)


def alltoallv(
    comm: Communicator,
    array: AnyArray,
    counts: Int64Array,
    *,
    algorithm: str = "auto",
    grid: Torus | None = None,
) -> Done:
    """Send the next ``counts[r]`` elements of a flat array to rank r; return what came, in rank order."""
    error = None
    if (
        array.ndim != 1
        or np.shape(counts) != (comm.size,)
        or np.min(counts) < 0
        or np.sum(counts) != array.size
    ):
        error = ScheduleError(
            f"{comm.size} ranks, {np.size(counts)} counts and an array of shape {array.shape} do not fit",
            mend="give a flat array and a count for each rank, 0 or more, that add up to its size",
        )
    agree(comm, error)
    every = np.array(comm.allgather(np.asarray(counts, np.int64)))
    call = _call(comm, "alltoall", array, 0, 0, algorithm, Place(grid, None), every)
    schedule = _agreed(comm, call, algorithm, 0)
    received = np.empty(int(every[:, comm.rank].sum()), array.dtype)
    moved = _exchange(comm, schedule, _flat(array), received)
    return Done(received, schedule, moved)


def barrier(
    comm: Communicator,
    *,
    algorithm: str = "auto",
    grid: Torus | None = None,
    ranks: Int64Array | None = None,
) -> Done:
    """Wait until all ranks are here."""
    token = np.ones(1, np.uint8)
    call = _call(comm, "barrier", token, 1, 0, algorithm, Place(grid, ranks))
    schedule = _agreed(comm, call, algorithm, 0)
    return Done(None, schedule, execute(comm, schedule, [token], "or"))


def _vector(
    comm: Communicator,
    collective: Collective,
    array: AnyArray,
    target: AnyArray,
    op: Operation,
    root: int,
    algorithm: str,
    place: Place,
    segment: int,
) -> Done:
    """Do a collective on a vector: what `target` gets is its own memory if it is contiguous."""
    error = None
    if target.shape != array.shape or target.dtype != array.dtype:
        error = ScheduleError(
            f"an array of {array.dtype} {array.shape} into one of {target.dtype} {target.shape}",
            mend="give `out` the shape and dtype of the array",
        )
    agree(comm, error)
    call = _call(comm, collective, array, array.size, root, algorithm, place)
    schedule = _agreed(comm, call, algorithm, segment)
    work = _flat(target)
    if target is not array:
        work[...] = _flat(array)
    moved = execute(comm, schedule, [work], op)
    if not np.shares_memory(work, target):
        target[...] = work.reshape(target.shape)
    return Done(target, schedule, moved)


def _exchange(comm: Communicator, schedule: Schedule, sent: AnyArray, received: AnyArray) -> Moved:
    blocks = schedule.blocks
    assert blocks is not None
    # Ranks with less than most have gaps in their work space.
    gaps = [blocks.send_size - sent.size, blocks.receive_size - received.size]
    scratch = schedule.n_elements - blocks.send_size - blocks.receive_size
    empty = [np.empty(size, sent.dtype) for size in (*gaps, scratch)]
    return execute(comm, schedule, [sent, empty[0], received, empty[1], empty[2]])


def _flat(array: AnyArray) -> AnyArray:
    return np.ascontiguousarray(array).reshape(-1)


def _call(
    comm: Communicator,
    collective: Collective,
    array: AnyArray,
    n_elements: int,
    root: int,
    algorithm: str,
    place: Place,
    counts: Int64Array | None = None,
) -> Call:
    """Make the call; an error is that of all ranks."""
    call, error = None, None
    try:
        if array.dtype.hasobject:
            raise ScheduleError("an array of Python objects", mend="give numbers")
        call = Call(
            collective,
            comm.size,
            n_elements,
            max(1, array.itemsize),
            array.dtype.kind in "iub",
            root,
            place.grid,
            place.ranks,
            counts=counts,
            tree=algorithm == "tree",
            interrupts=algorithm == "interrupt",
        )
    except ScheduleError as caught:
        error = caught
    agree(comm, error)
    assert call is not None
    return call


def _agreed(comm: Communicator, call: Call, algorithm: str, segment: int) -> Schedule:
    """Return the schedule of a call that is the same on all ranks: they decide together.

    One short all-reduce finds out whether any two ranks would do different things, which would be a deadlock.
    """
    asked = {
        "collective": call.collective,
        "n_elements": call.n_elements,
        "itemsize": call.itemsize,
        "integer": call.integer,
        "root": call.root,
        "algorithm": algorithm,
        "grid": repr(call.grid),
        "ranks": 0 if call.ranks is None else zlib.crc32(np.asarray(call.ranks, np.int64).tobytes()),
        "segment": segment,
    }
    numbers = np.array([_number(value) for value in asked.values()])
    both = comm.allreduce(np.concatenate([numbers, -numbers]), "max")
    differ = np.flatnonzero(both[: len(numbers)] != -both[len(numbers) :])
    if len(differ):
        name = list(asked)[differ[0]]
        raise ScheduleError(
            f"ranks call a {call.collective} with different '{name}': here {asked[name]}",
            mend="call collectives with the same arguments on all ranks",
        )
    schedule = make(call, algorithm)
    elements = max(1, segment // call.itemsize)
    return in_segments(schedule, elements) if schedule.pipelined and segment else schedule


def _number(value: object) -> int:
    return zlib.crc32(value.encode()) if isinstance(value, str) else int(value)  # type: ignore[call-overload]
