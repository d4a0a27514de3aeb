"""Right-hand sides of the maximum-likelihood and of the binned map, made in one pass over the samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import DataError
from petacomm.base.threads import add_by_threads, map_with_states
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import agree_on_errors
from petamap.data.observation import Signal, are_any_order, are_made
from petamap.data.read_ahead import forget_pieces
from petamap.mapmaking.binning import signal_unit, term_bits
from petamap.mapmaking.memory import sum_copies
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.sample_pointing import SamplePointing
from petamap.mapmaking.shared_samples import share_samples
from petamap.mapmaking.single_pass import BinnedSums
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.vectors import MAX_WIDTH, SharedUnknowns, Unknowns, aligned_zeros, width_for

# Sums that are added to in whatever order, bytes. Of 145 MB the pass takes 8 % less time range by range of
# time, of 48 MB 2 %, of 10 MB as much (satellite, Zen 4, 32 MB of cache).
_IN_CACHE = 1 << 25
# The signals of each observation.
Dataset = Sequence[Sequence[Signal]]


@dataclass(frozen=True)
class RightHandSide:
    """P^T N^-1 d, zero for binned maps alone, and P^T w d of these, (n_owned, n_stokes), at the owners."""

    unknowns: Unknowns
    binned: FloatArray


@dataclass
class _Sums:
    """Sums of a system: two words each of P^T N^-1 d and P^T w d on pixels, of the first on gaps.

    Attributes
    ----------
    pixels : int64 (n_copies, n_held, n_stokes, 4, width)
    gaps : int64 (1 or n_copies, n_held_gaps, 2, width)
        One copy, that threads have in common, where no two samples add to the same row.
    """

    pixels: Int64Array
    gaps: Int64Array

    @classmethod
    def of(cls, projection: Projection, n_copies: int, width: int) -> _Sums:
        """Return sums of nothing yet."""
        return cls(
            aligned_zeros(n_copies, projection.n_local, projection.stokes.n, 4, width),
            aligned_zeros(1 if projection.sample_unknowns else n_copies, projection.n_nuisance, 2, width),
        )

    def copy(self, number: int) -> tuple[Int64Array, Int64Array]:
        """Return one of the copies of the sums."""
        return self.pixels[number], self.gaps[min(number, len(self.gaps) - 1)]

    def at_owners(self, shared: SharedUnknowns) -> tuple[Int64Array, ...]:
        """Return words of pixels and gaps at the owners, and of the ghosts that this rank keeps. Collective.

        They have copies still to be added up, (n_copies, ...): those of threads in a single process.
        """
        if shared.comm.size == 1:
            return self.pixels, self.gaps, self.pixels[:, :0], self.gaps[:, :0]
        pixels, gaps = (add_by_threads(list(part)) for part in (self.pixels, self.gaps))
        owned = shared.scatter_rev(pixels, gaps)
        ghosts = shared.pixels.select_ghosts(pixels), shared.gaps.select_ghosts(gaps)
        return tuple(part[None] for part in (*owned, *ghosts))


class _ThreadState:
    """Sums that one thread adds to, of each system, and memory that its blocks use one after the other.

    Attributes
    ----------
    sums : list of (int64 array, int64 array)
    lock : Lock
        Held while they are added to: other threads may add to the same.
    """

    def __init__(self, sums: Sequence[_Sums], locks: Sequence[Lock], numbers: Iterator[int]) -> None:
        number = next(numbers) % len(locks)
        self.sums, self.lock = [one.copy(number) for one in sums], locks[number]
        self._memory: dict[str, FloatArray] = {}

    def buffer(self, name: str, *shape: int) -> FloatArray:
        """Return memory for values of a block, until the next one asks for it by this name."""
        n = math.prod(shape)
        if name not in self._memory or len(self._memory[name]) < n:
            self._memory[name] = aligned_zeros(n).view(np.float64)
        return self._memory[name][:n].reshape(shape)


# Called with a block, its data and their pointing.
Inspect = Callable[[Int64Array, FloatArray, SamplePointing], None]


def right_hand_side(
    system: MapmakingSystem,
    advance: Callable[[float], None] = lambda amount: None,
    inspect: Inspect | None = None,
) -> RightHandSide:
    """Return P^T N^-1 d and P^T w d of the observations' own signals: `right_hand_sides` of one dataset."""
    own = [observation.signals for observation in system.projection.observations]
    return right_hand_sides(system, [own], advance, inspect)[0]


