"""Collectives that are prepared once, and go on while a rank does other work."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from weakref import WeakKeyDictionary

import numpy as np

from petacomm.base.arguments import require_arrays
from petacomm.base.display import Displayed
from petacomm.base.errors import require_known
from petacomm.base.typing import AnyArray, Int64Array
from petacomm.collectives.calls import SEGMENT, RankPlacement, agreed_schedule
from petacomm.collectives.executor import Execution, ExecutionTraffic, PreparedSchedule
from petacomm.collectives.operations import Reduction
from petacomm.mpi.agreement import agree_on_errors
from petacomm.mpi.communicator import Communicator
from petacomm.schedule import ScheduleError
from petacomm.schedule.catalogue import PUBLISHED
from petacomm.schedule.schedule import Collective
from petacomm.topology import Torus

_VECTORS = ("broadcast", "reduce", "allreduce")
# Tags of their messages, of which MPI has at least 32,768; the next one of each communicator.
_FIRST_TAG, _LAST_TAG = 1000, 32767
_tags: WeakKeyDictionary[Communicator, Iterator[int]] = WeakKeyDictionary()
# What this process has started: a rank that waits for one goes on with all, as others may wait for those.
_under_way: list[Execution] = []


class PersistentCollective(Displayed):
    """A broadcast, reduce or all-reduce that is prepared once, then started and waited for. Collective.

    As MPI's persistent collectives (``MPI_Allreduce_init``), with the algorithms and the bits of
    `petacomm.allreduce`. Several may be under way at once, started and waited for in any order. Rounds go on
    in `test` and `wait` alone, those of all that are under way: a rank with much other work calls `test` now
    and then, and none waits for others by other means before it has waited for these.

    Parameters
    ----------
    comm : Communicator
    collective : str
        "broadcast", "reduce" or "allreduce".
    like : array
        Of the shape and dtype of what `start` will get, the same on all ranks.
    op : str or callable
        As for `petacomm.allreduce`.
    root : int
        Of a broadcast or a reduce.
    algorithm : str
        Name of the algorithm, or "published" for the published switching points.
    grid : Torus, optional
        Torus or mesh whose nodes the ranks fill.
    ranks : int64 (size,), optional
        Rank at each node of the grid; by default in rank order.
    segment : int
        Bytes of the segments of a pipelined algorithm; 0 for no segments.

    Attributes
    ----------
    schedule : Schedule
    traffic : ExecutionTraffic
        Messages and bytes of this rank in the last execution.

    Raises
    ------
    ScheduleError
        On all ranks, if arguments differ between ranks or the algorithm cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> total = petacomm.PersistentCollective(petacomm.world(), "allreduce", np.empty(2))
    >>> total.start(np.array([1.0, 2.0]))
    >>> total.wait()
    array([1., 2.])
    """

    def __init__(
        self,
        comm: Communicator,
        collective: Collective,
        like: AnyArray,
        op: Reduction = "sum",
        *,
        root: int = 0,
        algorithm: str = PUBLISHED,
        grid: Torus | None = None,
        ranks: Int64Array | None = None,
        segment: int = SEGMENT,
    ) -> None:
        with agree_on_errors(comm):
            require_known("no persistent collective", collective, _VECTORS)
            require_arrays(like=like)
        place = RankPlacement(grid, ranks)
        self.schedule = agreed_schedule(
            comm, collective, like, like.size, root, algorithm, place, segment, op=op
        )
        self._op = op
        tags = _tags.setdefault(comm, itertools.cycle(range(_FIRST_TAG, _LAST_TAG + 1)))
        self._prepared = PreparedSchedule(comm, self.schedule, tag=next(tags))
        self._values = np.empty(like.shape, like.dtype)
        self._execution: Execution | None = None
        self.traffic = ExecutionTraffic()

    def _facts(self) -> dict[str, object]:
        return {
            "collective": self.schedule.collective,
            "algorithm": self.schedule.algorithm,
            "values": f"{self._values.dtype} {self._values.shape}",
            "under_way": self._execution is not None,
        }

    def start(self, array: AnyArray) -> None:
        """Begin with the values of an array, which may be changed at once.

        Parameters
        ----------
        array : array
            Of the shape and dtype that were told; of a broadcast, that of the root counts.

        Raises
        ------
        ScheduleError
            If it has another shape or dtype, or the last start was not waited for.
        """
        require_arrays(array=array)
        if (array.shape, array.dtype) != (self._values.shape, self._values.dtype):
            raise ScheduleError(
                f"an array of {array.dtype} {array.shape} where {self._values.dtype} {self._values.shape} "
                "was told",
                mend="prepare another one for it",
            )
        if self._execution is not None:
            raise ScheduleError("started twice", mend="wait for it before the next start")
        self._values[...] = array
        self._execution = self._prepared.begin([self._values.reshape(-1)], self._op)
        _under_way.append(self._execution)
        _go_on()

    def test(self) -> bool:
        """Go on as far as messages have come.

        Returns
        -------
        bool
            Whether `wait` would return at once.

        Raises
        ------
        ScheduleError
            If it was not started.
        """
        execution = self._started()
        _go_on()
        return execution not in _under_way

    def wait(self) -> AnyArray | None:
        """Go on to the end.

        Returns
        -------
        array or None
            The result, valid until the next start; None on ranks that receive none.

        Raises
        ------
        ScheduleError
            If it was not started.
        """
        execution = self._started()
        while execution in _under_way and len(_under_way) > 1:
            _go_on()
            os.sched_yield()
        if execution in _under_way:
            execution.advance(wait=True)
            _under_way.remove(execution)
        self.traffic, self._execution = execution.traffic, None
        has_result = self.schedule.collective != "reduce" or self._prepared.comm.rank == self.schedule.root
        return self._values if has_result else None

    def _started(self) -> Execution:
        if self._execution is None:
            raise ScheduleError("not started", mend="call start first")
        return self._execution


def _go_on() -> None:
    """Go on with all that is under way as far as messages have come."""
    _under_way[:] = [one for one in _under_way if not one.advance(wait=False)]
