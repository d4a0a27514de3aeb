"""The pointing matrix P of a rank: pixels and response angles, kept in memory or expanded in every pass.

Setting up takes three steps: the constructor expands all samples once to find the pixels, and keeps them
where there is room; `keep` stores them, or `expand_anew` forgets them, once it is known how large the maps
are; `number_gaps` numbers the unknowns of samples that are left out. Where polarization angles of all samples
are at hand in arrays, response angles are not kept: passes read them there.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import ConfigError
from petacomm.base.threads import map_threads
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array, UInt8Array
from petacomm.mpi import Communicator
from petamap.data.checks import check_signal, error_location
from petamap.data.observation import Observation, Signal, add_signals
from petamap.data.parts import Parts
from petamap.data.read_ahead import forget_pieces
from petamap.mapmaking.amplitudes import Amplitudes
from petamap.mapmaking.block_samples import Samples, samples_of
from petamap.mapmaking.detector_pairs import sight_numbers
from petamap.mapmaking.gaps import Gaps
from petamap.mapmaking.key_owners import KeyOwners
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.psi_rows import PsiRows
from petamap.mapmaking.sample_pointing import Piece, SamplePointing
from petamap.mapmaking.segment_parts import segment_parts
from petamap.mapmaking.time_layout import LocalBlocks, Segment, TimeLayout
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.protocol import Pointing
from petamap.pointing.sampled import SampledPointing
from petamap.sky.part_pixels import PartPixels
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes

_PIECE = 1 << 17  # samples expanded at once: a multiple of the layout's ALIGNMENT


class Projection:
    """Pointing matrix P of the samples that a rank holds.

    Parameters
    ----------
    observations, layout, local
        The time domain.
    pixelization : Pixelization
    stokes : Stokes
    flags : str
        Treatment of gaps: the kind of `Gaps`.
    n_threads : int
    parts : Parts, optional
        Parts of the data, each of which has pixels of its own. Streams without a sample in any are left out.
    room : int
        Bytes that the pointing may take while the pixels are found: so it is expanded once.
    find : bool
        Whether pixels are found now, and not by `find_pixels`.

    Attributes
    ----------
    units : (n_segment,) float64
        Samples and gains are in multiples of these; all 1 before `set_units`.
    amplitudes : Amplitudes, optional
        Unknowns of templates, once set.
    sky, pixelization : Pixelization
        Of a map; and of all maps, where data have parts.
    responses : (n_segment, 2) float64
        Intensity weight and polarization efficiency of each segment.
    used : (n_segment,) bool
        Segments that are not left out.
    part_table : PartTable, optional
        The parts of each segment, where data have parts.
    """

    def __init__(
        self,
        observations: Sequence[Observation],
        layout: TimeLayout,
        local: LocalBlocks,
        pixelization: Pixelization,
        stokes: Stokes,
        *,
        flags: str = "exact",
        n_threads: int = 1,
        parts: Parts | None = None,
        room: int = 0,
        find: bool = True,
    ) -> None:
        self.observations = observations
        self.layout = layout
        self.local = local
        self.sky = pixelization
        self.pixelization = pixelization if parts is None else PartPixels(pixelization, parts.n)
        self.used = np.ones(len(local.segments), np.bool_)
        self.part_table: _mapmaking.PartTable | None = None
        if parts is not None:
            self._divide(parts)
        self.stokes = stokes
        self.gaps = Gaps(layout, self.local, flags)
        self.n_threads = n_threads
        self.index = _mapmaking.PixelIndex(self.pixelization.n_pix)
        self.responses = np.array([self._response(segment) for segment in local.segments]).reshape(-1, 2)
        self.has_gains = any(self._pointing(s).has_gains for s in local.segments)
        self.units = np.ones(len(local.segments))
        self.amplitudes: Amplitudes | None = None
        self.kept: SamplePointing | None = None
        self._table: Samples | None = None
        self._making_table = threading.Lock()
        self._responses: SamplePointing | None = None
        self._largest_gains = np.zeros(len(local.segments))
        if find:
            self.find_pixels(room)

    def _divide(self, parts: Parts) -> None:
        """Take up the parts of the streams, and leave out the blocks of those that have none."""
        self.part_table, self.used = segment_parts(parts, self.layout, self.local, self.sky.n_pix)
        blocks = self.local.blocks[self.used[self.local.blocks[:, 5]]]
        self.local = replace(self.local, blocks=blocks, n_out=int(blocks[:, 3].sum()))

    @property
    def n_local(self) -> int:
        """Number of pixels that the held samples fall into."""
        return int(self.index.n_local)

    @property
    def n_nuisance(self) -> int:
        """Number of unknowns beside the map that this rank holds: of gaps, then amplitudes of templates."""
        return self.gaps.n + (self.amplitudes.n if self.amplitudes else 0)

    @property
    def has_angles(self) -> bool:
        """Whether samples have response angles: where polarization is solved for."""
        return self.stokes is not Stokes.I

    @property
    def sample_unknowns(self) -> bool:
        """Whether each unknown beside the map is of one sample, so that no two samples add to its row."""
        return self.gaps.length == 1 and not self.amplitudes

    def keys(self) -> Int64Array:
        """Return the pixels that the held samples fall into, increasing: the rows of this rank's map."""
        keys = np.empty(self.n_local, np.int64)
        self.index.keys(keys)
        return keys

    def pieces(self) -> Iterator[Piece]:
        """Iterate over the held samples in pieces."""
        for number, segment in enumerate(self.local.segments):
            if not self.used[number]:
                continue
            for start in range(segment.start, segment.stop, _PIECE):
                stop = min(start + _PIECE, segment.stop)
                yield Piece(number, segment, start, stop, segment.offset + start - segment.start)

    def _pointing(self, segment: Segment) -> Pointing:
        observation = self.observations[self.layout.streams[segment.stream].observation]
        if observation.pointing is None:
            raise ConfigError("no source gives the pointing", where=f"observation {observation.name}")
        return observation.pointing

    def _response(self, segment: Segment) -> tuple[float, float]:
        """Return intensity weight and polarization efficiency."""
        pointing, detector = self._pointing(segment), self._detector(segment)
        return pointing.intensity(detector), pointing.efficiency(detector)

    def _detector(self, segment: Segment) -> int:
        return self.layout.streams[segment.stream].detector

    # --- set-up: pixels, flags, gaps

    def _empty(self, n: int, number: int | None = None) -> SamplePointing:
        """Return memory for n samples of a segment: 4 bytes each for pixel, angle and gain."""
        angles = np.empty(n, np.uint32) if self.has_angles else None
        gains = np.empty(n, np.float32) if self.has_gains else None
        intensity, efficiency = (math.nan, math.nan) if number is None else self.responses[number].tolist()
        return SamplePointing(np.empty(n, np.int32), angles, gains, intensity, efficiency)

    def _held(self) -> SamplePointing:
        """Return memory for what is kept of all held samples; responses are those of the segments."""
        held = self._empty(self.local.n_held)
        return held if self.psi is None else replace(held, angles=None)

    def _expand(self, piece: Piece, kept: SamplePointing | None = None) -> SamplePointing:
        """Expand global pixels of a piece; into those of `kept`, if given."""
        samples = self._empty(piece.stop - piece.start, piece.number) if kept is None else piece.of(kept)
        stream = self.layout.streams[piece.segment.stream]
        start, stop = stream.recorded_range(piece.start, piece.stop)
        if stop - start < piece.stop - piece.start:
            samples.clear()
        if start < stop:
            part = samples.slice(start - piece.start, stop - piece.start)
            self._pointing(piece.segment).expand(
                self.sky, stream.detector, start, stop, part.pixels, part.angles, part.gains
            )
            if self.part_table is not None:
                self.part_table.number(piece.number, start, part.pixels)
        self._divide_gains(piece, samples)
        return samples

    def _divide_gains(self, piece: Piece, samples: SamplePointing) -> None:
        if samples.gains is not None:
            np.divide(samples.gains, np.float32(self.units[piece.number]), out=samples.gains)

    def find_pixels_of(self, piece: Piece, kept: SamplePointing | None = None) -> SamplePointing:
        """Expand a piece, into `kept` if given, and mark its pixels and gaps; pixels are those of the sky."""
        samples = self._expand(piece, kept)
        flags = self._flags(piece)
        if flags is not None:
            samples.pixels[flags != 0] = -1
        self.gaps.add(piece.offset, samples.pixels < 0)
        self.index.mark(samples.pixels)
        return samples

    def find_pixels(self, room: int) -> None:
        """Expand all samples once to find the pixels and the gaps, and keep them in so many bytes or not."""
        gains: list[tuple[int, float]] = []
        self._table = None
        if self.bytes_to_keep <= room:
            self.kept = self._held()

        def mark(piece: Piece) -> None:
            samples = self.find_pixels_of(piece, self.kept)
            if samples.gains is not None:
                good = np.abs(samples.gains[samples.pixels >= 0])
                gains.append((piece.number, float(good.max(initial=0.0))))

        map_threads(mark, self.pieces(), self.n_threads)
        forget_pieces()
        _ = self.sights  # found while pointing is in memory
        self.index.number()
        if (kept := self.kept) is not None:
            map_threads(
                lambda piece: self._localize(piece, piece.of(kept).pixels), self.pieces(), self.n_threads
            )
        for number, largest in gains:
            self._largest_gains[number] = max(self._largest_gains[number], largest)

    def set_units(self, comm: Communicator) -> None:
        """Choose for each stream a unit of samples and gains in which no gain exceeds 1. Collective.

        The unit is a power of two and the same on all ranks. So a stream may have any unit beside the map's,
        and the unknowns of its gaps are of the size of its signal.
        """
        if comm.max(float(self.has_gains)) == 0:
            return
        streams = self.local.segments.stream
        held, rows = np.unique(streams, return_inverse=True)
        largest = np.zeros(len(held))
        np.maximum.at(largest, rows, self._largest_gains)
        largest = KeyOwners(comm, held, len(self.layout.streams)).largest(largest)
        exponents = np.where(largest > 0, np.ceil(np.log2(np.maximum(largest, 1e-300))), 0)
        self.units = np.exp2(exponents)[rows]
        if self.kept is not None:
            for piece in self.pieces():
                self._divide_gains(piece, piece.of(self.kept))

    @property
    def bytes_to_keep(self) -> int:
        """Bytes that `keep` takes: for each sample 4 for the pixel, 4 for an angle, 4 for a gain."""
        if self._responses is not None:
            return self.local.n_held * 4
        keeps_angles = self.has_angles and self.psi is None
        return self.local.n_held * (4 + 4 * keeps_angles + 4 * self.has_gains)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the pointing that is kept already."""
        return 0 if self.kept is None else self.bytes_to_keep

    def share(self, other: Projection) -> None:
        """Take units, and angles and gains where they are kept, of a projection of the same samples."""
        self.units, self._responses = other.units, other.kept

    @property
    def can_expand(self) -> bool:
        """Whether all pointing is compressed, so that nothing needs to be kept."""
        return all(isinstance(self._pointing(segment), CompressedPointing) for segment in self.local.segments)

    def keep(self) -> None:
        """Store pixels and responses of all samples in memory, so that no iteration expands pointing."""
        if self.kept is not None:
            return
        self._table = None
        kept = self._responses
        kept = self._held() if kept is None else replace(kept, pixels=np.empty_like(kept.pixels))
        map_threads(
            lambda piece: self._sample_pointing(piece).copy_to(piece.of(kept)), self.pieces(), self.n_threads
        )
        self.kept = kept

    def release_pointing(self) -> None:
        """Forget pointing that comes from files, if nothing uses it for now; it is read again if needed."""
        for number in self.held_observations:
            pointing = self.observations[number].pointing
            if isinstance(pointing, CompressedPointing):
                pointing.release()

    def expand_anew(self) -> None:
        """Keep no pointing: it is expanded in every pass."""
        self.kept = self._table = None

    def _flags(self, piece: Piece) -> UInt8Array | None:
        stream = self.layout.streams[piece.segment.stream]
        sources = self.observations[stream.observation].flags
        if not sources:
            return None
        flags = np.zeros(piece.stop - piece.start, np.uint8)
        start, stop = stream.recorded_range(piece.start, piece.stop)
        if start < stop:
            for source in sources:
                source.or_flags(stream.detector, start, stop, flags[start - piece.start : stop - piece.start])
        return flags

    def drop_pixels(self, dead: BoolArray) -> None:
        """Make gaps of the samples in local pixels that are `dead`, (n_local,)."""
        table = np.where(dead, -1, np.arange(len(dead))).astype(np.int32)
        self._table = None

        def renumber(piece: Piece) -> None:
            samples = self._sample_pointing(piece)
            _mapmaking.renumber(table, samples.pixels)
            self.gaps.add(piece.offset, samples.pixels < 0)

        if dead.any():
            map_threads(renumber, self.pieces(), self.n_threads)

    def number_gaps(self) -> Int64Array:
        """Assign numbers to the gaps; return the keys of their unknowns (positions among all samples)."""
        keys, kept, self._table = self.gaps.number(self.n_threads), self.kept, None
        if kept is not None and self.gaps:
            map_threads(
                lambda piece: self.gaps.write_slots(piece.of(kept).pixels, piece.segment, piece.start),
                self.pieces(),
                self.n_threads,
            )
        return keys

    # --- after set-up

    def _sample_pointing(self, piece: Piece) -> SamplePointing:
        """Return local pixels and responses of a piece; gaps are any negative number."""
        if self.kept is not None:
            intensity, efficiency = self.responses[piece.number].tolist()
            kept = replace(piece.of(self.kept), intensity=intensity, efficiency=efficiency)
            return kept if self.psi is None else replace(kept, angles=self.psi.angles(piece))
        samples = self._expand(piece)
        self._localize(piece, samples.pixels)
        return samples

    def _localize(self, piece: Piece, pixels: Int32Array) -> None:
        """Replace the pixels of a piece by their local numbers, or any negative number in gaps."""
        _mapmaking.localize(self.index, self.gaps.among(piece.offset, piece.stop - piece.start), pixels)

    def inputs(self, number: int) -> SamplePointing:
        """Return local pixels and responses of the inputs of a block; gaps have their slots.

        After `number_gaps`; several threads may call it.
        """
        first, n_in, _, _, _, segment = self.local.blocks[number].tolist()
        if self.kept is not None:
            return self._sample_pointing(self._piece(segment, first, n_in))
        samples, table = self._empty(n_in, segment), self._samples
        assert isinstance(table, _mapmaking.ExpandedTable)
        table.expand(number, samples.pixels, samples.angles)
        return samples

    def outputs(self, number: int) -> SamplePointing:
        """Return local pixels and responses of the outputs of a block.

        Gaps have their slots after `number_gaps`.
        """
        first, _, n_left, n_out, _, segment = self.local.blocks[number].tolist()
        piece = self._piece(segment, first + n_left, n_out)
        samples = self._sample_pointing(piece)
        if self.kept is None and self.gaps.numbered:
            self.gaps.write_slots(samples.pixels, piece.segment, piece.start)
        return samples

    def _piece(self, number: int, offset: int, n: int) -> Piece:
        """Return n held samples of a segment from `offset` on."""
        segment = self.local.segments[number]
        start = segment.start + offset - segment.offset
        return Piece(number, segment, start, start + n, offset)

    def read(
        self,
        block: Int64Array,
        pixels: Int32Array,
        out: FloatArray,
        datasets: Sequence[Sequence[Sequence[Signal]]] | None = None,
    ) -> None:
        """Write the inputs of a block to `out`, in the unit of its stream; gaps (pixels < 0) are zero.

        out: (n, n_in), a row for each data set; without `datasets`, which hold the signals of each
        observation, there is one row, of the observations' own.

        Raises
        ------
        DataError
            If a sample that is no gap is not finite.
        """
        first, n_in, number = int(block[0]), int(block[1]), int(block[5])
        segment = self.local.segments[number]
        stream = self.layout.streams[segment.stream]
        start = first + segment.start - segment.offset
        observation = self.observations[stream.observation]
        begin, end = stream.recorded_range(start, start + n_in)
        out[:] = 0.0
        if begin < end:
            signals = [observation.signals]
            if datasets is not None:
                signals = [tuple(dataset[stream.observation]) for dataset in datasets]
            rows = [row[begin - start : end - start] for row in out]
            add_signals(signals, stream.detector, begin, end, rows)
        if not _mapmaking.zero_gaps(pixels, self.units[number], out):
            for row in out:
                check_signal(observation, stream.detector, begin, row[begin - start : end - start])

    def error_location(self, block: Int64Array, sample: int) -> str:
        """Return observation, detector and sample number of an input of a block, for a message."""
        segment = self.local.segments[int(block[5])]
        stream = self.layout.streams[segment.stream]
        number = int(block[0]) + segment.start - segment.offset + sample
        return error_location(self.observations[stream.observation], stream.detector, number)

    def apply(
        self,
        noise: InverseNoise,
        pixels: FloatArray,
        gaps: FloatArray,
        scales: FloatArray,
        sums: Int64Array,
        gap_sums: Int64Array,
    ) -> None:
        """Add P^T N^-1 P of (pixels, gaps) to the sums of the threads, in units of 1/scale of each vector.

        pixels: (n_local, n_stokes, width), gaps: (n_nuisance, width), with amplitudes of templates. A
        vector of which the scale is 0 is left out.
        """
        templates = self.amplitudes.table if self.amplitudes else None
        _mapmaking.apply(
            self._samples, noise.handle, pixels, gaps, scales, sums, gap_sums, templates, noise.joint_table,
            self.n_threads,
        )  # fmt: skip

    @property
    def _samples(self) -> Samples:
        """The samples of all blocks as the kernels take them: made in the first pass, as that checks them."""
        with self._making_table:
            if self._table is None:
                self._table = samples_of(self, self.local.blocks, self.gaps.length, self.first_slots, True)
            return self._table

    @cached_property
    def held_observations(self) -> list[int]:
        """The local observations: the others may not have been read."""
        return self.layout.observations_of(self.local)

    @cached_property
    def sights(self) -> Int64Array:
        return sight_numbers(self.stream_table, [self.observations[one] for one in self.held_observations])

    @cached_property
    def pointing_arguments(self) -> list[tuple[object, ...]]:
        pointings = [self.observations[number].pointing for number in self.held_observations]
        return [p.kernel_arguments() for p in pointings if isinstance(p, CompressedPointing)]

    @cached_property
    def stream_table(self) -> Int64Array:
        rows = []
        for segment in self.local.segments:
            stream = self.layout.streams[segment.stream]
            number, shift = self.held_observations.index(stream.observation), segment.start - segment.offset
            recorded = stream.recorded_range(stream.start, stream.stop)
            rows.append((number, stream.detector, shift, stream.start, *recorded))
        return np.array(rows, np.int64).reshape(-1, 6)

    @cached_property
    def psi(self) -> PsiRows | None:
        """Polarization angles that passes read, so that no response angles are kept; where all have them."""
        rows = []
        for segment in self.local.segments if self.has_angles else []:
            pointing = self._pointing(segment)
            row = pointing.psi(self._detector(segment)) if isinstance(pointing, SampledPointing) else None
            if row is None:
                return None
            rows.append(row)
        return PsiRows(rows, self.layout, self.stream_table) if rows else None

    @cached_property
    def first_slots(self) -> Int64Array:
        return self.gaps.first_slots(self.local.blocks[:, 0])
