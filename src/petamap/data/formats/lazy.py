"""Pointing that is read from its file when it is used, once on a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ResourceError
from petacomm.base.typing import FloatArray
from petacomm.mpi import Communicator, agree_on_errors, exchange_on_nodes
from petamap.data.observation import Observation
from petamap.pointing.compressed import CompressedPointing


class LazyPointing(CompressedPointing):
    """Compressed pointing of known size whose quaternions are read at first use, and anew after `release`.

    Parameters
    ----------
    n_samp, n_det : int
        Number of samples and detectors.
    load : callable
        Reads the pointing.
    sparse : bool
        Whether the file has much less than a quaternion a sample, so that all ranks may look at all of it.
    """

    def __init__(
        self, n_samp: int, n_det: int, load: Callable[[], CompressedPointing], sparse: bool = False
    ) -> None:
        self._n_samp, self._n_det, self._load, self.sparse = n_samp, n_det, load, sparse
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:  # another rank reads it, or has it shared, when it uses it
        return LazyPointing, (self._n_samp, self._n_det, self._load, self.sparse)

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        return self._n_det

    def of_detectors(self, numbers: Sequence[int]) -> LazyPointing:
        """Return the pointing of some of the detectors, which is read at first use, too."""
        return LazyPointing(
            self.n_samp, len(numbers), lambda: self._load().of_detectors(numbers), self.sparse
        )

    def rotated(self, rotation: npt.ArrayLike) -> LazyPointing:
        """Return the pointing in another sky frame, which is read at first use, too."""
        return LazyPointing(self.n_samp, self.n_det, lambda: self._load().rotated(rotation), self.sparse)

    def turned(self, rotations: Callable[[FloatArray], FloatArray]) -> LazyPointing:
        """Return the pointing in a frame that moves, which is read at first use, too."""
        return LazyPointing(self.n_samp, self.n_det, lambda: self._load().turned(rotations), self.sparse)

    def release(self) -> None:
        """Forget what was read, when nothing else uses it for now."""
        kept = ("_n_samp", "_n_det", "_load", "_lock", "sparse")
        for name in [name for name in vars(self) if name not in kept]:
            del self.__dict__[name]

    @property
    def is_read(self) -> bool:
        """Whether the pointing is in memory."""
        return "_boresight" in vars(self)

    def read(self) -> dict[str, Any]:
        """Read the pointing, and return what `take` takes."""
        loaded = self._load()
        return vars(loaded) | {"_boresight": loaded.boresight}

    def take(self, parts: Mapping[str, Any]) -> None:
        """Take what `read` has returned, here or on another rank."""
        for name, value in parts.items():
            self.__dict__.setdefault(name, value)

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that are not set yet.
        if name in ("_load", "_lock") or name.startswith("__"):
            raise AttributeError(name)
        with self._lock:
            if name not in self.__dict__:
                self.take(vars(self._load()))
        if name not in self.__dict__:
            raise AttributeError(name)
        return self.__dict__[name]


def share_pointing(observations: Sequence[Observation], held: Sequence[int], comm: Communicator) -> None:
    """Read pointing that several ranks of a node will use once, into memory that they share. Collective.

    Ranks of a node read observations in turns. Where memory to share has no room, each reads its own later.

    Parameters
    ----------
    observations : sequence of Observation
        The same on all ranks. The pointing of those that are not held leaves memory.
    held : sequence of int
        Numbers of those whose pointing this rank uses.
    comm : Communicator

    Raises
    ------
    DataError
        On all ranks, if a file is damaged.
    """
    lazy = {number: one.pointing for number, one in enumerate(observations)}
    own = {number: one for number in held if isinstance(one := lazy[number], LazyPointing)}
    for number in lazy.keys() - own.keys():
        if isinstance(one := lazy[number], LazyPointing):
            one.release()
    if comm.max(float(comm.node_size())) == 1:
        return
    node, n_users = comm.node(), np.zeros(len(observations), np.int32)
    own = {number: one for number, one in own.items() if not one.is_read}
    n_users[list(own)] = 1
    several = np.flatnonzero(node.allreduce(n_users) > 1).tolist()
    with agree_on_errors(comm):
        read = {number: _read(lazy[number]) for number in several[node.rank :: node.size]}
    with suppress(ResourceError):
        for number, parts in exchange_on_nodes(comm, read, list(own)).items():
            own[number].take(parts)


def _read(pointing: object) -> dict[str, Any]:
    assert isinstance(pointing, LazyPointing)
    return pointing.read()
