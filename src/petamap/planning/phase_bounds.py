"""Upper bounds of what a rank sends in each phase of a run, with all systems that it sets up.

Beside that of its maps these are those of splits, of the rounds that estimate the noise or find the
temperature that leaks, and of a filter-and-bin map. As many iterations are bounded in each solution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from petamap.mapmaking.noise_estimate import RIGHT_HAND_SIDES
from petamap.mapmaking.slabs import STREAMED_ROWS
from petamap.mapmaking.vectors import MAX_WIDTH
from petamap.planning.model_bounds import DOT_BYTES
from petamap.planning.rank_traffic import RankSizes, Sent, small_collectives
from petamap.planning.reduction_bounds import counted_alltoall, elementwise_max, pixel_reduction
from petamap.planning.system_bounds import bound_system

# Phases in which a system is set up, and those in which systems of parts of the data send.
_SET_UP = ("pointing", "reduction plan", "weights", "preconditioner")
_OF_SPLITS = (*_SET_UP, "data", "iterations", "dot products", "products")
# All phases, in the order of a run.
_ORDER = (
    "sources", "noise kernels", "noise estimate", "distribution", "own temperature", *_SET_UP, "data",
    "iterations", "dot products", "products", "filter and bin", "modes taken", "demodulation",
    "pixel covariance", "summary",
)  # fmt: skip
_ROW_BYTES = 16  # of a pixel and its temperature


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
    phases = bound_system(sizes, iterations)
    if sizes.size == 1:
        return phases
    for made in (_splits, _noise_rounds, _temperature_rounds, _products, _filter, _demodulated, _covariance):
        for name, more in made(sizes, iterations):
            phases[name] = phases.get(name, Sent()).plus(more)
    return {name: phases[name] for name in _ORDER if name in phases}


def _splits(sizes: RankSizes, iterations: int) -> Iterator[tuple[str, Sent]]:
    """Yield what systems of parts send, by phase."""
    for parts in sizes.splits:
        # as an iteration more: the norm of the right-hand side of which the map of all leaves a residual
        of_parts, of_all = bound_system(parts, iterations + 1), bound_system(sizes, iterations)
        yield "weights", _pixels_forward(sizes, 2)  # which pixels of the run are cut, and not solved for
        for name in of_parts.keys() & set(_OF_SPLITS):
            yield name, of_parts[name]
            if name != "products":
                yield name, of_all[name]


def _pixels_forward(sizes: RankSizes, n_bytes: float) -> Sent:
    """Return the most that any of the reductions of a run sends for values of owners at all holders."""
    calls = (pixel_reduction(sizes, name).forward(n_bytes) for name in sizes.reductions)
    return elementwise_max(*calls)


def _noise_rounds(sizes: RankSizes, iterations: int) -> Iterator[tuple[str, Sent]]:
    """Yield what rounds that estimate the noise send: a filter, then maps of the data and of simulations.

    The spectra of its streams go from each rank to all.
    """
    rounds, whole = sizes.auxiliary.noise_rounds, sizes.auxiliary.whole
    if not whole:
        return
    first = replace(whole, model=None, uniform_binning=True).with_cut_row()
    of_one, of_first = (bound_system(one, iterations) for one in (whole, first))
    for name in ("noise kernels", *_SET_UP):
        yield name, of_one[name].times(rounds - 1).plus(of_first[name])
    spectra = Sent(0.0, 2.0, sizes.auxiliary.spectrum_bytes * whole.streams.n_held)
    # maps go to all holders, each by itself
    maps = of_one["data"].plus(_solved(whole, iterations + RIGHT_HAND_SIDES)).of_vectors(RIGHT_HAND_SIDES)
    yield "noise estimate", spectra.plus(small_collectives(24)).times(rounds)
    yield "noise estimate", of_first["data"].plus(_solved(first, iterations + 3))
    yield "noise estimate", maps.times(rounds - 1)


def _temperature_rounds(sizes: RankSizes, iterations: int) -> Iterator[tuple[str, Sent]]:
    """Yield what rounds that find the temperature send: a map each, which goes once to each node."""
    rounds = sizes.auxiliary.temperature_rounds
    if not rounds:
        return
    of_one = bound_system(sizes, iterations)
    for name in _SET_UP:
        yield name, of_one[name].times(rounds)
    fewest = sizes.size - (sizes.n_nodes - 1) * sizes.ranks_per_node
    rows = min(min(sizes.ranks_per_node, sizes.size) * sizes.n_owned, math.ceil(sizes.n_pix / fewest))
    spread = small_collectives(12).plus(Sent(0.0, 2.0, _ROW_BYTES * rows))
    yield "own temperature", of_one["data"].plus(_solved(sizes, iterations), spread).times(rounds)


def _products(sizes: RankSizes, iterations: int) -> Iterator[tuple[str, Sent]]:
    """Yield what the map of the sky alone sends, made as those of the data, and maps that are compared.

    These go to rank 0 a column and a part of the rows at a time.
    """
    if sizes.auxiliary.has_sky:
        yield "products", bound_system(sizes, iterations)["data"]
    if not sizes.auxiliary.n_compared:
        return
    columns, others = sizes.n_stokes, sizes.others(sizes.n_owned)
    rows = math.ceil(sizes.n_pix / sizes.size)
    pieces = (columns + 1) * (1 + rows / STREAMED_ROWS)
    moved = counted_alltoall(sizes, others, 8 * columns * sizes.n_owned)
    to_root = Sent(math.ceil(pieces), 0.0, 8 * (columns + 1) * rows)
    found = counted_alltoall(sizes, others, 8 * sizes.n_owned)
    yield "products", moved.plus(to_root, small_collectives(16)).times(sizes.auxiliary.n_compared).plus(found)


def _filter(sizes: RankSizes, iterations: int) -> Iterator[tuple[str, Sent]]:
    """Yield what a filter-and-bin map sends, its observation matrix, and what tells what it takes."""
    auxiliary, filtered = sizes.auxiliary, sizes.auxiliary.filtered
    if filtered is None:
        return
    of_one = bound_system(filtered, iterations)
    for name in _SET_UP:
        yield name, of_one[name]
    fitted = _solved(filtered, iterations + 2)
    if auxiliary.filtered_maps:
        yield "filter and bin", of_one["data"].plus(fitted, of_one["products"])
    if auxiliary.has_matrix:
        yield "filter and bin", _columns(filtered, fitted)
    if auxiliary.n_waves:
        dots = Sent(0.0, 2.0, 2 * DOT_BYTES)
        batches = math.ceil(auxiliary.n_waves / MAX_WIDTH)
        waves = fitted.plus(dots).of_vectors(MAX_WIDTH).times(batches)
        yield "modes taken", waves.plus(small_collectives(4))


def _demodulated(sizes: RankSizes, iterations: int) -> Iterator[tuple[str, Sent]]:
    """Yield what the map of demodulated streams sends; its phase has those of its set-up, too."""
    streams = sizes.auxiliary.demodulated
    if streams is None:
        return
    of_one = bound_system(streams, iterations)
    for name in _SET_UP:
        yield name, of_one[name]
        yield "demodulation", of_one[name]
    yield "demodulation", of_one["data"].plus(_solved(streams, iterations + 2), of_one["products"])


def _covariance(sizes: RankSizes, iterations: int) -> Iterator[tuple[str, Sent]]:
    """Yield what the covariance of pixels sends."""
    if sizes.auxiliary.has_covariance:
        yield "pixel covariance", _columns(sizes, _solved(sizes, iterations))


def _columns(sizes: RankSizes, solved: Sent) -> Sent:
    """Return what the columns of a matrix of all pixels send, some of them side by side, each to rank 0."""
    n = sizes.n_stokes * sizes.n_global
    column = counted_alltoall(sizes, 1.0, 8 * sizes.n_stokes * sizes.n_owned)
    ghosts = _application(sizes).times(2)  # of a unit vector, and of a solution, where ranks keep them
    batches = solved.of_vectors(MAX_WIDTH).times(math.ceil(n / MAX_WIDTH))
    numbers = Sent(0.0, 2.0, 8 * sizes.n_owned + 8)
    return batches.plus(column.plus(ghosts).times(n), numbers, small_collectives(16))


def _application(sizes: RankSizes) -> Sent:
    """Return what an iteration sends."""
    return _solved(sizes, 1).plus(_solved(sizes, 0).times(-1))


def _solved(sizes: RankSizes, iterations: int) -> Sent:
    """Return what a solution of a system sends."""
    return bound_system(sizes, iterations)["iterations"]
