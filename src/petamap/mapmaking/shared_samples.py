"""Samples of files that ranks of a node need in a pass, which one of them reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from petacomm.mpi import Communicator
from petamap.data.node_reads import Read, share_reads
from petamap.data.observation import Signal, flag_reads, pointing_reads, share_signals, signal_reads
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.stream_table import TimeStream


def share_samples(
    projection: Projection,
    comm: Communicator,
    datasets: Sequence[Sequence[Sequence[Signal]]] = (),
    pointing: bool = False,
) -> None:
    """Have what ranks of a node share made or read once, before a pass over held samples. Collective.

    Parameters
    ----------
    projection : Projection
        Tells the samples that this rank holds.
    comm : Communicator
    datasets : sequence
        Data sets that are read, each with the signals of each observation.
    pointing : bool
        Whether recorded pointing and flags are read.
    """
    share_signals(datasets, comm)
    share_reads(_reads(projection, datasets, pointing), comm)


def _reads(
    projection: Projection, datasets: Sequence[Sequence[Sequence[Signal]]], pointing: bool
) -> Iterator[Read]:
    for segment in projection.local.segments:
        stream = projection.layout.streams[segment.stream]
        start, stop = stream.recorded_range(segment.start, segment.stop)
        if start >= stop:
            continue
        # pixel and signal may be of one record, which is still there where the second is asked for
        yield from dict.fromkeys(_segment_reads(projection, datasets, pointing, stream, start, stop))


def _segment_reads(
    projection: Projection,
    datasets: Sequence[Sequence[Sequence[Signal]]],
    pointing: bool,
    stream: TimeStream,
    start: int,
    stop: int,
) -> Iterator[Read]:
    if pointing:
        observation = projection.observations[stream.observation]
        yield from pointing_reads(observation.pointing, stream.detector, start, stop)
        yield from flag_reads(observation.flags, stream.detector, start, stop)
    for signals in datasets:
        yield from signal_reads(signals[stream.observation], stream.detector, start, stop)
