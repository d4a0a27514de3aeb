"""Right-hand sides of the maximum-likelihood and of the binned map, made in one pass over the samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import DataError
from petacomm.base.threads import map_with_states
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import agree_on_errors
from petamap.data.observation import Signal
from petamap.mapmaking.binning import term_bits
from petamap.mapmaking.projection import Projection, SamplePointing
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.vectors import MAX_WIDTH, Unknowns, aligned_zeros, width_for

# Samples up to 2^30 times the noise may be added up; there is no such instrument.
_SIGNAL_BITS = 30

# The signals of each observation.
Dataset = Sequence[Sequence[Signal]]


@dataclass(frozen=True)
class RightHandSide:
    """P^T N^-1 d, and P^T w d of the binned map, (n_owned, n_stokes), at the owners."""

    unknowns: Unknowns
    binned: FloatArray


class _Sums:
    """Sums of one thread: two words each of P^T N^-1 d and P^T w d on pixels, of the first on gaps."""

    def __init__(self, projection: Projection, width: int) -> None:
        self.pixels = aligned_zeros(projection.n_local, projection.stokes.n, 4, width)
        self.gaps = aligned_zeros(projection.n_nuisance, 2, width)

    def add(self, other: _Sums) -> None:
        self.pixels += other.pixels
        self.gaps += other.gaps


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
    largest = max(system.noise.norm, float(system.statistics.binned_weights.max(initial=0.0)))
    bits = term_bits(system.statistics.hits_max)
    # Values are below 2^30 times the noise, whatever the hits.
    exponent = math.frexp(math.sqrt(system.comm.max(largest)))[1] + _SIGNAL_BITS
    reading = _Reading(system, math.ldexp(1.0, exponent - bits), bits, advance, inspect)
    batches = [datasets[first : first + MAX_WIDTH] for first in range(0, len(datasets), MAX_WIDTH)]
    return [one for batch in batches for one in reading.of(batch)]


@dataclass(frozen=True)
class _Reading:
    """One pass over the samples for some data sets, side by side, in words of `bits` bits of a unit."""

    system: MapmakingSystem
    unit: float
    bits: int
    advance: Callable[[float], None]
    inspect: Inspect | None

    def of(self, datasets: Sequence[Dataset]) -> list[RightHandSide]:
        """Return the right-hand sides of at most `MAX_WIDTH` data sets."""
        projection, width = self.system.projection, width_for(len(datasets))

        noise, blocks = self.system.noise, projection.local.blocks

        def add(sums: _Sums, unit: int) -> None:
            members = noise.members(unit)
            self._add_blocks(unit, blocks[members], datasets, sums)
            self.advance(float(blocks[members, 3].sum()) * len(datasets))

        with agree_on_errors(self.system.comm):
            states = map_with_states(
                lambda: _Sums(projection, width), add, noise.units_of_work(), projection.n_threads
            )
        total = states.pop(0)
        while states:
            total.add(states.pop())
        shared = self.system.shared
        pixel_words, gap_words = shared.scatter_rev(total.pixels, total.gaps)
        ghosts, _ = self._values(shared.pixels.select_ghosts(total.pixels))
        gap_ghosts = self._gap_values(shared.gaps.select_ghosts(total.gaps))
        del total
        filtered, binned = self._values(pixel_words)
        del pixel_words
        gaps = self._gap_values(gap_words)
        if projection.amplitudes and shared.first_amplitudes:
            for values, first in zip((gaps, gap_ghosts), shared.first_amplitudes, strict=True):
                values[first:] *= projection.amplitudes.sum_unit
        parts = filtered, gaps, ghosts, gap_ghosts, binned
        columns = (
            [np.ascontiguousarray(part[..., number]) for part in parts] for number in range(len(datasets))
        )
        return [RightHandSide(Unknowns(*unknowns), weighted) for *unknowns, weighted in columns]

    def _gap_values(self, words: Int64Array) -> FloatArray:
        return self._values(np.concatenate([words, np.zeros_like(words)], axis=1)[:, None])[0]

    def _values(self, words: Int64Array) -> tuple[FloatArray, FloatArray]:
        """Return the two values of each row of four words, (n, n_stokes, 4, width)."""
        first, second = np.empty((2, *words.shape[:2], words.shape[3]))
        _mapmaking.settle_words(words, self.unit, self.bits, first, second, self.system.projection.n_threads)
        return first, second

    def _add_blocks(self, unit: int, blocks: Int64Array, datasets: Sequence[Dataset], sums: _Sums) -> None:
        """Add the blocks of a unit of work, which are filtered together."""
        projection = self.system.projection
        data = np.empty((len(blocks), len(datasets), int(blocks[0, 1])))
        pointing = [projection.sample_pointing(block, inputs=True) for block in blocks]
        outputs = []
        for block, samples, rows in zip(blocks, pointing, data, strict=True):
            projection.read(block, samples.pixels, rows, datasets)
            if self.inspect is not None:
                self.inspect(block, rows[0], samples)
            n_left, n_out = int(block[2]), int(block[3])
            outputs.append(rows[:, n_left : n_left + n_out].copy())
        filtered = self.system.noise.filter(unit, data)
        for parts in zip(blocks, pointing, outputs, filtered, strict=True):
            self._add_block(*parts, sums)

    def _add_block(
        self, block: Int64Array, samples: SamplePointing, data: FloatArray, filtered: FloatArray, sums: _Sums
    ) -> None:
        """Add P^T of the outputs of a block, (n, n_out): N^-1 d, and w d of the data."""
        projection, (n, n_out), width = self.system.projection, data.shape, sums.pixels.shape[3]
        n_left = int(block[2])
        columns, weighted = np.zeros((2, width, n_out))
        columns[:n] = filtered
        outputs = samples.slice(n_left, n_left + n_out)
        with np.errstate(over="ignore"):  # detected below
            weighted[:n] = data * self.system.statistics.binned_weights[block[5]]
        largest = np.empty(width)
        _mapmaking.add_signals(
            outputs.pixels, outputs.angles, outputs.gains, outputs.efficiency, columns, weighted,
            1 / self.unit, self.bits, sums.pixels, sums.gaps, largest,
        )  # fmt: skip
        if projection.amplitudes:
            _mapmaking.add_template_signals(
                projection.amplitudes.table,
                block,
                samples.pixels,
                columns,
                1 / self.unit,
                self.bits,
                sums.gaps,
            )
        for number in range(n):
            fits = largest[number] < math.ldexp(1.0, self.bits)
            if not (fits and np.isfinite(filtered[number]).all()):
                raise DataError(
                    "a sample is more than 10^9 times its noise",
                    where=projection.error_location(block, n_left + int(np.abs(data[number]).argmax())),
                    mend="flag it, or correct the unit of the signal or of the noise",
                )


def binned_map(system: MapmakingSystem, rhs: RightHandSide) -> FloatArray:
    """Return (P^T w P)^-1 P^T w d, (n_owned, n_stokes)."""
    out = np.empty_like(rhs.binned)
    _mapmaking.precondition(
        system.statistics.binned_inverse, rhs.binned[..., None], out[..., None], system.projection.n_threads
    )
    return out
