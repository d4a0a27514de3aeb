"""Amplitudes of templates that ranks hold, share and model, on which bounds of what they send depend."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import Int64Array
from petamap.mapmaking.own_temperature import with_temperature
from petamap.mapmaking.preconditioning import has_templates
from petamap.mapmaking.stream_terms import StreamTerms
from petamap.planning.memory_forecast import assumed_sky
from petamap.planning.rank_samples import HeldSamples
from petamap.planning.rank_traffic import AmplitudeSizes, StreamSizes
from petamap.planning.scanned_run import ScannedRun


class _Amplitudes(NamedTuple):
    """Amplitudes of a term: (n,) each, a row for each term of each stream, by stream.

    Streams that have amplitudes in common have the same unit.
    """

    unit: Int64Array
    n: Int64Array


def stream_sizes(run: ScannedRun, held: Sequence[HeldSamples], size: int) -> StreamSizes:
    """Return how streams are divided among ranks, and dealt whole to the ranks that model them.

    Parameters
    ----------
    run : ScannedRun
    held : sequence of HeldSamples
        What each rank holds.
    size : int
        Ranks.
    """
    firsts = run.layout.rank_streams(size)
    streams = np.concatenate([one.streams for one in held])
    ranks = np.repeat(np.arange(len(held)), [len(one.streams) for one in held])
    models = np.searchsorted(firsts, streams, side="right") - 1
    pairs = distinct((ranks * size + models)[ranks != models])
    partners = np.bincount(pairs // size, minlength=size) + np.bincount(pairs % size, minlength=size)
    weight = max(one.weight for one in held)
    return StreamSizes(
        weight * max(len(one.streams) for one in held),
        float(np.diff(firsts).max()),
        min(2.0 * (size - 1), weight * float(partners.max(initial=0))),
    )


class AmplitudeForecast:
    """Amplitudes of the streams of a run.

    Parameters
    ----------
    run : ScannedRun
    """

    def __init__(self, run: ScannedRun) -> None:
        self._run = run

    def sizes(self, held: Sequence[HeldSamples], size: int) -> AmplitudeSizes | None:
        """Return the sizes of the rank that has most, None without templates.

        Parameters
        ----------
        held : sequence of HeldSamples
            What each rank holds.
        size : int
            Ranks.
        """
        if not has_templates(self._run.observations):
            return None
        unit, n = self._amplitudes
        if not len(unit):
            return AmplitudeSizes()
        sizes = np.zeros(int(unit.max()) + 1, np.int64)
        sizes[unit] = n
        own = [np.unique(self._units(one.streams)) for one in held]
        holders = np.bincount(np.concatenate(own), minlength=len(sizes))
        modelled = [
            int(n[slice(*self._firsts[[first, last]])].sum())
            for first, last in zip(*self._modelled(size), strict=True)
        ]
        common, squares = self._terms.largest_common_sets()
        return AmplitudeSizes(
            n_held=float(max(sizes[units].sum() for units in own)),
            n_sent=float(max((sizes[units] * (holders[units] - 1)).sum() for units in own)),
            partners=float(min(size - 1, max((holders[units] - 1).sum() for units in own))),
            most_holders=float(holders.max()),
            n_all=float(sizes.sum()),
            n_modelled=float(max(modelled)),
            n_common=float(self._n_common) if common else 0.0,
            n_squares=float(squares),
            per_sample=self._per_sample,
        )

    def _modelled(self, size: int) -> tuple[list[int], list[int]]:
        firsts = self._run.layout.rank_streams(size)
        return firsts[:-1].tolist(), firsts[1:].tolist()

    def _units(self, streams: Int64Array) -> Int64Array:
        rows = [np.arange(*self._firsts[[stream, stream + 1]]) for stream in streams.tolist()]
        found: Int64Array = self._amplitudes.unit[np.concatenate([np.zeros(0, np.int64), *rows])]
        return found

    @cached_property
    def _terms(self) -> StreamTerms:
        run = self._run
        return StreamTerms(with_temperature(run.observations, assumed_sky(run)), run.layout)

    @cached_property
    def _firsts(self) -> Int64Array:
        """First row of the terms of each stream, and their number."""
        return np.append(0, np.cumsum([len(one) for one in self._counts])).astype(np.int64)

    @cached_property
    def _counts(self) -> list[list[int]]:
        return [self._terms.counts(stream) for stream in range(len(self._run.layout.streams))]

    @cached_property
    def _amplitudes(self) -> _Amplitudes:
        numbers: dict[Hashable, int] = {}
        units = [
            numbers.setdefault(key, len(numbers))
            for stream in range(len(self._counts))
            for key in self._terms.sharing_keys(stream)
        ]
        n = [number for one in self._counts for number in one]
        return _Amplitudes(np.array(units, np.int64), np.array(n, np.int64))

    @cached_property
    def _n_common(self) -> int:
        """Amplitudes that streams have in common."""
        unit, n = self._amplitudes
        numbers, firsts, counts = np.unique(unit, return_index=True, return_counts=True)
        return int(n[firsts[counts > 1]].sum()) if len(numbers) else 0

    @cached_property
    def _per_sample(self) -> float:
        """Functions of a sample that are not zero, the most of some streams."""
        n = len(self._run.layout.streams)
        some = np.unique(np.linspace(0, n - 1, min(n, 8)).round().astype(np.int64))
        return max(self._terms.functions(stream).per_sample for stream in some.tolist())
