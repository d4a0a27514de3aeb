"""Amplitudes of templates: unknowns of whole streams, solved for with the map."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.distinct import distinct
from petacomm.base.errors import ConfigError
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.mpi import Communicator, agree, agree_on_errors
from petamap.data.template import FUNCTIONS, TemplateTerm
from petamap.mapmaking.stream_terms import StreamTerms
from petamap.mapmaking.template_memory import StreamFunctions
from petamap.mapmaking.time_layout import LocalBlocks
from petamap.noise.autoregressive import AutoregressiveProcess
from petamap.sky.pixelization import Pixelization


class Amplitudes:
    """Amplitudes of the streams that a rank holds samples of: rows beside those of its gaps. Collective.

    Functions are zero in gaps, and scaled so that no sample exceeds the largest amplitude: rows have the unit
    of a sample divided by `scale`. Sums over samples, of which there may be more than hits of a pixel, are in
    larger units than those of pixels (`NormalOperator`). What is known of amplitudes beforehand, S^-1,
    is added by the rank that has the first output of the first stream that has them.

    Parameters
    ----------
    terms : StreamTerms
    local : LocalBlocks
    pixels : LocalPixels
        Of this rank, which some functions are of.
    comm : Communicator

    Attributes
    ----------
    streams : int64 (n_streams,)
        Streams with samples on this rank.
    rows : list of lists of int
        First row of the amplitudes of each term of each stream; terms of several streams may have the same.
    keys : int64 (n,)
        Of the rows, increasing.
    scale : float
    sum_unit : float
        Unit of sums over samples in those of pixels, a power of two.
    units : float64 (n_streams,)
        Of the samples of each stream.
    """

    def __init__(
        self, terms: StreamTerms, local: LocalBlocks, pixels: LocalPixels, comm: Communicator
    ) -> None:
        self.terms, self._local, self._comm, self._pixels = terms, local, comm, pixels
        self.streams = np.unique(local.segments.stream)
        streams = self.streams.tolist()
        with agree_on_errors(comm):
            self._own = [terms.of(stream) for stream in streams]
            keys = [terms.shared_keys(stream) for stream in streams]
            self._priors = [terms.priors(stream) for stream in streams]
        self.keys = distinct(np.concatenate([np.zeros(0, np.int64), *(k for own in keys for k in own)]))
        self.rows = [[int(np.searchsorted(self.keys, k[0])) for k in own] for own in keys]
        present = [sum(1 if t.functions == "bins" else t.n_functions for t in one) for one in self._own]
        self._n_present = int(comm.max(max(present, default=0)))
        self._longest = int(comm.max(max(self._lengths(), default=0)))
        self.scale = self.sum_unit = 1.0
        self.units = np.ones(len(self.streams))
        self._first_row = 0

    def _lengths(self) -> Iterator[int]:
        """Yield the most samples that an amplitude of each term has."""
        for stream, own in zip(self.streams.tolist(), self._own, strict=True):
            for number, term in enumerate(own):
                yield term.longest * len(self.terms.group(stream, number))

    @property
    def n(self) -> int:
        """Number of amplitudes on this rank."""
        return len(self.keys)

    def functions(self) -> list[StreamFunctions]:
        """Return the functions of the streams of this rank, in numbers."""
        return [self.terms.functions(stream) for stream in self.streams.tolist()]

    def row_units(self) -> FloatArray:
        """Return the unit of each row, (n,), that of its streams' samples."""
        units = np.ones(self.n)
        for unit, own, rows in zip(self.units, self._own, self.rows, strict=True):
            for term, row in zip(own, rows, strict=True):
                units[row : row + term.n_amplitudes] = unit
        return units

    def has_prior(self) -> BoolArray:
        """Return of which rows something is known beforehand, (n,)."""
        known = np.zeros(self.n, np.bool_)
        for own, priors, rows in zip(self._own, self._priors, self.rows, strict=True):
            for term, process, row in zip(own, priors, rows, strict=True):
                known[row : row + term.n_amplitudes] = process is not None
        return known

    def divisors(self) -> FloatArray:
        """Return what the functions of each row are divided by, (n,)."""
        divisors = np.ones(self.n)
        for own, rows in zip(self._own, self.rows, strict=True):
            for term, row in zip(own, rows, strict=True):
                divisors[row : row + term.n_amplitudes] = term.divisor
        return divisors

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
        places = np.searchsorted(self.streams, self._local.segments.stream)
        self.units[places] = units
        agree(self._comm, self._refused_units())
        norms = [process.norm * weight for _, _, process, weight in self._prior_parts(range(len(self._own)))]
        prior_norm, largest = self._comm.max(max(norms, default=0.0)), self._comm.max(noise_norm)
        samples = (self._longest + prior_norm / max(largest, 1e-300)) / max(hits_max, 1)
        self.sum_unit = 2.0 ** math.ceil(math.log2(max(1.0, samples)))
        self._make_table(places)

    def _make_table(self, places: Int64Array) -> None:
        """Make the table of the kernels, of segments whose streams are at places among those of this rank."""
        numbers: dict[tuple[int, ...], int] = {}
        arguments: list[Any] = []
        streams = []
        firsts = np.concatenate([[0], np.cumsum([len(own) for own in self.rows])])
        rows = self._first_row + np.array([row for own in self.rows for row in own], np.int64)
        with agree_on_errors(self._comm):
            for own in self._own:
                objects = tuple(map(id, own))
                if own and objects not in numbers:
                    numbers[objects] = len(arguments)
                    arguments += [_arguments(term, self._pixels) for term in own]
        for segment, number in zip(self._local.segments, places.tolist(), strict=True):
            own = self._own[number]
            stream = self.terms.layout.streams[segment.stream]
            shift = segment.start - segment.offset - (stream.start + stream.margin)
            first = numbers[tuple(map(id, own))] if own else 0
            streams.append((first, len(own), firsts[number], shift))
        table = np.array(streams, np.int64).reshape(-1, 4)
        self.table = _mapmaking.TemplateTable(arguments, table, rows, self.scale, 1 / self.sum_unit)

    def _refused_units(self) -> ConfigError | None:
        """Return the error of streams that share amplitudes and have samples in units of their own."""
        shared = (
            len(self.terms.group(stream, number)) > 1
            for stream, unit, own in zip(self.streams.tolist(), self.units, self._own, strict=True)
            for number in range(len(own))
            if unit != 1
        )
        if not any(shared):
            return None
        return ConfigError(
            "streams that share amplitudes of templates have gains", mend="calibrate the streams first"
        )

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
            stream, weight = int(self.streams[number]), (self.scale * float(self.units[number])) ** 2
            parts = zip(self._own[number], self._priors[number], self.rows[number], strict=True)
            for k, (term, process, row) in enumerate(parts):
                if process is not None and self.terms.group(stream, k)[0] == stream:
                    first = self._first_row + row
                    yield slice(first, first + term.n_amplitudes), term.n_sets, process, weight


