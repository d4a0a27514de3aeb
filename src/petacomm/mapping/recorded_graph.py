"""Communication graph of a recording."""

from __future__ import annotations

from collections.abc import Mapping

from petacomm.mapping.graph import CommunicationGraph
from petacomm.recording import Recording


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
    rows = recording.messages(algorithms)
    if phase is not None:
        rows = rows[rows["phase"] == phase]
    return CommunicationGraph.from_edges(recording.n_ranks, rows["source"], rows["target"], rows["bytes"])
