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

from petamap.planning.model_bounds import DOT_BYTES, ModelBounds
from petamap.planning.rank_traffic import RankSizes, Sent, small_collectives
from petamap.planning.reduction_bounds import (
    counted_alltoall,
    gap_reduction,
    gathered_graph,
    pixel_reduction,
)
from petamap.simulation.seen_pixels import CELLS

# Pickled bytes of the band of one kind of stream, of a phase's cost on one rank, and of a machine.
_BAND_BYTES, _COST_BYTES, _MACHINE_BYTES = 128, 256, 4096


class MessageBounds:
    """Bounds of all phases of a run with one reduction, without what is beside its system (`bound_phases`).

    With P ranks, k values a pixel, r_o rows sent to m_o owners and r_g rows to m_g holders of ghosts:
    a reverse call of "owner" on w values sends m_o messages of 8 w r_o bytes in all, a forward one m_g of
    8 w r_g. Those of other reductions are in `reduction_bounds`.

    Parameters
    ----------
    sizes : RankSizes
    reduction : str
        Of the pixels: a name of `petacomm.reduction.ALGORITHMS`.
    """

    def __init__(self, sizes: RankSizes, reduction: str = "owner") -> None:
        self.sizes = sizes
        self.pixels, self.gaps = pixel_reduction(sizes, reduction), gap_reduction(sizes, reduction)
        self.model = ModelBounds(sizes)

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

    # --- vectors of pixels and unknown samples

    def reverse(self, n_bytes: float, gap_bytes: float) -> Sent:
        """Return sums at the owners, of rows of so many bytes."""
        return self.pixels.reverse(n_bytes).plus(self.gaps.reverse(gap_bytes))

    def forward(self, n_bytes: float, gap_bytes: float) -> Sent:
        """Return values of owners at all holders."""
        return self.pixels.forward(n_bytes).plus(self.gaps.forward(gap_bytes))

    def ghosts(self, n_bytes: float, gap_bytes: float) -> Sent:
        """Return the rows of ghosts, which ranks keep if the reduction is an all-reduce alone."""
        return self.forward(n_bytes, gap_bytes) if self.pixels.allreduce_only else Sent()

    # --- phases

    def sources(self) -> Sent:
        """Return the bound of opening data: 24 small collectives, and 10 of each source.

        Files are read on each node, whose ranks have their headers and tables from each other.
        """
        return small_collectives(24 + 10 * self.sizes.n_sources)

    def noise_kernels(self) -> Sent:
        """Return the bound of choosing bands: kinds of streams are dealt to ranks, and their bands gathered.

        ``128 (1 + n_kinds / P)`` bytes, and 4 small collectives.
        """
        each = 1 + math.ceil(self.sizes.n_kinds / self.sizes.size)
        return small_collectives(4).plus(Sent(0.0, 1.0, _BAND_BYTES * each))

    def distribution(self) -> Sent:
        """Return the bound of choosing the distribution: pixels gathered, and 16 small collectives.

        Rank 0 tells others of the machine.
        """
        gathered = self.sizes.gathered_bytes
        if not gathered:
            return Sent()
        return small_collectives(16).plus(Sent(0.0, 4.0, gathered + _MACHINE_BYTES))

    def pointing(self) -> Sent:
        """Return the bound of finding pixels: 32 small collectives agree on memory and what is read.

        Of each large simulated sky, cells that detectors see are told, a byte each.
        """
        n = self.sizes.n_skies
        return small_collectives(32 + 4 * n).plus(Sent(0.0, 1.0, CELLS.n_pix).times(n))

    def reduction_plan(self) -> Sent:
        """Return the bound of the plans of pixels and of unknowns beside them."""
        one = self.sizes
        pixels = self.pixels.set_up()
        if one.gather_sift:
            pixels = gathered_graph(one, self.pixels.keys).plus(self.pixels.row_lists())
        gaps = small_collectives(6)
        if one.n_beside:
            gaps = gaps.plus(self.gaps.set_up(), small_collectives(12))
        return pixels.plus(gaps, small_collectives(12))

    @property
    def triangle(self) -> int:
        """Values of the matrix of a pixel: k (k + 1) / 2."""
        return self.sizes.n_stokes * (self.sizes.n_stokes + 1) // 2

    def weights(self) -> Sent:
        """Return the bound of hits and Stokes matrices: 2 + k (k + 1) / 2 words to owners, a byte back.

        Weights of the binned map that are its own are as many again. What of the data is used is counted as
        well: 16 bytes a detector, in two all-to-alls.
        """
        one = self.sizes
        hits, matrices = self.pixels.reverse(8), self.pixels.reverse(8 * self.triangle)
        used = counted_alltoall(one, one.others(one.n_detectors), 8 * one.n_detectors).times(2)
        found = hits.times(2).plus(matrices, self.pixels.forward(1), used, small_collectives(32))
        return found.plus(hits.times(2), matrices, small_collectives(8)) if one.uniform_binning else found

    def preconditioner(self) -> Sent:
        """Return the bound of blocks, k (k + 1) / 2 values from owners to ghosts, and of models."""
        blocks = self.forward(8 * self.triangle, 8)
        return blocks.plus(small_collectives(8), self.model.set_up(self.application()))

    def data(self) -> Sent:
        """Return the bound of the right-hand sides: two words of each of the k values of both maps."""
        one = self.sizes
        words = 2 * one.n_stokes * (1 if one.binned_only else 2)
        return self.reverse(8 * words, 16).plus(small_collectives(20 + 8 * one.n_skies))

    def application(self) -> Sent:
        """Return the bound of one application of the system: 8 k bytes a row to ghosts and to owners.

        Nothing is sent to ghosts of which ranks keep rows.
        """
        n_bytes = 8 * self.sizes.n_stokes
        sums = self.reverse(n_bytes, 8)
        return sums if self.pixels.allreduce_only else sums.plus(self.forward(n_bytes, 8))

    def dot_products(self, iterations: int) -> Sent:
        """Return the bound of dot products: two an iteration and two more, 60 limbs of 8 bytes each."""
        return Sent(0.0, 1.0, DOT_BYTES).times(2 * iterations + 2)

    def iterations(self, iterations: int) -> Sent:
        """Return the bound of the solver: an application and its dot products an iteration, and one more.

        A preconditioner with a model is applied once more, and where ranks keep ghosts these get its values.
        Beside them are the largest values of a vector, one small collective an iteration, the pace of
        checkpoints, at most one more, and one that keeps the solution.
        """
        applied = self.application().times(iterations + 1)
        solved = self.model.solution()
        if self.model.has_model:
            solved = solved.plus(self.ghosts(8 * self.sizes.n_stokes, 8)).times(iterations + 2)
        small = small_collectives(2 * iterations + 32)
        return applied.plus(solved, self.dot_products(iterations), small)

    def products(self) -> Sent:
        """Return the bound of the files: 8 bytes a column of each pixel owned, and once more of its number.

        Each product is three all-to-alls at most and 10 small collectives; hashes of 4096 rows go to rank 0.
        """
        one = self.sizes
        others, n = one.others(one.n_owned), len(one.product_columns) * one.n_maps
        columns = float(sum(one.product_columns))
        none = counted_alltoall(one, others, 0.0)
        slabs = none.times(one.n_maps).plus(Sent(0.0, 0.0, 8 * one.n_owned))
        if one.partial:
            slabs = slabs.plus(Sent(0.0, 1.0, 8 * math.ceil(one.n_pix / 4096)).times(one.n_maps))
        moved = Sent(n * others, 0.0, 8 * columns * one.n_owned).plus(
            counted_alltoall(one, 0.0, 0.0).times(n)
        )
        hashes = counted_alltoall(one, 1.0, 40 * math.ceil(one.n_pix / 4096 / one.size)).times(n)
        return slabs.plus(moved, hashes, small_collectives(11 * n + 8 * one.n_maps), self.amplitudes())

    def amplitudes(self) -> Sent:
        """Return the bound of the table of amplitudes: 16 bytes each to rank 0, which all holders know."""
        own = self.sizes.amplitudes
        if own is None or self.sizes.binned_only:
            return Sent()
        return self.gaps.forward(8).plus(Sent(0.0, 2.0, 16 * own.n_held + 512), small_collectives(8))

    def summary(self) -> Sent:
        """Return the bound of the summary: 24 collectives, and what each phase cost a rank."""
        return small_collectives(24).plus(Sent(0.0, 2.0, 16 * _COST_BYTES))
