"""The communicator of a single process, and the choice between it and the MPI communicator."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import numpy as np

from petacomm.base.launcher import launched_size
from petacomm.base.threads import available_threads
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.mpi.communicator import SPARSE_SIZE, CollectiveTraffic, Communicator, MpiCommunicator, Operation
from petacomm.mpi.launch import unlink_mpi_memory
from petacomm.mpi.persistent import AlltoallvBuffers, PersistentExchange, SerialExchange, Transport
from petacomm.mpi.shared_memory import SharedWindow, private_window


class SerialCommunicator:
    """Communicator of a single process: collectives are the identity and copy only if they must."""

    def __init__(self) -> None:
        self.rank = 0
        self.size = 1
        self.sparse_size = SPARSE_SIZE
        self.mpi_library: str | None = None
        self.traffic: dict[str, CollectiveTraffic] = {}

    @property
    def bytes_sent(self) -> int:
        return 0

    @property
    def messages_sent(self) -> int:
        return 0

    @property
    def collectives_called(self) -> int:
        return 0

    def allreduce(self, array: AnyArray, op: Operation = "sum") -> AnyArray:
        return array

    def reduce_scatter(self, array: AnyArray, counts: Int64Array, part: AnyArray, op: Operation) -> None:
        part[...] = array

    def allgatherv(self, part: AnyArray, counts: Int64Array, array: AnyArray) -> None:
        array[...] = part

    def gather_exchange(self, part: AnyArray, counts: Int64Array, array: AnyArray) -> PersistentExchange:
        return SerialExchange(part, array)

    def sum(self, value: int) -> int:
        return int(value)

    def max(self, value: float) -> float:
        return float(value)

    def bcast(self, value: Any, root: int = 0) -> Any:
        return value

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        return [value]

    def allgather(self, value: Any) -> list[Any]:
        return [value]

    def allgather_rows(self, rows: AnyArray) -> tuple[AnyArray, Int64Array]:
        return rows, np.array([len(rows)], np.int64)

    def alltoallv(self, rows: AnyArray, counts: Int64Array) -> tuple[AnyArray, Int64Array]:
        return rows, counts

    def sparse_alltoallv(self, rows: AnyArray, counts: Int64Array) -> tuple[AnyArray, Int64Array]:
        return rows, counts

    def alltoallv_into(self, buffers: AlltoallvBuffers) -> None:
        if buffers.largest:
            buffers.receive[...] = buffers.send

    def persistent_exchange(self, transport: Transport, buffers: AlltoallvBuffers) -> PersistentExchange:
        return SerialExchange(buffers.send, buffers.receive)

    def gather_rows(self, rows: AnyArray, root: int = 0) -> AnyArray | None:
        return rows

    def barrier(self) -> None:
        pass

    def node_size(self) -> int:
        return 1

    def threads(self) -> int:
        return available_threads()

    def node(self) -> Communicator:
        return self

    def peers(self) -> Communicator:
        return self

    @property
    def node_of(self) -> Int32Array:
        return np.zeros(1, np.int32)

    def split(self, color: int) -> Communicator:
        return self

    def shared_window(self, n_bytes: int) -> SharedWindow:
        return private_window(n_bytes)

    def abort(self, code: int) -> NoReturn:
        raise SystemExit(code)


@functools.cache
def world() -> Communicator:
    """Return the communicator of all processes of this run: serial unless a launcher started several.

    Returns
    -------
    Communicator
        The same object in each call.

    Raises
    ------
    ResourceError
        If a launcher started several processes and mpi4py is missing or belongs to another MPI.

    Examples
    --------
    >>> import petacomm
    >>> comm = petacomm.world()  # without a launcher
    >>> comm.rank, comm.size
    (0, 1)
    """
    if launched_size() == 1:
        return SerialCommunicator()
    comm = MpiCommunicator()
    comm.barrier()
    unlink_mpi_memory()
    return comm
