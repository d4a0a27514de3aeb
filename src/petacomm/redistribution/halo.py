"""Fields on lattices, and exchanges of their halos."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import instance_error, require_dtype, require_integer
from petacomm.base.errors import ConfigError, did_you_mean, is_known
from petacomm.base.typing import AnyArray, Int32Array, Int64Array, UInt8Array
from petacomm.mpi.agreement import agree, agree_on_errors, require_communicator
from petacomm.mpi.autotuner import MethodChoice, choose_fastest
from petacomm.mpi.communicator import Communicator, MpiCommunicator
from petacomm.mpi.datatypes import Datatypes, MessageExchange, NeighborAlltoallwExchange, TypedBuffer
from petacomm.mpi.persistent import EmptyExchange, PersistentExchange, RequestExchange
from petacomm.mpi.shared_memory import SharedWindow
from petacomm.redistribution._redistribution import RunLists, cut_lists, move_rows
from petacomm.redistribution.argument_checks import method_error, require_same_arguments
from petacomm.redistribution.array_layout import DatatypeError
from petacomm.redistribution.block_pattern import BlockPattern
from petacomm.redistribution.exchange_cost import ExchangeWork
from petacomm.redistribution.lattice import N_PARITIES, Lattice, LatticeDirection

# Complex numbers on a site: 3 colours; half a spinor, of 2 spins with 3 colours; a 3 x 3 matrix.
OBJECTS = {"vector": 3, "half": 6, "matrix": 9}
_PARITIES = tuple(range(N_PARITIES))


class LatticeField(MethodChoice):
    """Field on the sites and the ghosts of a lattice block, and its halo exchange. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    lattice : Lattice
        Block of this rank; its grid has as many ranks as `comm`.
    kind : str
        One of `OBJECTS`.
    dtype : dtype
        complex128 or complex64.
    method : str
        One of `HALO_METHODS`, or "auto": the fastest, timed in the first exchange and cached.

    Attributes
    ----------
    values : array (n_rows, k)
        Field on the even sites, the odd sites and the ghosts of this rank.
    choice : Choice or None
        Choice of "auto"; None before the first exchange.

    Raises
    ------
    DatatypeError
        On all ranks, if these do not fit each other.

    Examples
    --------
    >>> import petacomm
    >>> comm = petacomm.world()
    >>> lattice = petacomm.Lattice((4, 4), (comm.size, 1), comm.rank)
    >>> field = petacomm.LatticeField(comm, lattice, "vector")
    >>> field.values.shape  # no ghosts in a single process
    (16, 3)
    >>> field.exchange(parity=0)
    """

    def __init__(
        self,
        comm: Communicator,
        lattice: Lattice,
        kind: str = "vector",
        dtype: npt.DTypeLike = np.complex128,
        method: str = "auto",
    ) -> None:
        require_communicator(comm)
        self.comm, self.lattice, self.kind, self.method = comm, lattice, kind, method
        with agree_on_errors(comm):
            self.dtype = require_dtype(dtype)
        agree(comm, self._argument_error())
        require_same_arguments(comm, f"{kind} {self.dtype} on {lattice.layout}, {method}")
        row_bytes = OBJECTS[kind] * self.dtype.itemsize
        # In memory that the node shares, so that neighbours on the node can read it.
        self._window = comm.shared_window(lattice.n_rows * row_bytes)
        self.values = _values_in_window(self._window, self._window.rank, lattice, kind, self.dtype)
        self._exchanges: dict[tuple[str, int], HaloExchange] = {}
        self._pending: HaloExchange | None = None

    def exchange(self, parity: int) -> None:
        """Fill the ghosts of a parity with the values of their owners. Collective.

        Parameters
        ----------
        parity : int
            0 for even sites, 1 for odd sites.
        """
        self.start(parity)
        self.wait()

    def start(self, parity: int) -> None:
        """Start an exchange; sites of the parity must not change before `wait`. Collective.

        Parameters
        ----------
        parity : int
            0 for even sites, 1 for odd sites.
        """
        require_integer(parity, "parity", 0, _PARITIES[-1])
        if self._pending is not None:
            raise DatatypeError("a halo begins before the last one has ended", mend="`wait` before")
        if self.chosen is None:
            self._choose()
        self._pending = self._exchange(str(self.chosen), parity)
        self._pending.start()

    def wait(self) -> None:
        """Wait until the ghosts are filled. Collective."""
        exchange, self._pending = self._pending, None
        if exchange is None:
            raise DatatypeError("no halo is pending", mend="`start` before")
        exchange.wait()

    def work(self) -> ExchangeWork:
        """Return the work of this rank for both parities, once these were exchanged. Not collective.

        Returns
        -------
        ExchangeWork
        """
        exchanges = (self._exchanges[str(self.chosen), parity] for parity in _PARITIES)
        return sum((exchange.work() for exchange in exchanges), ExchangeWork())

    def _choose(self) -> None:
        def call(name: str) -> Callable[[], None]:
            def once() -> None:
                for parity in _PARITIES:
                    self._exchange(name, parity).run()

            return once

        subject = ("halo", str(self.lattice.layout), self.kind, self.dtype.str)
        self.choice = choose_fastest(self.comm, subject, {name: call(name) for name in HALO_METHODS})
        for name, parity in [key for key in self._exchanges if key[0] != self.choice.name]:
            self._exchanges.pop((name, parity)).free()

    def _exchange(self, name: str, parity: int) -> HaloExchange:
        if (name, parity) not in self._exchanges:
            self._exchanges[name, parity] = HALO_METHODS[name](self, parity, self._window)
        return self._exchanges[name, parity]

    def _argument_error(self) -> ConfigError | None:
        error = instance_error(self.lattice, "lattice", Lattice, "give Lattice(shape, grid, comm.rank)")
        if error is not None:
            return error
        if not is_known(self.kind, OBJECTS):
            return DatatypeError(f"no object '{self.kind}'", mend=did_you_mean(self.kind, list(OBJECTS)))
        if self.dtype.char not in "FD":
            return DatatypeError(f"a field of {self.dtype}", mend="complex128 or complex64")
        n_ranks = self.lattice.layout.n_ranks
        if n_ranks != self.comm.size or self.lattice.rank != self.comm.rank:
            return DatatypeError(
                f"a lattice of rank {self.lattice.rank} of {n_ranks}",
                where=f"rank {self.comm.rank} of {self.comm.size}",
                mend="grid and rank must be those of the communicator",
            )
        return method_error(self.method, HALO_METHODS)


class HaloExchange(PersistentExchange):
    """Exchange that fills the ghosts of a parity. Collective.

    Parameters
    ----------
    field : LatticeField
    parity : int
    window : SharedWindow
        Memory of the fields of the node.
    """

    name: ClassVar[str]

    def __init__(self, field: LatticeField, parity: int, window: SharedWindow) -> None:
        self.comm, self.field, self.parity = field.comm, field, parity
        lattice = field.lattice
        faces = [(to, lattice.face(to, parity)) for to in self._opposite_directions(lattice)]
        ghosts = [(to, lattice.ghosts[to.number, parity]) for to in lattice.remote_directions]
        self._faces = [(lattice.neighbour(to), rows) for to, rows in faces if len(rows)]
        self._ghosts = [(to, rows) for to, rows in ghosts if rows.stop > rows.start]
        self._messages: EmptyExchange | RequestExchange = EmptyExchange()

    def start(self) -> None:
        self._messages.pin(self.field.values)
        self._messages.start()

    def wait(self) -> None:
        self._messages.wait()

    def free(self) -> None:
        self._messages.free()

    @staticmethod
    def _opposite_directions(lattice: Lattice) -> list[LatticeDirection]:
        # What is sent down is received from above. With two ranks along an axis both messages are between the
        # same ranks, which must list them in the same order.
        return [LatticeDirection(to.axis, not to.up) for to in lattice.remote_directions]

    @abc.abstractmethod
    def work(self) -> ExchangeWork:
        """Return the work of this rank in one exchange."""

    def _message_work(self, faces: list[tuple[int, Int64Array]]) -> ExchangeWork:
        row_bytes = self.field.values.shape[1] * self.field.dtype.itemsize
        return ExchangeWork(messages=len(faces), wire_bytes=row_bytes * sum(len(rows) for _, rows in faces))

    def _n_blocks(self, faces: list[tuple[int, Int64Array]]) -> int:
        return sum(1 + int(np.count_nonzero(np.diff(rows) != 1)) for _, rows in faces)


class PackedHaloExchange(HaloExchange):
    """Halo exchange that packs faces into messages and receives into the ghosts."""

    name = "packed"

    def __init__(self, field: LatticeField, parity: int, window: SharedWindow) -> None:
        super().__init__(field, parity, window)
        rows = [rows for _, rows in self._faces]
        counts = [len(part) for part in rows]
        self._face_rows = _FaceRows(np.concatenate(rows) if rows else np.empty(0, np.int64))
        self._send_buffer = np.empty((sum(counts), field.values.shape[1]), field.dtype)
        if isinstance(field.comm, MpiCommunicator):
            ends = np.cumsum(counts)
            sends = [
                (other, _as_bytes(self._send_buffer[end - n : end]))
                for (other, _), n, end in zip(self._faces, counts, ends, strict=True)
            ]
            neighbour = field.lattice.neighbour
            receives = [(neighbour(to), _as_bytes(field.values[part])) for to, part in self._ghosts]
            self._messages = MessageExchange(field.comm, receives, sends)

    def start(self) -> None:
        self._face_rows.copy(self.field.values, self._send_buffer)
        self._messages.pin(self._send_buffer)
        super().start()

    def work(self) -> ExchangeWork:
        work = self._message_work(self._faces)
        return work + ExchangeWork(copied_blocks=self._n_blocks(self._faces), copied_bytes=work.wire_bytes)


class DatatypeHaloExchange(HaloExchange):
    """Halo exchange that sends faces by contiguous, vector or indexed datatypes, without copies."""

    name = "datatypes"
    _exchange_type: ClassVar[Callable[..., MessageExchange | NeighborAlltoallwExchange]] = MessageExchange

    def __init__(self, field: LatticeField, parity: int, window: SharedWindow) -> None:
        super().__init__(field, parity, window)
        if isinstance(field.comm, MpiCommunicator):
            self._types = Datatypes(field.comm)
            neighbour, values = field.lattice.neighbour, field.values
            sends = [
                (other, self._face_buffer(rows)) for other, rows in self._faces if self._by_message(other)
            ]
            receives = [
                (neighbour(to), self._types.row_blocks(values, part.start, part.stop - part.start))
                for to, part in self._ghosts
                if self._by_message(neighbour(to))
            ]
            self._messages = type(self)._exchange_type(field.comm, receives, sends, self._types)

    def _by_message(self, other: int) -> bool:
        """Return whether this rank and another one exchange messages."""
        return True

    def _face_buffer(self, rows: Int64Array) -> TypedBuffer:
        pattern = BlockPattern.from_rows(rows)
        return self._types.row_blocks(
            self.field.values, int(rows[0]), pattern.length, pattern.starts, pattern.loops
        )

    def work(self) -> ExchangeWork:
        faces = [(other, rows) for other, rows in self._faces if self._by_message(other)]
        work = self._message_work(faces)
        return work + ExchangeWork(typed_blocks=self._n_blocks(faces), typed_bytes=work.wire_bytes)


class NeighborHaloExchange(DatatypeHaloExchange):
    """Halo exchange by the same datatypes in one neighbourhood collective."""

    name = "neighbourhood"
    _exchange_type = NeighborAlltoallwExchange


class SharedMemoryHaloExchange(DatatypeHaloExchange):
    """Halo exchange that reads faces of neighbours on this node from their memory; others send datatypes."""

    name = "shared"

    def __init__(self, field: LatticeField, parity: int, window: SharedWindow) -> None:
        super().__init__(field, parity, window)
        self._window, self._ticket = window, 0
        self._reads = [
            self._read(to, part)
            for to, part in self._ghosts
            if not self._by_message(field.lattice.neighbour(to))
        ]

    def _by_message(self, other: int) -> bool:
        node_of = self.comm.node_of
        return bool(node_of[other] != node_of[self.comm.rank])

    def _read(self, to: LatticeDirection, ghosts: slice) -> tuple[_FaceRows, AnyArray, AnyArray]:
        """Return the rows of a face of a neighbour, the neighbour's field, and the ghosts to be filled."""
        lattice, field, node_of = self.field.lattice, self.field, self.comm.node_of
        neighbour = Lattice(lattice.shape, lattice.grid, lattice.neighbour(to))
        node_rank = int(np.count_nonzero(node_of[: neighbour.rank] == node_of[neighbour.rank]))
        values = _values_in_window(self._window, node_rank, neighbour, field.kind, field.dtype)
        face = neighbour.face(LatticeDirection(to.axis, not to.up), self.parity)
        return _FaceRows(face), values, field.values[ghosts]

    def start(self) -> None:
        super().start()
        self._ticket = self._window.arrive()

    def wait(self) -> None:
        self._window.wait(self._ticket)
        for face_rows, values, ghosts in self._reads:
            face_rows.copy(values, ghosts)
        # Neighbours may write to the faces that were read only after all ranks of the node have read them.
        self._window.barrier()
        super().wait()

    def work(self) -> ExchangeWork:
        faces = [(other, rows) for other, rows in self._faces if not self._by_message(other)]
        bytes_read = sum(ghosts.nbytes for _, _, ghosts in self._reads)
        reads = ExchangeWork(copied_blocks=self._n_blocks(faces), copied_bytes=bytes_read, waits=2)
        return super().work() + reads


