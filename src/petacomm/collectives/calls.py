"""Collectives by schedules of a chosen algorithm.

All functions are collective on their communicator. `algorithm` is a name of
`petacomm.schedule.algorithms`, or "published" for that of `petacomm.schedule.published_algorithm`; `grid` is
the torus or mesh whose nodes the ranks fill. The algorithms "tree" and "interrupt" are emulated: their
messages are sent over MPI like all others.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.arguments import require_arrays, require_integer, require_text, whole_array
from petacomm.base.typing import AnyArray, Int64Array
from petacomm.collectives.executor import ExecutionTraffic, execute_schedule
from petacomm.collectives.operations import Reduction, combining_function, operation_name
from petacomm.collectives.result_memory import require_result
from petacomm.mpi.agreement import agree_on_errors, require_communicator
from petacomm.mpi.communicator import Communicator
from petacomm.schedule import CollectiveCall, Schedule, ScheduleError, make_schedule, segmented
from petacomm.schedule.catalogue import PUBLISHED
from petacomm.schedule.schedule import Collective
from petacomm.topology import Torus

# Bytes of the segments of pipelined algorithms.
SEGMENT = 1 << 17


@dataclass(frozen=True)
class CollectiveResult:
    """Result of a collective.

    Attributes
    ----------
    values : array
        Result; None on ranks that receive none.
    schedule : Schedule
        Schedule that was executed.
    traffic : ExecutionTraffic
        Messages and bytes that this rank sent.
    """

    values: Any
    schedule: Schedule
    traffic: ExecutionTraffic


@dataclass(frozen=True)
class RankPlacement:
    """Grid that the ranks fill, and the rank at each of its nodes; by default in rank order."""

    grid: Torus | None
    ranks: Int64Array | None


def broadcast(
    comm: Communicator,
    array: AnyArray,
    root: int = 0,
    *,
    algorithm: str = PUBLISHED,
    grid: Torus | None = None,
    ranks: Int64Array | None = None,
    segment: int = SEGMENT,
) -> CollectiveResult:
    """Broadcast the array of `root` to all ranks, in place.

    Parameters
    ----------
    comm : Communicator
    array : array
        Any dtype without Python objects and any strides; the same shape and dtype on all ranks.
    root : int
        Rank whose array is sent.
    algorithm : str
        Name of the algorithm, or "published" for the published switching points.
    grid : Torus, optional
        Torus or mesh whose nodes the ranks fill.
    ranks : int64 (size,), optional
        Rank at each node of the grid, as returned by `petacomm.schedule.communicator_grid`; by default in
        rank order.
    segment : int
        Bytes of the segments of a pipelined algorithm; 0 for no segments.

    Returns
    -------
    CollectiveResult
        With `array` as values; on `root` a copy of one that is read-only.

    Raises
    ------
    ScheduleError
        On all ranks, if arguments differ between ranks or the algorithm cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> result = petacomm.broadcast(petacomm.world(), np.arange(3))
    >>> result.values, result.traffic.messages
    (array([0, 1, 2]), 0)
    """
    require_communicator(comm)
    is_root = isinstance(root, int | np.integer) and comm.rank == root  # else an error, which all are told
    only_read = isinstance(array, np.ndarray) and is_root and not array.flags.writeable
    target = array.copy() if only_read else array
    return _vector_collective(
        comm, "broadcast", array, target, "sum", root, algorithm, RankPlacement(grid, ranks), segment
    )


def reduce(
    comm: Communicator,
    array: AnyArray,
    op: Reduction = "sum",
    root: int = 0,
    *,
    out: AnyArray | None = None,
    algorithm: str = PUBLISHED,
    grid: Torus | None = None,
    ranks: Int64Array | None = None,
    segment: int = SEGMENT,
) -> CollectiveResult:
    """Reduce the arrays of all ranks on `root`.

    Parameters
    ----------
    comm : Communicator
    array : array
        Any dtype without Python objects and any strides; the same shape and dtype on all ranks.
    op : str or callable
        "sum", "max", "min"; "or" of integers; "maxloc" or "minloc" of structured elements, a value and its
        place, of which the lowest one counts; or a function that combines two arrays element by element,
        associative and commutative but for rounding.
    root : int
        Rank that gets the result.
    out : array, optional
        Memory of the result, which may be `array` itself; by default a new array.
    algorithm : str
        Name of the algorithm, or "published" for the published switching points.
    grid : Torus, optional
        Torus or mesh whose nodes the ranks fill.
    ranks : int64 (size,), optional
        Rank at each node of the grid, as returned by `petacomm.schedule.communicator_grid`; by default in
        rank order.
    segment : int
        Bytes of the segments of a pipelined algorithm; 0 for no segments.

    Returns
    -------
    CollectiveResult
        Its values are `out` on `root`, and None on other ranks, whose `out` is not written.

    Raises
    ------
    ScheduleError
        On all ranks, if arguments differ between ranks or the algorithm cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> petacomm.reduce(petacomm.world(), np.array([2, 5]), "max").values
    array([2, 5])
    """
    target = np.array(array) if out is None or comm.rank != root else out
    result = _vector_collective(
        comm, "reduce", array, target, op, root, algorithm, RankPlacement(grid, ranks), segment
    )
    return result if comm.rank == root else CollectiveResult(None, result.schedule, result.traffic)


def allreduce(
    comm: Communicator,
    array: AnyArray,
    op: Reduction = "sum",
    *,
    out: AnyArray | None = None,
    algorithm: str = PUBLISHED,
    grid: Torus | None = None,
    ranks: Int64Array | None = None,
    segment: int = SEGMENT,
) -> CollectiveResult:
    """Reduce the arrays of all ranks on all ranks, which get the same bits.

    Floating-point sums depend on the algorithm and the number of ranks; those of `exact_allreduce` do not.

    Parameters
    ----------
    comm : Communicator
    array : array
        Any dtype without Python objects and any strides; the same shape and dtype on all ranks.
    op : str or callable
        "sum", "max", "min"; "or" of integers; "maxloc" or "minloc" of structured elements, a value and its
        place, of which the lowest one counts; or a function that combines two arrays element by element,
        associative and commutative but for rounding.
    out : array, optional
        Memory of the result, which may be `array` itself; by default a new array.
    algorithm : str
        Name of the algorithm, or "published" for the published switching points.
    grid : Torus, optional
        Torus or mesh whose nodes the ranks fill.
    ranks : int64 (size,), optional
        Rank at each node of the grid, as returned by `petacomm.schedule.communicator_grid`; by default in
        rank order.
    segment : int
        Bytes of the segments of a pipelined algorithm; 0 for no segments.

    Returns
    -------
    CollectiveResult
        With `out` as values.

    Raises
    ------
    ScheduleError
        On all ranks, if arguments differ between ranks or the algorithm cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> petacomm.allreduce(petacomm.world(), np.array([2, 5])).values
    array([2, 5])
    """
    target = np.empty_like(array) if out is None else out
    return _vector_collective(
        comm, "allreduce", array, target, op, 0, algorithm, RankPlacement(grid, ranks), segment
    )


def alltoall(
    comm: Communicator,
    array: AnyArray,
    *,
    out: AnyArray | None = None,
    algorithm: str = PUBLISHED,
    grid: Torus | None = None,
) -> CollectiveResult:
    """Send ``array[r]`` to each rank r, and receive row r from rank r.

    Parameters
    ----------
    comm : Communicator
    array : array (size, ...)
        The same shape and dtype on all ranks.
    out : array, optional
        Memory of the result, which may be `array` itself; by default a new array.
    algorithm : str
        Name of the algorithm, or "published" for the published switching points.
    grid : Torus, optional
        Torus or mesh whose nodes the ranks fill.

    Returns
    -------
    CollectiveResult
        With `out` as values.

    Raises
    ------
    ScheduleError
        On all ranks, if arguments differ between ranks or the algorithm cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> petacomm.alltoall(petacomm.world(), np.array([[2, 5]])).values  # a row for each rank
    array([[2, 5]])
    """
    with agree_on_errors(comm):
        require_arrays(array=array)
        target = np.empty(array.shape, array.dtype) if out is None else out
        require_result(array, target)
        if not array.ndim or array.shape[0] != comm.size:
            raise ScheduleError(
                f"an array of shape {array.shape} for {comm.size} ranks",
                mend="give each rank one of its rows",
            )
    place = RankPlacement(grid, None)
    schedule = agreed_schedule(comm, "alltoall", array, array.size // comm.size, 0, algorithm, place, 0)
    received = _flat(np.empty(array.shape, array.dtype))
    traffic = _execute_alltoall(comm, schedule, _flat(array), received)
    target[...] = received.reshape(array.shape)
    return CollectiveResult(target, schedule, traffic)


def alltoallv(
    comm: Communicator,
    array: AnyArray,
    counts: Int64Array,
    *,
    algorithm: str = PUBLISHED,
    grid: Torus | None = None,
) -> CollectiveResult:
    """Send the next ``counts[r]`` elements of a flat array to each rank r, in rank order.

    Parameters
    ----------
    comm : Communicator
    array : array (sum of counts,)
        The same dtype on all ranks.
    counts : int64 (size,)
        Elements for each rank.
    algorithm : str
        Name of the algorithm, or "published" for the published switching points.
    grid : Torus, optional
        Torus or mesh whose nodes the ranks fill.

    Returns
    -------
    CollectiveResult
        Its values are the elements received, in the order of the ranks that sent them.

    Raises
    ------
    ScheduleError
        On all ranks, if arguments differ between ranks or the algorithm cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> petacomm.alltoallv(petacomm.world(), np.array([2, 5]), np.array([2])).values
    array([2, 5])
    """
    with agree_on_errors(comm):
        require_arrays(array=array)
        counts = whole_array(counts, "counts")
        shapes_fit = array.ndim == 1 and counts.shape == (comm.size,)
        if not shapes_fit or np.min(counts) < 0 or np.sum(counts) != array.size:
            raise ScheduleError(
                f"{comm.size} ranks, {np.size(counts)} counts and an array of shape {array.shape} do not fit",
                mend="give a flat array and a count for each rank, 0 or more, that add up to its size",
            )
    all_counts = np.array(comm.allgather(counts))
    place = RankPlacement(grid, None)
    schedule = agreed_schedule(comm, "alltoall", array, 0, 0, algorithm, place, 0, all_counts)
    received = np.empty(int(all_counts[:, comm.rank].sum()), array.dtype)
    traffic = _execute_alltoall(comm, schedule, _flat(array), received)
    return CollectiveResult(received, schedule, traffic)


def barrier(
    comm: Communicator,
    *,
    algorithm: str = PUBLISHED,
    grid: Torus | None = None,
    ranks: Int64Array | None = None,
) -> CollectiveResult:
    """Wait until all ranks have called this.

    Parameters
    ----------
    comm : Communicator
    algorithm : str
        Name of the algorithm, or "published" for the published switching points.
    grid : Torus, optional
        Torus or mesh whose nodes the ranks fill.
    ranks : int64 (size,), optional
        Rank at each node of the grid, as returned by `petacomm.schedule.communicator_grid`; by default in
        rank order.

    Returns
    -------
    CollectiveResult
        Without values.

    Raises
    ------
    ScheduleError
        On all ranks, if arguments differ between ranks or the algorithm cannot be used.

    Examples
    --------
    >>> import petacomm
    >>> petacomm.barrier(petacomm.world()).traffic.messages
    0
    """
    token = np.ones(1, np.uint8)
    schedule = agreed_schedule(comm, "barrier", token, 1, 0, algorithm, RankPlacement(grid, ranks), 0)
    return CollectiveResult(None, schedule, execute_schedule(comm, schedule, [token], "or"))


def _vector_collective(
    comm: Communicator,
    collective: Collective,
    array: AnyArray,
    target: AnyArray,
    op: Reduction,
    root: int,
    algorithm: str,
    place: RankPlacement,
    segment: int,
) -> CollectiveResult:
    """Do a collective on a vector, in the memory of `target` if that is contiguous."""
    with agree_on_errors(comm):
        require_result(array, target)
    schedule = agreed_schedule(comm, collective, array, array.size, root, algorithm, place, segment, op=op)
    work = _flat(target)
    if target is not array:
        work[...] = _flat(array)
    traffic = execute_schedule(comm, schedule, [work], op)
    if not np.shares_memory(work, target):
        target[...] = work.reshape(target.shape)
    return CollectiveResult(target, schedule, traffic)


def _execute_alltoall(
    comm: Communicator, schedule: Schedule, sent: AnyArray, received: AnyArray
) -> ExecutionTraffic:
    blocks = schedule.blocks
    assert blocks is not None
    # The work space of ranks that send or receive less than the most has gaps.
    gaps = [blocks.send_size - sent.size, blocks.receive_size - received.size]
    scratch = schedule.n_elements - blocks.send_size - blocks.receive_size
    empty = [np.empty(size, sent.dtype) for size in (*gaps, scratch)]
    return execute_schedule(comm, schedule, [sent, empty[0], received, empty[1], empty[2]])


def _flat(array: AnyArray) -> AnyArray:
    return np.ascontiguousarray(array).reshape(-1)


def agreed_schedule(
    comm: Communicator,
    collective: Collective,
    array: AnyArray,
    n_elements: int,
    root: int,
    algorithm: str,
    place: RankPlacement,
    segment: int,
    counts: Int64Array | None = None,
    op: Reduction = "or",
) -> Schedule:
    """Return the schedule of a call that all ranks make; an error on any is raised on all. Collective."""
    with agree_on_errors(comm):
        require_text(algorithm, "algorithm")
        if array.dtype.hasobject:
            raise ScheduleError("an array of Python objects", mend="give numbers")
        if collective in ("reduce", "allreduce"):
            combining_function(op, array.dtype)
        call = CollectiveCall(
            collective,
            comm.size,
            n_elements,
            max(1, array.itemsize),
            array.dtype.kind in "iub",
            root,
            place.grid,
            place.ranks,
            counts=counts,
            has_tree=algorithm == "tree",
            has_interrupts=algorithm == "interrupt",
        )
    return _checked_schedule(comm, call, algorithm, segment, str(array.dtype), operation_name(op))


def _checked_schedule(
    comm: Communicator, call: CollectiveCall, algorithm: str, segment: int, dtype: str, op: str
) -> Schedule:
    """Return the schedule of a call after checking that all ranks make the same call.

    Different calls would be a deadlock; one short all-reduce detects them.
    """
    arguments = {
        "collective": call.collective,
        "n_elements": call.n_elements,
        "itemsize": call.itemsize,
        "dtype": dtype,
        "op": op,
        "root": call.root,
        "algorithm": algorithm,
        "grid": repr(call.grid),
        "ranks": 0 if call.ranks is None else zlib.crc32(np.asarray(call.ranks, np.int64).tobytes()),
        "segment": segment,
    }
    numbers = np.array([_checksum(value) for value in arguments.values()])
    both = comm.allreduce(np.concatenate([numbers, -numbers]), "max")
    differ = np.flatnonzero(both[: len(numbers)] != -both[len(numbers) :])
    if len(differ):
        name = list(arguments)[differ[0]]
        raise ScheduleError(
            f"ranks call a {call.collective} with different '{name}': here {arguments[name]}",
            mend="call collectives with the same arguments on all ranks",
        )
    require_integer(segment, "segment", 0)  # which is the same on all ranks
    schedule = make_schedule(call, algorithm)
    elements = max(1, segment // call.itemsize)
    return segmented(schedule, elements) if schedule.pipelined and segment else schedule


def _checksum(value: object) -> int:
    return zlib.crc32(str(value).encode())
