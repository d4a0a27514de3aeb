"""Communication graphs of recordings, and of mpiP's reports where partners are assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.text import shape_text
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.graph_sources import grid_graph
from petacomm.recording import Recording
from petacomm.recording.mpip import MpipReport


def recording_graph(
    recording: Recording, algorithms: Mapping[str, str] | None = None, phase: int | None = None
) -> CommunicationGraph:
    """Return the bytes between ranks of a recording, those of collectives by their schedules.

    Parameters
    ----------
    recording : Recording
    algorithms : mapping of str to str, optional
        Algorithms of collectives, as for `Recording.messages`.
    phase : int, optional
        The phase, by default all.

    Raises
    ------
    ConfigError
        If there is no such algorithm, or it does not serve a call.
    """
    of_phase = recording if phase is None else recording.of_phase(phase)
    rows = of_phase.messages(algorithms)
    return CommunicationGraph.from_edges(recording.n_ranks, rows["source"], rows["target"], rows["bytes"])


def halo_graph(
    report: MpipReport, shape: Sequence[int], periodic: bool | Sequence[bool] = True
) -> CommunicationGraph:
    """Return the graph of a report of mpiP if ranks exchanged halos on a Cartesian grid.

    mpiP tells what each rank sent, not to whom: the bytes that a rank sent to single ranks are divided
    equally between its neighbours. Collectives, whose communicators mpiP does not tell, are left out.

    Parameters
    ----------
    report : MpipReport
    shape : sequence of int
        Of the grid of ranks, the last dimension running fastest.
    periodic : bool or sequence of bool
        Which dimensions are periodic.

    Raises
    ------
    ConfigError
        If the grid has other ranks than the report, or a rank that sent something has no neighbours.
    """
    if math.prod(shape) != report.n_ranks:
        raise ConfigError(
            f"a grid of {shape_text(shape)} has {math.prod(shape)} ranks, and the report {report.n_ranks}",
            mend="give the grid of the ranks that exchange halos",
        )
    sent, _ = report.sent_by_rank()
    grid = grid_graph(shape, periodic)
    shares = np.bincount(grid.sources, grid.n_bytes, grid.n_ranks)  # neighbours on both sides may be one rank
    alone = np.flatnonzero((shares == 0) & (sent > 0))
    if len(alone):
        raise ConfigError(f"rank {alone[0]} sent {sent[alone[0]]:g} bytes, and has no neighbours", mend=None)
    n_bytes = grid.n_bytes * sent[grid.sources] / shares[grid.sources]
    graph = CommunicationGraph.from_edges(grid.n_ranks, grid.sources, grid.targets, n_bytes)
    return replace(graph, grid=tuple(shape))
