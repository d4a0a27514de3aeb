"""Upper bounds of what a rank sends in the calls of each reduction of `petacomm.reduction`, and its set-up.

Each algorithm moves keys: pixels, or unknowns beside the map, of samples and templates. Sums at their owners
are a reverse call, values at all holders a forward one. Algorithms that are an all-reduce alone do either by
it.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from petacomm.costs.algorithm_loads import HYBRID_DENSE_PHASE
from petacomm.costs.options import DEFAULT_OPTIONS
from petacomm.mpi.communicator import SPARSE_SIZE
from petacomm.mpi.message_size import MESSAGE_BYTES
from petacomm.sharing.nested_groups import message_bounds
from petamap.planning.rank_traffic import (
    AmplitudeSizes,
    ExchangedRows,
    RankSizes,
    Sent,
    small_collectives,
)

# Keys of a chunk of the directory, and bytes of a chunk and of a tally of a rank's owned keys.
CHUNK_KEYS, _CHUNK_BYTES, _TALLY_BYTES = 64, 16, 32
# Rounds in which owners are chosen; three where a rank holds many keys, as more bring little.
_OWNER_ROUNDS = 3
# Calls of an algorithm that is timed, one of them before the clock runs, and small collectives of each.
_TRIALS, _TRIAL_COLLECTIVES = 4, 2
# Pairs of a key and a holder that are gathered for the choice of an algorithm, all ranks, and bytes of each.
_SAMPLED_PAIRS, _PAIR_BYTES = 1 << 16, 24
# Pickled bytes of what rank 0 tells others of the choice: the machine's times, and who is timed.
_CHOICE_BYTES = 4096


class KeySizes(NamedTuple):
    """Keys that a reduction is of, on the rank that has most.

    Attributes
    ----------
    n_keys, n_chunks : float
        Keys held, and chunks of 64 of them.
    n_pairs : float
        Pairs of a key and a holder of which a rank is the directory.
    n_lists : float
        Entries of the lists of holders that a directory sends to all holders.
    rows : mapping of str to tuple of ExchangedRows
        Rows sent in each phase of an all-reduce, by algorithm.
    """

    n_keys: float
    n_chunks: float
    n_pairs: float
    n_lists: float
    rows: Mapping[str, tuple[ExchangedRows, ...]]


def pixel_sizes(sizes: RankSizes) -> KeySizes:
    """Return the sizes of the pixels."""
    more = directory_excess(sizes)
    n_lists = more * (sizes.pair_rows + sizes.n_held)
    return KeySizes(sizes.n_keys, sizes.n_chunks, more * sizes.n_held, n_lists, sizes.rows)


def gap_sizes(sizes: RankSizes) -> KeySizes:
    """Return the sizes of the unknowns beside the map, of samples and templates.

    Neighbours in time share some; amplitudes have all ranks that have a part of a stream of theirs.
    """
    own = sizes.amplitudes or AmplitudeSizes()
    n = sizes.n_beside  # they may lie apart: each has a chunk of its own
    of_gaps = directory_pairs(sizes, sizes.n_gaps, 2)
    of_amplitudes = directory_pairs(sizes, own.n_held, own.most_holders)
    n_lists = 2 * of_gaps + own.most_holders * of_amplitudes
    return KeySizes(n, n, of_gaps + of_amplitudes, n_lists, gap_rows(sizes))


def gap_rows(sizes: RankSizes) -> dict[str, tuple[ExchangedRows, ...]]:
    """Return the rows of unknowns beside the map that are sent in each phase, of algorithms that sum them.

    Nodes may have to send what all their ranks share; of nested groups each layer has as much, and four
    standard deviations more, as hashes say who sums.
    """
    own = sizes.amplitudes or AmplitudeSizes()
    n, partners = sizes.n_shared_gaps + own.n_sent, sizes.others(sizes.gap_partners + own.partners)
    near = ExchangedRows(partners, n)
    of_node = sizes.ranks_per_node * n if sizes.n_nodes > 1 else 0.0
    nodes = ExchangedRows(min(sizes.n_nodes - 1.0, sizes.ranks_per_node * partners), of_node)
    spread = n + 4 * math.sqrt(n)
    layers = [
        tuple(ExchangedRows(min(float(most.max()), spread), spread) for most in layer)
        for layer in message_bounds(sizes.size, DEFAULT_OPTIONS.radix)
    ]
    nested = (*(out for out, _ in layers), *(back for _, back in reversed(layers)))
    striped = ExchangedRows(0.0, 2 * of_node)
    hybrid = (nodes, striped, nodes) if sizes.n_nodes > 1 else ()
    return {"owner": (near, near), "pairwise": (near,), "butterfly": nested, "hybrid": hybrid}


def moved_sizes(sizes: RankSizes, n: float, partners: float, holders: float = 2.0) -> KeySizes:
    """Return the sizes of keys that move between two kinds of holders, of which a rank sends n rows.

    In a reduction, and in what goes back, it sends them once together.
    """
    rows = ExchangedRows(sizes.others(partners), n)
    return KeySizes(n, n, directory_pairs(sizes, n, holders), 0.0, {"owner": (rows, rows)})


def directory_pairs(sizes: RankSizes, mean: float, holders: float) -> float:
    """Return the pairs of a key and a holder of which a rank is the directory, the mean and four deviations.

    Directories are those of chunks of 64 keys, by a hash; all pairs are in few chunks if keys are few.

    Parameters
    ----------
    sizes : RankSizes
    mean : float
        Pairs a rank.
    holders : float
        Of a key at most.
    """
    of_chunk = CHUNK_KEYS * holders
    if not of_chunk:
        return 0.0
    chunks = mean / of_chunk
    return min(mean * sizes.size, (chunks + 4 * math.sqrt(chunks) + 4) * of_chunk)


def directory_excess(sizes: RankSizes) -> float:
    """Return how many times the mean a directory may have: four standard deviations above it.

    Chunks of 64 pixels have their directories by a hash, so one has ``1 + 4 / sqrt(chunks of a directory)``
    times as many as others at most, if chunks have holders alike.
    """
    return 1 + 4 / math.sqrt(max(1.0, sizes.n_global / CHUNK_KEYS / sizes.size))


def counted_alltoall(sizes: RankSizes, messages: float, n_bytes: float) -> Sent:
    """Return an all-to-all whose counts, 8 P bytes, and largest part are exchanged before."""
    return Sent(messages, 2.0, n_bytes + 8 * sizes.size + 8)


def sparse_alltoall(sizes: RankSizes, messages: float, n_bytes: float) -> Sent:
    """Return an all-to-all that needs no counts from `SPARSE_SIZE` ranks on."""
    if sizes.size >= SPARSE_SIZE:
        return Sent(messages, 0.0, n_bytes)
    return counted_alltoall(sizes, messages, n_bytes)


def sharing_graph(sizes: RankSizes, keys: KeySizes, with_lists: bool = False) -> Sent:
    """Return the bound of finding who holds and owns keys, by "rendezvous".

    Keys go to directories as chunks of 16 bytes; each answers 8 bytes for each of the pairs of a key and a
    holder that it has; owners are tallied in up to three rounds of 32 P bytes. On several nodes, a rank has
    the keys of its node of which it is the directory there, and sends them to one rank of each other node,
    with masks of 8 bytes for each key and 64 ranks. With lists of all holders, 4 bytes each, it is flat.
    """
    asked, answered = sizes.others(keys.n_chunks), sizes.others(keys.n_pairs)
    more = Sent()
    if with_lists:
        more = sparse_alltoall(sizes, answered, 4 * keys.n_lists)
    elif 1 < sizes.n_nodes < sizes.size:
        words = math.ceil(sizes.ranks_per_node / 64)
        asked = answered = min(asked, _directories(sizes))
        more = sparse_alltoall(sizes, asked, 8 * words * keys.n_keys)
    ask = sparse_alltoall(sizes, asked, _CHUNK_BYTES * keys.n_chunks)
    answer = sparse_alltoall(sizes, answered, 8 * keys.n_pairs)
    tallies = Sent(0.0, 1.0, _TALLY_BYTES * sizes.size).times(_OWNER_ROUNDS)
    return small_collectives(6).plus(ask, more, answer, tallies)


def gathered_graph(sizes: RankSizes, keys: KeySizes) -> Sent:
    """Return the bound of the same by "gather-sift": all keys to all ranks, in pieces of a buffer."""
    pieces = math.ceil(keys.n_keys / max(1, sizes.buffer_keys // (2 * sizes.size)))
    tallies = Sent(0.0, 1.0, _TALLY_BYTES * sizes.size).times(_OWNER_ROUNDS)
    return small_collectives(8).plus(tallies, Sent(0.0, float(pieces), 8 * keys.n_keys))


def _directories(sizes: RankSizes) -> float:
    """Return the ranks of other nodes to which one sends keys: one of each, all of a smaller one."""
    last = sizes.size - (sizes.n_nodes - 1) * sizes.ranks_per_node
    full = last == sizes.ranks_per_node
    return sizes.n_nodes - 1.0 if full else sizes.n_nodes - 2.0 + sizes.ranks_per_node


class ReductionBounds(abc.ABC):
    """Bounds of the calls of an algorithm on some keys, for rows of so many bytes.

    Parameters
    ----------
    sizes : RankSizes
    keys : KeySizes
    """

    name: ClassVar[str]
    # Algorithm whose phases send rows in messages, where it is another one.
    sends_as: ClassVar[str] = ""
    # Whether it is an all-reduce alone: ranks then keep rows of their ghosts, to which nothing is sent.
    allreduce_only: ClassVar[bool] = False
    needs_lists: ClassVar[bool] = False

    def __init__(self, sizes: RankSizes, keys: KeySizes) -> None:
        self.sizes, self.keys = sizes, keys
        self.phases = keys.rows[self.sends_as or self.name]

    def reverse(self, n_bytes: float) -> Sent:
        """Return sums of the rows of all holders, at the owners."""
        return self._sent(n_bytes, 0)

    def forward(self, n_bytes: float) -> Sent:
        """Return rows of owners, at all holders."""
        return self._sent(n_bytes, 1)

    def set_up(self) -> Sent:
        """Return the plan: the graph of who shares keys, and the lists of what is sent."""
        return sharing_graph(self.sizes, self.keys, self.needs_lists).plus(self.row_lists())

    @abc.abstractmethod
    def row_lists(self) -> Sent:
        """Return what the lists of rows take, when the graph is known."""

    def _sent(self, n_bytes: float, *numbers: int) -> Sent:
        """Return what phases of these numbers send; nothing where there are none, as within a node."""
        sent = [self.phases[number] for number in numbers if number < len(self.phases)]
        return Sent(sum(one.messages for one in sent), 0.0, n_bytes * sum(one.rows for one in sent))

    def _exchanged(self, *numbers: int) -> Sent:
        """Return the all-to-alls that send keys, 8 bytes each, as phases of these numbers send rows."""
        each = (self._sent(8, number) for number in numbers)
        return Sent().plus(*(counted_alltoall(self.sizes, one.messages, one.bytes) for one in each))


class OwnerBounds(ReductionBounds):
    """Rows to owners, and back to ghosts."""

    name = "owner"

    def row_lists(self) -> Sent:
        """Return ghosts that are asked for, 8 bytes each."""
        return small_collectives(4).plus(self._exchanged(0))


class DenseBounds(OwnerBounds):
    """Reduce-scatters and gathers of all keys, some buffers; lists are made through the owners."""

    name, sends_as = "dense", "owner"

    def reverse(self, n_bytes: float) -> Sent:
        """Return reduce-scatters of all keys."""
        return Sent(0.0, self._calls(n_bytes), n_bytes * self.sizes.n_global)

    def forward(self, n_bytes: float) -> Sent:
        """Return gathers, to each of which a rank gives what it owns."""
        return Sent(0.0, self._calls(1), n_bytes * self.sizes.n_owned)

    def row_lists(self) -> Sent:
        """Return the numbers of all keys, 8 bytes each from owner to ghosts."""
        numbers = Sent(0.0, 1.0, 8 * self.sizes.size).plus(self._sent(8, 1))
        return super().row_lists().plus(numbers)

    def _calls(self, n_bytes: float) -> float:
        one = self.sizes
        pieces = math.ceil(n_bytes * min(one.buffer_keys, one.n_global) / MESSAGE_BYTES)
        return float(pieces * math.ceil(one.n_global / one.buffer_keys))


class HierarchicalBounds(ReductionBounds):
    """Sums within nodes, in their memory; a rank sends those of its node to the nodes of owners."""

    name = "hierarchical"

    def row_lists(self) -> Sent:
        """Return the keys of nodes, 8 bytes each."""
        several = self.sizes.n_nodes > 1
        return small_collectives(4).plus(self._exchanged(0) if several else Sent())


class AllReduceBounds(ReductionBounds):
    """Algorithm that is an all-reduce alone: all of its phases, either way."""

    allreduce_only = True

    def reverse(self, n_bytes: float) -> Sent:
        """Return an all-reduce."""
        return self._sent(n_bytes, *range(len(self.phases)))

    def forward(self, n_bytes: float) -> Sent:
        """Return an all-reduce to which only owners add."""
        return self.reverse(n_bytes)


class PairwiseBounds(AllReduceBounds):
    """Rows to all other holders."""

    name, needs_lists = "pairwise", True

    def row_lists(self) -> Sent:
        """Return the agreement on sizes: holders are known."""
        return small_collectives(2)


class ButterflyBounds(AllReduceBounds):
    """Rows through nested groups, and back."""

    name = "butterfly"

    def row_lists(self) -> Sent:
        """Return the keys of each layer, 8 bytes each."""
        n_layers = len(self.phases) // 2
        return small_collectives(2 * n_layers).plus(self._exchanged(*range(n_layers)))


class HybridBounds(AllReduceBounds):
    """Sums within nodes; between nodes, of keys that most of them hold, by all-reduces of stripes."""

    name = "hybrid"

    def reverse(self, n_bytes: float) -> Sent:
        """Return an all-reduce; a stripe is one collective to which a rank gives its rows once."""
        if self.sizes.n_nodes == 1:
            return Sent()
        others = (number for number in range(len(self.phases)) if number != HYBRID_DENSE_PHASE)
        n_nodes = self.sizes.n_nodes
        rows = self.phases[HYBRID_DENSE_PHASE].rows * n_nodes / (2 * (n_nodes - 1))
        calls = 1 + math.floor(n_bytes * rows / MESSAGE_BYTES)
        return self._sent(n_bytes, *others).plus(Sent(0.0, float(calls), n_bytes * rows))

    def row_lists(self) -> Sent:
        """Return the graphs of what nodes hold, of which a rank has no more keys than of its own."""
        one = self.sizes
        if one.n_nodes == 1:
            return small_collectives(4)
        graphs = sharing_graph(one, self.keys).plus(sharing_graph(one, self.keys, with_lists=True))
        number = counted_alltoall(one, one.others(self.keys.n_keys), 8 * self.keys.n_keys)
        tally = Sent(0.0, 1.0, 8 * one.size)
        return small_collectives(16).plus(graphs, number.times(2), tally, self._exchanged(0, 0))


_ALL = OwnerBounds, DenseBounds, HierarchicalBounds, PairwiseBounds, ButterflyBounds, HybridBounds
_KINDS: dict[str, type[ReductionBounds]] = {one.name: one for one in _ALL}


def pixel_reduction(sizes: RankSizes, name: str) -> ReductionBounds:
    """Return the bounds of an algorithm on pixels."""
    return _KINDS[name](sizes, pixel_sizes(sizes))


def gap_reduction(sizes: RankSizes, name: str) -> ReductionBounds:
    """Return the bounds on unknowns beside the map: of "owner" unless it is an all-reduce alone."""
    kind = _KINDS[name]
    return (kind if kind.allreduce_only else OwnerBounds)(sizes, gap_sizes(sizes))


def choice_of_reduction(sizes: RankSizes, candidates: tuple[str, ...]) -> Sent:
    """Return the bound of choosing among algorithms: counts, a sample of keys, and two that are timed."""
    counts = counted_alltoall(sizes, sizes.size - 1.0, 8.0 * sizes.size).times(2)
    share = _SAMPLED_PAIRS * sizes.n_keys / max(sizes.n_held, 1.0) / sizes.size
    sample = counted_alltoall(sizes, 1.0, _PAIR_BYTES * min(sizes.n_keys, 2 * share))
    told = small_collectives(24).plus(Sent(0.0, 0.0, _CHOICE_BYTES))
    trials = sorted((_trial(sizes, name) for name in candidates), key=lambda sent: sent.bytes)
    return elementwise_max(*trials[-2:]).times(min(2, len(candidates))).plus(counts, sample, told)


def _trial(sizes: RankSizes, name: str) -> Sent:
    """Return what building and timing an algorithm takes."""
    one = pixel_reduction(sizes, name)
    row = 8 * sizes.n_stokes
    call = one.reverse(row) if one.allreduce_only else one.reverse(row).plus(one.forward(row))
    built = one.set_up() if one.needs_lists else one.row_lists()
    return built.plus(call.times(_TRIALS), small_collectives(_TRIALS * _TRIAL_COLLECTIVES + 4))


def elementwise_max(*sent: Sent) -> Sent:
    """Return the largest of each count."""
    return Sent(*(float(max(counts)) for counts in np.transpose(sent))) if sent else Sent()
