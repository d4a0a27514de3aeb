"""Values on their way between the solver's vectors, the model of the preconditioner and its coarse map."""

from __future__ import annotations

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array
from petacomm.mpi import Communicator
from petacomm.redistribution.row_lists import RowLists
from petacomm.reduction import OwnedRows, ReductionPlan
from petacomm.sharing import IndexMap
from petacomm.sharing.index_map import rows_of_keys
from petamap.mapmaking.vectors import largest_sizes

_SUM_BITS = 62


class _LocalSums:
    """Sums of the rows of this rank that belong together, as integers whose order does not matter.

    Parameters
    ----------
    comm : Communicator
    numbers : int64 (n_rows,)
        What each row is added to.
    n : int
        Number of sums.
    """

    def __init__(self, comm: Communicator, numbers: Int64Array, n: int) -> None:
        self._comm, self._n = comm, n
        self._order = np.argsort(numbers, kind="stable")
        self._present, self._starts = np.unique(numbers[self._order], return_index=True)
        self._bits = _SUM_BITS - comm.sum(len(numbers)).bit_length()

    def of(self, values: FloatArray) -> tuple[Int64Array, FloatArray]:
        """Return the sums of values, (n_rows, k, width), and the scale of each column. Collective."""
        largest = self._comm.allreduce(largest_sizes(values), "max")
        scales = np.ldexp(1.0, self._bits - np.frexp(np.where(largest > 0, largest, 1.0))[1])
        sums = np.zeros((self._n, *values.shape[1:]), np.int64)
        if len(self._starts):
            scaled = values[self._order]
            scaled *= scales
            integers = np.rint(scaled, out=scaled).astype(np.int64)
            sums[self._present] = np.add.reduceat(integers, self._starts, axis=0)
        return sums, scales


class GroupSums:
    """Sums over groups of the rows that ranks own, the same to the bit on all ranks. Collective.

    Parameters
    ----------
    comm : Communicator
    groups : int64 (n_rows,)
        Any number for each group.

    Attributes
    ----------
    n : int
        Number of groups of the run.
    numbers : int64 (n_rows,)
        Group of each row, from 0.
    """

    def __init__(self, comm: Communicator, groups: Int64Array) -> None:
        every, _ = comm.allgather_rows(distinct(groups.copy())[:, None])
        keys = distinct(every.ravel().copy())
        self.n = len(keys)
        self.numbers = np.searchsorted(keys, groups).astype(np.int64)
        self._comm, self._local = comm, _LocalSums(comm, self.numbers, self.n)

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the sums of rows, (n_rows, n_stokes, width), over each group. Collective."""
        sums, scales = self._local.of(values)
        total: FloatArray = self._comm.allreduce(sums) / scales
        return total


class PixelTransfer:
    """Values between the owners of the map's pixels and the owners of the model's. Collective.

    Parameters
    ----------
    rows : OwnedRows
        Of the model.
    held : int64 (n_alive,)
        Row, among those of the model that this rank holds, of each pixel that it owns and solves for.
    alive : bool (n_owned,)
        Which pixels these are.
    hits : int64 (n_owned,)
    one_to_one : bool
        Whether a pixel of the model is one of the map.

    Attributes
    ----------
    shares : float64 (n_owned, 1, 1)
        Share of each pixel in the hits of its pixel of the model.
    """

    def __init__(
        self, rows: OwnedRows, held: Int64Array, alive: BoolArray, hits: Int64Array, one_to_one: bool
    ) -> None:
        self._rows, self._held, self._alive, self._one_to_one = rows, held, alive, one_to_one
        self._local = _LocalSums(rows.comm, held, rows.n_held)
        self._counts = np.where(alive, hits, 0).astype(np.float64)[:, None, None]
        self.shares = self._counts / np.maximum(self.prolong(self.restrict(self._counts)), 1)

    def restrict(self, values: FloatArray) -> FloatArray:
        """Return sums of values on the map's pixels, (n_owned, n, width), on those of the model."""
        chosen = values[self._alive]
        if self._one_to_one:  # bits travel as they are: nobody adds anything but zeros
            held = np.zeros((self._rows.n_held, *values.shape[1:]))
            held[self._held] = chosen
            moved: FloatArray = self._rows.scatter_rev(held.view(np.int64)).view(np.float64)
            return moved
        sums, scales = self._local.of(chosen)
        total: FloatArray = self._rows.scatter_rev(sums) / scales
        return total

    def mean(self, values: FloatArray) -> FloatArray:
        """Return means of values on the map's pixels, (n_owned, n, width), by hits, on those of the model."""
        mean: FloatArray = self.restrict(values * self._counts) / np.maximum(self.restrict(self._counts), 1)
        return mean

    def prolong(self, values: FloatArray) -> FloatArray:
        """Return values of the model's pixels on all of the map that lie in them."""
        out = np.zeros((len(self._alive), *values.shape[1:]))
        out[self._alive] = self._rows.scatter_fwd(np.ascontiguousarray(values))[self._held]
        return out


