"""Amplitudes of templates: unknowns of whole streams, solved for with the map."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator, agree_on_errors
from petamap.data.observation import Observation
from petamap.data.template import FUNCTIONS, TemplateTerm
from petamap.mapmaking.noise_kernels import ModelOf, declared_model
from petamap.mapmaking.time_layout import LocalBlocks, TimeLayout
from petamap.noise.autoregressive import AutoregressiveProcess
from petamap.noise.model import noise_key

# Sets of amplitudes that predict the next one under a prior.
_ORDER = 128
# Intervals whose functions are held while streams are gone through in order.
_CACHED = 4


class StreamTerms:
    """Terms of the templates of each stream.

    Parameters
    ----------
    observations : sequence of Observation
    layout : TimeLayout
    model_of : ModelOf
        The noise, of which priors may be.
    """

    def __init__(
        self, observations: Sequence[Observation], layout: TimeLayout, model_of: ModelOf = declared_model
    ) -> None:
        self.observations, self.layout, self._model_of = observations, layout, model_of
        self._terms = lru_cache(_CACHED)(self._make)
        self._processes: dict[Hashable, AutoregressiveProcess] = {}

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

    def priors(self, stream: int, order: int = _ORDER) -> list[AutoregressiveProcess | None]:
        """Return what is known beforehand of the amplitudes of each term of a stream, in the signal's unit.

        Of a process, at most `order` values predict the next one.

        Raises
        ------
        ConfigError
            If it is to be the noise, and the noise is correlated beside.
        """
        return [
            None if term.prior is None else self._process(stream, term, order) for term in self.of(stream)
        ]

    def _process(self, stream: int, term: TemplateTerm, order: int) -> AutoregressiveProcess:
        assert term.prior is not None
        one, model = self.layout.streams[stream], None
        observation = self.observations[one.observation]
        if term.prior.of_noise:
            if self.layout.n_lag:
                raise ConfigError(
                    "baselines have the correlated noise as their prior, and the noise has it too",
                    where=f"observation {observation.name}",
                    mend='set noise.kernel = "white", or leave the prior away',
                )
            model = self._model_of(observation, one.detector, one.interval)
        key = (
            term.prior, None if model is None else noise_key(model), observation.sample_rate,
            term.n_sets, int(term.edges[-1] - term.edges[0]), order,
        )  # fmt: skip
        if key not in self._processes:
            self._processes[key] = term.prior.process(term, model, observation.sample_rate, order)
        return self._processes[key]

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
    larger units than those of pixels (`NormalOperator`). What is known of amplitudes beforehand, S^-1,
    is added by the rank that has the first output of the stream.

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
    units : float64 (n_streams,)
        Of the samples of each stream.
    """

    def __init__(self, terms: StreamTerms, local: LocalBlocks, comm: Communicator) -> None:
        self.terms, self._local = terms, local
        self.streams = np.unique([segment.stream for segment in local.segments]).astype(np.int64)
        with agree_on_errors(comm):
            own = [terms.of(stream) for stream in self.streams.tolist()]
            counts = [sum(term.n_amplitudes for term in one) for one in own]
            keys = [terms.keys(stream, n) for stream, n in zip(self.streams.tolist(), counts, strict=True)]
            self._priors = [terms.priors(stream) for stream in self.streams.tolist()]
        self.firsts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.keys = np.concatenate([np.zeros(0, np.int64), *keys])
        self._own = own
        present = [sum(1 if t.functions == "bins" else t.n_functions for t in one) for one in own]
        self._n_present = int(comm.max(max(present, default=0)))
        self._longest = int(comm.max(max((t.longest for one in own for t in one), default=0)))
        self.scale = self.sum_unit = 1.0
        self.units = np.ones(len(self.streams))
        self._first_row = 0
        self._comm = comm

    @property
    def n(self) -> int:
        """Number of amplitudes on this rank."""
        return int(self.firsts[-1])

    def set_up(self, first_row: int, hits_max: int, units: FloatArray, noise_norm: float) -> None:
        """Make the table of the kernels. Collective.

        Parameters
        ----------
        first_row : int
            Rows of gaps before those of amplitudes.
        hits_max : int
            Most samples of a pixel of the run, which its sums have room for.
        units : float64 (n_segment,)
            Of the samples of each segment.
        noise_norm : float
            Largest of ``|N^-1 t| / max|t|`` on this rank.
        """
        functions = 1 << max(self._n_present - 1, 0).bit_length()
        self.scale, self._first_row = 1.0 / functions, first_row
        places = np.searchsorted(self.streams, [segment.stream for segment in self._local.segments])
        self.units[places] = units
        norms = [process.norm * weight for _, _, process, weight in self._prior_parts(range(len(self._own)))]
        prior_norm, largest = self._comm.max(max(norms, default=0.0)), self._comm.max(noise_norm)
        samples = (self._longest + prior_norm / max(largest, 1e-300)) / max(hits_max, 1)
        self.sum_unit = 2.0 ** math.ceil(math.log2(max(1.0, samples)))
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

    def add_priors(self, vectors: FloatArray, scales: FloatArray, sums: Int64Array) -> None:
        """Add S^-1 a of the streams that begin on this rank to sums as integers: once in the run.

        Parameters
        ----------
        vectors : float64 (n_rows, width)
            Rows of gaps and amplitudes of several vectors.
        scales : float64 (width,)
            Inverse units of the integers of pixels; 0 where a vector is left out.
        sums : int64 (n_rows, width)
        """
        if not any(process for own in self._priors for process in own):
            return
        factors = scales / self.sum_unit
        for rows, n_sets, process, weight in self._prior_parts(self._begun):
            values = vectors[rows].reshape(n_sets, -1, len(scales))
            weighed = process.weigh(values) * weight * factors
            sums[rows] += np.rint(weighed).astype(np.int64).reshape(-1, len(scales))

    @cached_property
    def _begun(self) -> list[int]:
        """The numbers of the streams of which this rank has the first output."""
        first_outputs = self._local.blocks[:, 0] + self._local.blocks[:, 2]
        found = []
        for number, first in zip(self._local.blocks[:, 5].tolist(), first_outputs.tolist(), strict=True):
            segment = self._local.segments[number]
            if segment.start + first - segment.offset == self.terms.layout.streams[segment.stream].start:
                found.append(int(np.searchsorted(self.streams, segment.stream)))
        return found

    def _prior_parts(
        self, streams: Iterable[int]
    ) -> Iterator[tuple[slice, int, AutoregressiveProcess, float]]:
        """Yield rows, sets, prior and the weight that makes it one of rows, of terms with a prior."""
        for number in streams:
            row = self._first_row + int(self.firsts[number])
            for term, process in zip(self._own[number], self._priors[number], strict=True):
                if process is not None:
                    weight = (self.scale * float(self.units[number])) ** 2
                    yield slice(row, row + term.n_amplitudes), term.n_sets, process, weight
                row += term.n_amplitudes


def _arguments(term: TemplateTerm) -> tuple[Any, ...]:
    n_samp = next((a.shape[-1] for a in (term.values, term.turns, term.bins) if a is not None), None)
    return (
        FUNCTIONS.index(term.functions), term.n, term.first,
        int(term.edges[-1]) if n_samp is None else n_samp,
        term.edges, term.linear, term.values, term.turns, term.bins,
    )  # fmt: skip
