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

from petamap.data.config import RunConfig
from petamap.data.observation import Observation
from petamap.mapmaking.map_outputs import MADE_APART, product_kinds
from petamap.mapmaking.own_temperature import needs_own_temperature
from petamap.mapmaking.preconditioning import has_templates
from petamap.planning.model_bounds import DOT_BYTES, ModelBounds
from petamap.planning.rank_traffic import RankSizes, Sent, small_collectives
from petamap.planning.reduction_bounds import (
    choice_of_reduction,
    counted_alltoall,
    elementwise_max,
    gap_reduction,
    gathered_graph,
    pixel_reduction,
)

# Pickled bytes of the band of one kind of stream, and of a phase's cost on one rank.
_BAND_BYTES, _COST_BYTES = 128, 256


class MessageBounds:
    """Bounds of all phases of a run with one reduction, without its splits (`bound_phases`).

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
        """Return the bound of opening simulated data: 24 small collectives. Tables of files are more."""
        return small_collectives(24)

    def noise_kernels(self) -> Sent:
        """Return the bound of choosing bands: kinds of streams are dealt to ranks, and their bands gathered.

        ``128 (1 + n_kinds / P)`` bytes, and 4 small collectives.
        """
        each = 1 + math.ceil(self.sizes.n_kinds / self.sizes.size)
        return small_collectives(4).plus(Sent(0.0, 1.0, _BAND_BYTES * each))

    def distribution(self) -> Sent:
        """Return the bound of choosing the distribution: pixels gathered, and 16 small collectives."""
        gathered = self.sizes.gathered_bytes
        return small_collectives(16).plus(Sent(0.0, 4.0, gathered)) if gathered else Sent()

    def pointing(self) -> Sent:
        """Return the bound of finding pixels: 32 small collectives agree on memory and what is read."""
        return small_collectives(32)

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

        What of the data is used is counted as well: 16 bytes a detector, in two all-to-alls.
        """
        one = self.sizes
        hits, matrices = self.pixels.reverse(8), self.pixels.reverse(8 * self.triangle)
        used = counted_alltoall(one, one.others(one.n_detectors), 8 * one.n_detectors).times(2)
        return hits.times(2).plus(matrices, self.pixels.forward(1), used, small_collectives(32))

    def preconditioner(self) -> Sent:
        """Return the bound of blocks, k (k + 1) / 2 values from owners to ghosts, and of models."""
        blocks = self.forward(8 * self.triangle, 8)
        return blocks.plus(small_collectives(8), self.model.set_up(self.application()))

    def data(self) -> Sent:
        """Return the bound of the right-hand sides: two words of each of the k values of both maps."""
        one = self.sizes
        words = 2 * one.n_stokes * (1 if one.binned_only else 2)
        return self.reverse(8 * words, 16).plus(small_collectives(20))

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
        Beside them are the largest values of a vector, one small collective an iteration, and the pace of
        checkpoints, at most one more.
        """
        applied = self.application().times(iterations + 1)
        solved = self.model.solution()
        if self.model.has_model:
            solved = solved.plus(self.ghosts(8 * self.sizes.n_stokes, 8)).times(iterations + 2)
        small = small_collectives(2 * iterations + 16)
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
        return slabs.plus(moved, hashes, small_collectives(11 * n + 8 * one.n_maps), self._amplitudes())

    def _amplitudes(self) -> Sent:
        """Return the bound of the table of amplitudes: 16 bytes each to rank 0, which all holders know."""
        own = self.sizes.amplitudes
        if own is None or self.sizes.binned_only:
            return Sent()
        return self.gaps.forward(8).plus(Sent(0.0, 2.0, 16 * own.n_held + 512), small_collectives(8))

    def summary(self) -> Sent:
        """Return the bound of the summary: 24 collectives, and what each phase cost a rank."""
        return small_collectives(24).plus(Sent(0.0, 2.0, 16 * _COST_BYTES))


# Phases in which systems of parts of the data send, beside those of the run.
_OF_SPLITS = (
    "pointing", "reduction plan", "weights", "preconditioner", "data", "iterations", "dot products",
    "products",
)  # fmt: skip


def bound_phases(sizes: RankSizes, iterations: int) -> dict[str, Sent]:
    """Bound each phase, in the order of a run, with the reduction that it has or any that it may choose.

    A split has the system of the maps of its parts, and one of a map for all of them where some of its data
    make none; as many iterations are bounded in each.

    Parameters
    ----------
    sizes : RankSizes
    iterations : int
        Of the solver.
    """
    phases = _bound_system(sizes, iterations)
    for parts in sizes.splits:
        common = _pixels_forward(sizes, 2)  # which pixels of the run are cut, and not solved for
        of_parts, of_all = _bound_system(parts, iterations), _bound_system(sizes, iterations)
        for name in _OF_SPLITS:
            if name in phases:
                more = (of_parts[name],) if name == "products" else (of_parts[name], of_all[name])
                phases[name] = phases[name].plus(*more, *(common,) * (name == "weights"))
    return phases


def _pixels_forward(sizes: RankSizes, n_bytes: float) -> Sent:
    """Return the most that any of the reductions of a run sends for values of owners at all holders."""
    calls = (pixel_reduction(sizes, name).forward(n_bytes) for name in sizes.reductions)
    return elementwise_max(*calls) if sizes.size > 1 else Sent()


def _bound_system(sizes: RankSizes, iterations: int) -> dict[str, Sent]:
    """Bound each phase of a run without splits."""
    found = [MessageBounds(sizes, name).phases(iterations) for name in sizes.reductions]
    phases = {name: elementwise_max(*(one[name] for one in found)) for name in found[0]}
    if sizes.is_chosen and sizes.size > 1:
        plan = phases["reduction plan"]
        phases["reduction plan"] = plan.plus(choice_of_reduction(sizes, sizes.reductions))
    return phases


def unbounded_parts(
    config: RunConfig, observations: Sequence[Observation], *, thinned: bool = False
) -> tuple[str, ...]:
    """Return what of a run sends more than the bounds say, by name.

    Parameters
    ----------
    config : RunConfig
    observations : sequence of Observation
    thinned : bool
        Whether the scan was thinned out, of which parts and amplitudes are not looked at.
    """
    simulated = all(
        type(one.pointing).__module__.startswith(("petamap.pointing.", "petamap.simulation."))
        for one in observations
    )
    apart = set(MADE_APART) - {"amplitudes"}
    asked = {
        "templates": thinned and has_templates(observations),
        "bands": thinned and bool(config.bands),
        "splits": thinned and bool(config.splits),
        "maps of components": bool(config.components),
        "the search for glitches": config.glitches.find != "none",
        "the estimate of the noise": config.noise.kernel == "estimate",
        "rounds that find the temperature that leaks": needs_own_temperature(observations),
        "products made apart": not apart.isdisjoint(product_kinds(config, observations)),
        "tables of files": not simulated,
    }
    return tuple(name for name, present in asked.items() if present)
