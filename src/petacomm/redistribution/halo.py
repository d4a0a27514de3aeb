"""Halos: faces of a rank's block of a lattice, sent from where they lie to where its neighbours read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import did_you_mean
from petacomm.base.typing import AnyArray, Int32Array, Int64Array, UInt8Array
from petacomm.mpi.agreement import agree
from petacomm.mpi.autotuner import Choice, choose_fastest
from petacomm.mpi.communicator import Communicator, MpiCommunicator
from petacomm.mpi.datatypes import Datatypes, Messages, Neighbours, Place
from petacomm.mpi.shared_memory import SharedWindow
from petacomm.redistribution._redistribution import cut_lists, move_rows
from petacomm.redistribution.agreement import same_on_all
from petacomm.redistribution.array_layout import DatatypeError
from petacomm.redistribution.block_pattern import Pattern
from petacomm.redistribution.carrier import Carrier
from petacomm.redistribution.exchange_cost import Work
from petacomm.redistribution.lattice import N_PARITIES, Direction, Lattice

# What stands on a site: 3 colours; half a spinor, 2 spins of 3 colours; a matrix of 3 by 3.
OBJECTS = {"vector": 3, "half": 6, "matrix": 9}
_BOTH = tuple(range(N_PARITIES))


class Field:
    """Values on the sites of a block and on its ghosts, bound to their halo. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    lattice : Lattice
        Of this rank, on as many as `comm` has.
    kind : str
        One of `OBJECTS`.
    dtype : dtype
        complex128 or complex64.
    way : str
        One of `HALO_WAYS`, or "auto": the clock chooses when a halo is first exchanged, and remembers.

    Attributes
    ----------
    values : array (n_rows, k)
        The field: sites of this rank, even ones first, then ghosts. It stays where it is.
    choice : Choice or None
        What "auto" chose, once it has.

    Raises
    ------
    DatatypeError
        On all ranks, if these do not fit each other.
    """

    def __init__(
        self,
        comm: Communicator,
        lattice: Lattice,
        kind: str = "vector",
        dtype: npt.DTypeLike = np.complex128,
        way: str = "auto",
    ) -> None:
        self.comm, self.lattice, self.kind, self.way = comm, lattice, kind, way
        self.dtype = np.dtype(dtype)
        agree(comm, self._fault())
        same_on_all(comm, f"{kind} {self.dtype} on {lattice.layout}, {way}")
        row_bytes = OBJECTS[kind] * self.dtype.itemsize
        # In memory that the node shares, so that neighbours there may read it.
        self._window = comm.shared(lattice.n_rows * row_bytes)
        self.values = _field(self._window, self._window.rank, lattice, kind, self.dtype)
        self.choice: Choice | None = None
        self._made: dict[tuple[str, int], HaloWay] = {}
        self._flying: HaloWay | None = None

    @property
    def chosen(self) -> str | None:
        """The way that is taken; None while "auto" has not chosen."""
        return self.choice.name if self.choice is not None else None if self.way == "auto" else self.way

    def exchange(self, parity: int) -> None:
        """Fill the ghosts of a parity with the values of their owners. Collective."""
        self.start(parity)
        self.wait()

    def start(self, parity: int) -> None:
        """Start to fill them; sites of the parity must be left alone until `wait`. Collective."""
        if self._flying is not None:
            raise DatatypeError("a halo begins before the last one has ended", mend="`wait` before")
        if self.chosen is None:
            self._choose()
        self._flying = self._way(str(self.chosen), parity)
        self._flying.start()

    def wait(self) -> None:
        """Wait until they are filled. Collective."""
        flying, self._flying = self._flying, None
        if flying is None:
            raise DatatypeError("no halo is under way", mend="`start` before")
        flying.wait()

    def work(self) -> Work:
        """Return what this rank does for both parities, once these have been exchanged; not collective."""
        made = (self._made[str(self.chosen), parity] for parity in _BOTH)
        return sum((way.work() for way in made), Work())

    def _choose(self) -> None:
        def call(name: str) -> Callable[[], None]:
            def once() -> None:
                for parity in _BOTH:
                    way = self._way(name, parity)
                    way.start()
                    way.wait()

            return once

        what = ("halo", str(self.lattice.layout), self.kind, self.dtype.str)
        self.choice = choose_fastest(self.comm, what, {name: call(name) for name in HALO_WAYS})
        for name, parity in [key for key in self._made if key[0] != self.choice.name]:
            self._made.pop((name, parity)).free()

    def _way(self, name: str, parity: int) -> HaloWay:
        if (name, parity) not in self._made:
            self._made[name, parity] = HALO_WAYS[name](self, parity, self._window)
        return self._made[name, parity]

    def _fault(self) -> DatatypeError | None:
        if self.kind not in OBJECTS:
            return DatatypeError(f"no object '{self.kind}'", mend=did_you_mean(self.kind, list(OBJECTS)))
        if self.dtype.char not in "FD":
            return DatatypeError(f"a field of {self.dtype}", mend="complex128 or complex64")
        known = ["auto", *HALO_WAYS]
        if self.way not in known:
            return DatatypeError(f"no way '{self.way}'", mend=did_you_mean(self.way, known))
        n_ranks = self.lattice.layout.n_ranks
        if n_ranks != self.comm.size or self.lattice.rank != self.comm.rank:
            return DatatypeError(
                f"a lattice of rank {self.lattice.rank} of {n_ranks}",
                where=f"rank {self.comm.rank} of {self.comm.size}",
                mend="grid and rank must be those of the communicator",
            )
        return None


class HaloWay(Carrier):
    """One way to fill the ghosts of a parity."""

    def __init__(self, field: Field, parity: int, window: SharedWindow) -> None:
        self.comm, self.field, self.parity = field.comm, field, parity
        lattice = field.lattice
        faces = [(way, lattice.face(way, parity)) for way in self._downwards(lattice)]
        ghosts = [(way, lattice.ghosts[way.number, parity]) for way in lattice.crossing]
        self._faces = [(lattice.neighbour(way), rows) for way, rows in faces if len(rows)]
        self._ghosts = [(way, rows) for way, rows in ghosts if rows.stop > rows.start]

    @staticmethod
    def _downwards(lattice: Lattice) -> list[Direction]:
        # What goes down comes from above: on two ranks along an axis, both are between the same, in order.
        return [Direction(way.axis, not way.up) for way in lattice.crossing]

    def _sent(self, faces: list[tuple[int, Int64Array]]) -> Work:
        row_bytes = self.field.values.shape[1] * self.field.dtype.itemsize
        return Work(messages=len(faces), wire_bytes=row_bytes * sum(len(rows) for _, rows in faces))

    def _blocks(self, faces: list[tuple[int, Int64Array]]) -> int:
        return sum(1 + int(np.count_nonzero(np.diff(rows) != 1)) for _, rows in faces)


class PackedHalo(HaloWay):
    """Faces are copied into messages; ghosts are received where they belong."""

    name = "packed"

    def __init__(self, field: Field, parity: int, window: SharedWindow) -> None:
        super().__init__(field, parity, window)
        self._messages: Messages | None = None
        rows = [rows for _, rows in self._faces]
        counts = [len(part) for part in rows]
        self._taken = _Taken(np.concatenate(rows) if rows else np.empty(0, np.int64))
        self._packed = np.empty((sum(counts), field.values.shape[1]), field.dtype)
        if isinstance(field.comm, MpiCommunicator):
            ends = np.cumsum(counts)
            sends = [
                (other, _as_bytes(self._packed[end - n : end]))
                for (other, _), n, end in zip(self._faces, counts, ends, strict=True)
            ]
            neighbour = field.lattice.neighbour
            receives = [(neighbour(way), _as_bytes(field.values[part])) for way, part in self._ghosts]
            self._messages = Messages(field.comm, receives, sends)

    def start(self) -> None:
        if self._messages is not None:
            self._taken.of(self.field.values, self._packed)
            self._messages.start(self._packed, self.field.values)

    def wait(self) -> None:
        if self._messages is not None:
            self._messages.wait()

    def free(self) -> None:
        if self._messages is not None:
            self._messages.free()

    def work(self) -> Work:
        work = self._sent(self._faces)
        return work + Work(copied_blocks=self._blocks(self._faces), copied_bytes=work.wire_bytes)


class TypedHalo(HaloWay):
    """Faces are sent from where they lie by contiguous, vector or indexed types: nothing is copied here."""

    name = "datatypes"
    _carrier: ClassVar[Callable[..., Messages | Neighbours]] = Messages

    def __init__(self, field: Field, parity: int, window: SharedWindow) -> None:
        super().__init__(field, parity, window)
        self._messages: Messages | Neighbours | None = None
        if isinstance(field.comm, MpiCommunicator):
            self._types = Datatypes(field.comm)
            neighbour, values = field.lattice.neighbour, field.values
            sends = [(other, self._place(rows)) for other, rows in self._faces if self._apart(other)]
            receives = [
                (neighbour(way), self._types.rows(values, part.start, part.stop - part.start))
                for way, part in self._ghosts
                if self._apart(neighbour(way))
            ]
            self._messages = type(self)._carrier(field.comm, receives, sends)

    def _apart(self, other: int) -> bool:
        """Whether a rank gets messages."""
        return True

    def _place(self, rows: Int64Array) -> Place:
        found = Pattern.of(rows)
        return self._types.rows(self.field.values, int(rows[0]), found.length, found.starts, found.loops)

    def start(self) -> None:
        if self._messages is not None:
            self._messages.start(self.field.values)

    def wait(self) -> None:
        if self._messages is not None:
            self._messages.wait()

    def free(self) -> None:
        if self._messages is not None:
            self._messages.free()
            self._types.free()

    def work(self) -> Work:
        apart = [(other, rows) for other, rows in self._faces if self._apart(other)]
        work = self._sent(apart)
        return work + Work(typed_blocks=self._blocks(apart), typed_bytes=work.wire_bytes)


class NeighbourHalo(TypedHalo):
    """The same types in one neighbourhood collective."""

    name = "neighbourhood"
    _carrier = Neighbours


class SharedHalo(TypedHalo):
    """Faces of neighbours on this node are read from their memory; others send theirs by datatypes."""

    name = "shared"

    def __init__(self, field: Field, parity: int, window: SharedWindow) -> None:
        super().__init__(field, parity, window)
        self._window, self._ticket = window, 0
        self._reads = [
            self._read(way, part)
            for way, part in self._ghosts
            if not self._apart(field.lattice.neighbour(way))
        ]

    def _apart(self, other: int) -> bool:
        node_of = self.comm.node_of
        return bool(node_of[other] != node_of[self.comm.rank])

    def _read(self, way: Direction, ghosts: slice) -> tuple[_Taken, AnyArray, AnyArray]:
        """Return what to take of a neighbour's field, this field, and where to."""
        lattice, field, node_of = self.field.lattice, self.field, self.comm.node_of
        its = Lattice(lattice.shape, lattice.grid, lattice.neighbour(way))
        place = int(np.count_nonzero(node_of[: its.rank] == node_of[its.rank]))
        values = _field(self._window, place, its, field.kind, field.dtype)
        return _Taken(its.face(Direction(way.axis, not way.up), self.parity)), values, field.values[ghosts]

    def start(self) -> None:
        super().start()
        self._ticket = self._window.arrive()

    def wait(self) -> None:
        self._window.wait(self._ticket)
        for taken, its, ghosts in self._reads:
            taken.of(its, ghosts)
        # From now on owners may write to what was read.
        self._window.barrier()
        super().wait()

    def work(self) -> Work:
        near = [(other, rows) for other, rows in self._faces if not self._apart(other)]
        bytes_read = sum(ghosts.nbytes for _, _, ghosts in self._reads)
        read = Work(copied_blocks=self._blocks(near), copied_bytes=bytes_read, waits=2)
        return super().work() + read


