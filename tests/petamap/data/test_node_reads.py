"""Samples that several ranks of a node need: each chunk read by one of them, the values those of the file."""

from __future__ import annotations

import contextlib
from unittest import mock

import numpy as np
import pytest
from made_observations import White
from mpi import run_ranks

from petacomm.base.errors import DataError
from petamap.data import node_reads, read_ahead
from petamap.data.demodulation import DemodulatedSignal, StreamFlags
from petamap.data.kelvin import ScaledSignal
from petamap.data.node_reads import Read, share_reads
from petamap.data.observation import pointing_reads, signal_reads
from petamap.data.read_ahead import ReadAhead, forget_pieces
from petamap.data.sample_filter import FilteredFlags, FilteredSignal, SampleFilter
from petamap.data.selection import ChosenFlags, ChosenSignal
from petamap.pointing.half_wave_plate import UniformPlate

ROWS, SAMPLES, GRAIN, HALO = 4, 3000, 100, 130
VALUES = np.arange(ROWS * SAMPLES).reshape(ROWS, SAMPLES)


class File:
    """Reads whole chunks of an array and counts them; one may be damaged."""

    def __init__(self, values=VALUES, damaged=None, name="file"):
        self.values, self.damaged = values, damaged
        self.counts = np.zeros((len(values), -(-values.shape[1] // GRAIN)), np.int64)
        intervals, size = ((0, values.shape[1]),), values.itemsize
        self.part = ReadAhead(self.read, *values.shape, intervals, name, GRAIN, size)

    def read(self, place):
        chunks = slice(place.start // GRAIN, -(-place.stop // GRAIN))
        self.counts[place.first : place.last, chunks] += 1
        for row, chunk in [self.damaged] if self.damaged else []:
            if place.first <= row < place.last and chunks.start <= chunk < chunks.stop:
                raise DataError("is damaged", where=f"row {row}, chunk {chunk}")
        return self.values[place.first : place.last, place.start : place.stop]


def own_ranges(comm, by_time):
    """Return the ranges of this rank with their halos: of time of each row, or of all samples row by row."""
    if by_time:
        first, last = (SAMPLES * rank // comm.size for rank in (comm.rank, comm.rank + 1))
        return [(row, max(0, first - HALO), min(SAMPLES, last + HALO)) for row in range(ROWS)]
    first, last = (ROWS * SAMPLES * rank // comm.size for rank in (comm.rank, comm.rank + 1))
    ranges = [(row, first - row * SAMPLES - HALO, last - row * SAMPLES + HALO) for row in range(ROWS)]
    return [(row, max(0, a), min(SAMPLES, b)) for row, a, b in ranges if a + HALO < SAMPLES and b - HALO > 0]


def ask(part, ranges):
    """Ask for ranges in steps, as blocks are read with their halos."""
    for row, start, stop in ranges:
        for begin in range(start, stop, 170):
            end = min(begin + 300, stop)
            out = np.full(end - begin, -1)
            for place, values in part.parts(row, begin, end):
                out[place] = values
            np.testing.assert_array_equal(out, part_values(part)[row, begin:end])


def part_values(part):
    return part.read.__self__.values


@contextlib.contextmanager
def small():
    with mock.patch.multiple(read_ahead, PIECE=500, SHORT=50), mock.patch.object(node_reads, "SHORT", 50):
        yield
    forget_pieces()


def check_once(comm):
    for by_time in (True, False):
        with small():
            file, ranges = File(), own_ranges(comm, by_time)
            share_reads([Read(file.part, *one) for one in ranges], comm)
            ask(file.part, ranges)
            read_ahead._pieces._thread.submit(int).result()
        counts = comm.node().allreduce(file.counts)
        held = np.zeros_like(counts)
        for row, start, stop in ranges:
            held[row, start // GRAIN : -(-stop // GRAIN)] = 1
        np.testing.assert_array_equal(counts, comm.node().allreduce(held, "max"))
        assert file.part._announced is None and not file.part._shared


def check_one_piece(comm):
    """See that what is one piece is read once, too, and rows that all ranks need."""
    with small():
        tiny, row = File(VALUES[:, :100], name="tiny"), File(VALUES[:1], name="row")
        share_reads(
            [Read(part, k, 0, n) for part, n in ((tiny.part, 100), (row.part, SAMPLES)) for k in (0, 0)], comm
        )
        ask(tiny.part, [(0, 0, 100)])
        ask(row.part, [(0, 0, SAMPLES)] * 2)
    assert (comm.node().allreduce(tiny.counts) == 1).all()
    assert (comm.node().allreduce(row.counts) == 1).all()


def check_little_room(comm):
    """See that ranks read by themselves what there is no room for."""
    for most, values in ((0, VALUES), (8 * 900, VALUES), (8 * 900, VALUES.astype(np.longdouble))):
        with small(), mock.patch.object(node_reads, "MOST_SHARED", most):
            file, ranges = File(values), own_ranges(comm, True)
            share_reads([Read(file.part, *one) for one in ranges], comm)
            assert sum(a.nbytes for parts in file.part._shared.values() for *_, a in parts) <= most
            ask(file.part, ranges)


def check_damage(comm):
    with small():
        middle = SAMPLES // 2 // GRAIN
        file, ranges = File(damaged=(2, middle)), own_ranges(comm, True)
        share_reads([Read(file.part, *one) for one in ranges], comm)
        has_it = any(row == 2 and a // GRAIN <= middle < -(-b // GRAIN) for row, a, b in ranges)
        if has_it:
            with pytest.raises(DataError, match=f"row 2, chunk {middle}"):
                ask(file.part, ranges)
        ask(file.part, [one for one in ranges if one[0] != 2])


def check_all(comm):
    check_once(comm)
    check_one_piece(comm)
    check_little_room(comm)
    check_damage(comm)


class Recorded:
    """Signal and flags of a file, which remember what is read."""

    def __init__(self):
        self.part, self.read = File().part, []

    def add_signal(self, detector, start, stop, out):
        self.read.append(Read(self.part, detector, start, stop))

    or_flags = add_signal

    def signal_reads(self, detector, start, stop):
        return [Read(self.part, detector, start, stop)]

    flag_reads = signal_reads


@pytest.mark.parametrize("samples", [(0, 10), (500, 700), (SAMPLES - 3, SAMPLES)])
def test_what_is_told_behind_filters_and_choices_is_what_is_read(samples):
    one, out = Recorded(), np.zeros(samples[1] - samples[0])
    filters = SampleFilter(np.ones(8) / 8, -3), None
    chosen = ChosenSignal(FilteredSignal(one, filters, SAMPLES), (1, 0))
    flags = ChosenFlags(FilteredFlags(one, filters, SAMPLES), (1, 0))
    for detector in range(2):
        chosen.add_signal(detector, *samples, out)
        assert chosen.signal_reads(detector, *samples) == one.read[-1:]
        flags.or_flags(detector, *samples, out.astype(np.uint8))
        assert flags.flag_reads(detector, *samples) == one.read[-1:]
    assert signal_reads([White()], 0, 0, 5) == pointing_reads(None, 0, 0, 5) == []


@pytest.mark.parametrize("samples", [(0, 10), (500, 700), (SAMPLES - 3, SAMPLES)])
def test_what_is_told_of_demodulated_and_scaled_data_is_what_is_read(samples):
    one, out = Recorded(), np.zeros(samples[1] - samples[0])
    streams = DemodulatedSignal(
        ScaledSignal(one, 1e-6), UniformPlate(0.0, 0.1), SampleFilter(np.ones(8) / 8, -3), SAMPLES
    )
    flags = StreamFlags(one, stride=2)
    some = samples[0] // 2, samples[1] // 2
    for stream in range(2 * 3):
        streams.add_signal(stream, *samples, out)
        assert streams.signal_reads(stream, *samples) == one.read[-1:]
        flags.or_flags(stream, *some, np.zeros(some[1] - some[0], np.uint8))
        assert flags.flag_reads(stream, *some) == one.read[-1:]


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("per_node", ["", "2"])
def test_ranks_of_a_node_read_each_chunk_once(n_ranks, per_node, monkeypatch):
    if per_node:
        monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", per_node)
    run_ranks(check_all, n_ranks)