class RowTransfer:
    """Values of rows between their owners and the ranks that model their streams. Collective.

    Parameters
    ----------
    comm : Communicator
    owned, modelled : int64
        Keys of the rows that this rank owns, and of those that it models, both increasing.
    once : bool
        Whether no row is modelled by two ranks, so that one which its owner models has not to be sent.
    n_threads : int, optional
    """

    def __init__(
        self,
        comm: Communicator,
        owned: Int64Array,
        modelled: Int64Array,
        *,
        once: bool,
        n_threads: int = 1,
    ) -> None:
        stays_owned, stays_modelled = (
            np.isin(these, those, assume_unique=True) & once
            for these, those in ((owned, modelled), (modelled, owned))
        )
        sent, got = owned[~stays_owned], modelled[~stays_modelled]
        keys = distinct(np.concatenate([sent, got]))
        self._plan = None
        if comm.max(len(keys)) > 0:
            self._plan = ReductionPlan(
                IndexMap(comm, keys), algorithm="owner", n_threads=n_threads, checks="first"
            )
        self._n_keys, self._n_threads = len(keys), n_threads
        self._owned, self._modelled = (
            _Ends(stays, rows_of_keys(keys, moved))
            for stays, moved in ((stays_owned, sent), (stays_modelled, got))
        )

    def to_model(self, values: FloatArray) -> FloatArray:
        """Return values at the owners, (n_owned, 1, width), where they are modelled."""
        return self._move(values, self._owned, self._modelled)

    def from_model(self, values: FloatArray) -> FloatArray:
        """Return values where they are modelled, (n_modelled, 1, width), at the owners."""
        return self._move(values, self._modelled, self._owned)

    def _move(self, values: FloatArray, there: _Ends, here: _Ends) -> FloatArray:
        if self._plan is None:
            return values
        width = values.shape[2]
        held, out = np.zeros((self._n_keys, width)), np.empty((here.n, width))
        own = np.ascontiguousarray(values[:, 0])
        there.moved.move(own, held, there.rows, self._n_threads)
        # bits travel as they are: nobody adds anything but zeros
        held = self._plan.allreduce(held.view(np.int64)).view(np.float64)
        there.stays.move(own, out, here.stays, self._n_threads)
        here.rows.move(held, out, here.moved, self._n_threads)
        return out[:, None]


class _Ends:
    """Where rows are, among those that a rank owns or models, that stay there and that are moved.

    Parameters
    ----------
    stays : bool (n,)
    rows : int32 (n_moved,)
        Row of each of the others among the keys that are moved.
    """

    def __init__(self, stays: BoolArray, rows: Int32Array) -> None:
        self.n = len(stays)
        self.stays, self.moved, self.rows = (
            RowLists.from_positions(np.asarray(one, np.int32))
            for one in (np.flatnonzero(stays), np.flatnonzero(~stays), rows)
        )