class LocalPixels:
    """Pixels that the samples of a rank look at, and known maps on them, each of which is made once.

    Parameters
    ----------
    pixelization : Pixelization
    numbers : int64 (n_local,)
    """

    def __init__(self, pixelization: Pixelization, numbers: Int64Array) -> None:
        self._pixelization, self._numbers = pixelization, numbers
        self._maps: dict[Hashable, FloatArray | None] = {}

    def values_of(self, term: TemplateTerm) -> FloatArray | None:
        """Return the column of a term by pixel, float64 (1, at least 1), or None if it is none of pixels."""
        if term.of_pixels is None:
            return None
        key = term.of_pixels, term.divisor
        if key not in self._maps:
            values = term.of_pixels(self._pixelization, self._numbers)
            padded = None if values is None else np.append(values / term.divisor, 0.0)[None]
            self._maps[key] = padded
        return self._maps[key]


def _arguments(term: TemplateTerm, pixels: LocalPixels) -> tuple[Any, ...]:
    functions, values = term.functions, pixels.values_of(term)
    n_samp = int(term.edges[-1])
    if values is not None:
        functions = "pixels"
    else:
        values = term.values if term.read is None else np.ascontiguousarray(term.read(0, n_samp))
        if term.knots is None:
            n_samp = next((a.shape[-1] for a in (values, term.turns, term.bins) if a is not None), n_samp)
    return (
        (*FUNCTIONS, "pixels").index(functions), term.n, term.first, n_samp, term.edges, term.linear, values,
        term.turns, term.bins, term.knots,
    )  # fmt: skip
