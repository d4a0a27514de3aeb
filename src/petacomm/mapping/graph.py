"""Communication graphs: bytes that the ranks of a job send each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import real_array, require_arrays, require_integer, whole_array
from petacomm.base.display import Displayed
from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petacomm.mapping.rank_grid import find_rank_grid
from petacomm.network import Traffic

if TYPE_CHECKING:
    from scipy.sparse import csr_array


# A graph takes some ten bytes a rank: files of a few bytes that declare more ranks would take gigabytes.
MOST_RANKS = 1 << 25
MOST_BYTES = 1e18  # of a message: sums of whole graphs, and their powers in refinement, are numbers then


class PartnerLists(NamedTuple):
    """Partners of each rank, with the bytes in both directions, in the layout of the kernels.

    Attributes
    ----------
    offsets : int64 (n_ranks + 1,)
        The entries of rank r are those from ``offsets[r]`` to ``offsets[r + 1]`` - 1.
    partners : int32 (offsets[-1],)
    to, from_ : float64 (offsets[-1],)
        Bytes sent to, and received from, each partner.
    """

    offsets: Int64Array
    partners: Int32Array
    to: FloatArray
    from_: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class CommunicationGraph(Displayed):
    """Bytes sent between ranks: a directed graph in compressed sparse row format.

    Parameters
    ----------
    offsets : int64 (n_ranks + 1,)
    targets : int32 (n_edges,)
        ``targets[offsets[r]:offsets[r + 1]]`` are the ranks to which rank r sends, increasing; never r
        itself.
    n_bytes : float64 (n_edges,)
        Bytes of each edge, more than 0.
    grid : tuple of int, optional
        Shape of the Cartesian grid of the ranks, the last dimension running fastest.

    Examples
    --------
    >>> import petacomm
    >>> graph = petacomm.CommunicationGraph.from_edges(3, [0, 1, 1], [1, 2, 2], [10, 20, 5])
    >>> graph.n_ranks, graph.n_bytes.tolist()
    (3, [10.0, 25.0])
    """

    offsets: Int64Array
    targets: Int32Array
    n_bytes: FloatArray
    grid: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        require_arrays(offsets=self.offsets, targets=self.targets, n_bytes=self.n_bytes)
        whole_array(self.offsets, "offsets")
        whole_array(self.targets, "targets")
        real_array(self.n_bytes, "n_bytes")

    def _facts(self) -> dict[str, object]:
        return {
            "n_ranks": self.n_ranks,
            "n_edges": self.n_edges,
            "bytes": f"{float(self.n_bytes.sum()):.4g}",
            "grid": "x".join(map(str, self.grid)) if self.grid else None,
        }

    @classmethod
    def from_edges(
        cls, n_ranks: int, source: npt.ArrayLike, target: npt.ArrayLike, n_bytes: npt.ArrayLike = 1.0
    ) -> CommunicationGraph:
        """Return the graph of messages: duplicate edges are summed, messages of a rank to itself dropped.

        Parameters
        ----------
        n_ranks : int
        source, target : int (n,)
            Ranks.
        n_bytes : (n,) or number

        Returns
        -------
        CommunicationGraph

        Raises
        ------
        ConfigError
            If there are more than 2^25 ranks, one is out of range, or bytes are negative or above 1e18; the
            error names the message.
        """
        ends = np.asarray(source).ravel(), np.asarray(target).ravel()
        given = real_array(n_bytes, "n_bytes").ravel()
        if len(given) not in (1, len(ends[0])):
            raise ConfigError(f"{len(given)} sizes for {len(ends[0])} messages", mend="give one for each")
        sizes = np.broadcast_to(given, ends[0].shape)
        _check_edges(n_ranks, *ends, sizes)
        from scipy.sparse import coo_array

        kept = (ends[0] != ends[1]) & (sizes > 0)
        rows, columns = ends[0][kept].astype(np.int32), ends[1][kept].astype(np.int32)
        matrix = coo_array((sizes[kept], (rows, columns)), shape=(n_ranks, n_ranks)).tocsr()
        matrix.sum_duplicates()
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)

    @property
    def n_ranks(self) -> int:
        """Number of ranks, including those without messages."""
        return len(self.offsets) - 1

    @property
    def n_edges(self) -> int:
        """Number of directed edges: ordered pairs of ranks of which the first sends to the second."""
        return len(self.targets)

    @cached_property
    def sources(self) -> Int32Array:
        """Sending rank of each edge: int32 (n_edges,)."""
        return np.repeat(np.arange(self.n_ranks, dtype=np.int32), np.diff(self.offsets))

    @property
    def total_bytes(self) -> float:
        """Total bytes of all edges."""
        return float(self.n_bytes.sum())

    def reversed(self) -> CommunicationGraph:
        """Return the graph with the direction of all edges reversed.

        Returns
        -------
        CommunicationGraph
        """
        return CommunicationGraph.from_edges(self.n_ranks, self.targets, self.sources, self.n_bytes)

    def grouped(self, group_of: npt.ArrayLike, n_groups: int) -> CommunicationGraph:
        """Return the graph between groups of ranks, e.g. those of nodes, without messages within a group.

        Parameters
        ----------
        group_of : int (n_ranks,)
        n_groups : int

        Returns
        -------
        CommunicationGraph
            Of `n_groups` ranks.
        """
        groups = self._of_ranks(group_of, "group_of")
        ends = groups[self.sources], groups[self.targets]
        return CommunicationGraph.from_edges(n_groups, *ends, self.n_bytes)

    def subgraph(self, ranks: npt.ArrayLike) -> CommunicationGraph:
        """Return the graph induced by some ranks (n,), renumbered in the given order.

        Parameters
        ----------
        ranks : int (n,)

        Returns
        -------
        CommunicationGraph
            Of n ranks.
        """
        chosen = self._some_ranks(ranks)
        number = np.full(self.n_ranks, -1, np.int64)
        number[chosen] = np.arange(len(chosen))
        source, target = number[self.sources], number[self.targets]
        inside = (source >= 0) & (target >= 0)
        return CommunicationGraph.from_edges(
            len(chosen), source[inside], target[inside], self.n_bytes[inside]
        )

    def restricted_to(self, ranks: npt.ArrayLike) -> CommunicationGraph:
        """Return the graph of all ranks with only the edges between the given ranks (n,).

        Parameters
        ----------
        ranks : int (n,)

        Returns
        -------
        CommunicationGraph
            Of all ranks.
        """
        inside = np.zeros(self.n_ranks, np.bool_)
        inside[self._some_ranks(ranks)] = True
        kept = inside[self.sources] & inside[self.targets]
        return CommunicationGraph.from_edges(
            self.n_ranks, self.sources[kept], self.targets[kept], self.n_bytes[kept]
        )

    def _of_ranks(self, values: npt.ArrayLike, name: str) -> Int64Array:
        numbers = whole_array(values, name)
        if numbers.shape != (self.n_ranks,):
            what = f"has the shape {numbers.shape}, and the graph {self.n_ranks} ranks"
            raise ConfigError(what, where=name, mend="give one for each rank")
        return numbers

    def _some_ranks(self, values: npt.ArrayLike) -> Int64Array:
        ranks = whole_array(values, "ranks").ravel()
        if len(ranks) and not 0 <= ranks.min() <= ranks.max() < self.n_ranks:
            raise ConfigError(
                f"one is not among the {self.n_ranks} ranks", where="ranks", mend="count from 0"
            )
        return ranks

    def traffic(self, nodes: npt.ArrayLike, n_nodes: int) -> Traffic:
        """Return the traffic between nodes if rank r is on ``nodes[r]``; each pair of nodes occurs once.

        Parameters
        ----------
        nodes : int (n_ranks,)
        n_nodes : int

        Returns
        -------
        Traffic
        """
        between = self.grouped(self._of_ranks(nodes, "nodes"), n_nodes)
        return Traffic(between.sources, between.targets, between.n_bytes)

    @cached_property
    def likely_grid(self) -> tuple[int, ...] | None:
        """The grid of the ranks, or what `find_rank_grid` tells of one by their bytes."""
        return self.grid or find_rank_grid(self.n_ranks, self.sources, self.targets, self.n_bytes)

    @cached_property
    def partner_lists(self) -> PartnerLists:
        """The graph as lists of partners, with the bytes of both directions."""
        from scipy.sparse import csr_array

        shape = (self.n_ranks, self.n_ranks)
        to = csr_array((self.n_bytes, self.targets, self.offsets), shape=shape)
        back = to.T.tocsr()
        both = (to + back).tocsr()  # values are positive: the pattern is the union of both
        both.sort_indices()
        lists = [_expand_to_pattern(both, part) for part in (to, back)]
        return PartnerLists(both.indptr.astype(np.int64), both.indices.astype(np.int32), *lists)


def _expand_to_pattern(pattern: csr_array, part: csr_array) -> FloatArray:
    """Return the values of a CSR array at the entries of a larger pattern, 0 where it has none."""
    width = pattern.shape[1]
    all_entries, entries = (
        np.repeat(np.arange(width, dtype=np.int64), np.diff(matrix.indptr)) * width + matrix.indices
        for matrix in (pattern, part)
    )
    values = np.zeros(len(all_entries))
    values[np.searchsorted(all_entries, entries)] = part.data
    return values


def _check_edges(
    n_ranks: int, source: npt.NDArray[np.generic], target: npt.NDArray[np.generic], n_bytes: FloatArray
) -> None:
    if not 1 <= require_integer(n_ranks, "n_ranks", -(2**63)) <= MOST_RANKS:
        raise ConfigError(f"a graph of {n_ranks:,} ranks", mend=f"give 1 to {MOST_RANKS:,}")
    if len(source) != len(target):
        raise ConfigError(f"{len(source)} sources and {len(target)} targets", mend="give pairs")
    for ends in (source, target):
        if ends.dtype.kind not in "iu" and len(ends):
            raise ConfigError("ranks of a graph are not whole numbers", mend=None)
        outside = np.flatnonzero((ends.astype(np.int64) < 0) | (ends.astype(np.int64) >= n_ranks))
        if len(outside):
            raise ConfigError(
                f"there is no rank {ends[outside[0]]}",
                where=f"message {outside[0]} of the graph",
                mend=f"ranks are 0 to {n_ranks - 1}",
            )
    wrong = np.flatnonzero(~((n_bytes >= 0) & (n_bytes <= MOST_BYTES)))
    if len(wrong):
        raise ConfigError(
            f"{n_bytes[wrong[0]]} bytes",
            where=f"message {wrong[0]} of the graph",
            mend=f"give 0 to {MOST_BYTES:.1g}",
        )