HALO_METHODS: dict[str, type[HaloExchange]] = {
    exchange.name: exchange
    for exchange in (
        PackedHaloExchange,
        DatatypeHaloExchange,
        NeighborHaloExchange,
        SharedMemoryHaloExchange,
    )
}


class _FaceRows:
    """Rows of a complex field that are copied to contiguous memory."""

    def __init__(self, rows: Int64Array) -> None:
        self._n = len(rows)
        positions, ends = rows.astype(np.int32), np.array([0, self._n])
        bounds = np.empty(2, np.int64)
        n_runs = cut_lists(positions, ends, None, None, bounds)
        starts: Int32Array = np.empty(n_runs, np.int32)
        lengths: UInt8Array = np.empty(n_runs, np.uint8)
        cut_lists(positions, ends, starts, lengths, bounds)
        self._rows = RunLists(starts, lengths, bounds)

    def copy(self, values: AnyArray, out: AnyArray) -> None:
        """Copy these rows of `values` to `out`."""
        real = out.real.dtype
        move_rows(values.view(real), self._rows, out.view(real), None, self._n, 1)


def _values_in_window(
    window: SharedWindow, node_rank: int, lattice: Lattice, kind: str, dtype: np.dtype[Any]
) -> AnyArray:
    """Return the field of a rank of the node in a window."""
    begin, k = int(window.offsets[node_rank]), OBJECTS[kind]
    n_bytes = lattice.n_rows * k * dtype.itemsize
    return window.bytes[begin : begin + n_bytes].view(dtype).reshape(lattice.n_rows, k)


def _as_bytes(rows: AnyArray) -> AnyArray:
    return rows.reshape(-1).view(np.uint8)
