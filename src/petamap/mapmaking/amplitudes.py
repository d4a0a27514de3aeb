"""Amplitudes of templates: unknowns of whole streams, solved for with the map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import ConfigError
from petacomm.base.typing import Int64Array
from petacomm.mpi import Communicator, agree_on_errors
from petamap.data.observation import Observation
from petamap.data.template import FUNCTIONS, TemplateTerm
from petamap.mapmaking.time_layout import LocalBlocks, TimeLayout

# Intervals whose functions are held while streams are gone through in order.
_CACHED = 4


class StreamTerms:
    """Terms of the templates of each stream.

    Parameters
    ----------
    observations : sequence of Observation
    layout : TimeLayout
    """

    def __init__(self, observations: Sequence[Observation], layout: TimeLayout) -> None:
        self.observations, self.layout = observations, layout
        self._terms = lru_cache(_CACHED)(self._make)

    def of(self, stream: int) -> tuple[TemplateTerm, ...]:
        """Return the terms of a stream: those of its interval, the same objects while they are held."""
        one = self.layout.streams[stream]
        return self.of_interval(one.observation, one.interval)

    def of_interval(self, observation: int, interval: int) -> tuple[TemplateTerm, ...]:
        """Return the terms of all streams of an interval of an observation."""
        return self._terms(observation, interval)

    def _make(self, number: int, interval: int) -> tuple[TemplateTerm, ...]:
        observation = self.observations[number]
        start, stop = observation.intervals[interval]
        return tuple(template.term(observation, start, stop) for template in observation.templates)

    def keys(self, stream: int, n: int) -> Int64Array:
        """Return the keys of n amplitudes of a stream, which come after those of all samples."""
        keys = self.layout.sample_keys
        if n > keys[stream + 1] - keys[stream]:
            one = self.layout.streams[stream]
            raise ConfigError(
                f"{n} amplitudes of templates for {one.stop - one.start} samples",
                where=f"observation {self.observations[one.observation].name}",
                mend="take longer cells, or fewer functions",
            )
        return np.asarray(keys[-1] + keys[stream] + np.arange(n), np.int64)


class Amplitudes:
    """Amplitudes of the streams that a rank holds samples of: rows beside those of its gaps. Collective.

    Functions are zero in gaps, and scaled so that no sample exceeds the largest amplitude: rows have the unit
    of a sample divided by `scale`. Sums over samples, of which there may be more than hits of a pixel, are in
    larger units than those of pixels (`NormalOperator`).

    Parameters
    ----------
    terms : StreamTerms
    local : LocalBlocks
    comm : Communicator

    Attributes
    ----------
    streams, firsts : int64 (n_streams,), (n_streams + 1,)
        Streams with amplitudes, and the first row of each.
    keys : int64 (n,)
        Of the rows, increasing.
    scale : float
    sum_unit : float
        Unit of sums over samples in those of pixels, a power of two.
    """

    def __init__(self, terms: StreamTerms, local: LocalBlocks, comm: Communicator) -> None:
        self.terms, self._local = terms, local
        self.streams = np.unique([segment.stream for segment in local.segments]).astype(np.int64)
        with agree_on_errors(comm):
            own = [terms.of(stream) for stream in self.streams.tolist()]
            counts = [sum(term.n_amplitudes for term in one) for one in own]
            keys = [terms.keys(stream, n) for stream, n in zip(self.streams.tolist(), counts, strict=True)]
        self.firsts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.keys = np.concatenate([np.zeros(0, np.int64), *keys])
        self._own = own
        present = [sum(1 if t.functions == "bins" else t.n_functions for t in one) for one in own]
        self._n_present = int(comm.max(max(present, default=0)))
        self._longest = int(comm.max(max((t.longest for one in own for t in one), default=0)))
        self.scale = self.sum_unit = 1.0

    @property
    def n(self) -> int:
        """Number of amplitudes on this rank."""
        return int(self.firsts[-1])

    def set_up(self, first_row: int, hits_max: int) -> None:
        """Make the table of the kernels.

        Parameters
        ----------
        first_row : int
            Rows of gaps before those of amplitudes.
        hits_max : int
            Most samples of a pixel of the run, which its sums have room for.
        """
        functions = 1 << max(self._n_present - 1, 0).bit_length()
        samples = max(1.0, self._longest / max(hits_max, 1))
        self.scale, self.sum_unit = 1.0 / functions, 2.0 ** math.ceil(math.log2(samples))
        numbers: dict[int, int] = {}
        arguments: list[Any] = []
        rows = []
        place = {int(stream): number for number, stream in enumerate(self.streams)}
        for segment in self._local.segments:
            number = place[segment.stream]
            own = self._own[number]
            if own and id(own[0]) not in numbers:
                numbers[id(own[0])] = len(arguments)
                arguments += [_arguments(term) for term in own]
            stream = self.terms.layout.streams[segment.stream]
            shift = segment.start - segment.offset - (stream.start + stream.margin)
            rows.append((numbers[id(own[0])] if own else 0, len(own), first_row + self.firsts[number], shift))
        table = np.array(rows, np.int64).reshape(-1, 4)
        self.table = _mapmaking.TemplateTable(arguments, table, self.scale, 1 / self.sum_unit)


def _arguments(term: TemplateTerm) -> tuple[Any, ...]:
    n_samp = next((a.shape[-1] for a in (term.values, term.turns, term.bins) if a is not None), None)
    return (
        FUNCTIONS.index(term.functions), term.n, term.first,
        int(term.edges[-1]) if n_samp is None else n_samp,
        term.edges, term.linear, term.values, term.turns, term.bins,
    )  # fmt: skip
