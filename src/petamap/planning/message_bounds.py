"""Upper bounds of what a rank sends in each phase of a run: messages, calls of collectives, and bytes.

They count as the summary of a run does: messages to single ranks and their bytes; calls of MPI's collectives,
with the bytes that a rank passes to each, which MPI sends as it pleases. What ranks of a node hand to each
other there, through the communicator of the node, is in neither.

Bounds follow from what the code sends and from the largest rank of the forecast: rows of pixels to owners and
back, pixels held and owned, unknown samples. Of a forecast from a sample of the sky they are three standard
errors above the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from petacomm.mpi.communicator import SPARSE_SIZE
from petamap.data.config import RunConfig
from petamap.data.observation import Observation
from petamap.mapmaking.map_outputs import MADE_APART, product_kinds

# Keys of a chunk of the directory, and bytes of a chunk and of a tally of a rank's owned keys.
_CHUNK_KEYS, _CHUNK_BYTES, _TALLY_BYTES = 64, 16, 32
# Rounds in which owners are chosen; three where a rank holds many keys, as more bring little.
_OWNER_ROUNDS = 3
# Bytes of one dot product: 60 limbs of 64 bits.
_DOT_BYTES = 480
# Bytes of a small collective: counts, flags, a short text.
_SMALL = 48
# Bytes of a visit of the model of two levels, and the highest degree of its polynomial.
_VISIT_BYTES, _MOST_DEGREE = 24, 12
# Pickled bytes of the band of one kind of stream, and of a phase's cost on one rank.
_BAND_BYTES, _COST_BYTES = 128, 256


class Sent(NamedTuple):
    """What a rank sends: messages to single ranks, calls of collectives, and the bytes of both."""

    messages: float = 0.0
    collectives: float = 0.0
    bytes: float = 0.0

    def plus(self, *others: Sent) -> Sent:
        """Return the sum with others."""
        return Sent(*(float(sum(parts)) for parts in zip(self, *others, strict=True)))

    def times(self, number: float) -> Sent:
        """Return what is sent in so many such calls."""
        return Sent(*(number * part for part in self))

    def tree_messages(self, size: int) -> float:
        """Return the messages with those inside of collectives, made by trees: 2 log2(size) a call at most.

        Parameters
        ----------
        size : int
            Number of ranks.
        """
        return self.messages + 2 * math.ceil(math.log2(size)) * self.collectives if size > 1 else 0.0


def small_collectives(number: float) -> Sent:
    """Return the calls of collectives that agree on errors, sizes and choices."""
    return Sent(0.0, number, number * _SMALL)


class ExchangedRows(NamedTuple):
    """Rows that a rank sends in one exchange, and the ranks that get any."""

    messages: float = 0.0
    rows: float = 0.0


class ModelSizes(NamedTuple):
    """What the rank that has most of the model of two levels holds and sends; see `RankSizes`.

    Attributes
    ----------
    n_keys, n_chunks : float
    to_owners, to_ghosts : ExchangedRows
    n_visits : float
        Visits of pixels and knots, 24 bytes each.
    """

    n_keys: float
    n_chunks: float
    to_owners: ExchangedRows
    to_ghosts: ExchangedRows
    n_visits: float


@dataclass(frozen=True)
class RankSizes:
    """Sizes of the rank that has most, on which bounds depend.

    Attributes
    ----------
    size, n_nodes : int
        Ranks, and their nodes.
    ranks_per_node : int
    n_stokes : int
    n_keys, n_owned, n_chunks : float
        Pixels held and owned, chunks of 64 pixels held.
    n_held : float
        Pixels held by a rank, the mean over ranks.
    n_global : float
        Pixels of all ranks.
    n_pix : int
        Pixels of the full map.
    to_owners, to_ghosts : ExchangedRows
        Rows of pixels in a reduction onto owners, and in the broadcast back.
    n_samples : float
        Samples held.
    n_gaps, n_shared_gaps : float
        Unknown samples held, and those that a neighbour in time holds as well.
    gap_partners : float
        Ranks with which a rank shares unknown samples.
    n_kinds : float
        Kinds of streams that have a band of their own, all ranks.
    n_detectors : float
        Detectors of all observations that a rank has samples of.
    n_pixels_looked_at : float
        Pixels that a rank finds for the choice of the distribution; 0 where it is given or not looked at.
    product_columns : tuple of int
        Columns of each product.
    partial : bool
        Whether files have the observed pixels alone.
    binned_only : bool
        Whether there is no solver.
    model : ModelSizes, optional
        Of the two-level preconditioner.
    """

    size: int
    n_nodes: int
    ranks_per_node: int
    n_stokes: int
    n_keys: float
    n_owned: float
    n_chunks: float
    n_held: float
    n_global: float
    n_pix: int
    to_owners: ExchangedRows
    to_ghosts: ExchangedRows
    n_samples: float
    n_gaps: float
    n_shared_gaps: float
    gap_partners: float
    n_kinds: float
    n_detectors: float
    n_pixels_looked_at: float
    product_columns: tuple[int, ...]
    partial: bool
    binned_only: bool = False
    model: ModelSizes | None = None

    def others(self, most: float) -> float:
        """Return how many other ranks get anything of so many things."""
        return min(self.size - 1.0, most)


class MessageBounds:
    """Bounds of all phases of a run whose reductions are those of "owner", without templates.

    With P ranks, k values a pixel, r_o rows sent to m_o owners and r_g rows to m_g holders of ghosts:
    a reduction of w values sends m_o messages of 8 w r_o bytes in all, a broadcast m_g of 8 w r_g. An
    all-to-all of which counts are not known before has two collectives with 8 P + 8 bytes.

    Parameters
    ----------
    sizes : RankSizes
    """

    def __init__(self, sizes: RankSizes) -> None:
        self.sizes = sizes

    def phases(self, iterations: int) -> dict[str, Sent]:
        """Return the bound of each phase, in the order of a run, with the dot products apart.

        Parameters
        ----------
        iterations : int
            Of the solver; the dot products are among them, too.
        """
        found = {
            "sources": self.sources(),
            "noise kernels": self.noise_kernels(),
            "distribution": self.distribution(),
            "pointing": self.pointing(),
            "reduction plan": self.reduction_plan(),
            "weights": self.weights(),
            "preconditioner": self.preconditioner(),
            "data": self.data(),
            "iterations": self.iterations(iterations),
            "dot products": self.dot_products(iterations),
            "products": self.products(),
            "summary": self.summary(),
        }
        if self.sizes.binned_only:
            del found["iterations"], found["dot products"], found["preconditioner"]
        return found if self.sizes.size > 1 else dict.fromkeys(found, Sent())

    # --- exchanges

    def reduce(self, n_bytes: float) -> Sent:
        """Return a reduction of pixels onto owners: m_o messages of ``r_o n_bytes``."""
        to = self.sizes.to_owners
        return Sent(to.messages, 0.0, to.rows * n_bytes)

    def broadcast(self, n_bytes: float) -> Sent:
        """Return a broadcast of pixels to ghosts: m_g messages of ``r_g n_bytes``."""
        to = self.sizes.to_ghosts
        return Sent(to.messages, 0.0, to.rows * n_bytes)

    def alltoall(self, messages: float, n_bytes: float) -> Sent:
        """Return an all-to-all whose counts, 8 P bytes, and largest part are exchanged before."""
        return Sent(messages, 2.0, n_bytes + 8 * self.sizes.size + 8)

    def sparse_alltoall(self, messages: float, n_bytes: float) -> Sent:
        """Return an all-to-all that needs no counts from `SPARSE_SIZE` ranks on."""
        if self.sizes.size >= SPARSE_SIZE:
            return Sent(messages, 0.0, n_bytes)
        return self.alltoall(messages, n_bytes)

    def gaps(self, width: float = 1.0) -> Sent:
        """Return the reduction and the broadcast of unknown samples: 8 bytes to neighbours in time."""
        one = self.sizes
        return Sent(2 * one.gap_partners, 0.0, 8 * width * one.n_shared_gaps)

    # --- phases

    def sources(self) -> Sent:
        """Return the bound of opening simulated data: 24 small collectives. Tables of files are more."""
        return small_collectives(24)

    def noise_kernels(self) -> Sent:
        """Return the bound of choosing bands: kinds of streams are dealt to ranks, and their bands gathered.

        ``128 (1 + n_kinds / P)`` bytes, and 4 small collectives.
        """
        each = 1 + math.ceil(self.sizes.n_kinds / self.sizes.size)
        return small_collectives(4).plus(Sent(0.0, 1.0, _BAND_BYTES * each))

    def distribution(self) -> Sent:
        """Return the bound of choosing the distribution: 8 bytes a pixel found, and 16 small collectives."""
        looked_at = self.sizes.n_pixels_looked_at
        return small_collectives(16).plus(Sent(0.0, 4.0, 8 * looked_at)) if looked_at else Sent()

    def pointing(self) -> Sent:
        """Return the bound of finding pixels: 24 small collectives agree on memory and what is read."""
        return small_collectives(24)

    def reduction_plan(self) -> Sent:
        """Return the bound of the plans of pixels and of unknown samples (`plan_set_up`)."""
        one = self.sizes
        pixels = self.plan_set_up(one.n_keys, one.n_chunks, self.directory_pairs(), one.to_owners)
        gap_rows = ExchangedRows(one.gap_partners, one.n_shared_gaps)
        gaps = small_collectives(6)
        if one.n_gaps:
            n_chunks = one.n_gaps  # gaps may lie apart
            gaps = gaps.plus(self.plan_set_up(one.n_gaps, n_chunks, 1.5 * one.n_gaps, gap_rows))
        return pixels.plus(gaps, small_collectives(8))

    def plan_set_up(self, n_keys: float, n_chunks: float, n_pairs: float, rows: ExchangedRows) -> Sent:
        """Return the bound of a set-up by "rendezvous", as of "owner".

        Keys go to directories as chunks of 16 bytes; each answers 8 bytes for each of the pairs of a key and
        a holder that it has; owners are tallied in up to three rounds of 32 P bytes; ghosts are asked for
        with 8 bytes each. On several nodes, a rank has the keys of its node of which it is the directory
        there, and sends them to one rank of each other node, with masks of 8 bytes for each key and 64 ranks.
        """
        one = self.sizes
        asked, masks = one.others(n_chunks), Sent()
        answered = one.others(n_pairs)
        if 1 < one.n_nodes < one.size:
            words = math.ceil(one.ranks_per_node / 64)
            asked = answered = min(asked, self._directories())
            masks = self.sparse_alltoall(asked, 8 * words * n_keys)
        ask = self.sparse_alltoall(asked, _CHUNK_BYTES * n_chunks)
        answer = self.sparse_alltoall(answered, 8 * n_pairs)
        tallies = Sent(0.0, 1.0, _TALLY_BYTES * one.size).times(_OWNER_ROUNDS)
        ghosts = self.alltoall(rows.messages, 8 * rows.rows)
        return small_collectives(10).plus(ask, masks, answer, tallies, ghosts)

    def _directories(self) -> float:
        """Return the ranks of other nodes to which one sends keys: one of each, all of a smaller one."""
        one = self.sizes
        last = one.size - (one.n_nodes - 1) * one.ranks_per_node
        return one.n_nodes - 1.0 if last == one.ranks_per_node else one.n_nodes - 2.0 + one.ranks_per_node

    def directory_pairs(self) -> float:
        """Return the pairs of a pixel and a holder of a directory: four standard deviations above the mean.

        Chunks of 64 pixels have their directories by a hash, so one has the mean ``n_held`` times
        ``1 + 4 / sqrt(chunks of a directory)`` at most, if chunks have holders alike.
        """
        one = self.sizes
        chunks = max(1.0, one.n_global / _CHUNK_KEYS / one.size)
        return one.n_held * (1 + 4 / math.sqrt(chunks))

    def weights(self) -> Sent:
        """Return the bound of hits and Stokes matrices: 2 + k (k + 1) / 2 words to owners, a byte back.

        What of the data is used is counted as well: 16 bytes a detector, in two all-to-alls.
        """
        one = self.sizes
        words = 2 + one.n_stokes * (one.n_stokes + 1) // 2
        sums = self.reduce(8 * words)._replace(messages=3 * one.to_owners.messages)
        used = self.alltoall(one.others(one.n_detectors), 8 * one.n_detectors).times(2)
        return sums.plus(self.broadcast(1), used, small_collectives(32))

    def preconditioner(self) -> Sent:
        """Return the bound of the block-diagonal one: k (k + 1) / 2 values from owners to ghosts."""
        one = self.sizes
        gaps = Sent(one.gap_partners, 0.0, 8 * one.n_shared_gaps)
        blocks = self.broadcast(8 * (one.n_stokes * (one.n_stokes + 1) // 2))
        return blocks.plus(gaps, small_collectives(8), self.model_set_up())

    def model_set_up(self) -> Sent:
        """Return the bound of the model of two levels: visits go to the ranks that have whole streams.

        Its exchanges are those of 8 iterations, and of a coarse matrix of 36 columns, eight at once.
        """
        model = self.sizes.model
        if model is None:
            return Sent()
        visits = self.alltoall(8 * self.sizes.others(4.0), _VISIT_BYTES * model.n_visits)
        visits = visits.plus(self.alltoall(0.0, 8 * model.n_keys).times(9))
        plans = self.plan_set_up(model.n_keys, model.n_chunks, 2 * model.n_keys, model.to_owners)
        exchanges = self.model_exchange(model).times(10).plus(self.model_exchange(model, 8).times(6))
        sums = Sent(0.0, 1.0, 8 * 12 * self.sizes.n_stokes * 8).times(40)
        return plans.times(3).plus(visits, exchanges, sums, self.dot_products(12), small_collectives(120))

    def model_exchange(self, model: ModelSizes, width: int = 1) -> Sent:
        """Return a reduction and a broadcast of pixels of the model, 8 k bytes a row each way and vector."""
        to_owners, to_ghosts = model.to_owners, model.to_ghosts
        n_bytes = 8 * self.sizes.n_stokes * width * (to_owners.rows + to_ghosts.rows)
        return Sent(to_owners.messages + to_ghosts.messages, 0.0, n_bytes)

    def model_solution(self) -> Sent:
        """Return the bound of one application of two levels: a polynomial of degree 12 at most.

        Each degree is an exchange of the model's pixels, the sums of 12 groups, and their sizes.
        """
        model = self.sizes.model
        if model is None:
            return Sent()
        sums = Sent(0.0, 1.0, 8 * 12 * self.sizes.n_stokes).plus(small_collectives(3))
        gaps = self.gaps().times(2)
        return self.model_exchange(model).plus(sums).times(_MOST_DEGREE).plus(gaps, small_collectives(4))

    def data(self) -> Sent:
        """Return the bound of the right-hand sides: two words of each of the k values of both maps."""
        one = self.sizes
        words = 2 * one.n_stokes * (1 if one.binned_only else 2)
        gaps = Sent(one.gap_partners, 0.0, 16 * one.n_shared_gaps)
        return self.reduce(8 * words).plus(gaps, small_collectives(20))

    def application(self) -> Sent:
        """Return the bound of one application of the system: 8 k bytes a row to ghosts and to owners."""
        n_bytes = 8 * self.sizes.n_stokes
        return self.reduce(n_bytes).plus(self.broadcast(n_bytes), self.gaps())

    def dot_products(self, iterations: int) -> Sent:
        """Return the bound of dot products: two an iteration and two more, 60 limbs of 8 bytes each."""
        return Sent(0.0, 1.0, _DOT_BYTES).times(2 * iterations + 2)

    def iterations(self, iterations: int) -> Sent:
        """Return the bound of the solver: an application and its dot products an iteration, and one more.

        Beside them are the largest values of a vector, one small collective an iteration, and the pace of
        checkpoints, at most one more.
        """
        applied = self.application().times(iterations + 1)
        solved = self.model_solution().times(iterations + 2)
        small = small_collectives(2 * iterations + 16)
        return applied.plus(solved, self.dot_products(iterations), small)

    def products(self) -> Sent:
        """Return the bound of the files: 8 bytes a column of each pixel owned, and once more of its number.

        Each product is three all-to-alls at most and 10 small collectives; hashes of 4096 rows go to rank 0.
        """
        one = self.sizes
        others, n = one.others(one.n_owned), len(one.product_columns)
        columns = float(sum(one.product_columns))
        slabs = self.alltoall(others, 8 * one.n_owned)
        if one.partial:
            slabs = slabs.plus(Sent(0.0, 1.0, 8 * math.ceil(one.n_pix / 4096)))
        moved = Sent(n * others, 0.0, 8 * columns * one.n_owned).plus(self.alltoall(0.0, 0.0).times(n))
        hashes = self.alltoall(1.0, 40 * math.ceil(one.n_pix / 4096 / one.size)).times(n)
        return slabs.plus(moved, hashes, small_collectives(11 * n + 8))

    def summary(self) -> Sent:
        """Return the bound of the summary: 24 collectives, and what each phase cost a rank."""
        return small_collectives(24).plus(Sent(0.0, 2.0, 16 * _COST_BYTES))


def unbounded_parts(config: RunConfig, observations: Sequence[Observation]) -> tuple[str, ...]:
    """Return what of a run sends more than the bounds say, by name.

    Parameters
    ----------
    config : RunConfig
    observations : sequence of Observation
    """
    simulated = all(
        type(one.pointing).__module__.startswith(("petamap.pointing.", "petamap.simulation."))
        for one in observations
    )
    asked = {
        "templates": any(one.templates for one in observations),
        "bands": bool(config.bands),
        "splits": bool(config.splits),
        "the search for glitches": config.glitches.find != "none",
        "the estimate of the noise": config.noise.kernel == "estimate",
        "products made apart": not set(MADE_APART).isdisjoint(product_kinds(config, observations)),
        "tables of files": not simulated,
    }
    return tuple(name for name, present in asked.items() if present)