def right_hand_sides_of(
    systems: Sequence[MapmakingSystem],
    advance: Callable[[float], None] = lambda amount: None,
    inspect: Inspect | None = None,
) -> list[RightHandSide]:
    """Return P^T N^-1 d and P^T w d of the observations' own signals in several systems. Collective.

    The data are read and filtered once, with what is a gap in the first system at zero. The others have
    pixels of parts of the same data and at least its gaps (`petamap.mapmaking.system.set_up_parts`). In what
    is a gap in them alone the data stay, where it is an unknown of its own and takes them up; else they are
    filtered again.

    Parameters
    ----------
    systems : sequence of MapmakingSystem
    advance, inspect
        As in `right_hand_sides`.

    Raises
    ------
    DataError
        As in `right_hand_sides`.
    """
    own = [observation.signals for observation in systems[0].projection.observations]
    reading = _reading(systems[0], advance, inspect)
    sums, systems[0].binned_sums = systems[0].binned_sums, None
    if sums is not None:
        return [reading.settle_binned(sums)]
    return [one for (one,) in reading.of([own], systems[1:])]


def right_hand_sides(
    system: MapmakingSystem,
    datasets: Sequence[Dataset],
    advance: Callable[[float], None] = lambda amount: None,
    inspect: Inspect | None = None,
) -> list[RightHandSide]:
    """Return P^T N^-1 d and P^T w d of several data sets, read in one pass. Collective.

    Those of a data set are the same to the bit whatever others there are.

    Parameters
    ----------
    system : MapmakingSystem
    datasets : sequence
        For each data set, for each observation of the projection, the signals to add up instead of
        ``observation.signals``.
    advance : callable
        Called with the number of samples just done, of all data sets together.
    inspect : callable, optional
        Called from any thread with each block, the inputs of its first data set, and their pointing.

    Raises
    ------
    DataError
        On all ranks, if a sample that is not flagged is not finite, or beyond 2^30 times the noise.
    """
    reading = _reading(system, advance, inspect)
    batches = [datasets[first : first + MAX_WIDTH] for first in range(0, len(datasets), MAX_WIDTH)]
    return [one for batch in batches for one in reading.of(batch)[0]]


def _reading(system: MapmakingSystem, advance: Callable[[float], None], inspect: Inspect | None) -> _Reading:
    bits = term_bits(system.statistics.hits_max)
    unit = signal_unit(system.noise.norm, system.statistics.binned_weights, bits, system.comm)
    return _Reading(system, unit, bits, advance, inspect)


