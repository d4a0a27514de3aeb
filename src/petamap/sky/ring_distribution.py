"""Rings of a HEALPix map, and orders m of its harmonics, dealt to ranks.

Fourier transforms see one ring, Legendre transforms one order m with all rings: between the two, ranks
exchange what they have of rings for what they have of orders, which changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from petacomm.base.typing import AnyArray, ComplexArray, FloatArray, Int64Array
from petacomm.mpi import Communicator, SerialCommunicator
from petamap.sky.submaps import Submaps

Rings = Mapping[str, AnyArray]  # nphi, phi0 and ringstart of each ring, as ducc0 names them

# ducc0 computes so many pairs of rings, north and south, side by side, from the poles on. The last bits of
# rings depend on those beside them: terms below 2^-60 are left out of all of them or of none.
_SIDE_BY_SIDE = 128


def _go_on() -> None:
    """Do nothing."""


class RingDistribution:
    """Rings of a HEALPix map in ring order, dealt to ranks in turn, as orders m and multipoles l are.

    So each rank has about as many pixels, and about as many coefficients. The rank of a single process has
    all.

    Parameters
    ----------
    n_side : int
    comm : Communicator, optional
        Methods that say so are collective on it.
    submaps : Submaps, optional
        The rings that have pixels of these are dealt, and no others: for synthesis alone, which gives them
        the bits that they have in the whole map.

    Attributes
    ----------
    theta : float64 (n_rings,)
        Of all rings whose Legendre transforms are made: those dealt and, where these are not all, those
        between them and the poles and some beside, on which their bits depend.
    rings : Rings
        Of this rank, with their begins among its pixels.
    bounds : int64 (size + 1,)
        First row of each rank where pixels are rows in the order of ranks, and the number of pixels.
    between : callable
        Called on all ranks before each part of a transform, which may take minutes; it may end them all.
    """

    between: Callable[[], None]

    def __init__(self, n_side: int, comm: Communicator | None = None, submaps: Submaps | None = None) -> None:
        import ducc0

        self.n_side, self.comm = int(n_side), comm or SerialCommunicator()
        self.between = _go_on
        whole = ducc0.healpix.Healpix_Base(self.n_side, "RING").sht_info()
        self.theta: FloatArray = whole["theta"]
        self._chosen: Int64Array | None = None  # numbers of the rings dealt, among those of theta
        if submaps is not None:
            whole = self._choose(whole, submaps)
        self._n_phi, self._starts = whole["nphi"].astype(np.int64), whole["ringstart"].astype(np.int64)
        parts = self._parts(len(self._n_phi))
        self.bounds: Int64Array = np.cumsum([0, *(self._n_phi[part].sum() for part in parts)], dtype=np.int64)
        self._rows = np.empty_like(self._starts)
        for begin, part in zip(self.bounds, parts, strict=False):
            self._rows[part] = begin + np.cumsum(self._n_phi[part]) - self._n_phi[part]
        mine = self._mine = parts[self.comm.rank]
        places = (self._rows[mine] - self.bounds[self.comm.rank]).astype(whole["ringstart"].dtype)
        self.rings: Rings = {
            "nphi": whole["nphi"][mine].copy(), "phi0": whole["phi0"][mine].copy(), "ringstart": places
        }  # fmt: skip

    def _choose(self, whole: dict[str, AnyArray], submaps: Submaps) -> dict[str, AnyArray]:
        """Return the rings that have pixels of submaps, and keep what their Legendre transforms need."""
        n_rings = len(self.theta)
        ends = whole["ringstart"].astype(np.int64) + whole["nphi"].astype(np.int64)
        n_before = np.concatenate([[0], np.cumsum(submaps.held)])
        first, last = whole["ringstart"].astype(np.int64) // submaps.size, (ends - 1) // submaps.size
        dealt = np.flatnonzero(n_before[last + 1] > n_before[first])
        pairs = np.minimum(np.arange(n_rings), np.arange(n_rings)[::-1])
        made = np.flatnonzero(pairs <= pairs[dealt].max(initial=-1) + _SIDE_BY_SIDE)
        self.theta, self._chosen = self.theta[made].copy(), np.searchsorted(made, dealt)
        return {name: whole[name][dealt] for name in ("nphi", "phi0", "ringstart")}

    @property
    def n_pix(self) -> int:
        """Number of pixels of this rank."""
        return int(self.bounds[self.comm.rank + 1] - self.bounds[self.comm.rank])

    @property
    def pixels(self) -> Int64Array:
        """Numbers of the pixels of this rank, ring by ring, int64 (n_pix,)."""
        return self.pixels_of(slice(None))

    def pixels_of(self, rings: slice) -> Int64Array:
        """Return the numbers of the pixels of some of the rank's rings, ring by ring, int64."""
        starts, n_phi = self._starts[self._mine][rings], self._n_phi[self._mine][rings]
        found: Int64Array = np.repeat(starts - np.cumsum(n_phi) + n_phi, n_phi) + np.arange(int(n_phi.sum()))
        return found

    def numbers_of(self, places: Int64Array) -> Int64Array:
        """Return the numbers of pixels at places among those of this rank, int64 (n,)."""
        if self.keeps_places:
            return places
        begins = self._rows[self._mine] - self.bounds[self.comm.rank]
        ring = np.searchsorted(begins, places, side="right") - 1
        found: Int64Array = places + (self._starts[self._mine] - begins)[ring]
        return found

    def rows_of(self, pixels: Int64Array) -> Int64Array:
        """Return the row of each pixel, int64 (n,), where pixels are rows in the order of ranks."""
        if self.keeps_places:
            return pixels
        ring = np.searchsorted(self._starts, pixels, side="right") - 1
        found: Int64Array = pixels + (self._rows - self._starts)[ring]
        return found

    @property
    def keeps_places(self) -> bool:
        """Whether coefficients of the rank's rings are those of its orders: one rank has all of the map."""
        return self.comm.size == 1 and self._chosen is None

    def orders(self, last: int, first: int = 0) -> Int64Array:
        """Return those of the numbers `first` to `last` that are this rank's."""
        return np.arange(first, last + 1)[self._parts(last + 1 - first, first)[self.comm.rank]]

    def to_orders(self, legendre: ComplexArray, first: int) -> ComplexArray:
        """Return coefficients of the rank's rings as those of its orders. Collective.

        Parameters
        ----------
        legendre : complex128 (k, own rings, n)
            Of the orders from `first` on.
        first : int

        Returns
        -------
        complex128 (k, n_rings, own orders)
            The same array where there is one rank.
        """
        return self._exchanged(legendre, 0, len(self.theta), first)

    def order_memory(self, legendre: ComplexArray, n_own: int) -> ComplexArray:
        """Return memory for coefficients (k, n_rings, n_own) that `to_rings` brings to `legendre`."""
        if self.keeps_places:
            return legendre
        return np.empty((len(legendre), len(self.theta), n_own), np.complex128)

    def to_rings(self, held: ComplexArray, first: int, legendre: ComplexArray) -> None:
        """Write coefficients of the rank's orders as those of its rings, back from `to_orders`. Collective.

        Parameters
        ----------
        held : complex128 (k, n_rings, own orders)
        first : int
        legendre : complex128 (k, own rings, n)
            Of the orders from `first` on; where nothing moves, the same memory.
        """
        if self.keeps_places:
            return
        n, dealt = legendre.shape[2], held if self._chosen is None else held[:, self._chosen]
        legendre[...] = self._exchanged(dealt.swapaxes(1, 2), first, n, 0).swapaxes(1, 2)

    def to_multipoles(self, alm: ComplexArray, l_max: int) -> ComplexArray:
        """Return coefficients of the rank's orders, (k, n), as of its multipoles, m-major. Collective."""
        if self.comm.size == 1:
            return alm
        size, own = self.comm.size, self.orders(l_max)
        l = np.concatenate([np.arange(m, l_max + 1) for m in own] or [own]) % size  # noqa: E741
        order = np.argsort(l.astype(np.uint16), kind="stable")
        received, _ = self.comm.alltoallv(
            np.ascontiguousarray(alm[:, order].T), np.bincount(l, minlength=size)
        )
        multipoles, every = self.orders(l_max), np.arange(l_max + 1)
        of_order = len(multipoles) - np.searchsorted(multipoles, every)
        arrived = np.concatenate([np.repeat(every[part], of_order[part]) for part in self._parts(l_max + 1)])
        return np.ascontiguousarray(received[np.argsort(arrived.astype(np.uint16), kind="stable")].T)

    def gather_multipoles(self, rows: FloatArray, l_max: int) -> FloatArray:
        """Return values of the rank's multipoles, (k, own), as those of all, (k, l_max + 1). Collective."""
        gathered, _ = self.comm.allgather_rows(np.ascontiguousarray(rows.T))
        order = np.concatenate([np.arange(l_max + 1)[part] for part in self._parts(l_max + 1)])
        found = np.empty((len(rows), l_max + 1))
        found[:, order] = gathered.T
        return found

    def _parts(self, n: int, first: int = 0) -> list[slice]:
        """Return where each rank's numbers are among n, the first of which is `first`."""
        size = self.comm.size
        return [slice((rank - first) % size, n, size) for rank in range(size)]

    def _exchanged(self, rows: ComplexArray, first: int, n: int, first_column: int) -> ComplexArray:
        """Return (k, own of n rows from `first` on, n_columns) as (k, n, own columns)."""
        if self.comm.size == 1:
            return rows
        columns = self._parts(rows.shape[2], first_column)
        sent = [rows[:, :, part] for part in columns]
        counts = np.array([part.size for part in sent], np.int64)
        received, counts = self.comm.alltoallv(np.concatenate([part.ravel() for part in sent]), counts)
        found = np.empty((len(rows), n, sent[self.comm.rank].shape[2]), rows.dtype)
        for part, block in zip(
            self._parts(n, first), np.split(received, np.cumsum(counts)[:-1]), strict=True
        ):
            found[:, part] = block.reshape(len(rows), -1, found.shape[2]) if block.size else 0
        return found
