"""Communication graphs in a form that tests compare."""

from petacomm.mapping import CommunicationGraph


def as_dict(graph: CommunicationGraph) -> dict[tuple[int, int], float]:
    """Return the bytes of each pair of ranks."""
    pairs = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    return dict(zip(pairs, graph.n_bytes.tolist(), strict=True))