HALO_WAYS: dict[str, type[HaloWay]] = {
    way.name: way for way in (PackedHalo, TypedHalo, NeighbourHalo, SharedHalo)
}


class _Taken:
    """Rows that are copied side by side."""

    def __init__(self, rows: Int64Array) -> None:
        self._n = len(rows)
        positions, ends = rows.astype(np.int32), np.array([0, self._n])
        bounds = np.empty(2, np.int64)
        n_runs = cut_lists(positions, ends, None, None, bounds)
        self._starts: Int32Array = np.empty(n_runs, np.int32)
        self._lengths: UInt8Array = np.empty(n_runs, np.uint8)
        cut_lists(positions, ends, self._starts, self._lengths, bounds)

    def of(self, values: AnyArray, out: AnyArray) -> None:
        """Copy these rows of complex values to `out`."""
        real = out.real.dtype
        move_rows(values.view(real), self._starts, self._lengths, out.view(real), None, None, self._n, 1)


def _field(window: SharedWindow, place: int, lattice: Lattice, kind: str, dtype: np.dtype[Any]) -> AnyArray:
    """Return the field of a rank in a window, where it is number `place`."""
    begin, k = int(window.offsets[place]), OBJECTS[kind]
    n_bytes = lattice.n_rows * k * dtype.itemsize
    return window.bytes[begin : begin + n_bytes].view(dtype).reshape(lattice.n_rows, k)


def _as_bytes(rows: AnyArray) -> AnyArray:
    return rows.reshape(-1).view(np.uint8)