class SharedRowTransfer:
    """Values of rows between their owners and the streams that have them, several the same. Collective.

    With E, which gives each stream's row its share of a residual, E^T M^-1 E is symmetric and positive if the
    streams' own M^-1 is: the mean of what n streams alike would have, at a residual of 1/n.

    Parameters
    ----------
    comm : Communicator
    owned : int64
        Keys of the rows that this rank owns, increasing.
    modelled : int64 (n,)
        Keys of the rows that it models.
    shares : float64 (n,)
        Of a residual.
    """

    def __init__(
        self, comm: Communicator, owned: Int64Array, modelled: Int64Array, shares: FloatArray
    ) -> None:
        keys, self._places = np.unique(modelled, return_inverse=True)
        is_shared = comm.max(float((shares < 1).any())) > 0
        self._rows = RowTransfer(comm, owned, keys, once=not is_shared)
        self._shares = shares[:, None, None]
        self._sums = _LocalSums(comm, self._places, len(keys)) if is_shared else None

    def to_model(self, values: FloatArray) -> FloatArray:
        """Return the shares of values at the owners, (n_owned, 1, width), where they are modelled."""
        moved = self._rows.to_model(values)
        return moved if self._sums is None else moved[self._places] * self._shares

    def from_model(self, values: FloatArray) -> FloatArray:
        """Return sums of shares of values where they are modelled, (n, 1, width), at the owners."""
        if self._sums is None:
            return self._rows.from_model(values)
        sums, scales = self._sums.of(values * self._shares)
        total: FloatArray = self._rows.from_model(sums.view(np.float64)).view(np.int64) / scales
        return total


class NuisanceTransfer:
    """Unknowns of gaps and amplitudes of templates between the solver's vectors and the model. Collective.

    Parameters
    ----------
    comm : Communicator
    owned : int64 (n_owned,)
        Keys of the unknowns beside the map that this rank owns, increasing.
    first_amplitude : int
        The least key of an amplitude.
    gaps : int64
        Keys of those that this rank models, increasing.
    amplitudes : int64 (n,)
        Keys of those that it models; streams that share an amplitude have the same.
    shares : float64 (n,)
        One divided by the number of streams that share it.
    solve_gaps : bool
        Whether gaps are solved for.
    scale : float
        Of the functions of templates in the solver (`Amplitudes`); those of the model have 1.
    n_threads : int, optional
    """

    def __init__(
        self,
        comm: Communicator,
        owned: Int64Array,
        first_amplitude: int,
        gaps: Int64Array,
        amplitudes: Int64Array,
        shares: FloatArray,
        *,
        solve_gaps: bool,
        scale: float = 1.0,
        n_threads: int = 1,
    ) -> None:
        self._n = int(np.searchsorted(owned, first_amplitude))
        self._n_gaps = self._n if solve_gaps else 0
        self._scale = scale
        self._gaps = RowTransfer(comm, owned[: self._n_gaps], gaps, once=True, n_threads=n_threads)
        self._amplitudes = SharedRowTransfer(comm, owned[self._n :], amplitudes, shares)

    def to_model(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gaps, (n_gaps, 1, width), and amplitudes, (n, width), of residuals (n_owned, 1, width)."""
        amplitudes = self._amplitudes.to_model(np.ascontiguousarray(values[self._n :]))
        gaps = self._gaps.to_model(np.ascontiguousarray(values[: self._n_gaps]))
        return gaps, amplitudes[:, 0] / self._scale

    def from_model(self, gaps: FloatArray, amplitudes: FloatArray) -> FloatArray:
        """Return rows of the solver, (n_owned, 1, width), of solutions of the model."""
        own = self._amplitudes.from_model(np.ascontiguousarray(amplitudes[:, None]) / self._scale)
        gaps = self._gaps.from_model(gaps)
        between = np.zeros((self._n - self._n_gaps, 1, gaps.shape[2]))
        return np.concatenate([gaps, between, own]) if len(between) + len(own) else gaps