@dataclass(frozen=True)
class _Reading:
    """One pass over the samples for some data sets, side by side, in words of `bits` bits of a unit."""

    system: MapmakingSystem
    unit: float
    bits: int
    advance: Callable[[float], None]
    inspect: Inspect | None

    def of(
        self, datasets: Sequence[Dataset], others: Sequence[MapmakingSystem] = ()
    ) -> list[list[RightHandSide]]:
        """Return the right-hand sides of at most `MAX_WIDTH` data sets, in this system and in others."""
        projection, width = self.system.projection, width_for(len(datasets))
        noise, blocks = self.system.noise, projection.local.blocks
        systems = [self.system, *others]
        share_samples(projection, self.system.comm, datasets)

        def add(thread: _ThreadState, unit: int) -> None:
            members = noise.members(unit)
            self._add_blocks(unit, members, datasets, systems, thread)
            self.advance(float(blocks[members, 3].sum()) * len(datasets))

        with agree_on_errors(self.system.comm):
            units = self._units_of_work(datasets, width)
            locks = [Lock() for _ in range(self._copies(datasets))]
            sums = [_Sums.of(system.projection, len(locks), width) for system in systems]
            begin = partial(_ThreadState, sums, locks, count())
            map_with_states(begin, add, units, projection.n_threads)
        forget_pieces()
        del begin  # nothing else holds what is settled
        return [self._settled(system, sums.pop(0), len(datasets)) for system in systems]

    def _copies(self, datasets: Sequence[Dataset]) -> int:
        """Return how many copies of the sums the threads have.

        Where data are made, adding to sums is less than half of a thread's work: two threads share a copy, as
        in `NormalOperator`.
        """
        return sum_copies(self.system.projection.n_threads, shared=are_made(datasets))

    def _units_of_work(self, datasets: Sequence[Dataset], width: int) -> list[int]:
        """Return what is filtered at once: stream by stream, as files are read.

        Where sums are larger than caches, and the data are in memory or made, it is range of time by range of
        time, so that detectors find the rows of their pixels where others have left them.
        """
        projection, noise = self.system.projection, self.system.noise
        units = noise.units_of_work()
        n_bytes = 8 * 4 * projection.n_local * projection.stokes.n * width
        if n_bytes <= _IN_CACHE or not are_any_order(datasets):
            return units
        turns = projection.layout.turns(projection.local)
        return sorted(units, key=lambda unit: int(turns[noise.members(unit)[0]]))

    def settle_binned(self, sums: BinnedSums) -> RightHandSide:
        """Return the right-hand side of data that the set-up has read. Collective."""
        gaps = aligned_zeros(1, self.system.projection.n_nuisance, 2, 1)
        return self._settled(self.system, _Sums(sums.words[None], gaps), 1)[0]

    def _settled(self, system: MapmakingSystem, sums: _Sums, n: int) -> list[RightHandSide]:
        """Return the right-hand sides of n data sets in a system from this rank's sums. Collective."""
        pixels, gaps, pixel_ghosts, gap_ghosts = sums.at_owners(system.shared)
        del sums
        filtered, binned = self._values(pixels)
        del pixels
        ghosts = self._values(pixel_ghosts)[0]
        amplitudes, firsts = system.projection.amplitudes, system.shared.first_amplitudes
        of_gaps = [self._values(words[:, :, None])[0] for words in (gaps, gap_ghosts)]
        if amplitudes and firsts:
            for values, first in zip(of_gaps, firsts, strict=True):
                values[first:] *= amplitudes.sum_unit
        parts = filtered, of_gaps[0], ghosts, of_gaps[1], binned
        columns = ([np.ascontiguousarray(part[..., number]) for part in parts] for number in range(n))
        return [RightHandSide(Unknowns(*unknowns), weighted) for *unknowns, weighted in columns]

    def _values(self, words: Int64Array) -> FloatArray:
        """Return the values of rows of two words each, (n_values, n, n_stokes, width), of all copies."""
        _, n, n_stokes, n_words, width = words.shape
        values = np.empty((n_words // 2, n, n_stokes, width))
        threads = self.system.projection.n_threads
        _mapmaking.settle_words(words, self.unit, self.bits, values, threads)
        return values

    def _add_blocks(
        self,
        unit: int,
        members: Int64Array,
        datasets: Sequence[Dataset],
        systems: Sequence[MapmakingSystem],
        thread: _ThreadState,
    ) -> None:
        """Add the blocks of a unit of work, which are filtered together, to the sums of all systems."""
        projection = self.system.projection
        blocks = projection.local.blocks[members]
        data = thread.buffer("data", len(blocks), len(datasets), int(blocks[0, 1]))
        pointing = [projection.inputs(number) for number in members.tolist()]
        for block, samples, rows in zip(blocks, pointing, data, strict=True):
            projection.read(block, samples.pixels, rows, datasets)
            if self.inspect is not None:
                self.inspect(block, rows[0], samples)
        read = data.copy() if _read_again(systems) else data
        outputs = self._outputs(unit, blocks, data)
        if self.system.binned_only:
            filtered = [np.zeros_like(values) for values in outputs]
        else:
            out = thread.buffer("filtered", *outputs[0].shape) if unit >= 0 else None
            filtered = self.system.noise.filter(unit, data, out)
        for block, samples, values, found in zip(blocks, pointing, outputs, filtered, strict=True):
            largest = self._add_block(self.system, block, samples, values, found, thread, 0)
            self._check(block, values, largest)
        for number, system in enumerate(systems[1:], 1):
            if system.projection.used[blocks[0, 5]]:
                self._add_parts(unit, blocks, pointing, (read, outputs, filtered), system, thread, number)

    def _add_parts(
        self,
        unit: int,
        blocks: Int64Array,
        pointing: Sequence[SamplePointing],
        streams: tuple[FloatArray, Sequence[FloatArray], Sequence[FloatArray]],
        system: MapmakingSystem,
        thread: _ThreadState,
        number: int,
    ) -> None:
        """Add the blocks of a unit of work to the sums of another system: inputs, outputs, N^-1 d of all."""
        data, outputs, filtered = streams
        projection = system.projection
        own = [projection.inputs(one) for one in projection.local.numbers_of(blocks).tolist()]
        if _read_again([self.system, system]):
            pairs = zip(own, pointing, strict=True)
            more = np.array([(one.pixels < 0) & (other.pixels >= 0) for one, other in pairs])
            if more.any():
                data = np.where(more[:, None], 0.0, data)
                outputs = self._outputs(unit, blocks, data)
                filtered = self.system.noise.filter(unit, data)
        for parts in zip(blocks, own, outputs, filtered, strict=True):
            self._add_block(system, *parts, thread, number)

    def _outputs(self, unit: int, blocks: Int64Array, data: FloatArray) -> list[FloatArray]:
        """Return the outputs of blocks of a unit of work, (n, n_out), of rows of their inputs."""
        found = []
        for n_left, n_out, rows in zip(blocks[:, 2].tolist(), blocks[:, 3].tolist(), data, strict=True):
            part = rows[:, n_left : n_left + n_out]
            found.append(part.copy() if unit < 0 else part)  # blocks that share noise are filtered in place
        return found

    def _add_block(
        self,
        system: MapmakingSystem,
        block: Int64Array,
        samples: SamplePointing,
        data: FloatArray,
        filtered: FloatArray,
        thread: _ThreadState,
        number: int,
    ) -> FloatArray:
        """Add P^T of the outputs of a block, (n, n_out): N^-1 d, and w d of the data of this system.

        Returns the largest number of words of each row, (width,).
        """
        (pixel_sums, gap_sums), (n, n_out), n_left = thread.sums[number], data.shape, int(block[2])
        width = pixel_sums.shape[3]
        outputs, largest = samples.slice(n_left, n_left + n_out), np.empty(width)
        columns, unfiltered = filtered, np.ascontiguousarray(data)
        if n < width:
            columns, unfiltered = thread.buffer("columns", 2, width, n_out)
            columns[:n], columns[n:] = filtered, 0.0
            unfiltered[:n], unfiltered[n:] = data, 0.0
        weight = float(self.system.statistics.binned_weights[block[5]])
        with thread.lock:
            _mapmaking.add_signals(
                outputs.pixels, outputs.angles, outputs.gains, outputs.intensity, outputs.efficiency,
                columns, unfiltered, weight, 1 / self.unit, self.bits, pixel_sums, gap_sums, largest,
            )  # fmt: skip
            if system.projection.amplitudes:
                _mapmaking.add_template_signals(
                    system.projection.amplitudes.table, block, samples.pixels, columns, 1 / self.unit,
                    self.bits, gap_sums,
                )  # fmt: skip
        return largest

    def _check(self, block: Int64Array, data: FloatArray, largest: FloatArray) -> None:
        """Raise a DataError if a sample of a block is too large for the sums, or for its filter."""
        for number, values in enumerate(data):
            if not largest[number] < math.ldexp(1.0, self.bits):
                sample = int(block[2]) + int(np.abs(values).argmax())
                raise DataError(
                    "a sample is more than 10^9 times its noise",
                    where=self.system.projection.error_location(block, sample),
                    mend="flag it, or correct the unit of the signal or of the noise",
                )


def _read_again(systems: Sequence[MapmakingSystem]) -> bool:
    """Return whether data of systems after the first may be filtered again, with more samples at zero."""
    return not systems[0].binned_only and any(system.projection.gaps.length != 1 for system in systems[1:])


def binned_map(system: MapmakingSystem, rhs: RightHandSide) -> FloatArray:
    """Return (P^T w P)^-1 P^T w d, (n_owned, n_stokes)."""
    out = np.empty_like(rhs.binned)
    _mapmaking.precondition(
        system.statistics.binned_inverse, rhs.binned[..., None], out[..., None], system.projection.n_threads
    )
    return out
