"""What of the data makes a map: pixels that are seen, cut or solved for, and samples in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petamap.data.observation import Observation
from petamap.mapmaking.components import ComponentSystem, reading_system
from petamap.mapmaking.pixel_statistics import SINGULAR
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.unused_samples import count_unused


@dataclass(frozen=True)
class DataUse:
    """Pixels and samples of a system.

    Attributes
    ----------
    n_seen, n_cut : int
        Pixels observed, and those of them that have no value in the map.
    n_flagged : int
        Samples that are flagged, outside the map, or in pixels that are not solved for.
    n_unwritten : int
        Samples in pixels that are solved for, but have no value in the map.
    warnings : tuple of str
    """

    n_seen: int
    n_cut: int
    n_flagged: int
    n_unwritten: int
    warnings: tuple[str, ...]


def count_data_use(system: MapmakingSystem, observations: Sequence[Observation], rcond_min: float) -> DataUse:
    """Return what of the data makes the map of a system. Collective.

    Parameters
    ----------
    system : MapmakingSystem
    observations : sequence of Observation
    rcond_min : float
        Pixels with a smaller reciprocal condition are cut.
    """
    statistics = system.statistics
    n_seen, n_cut, n_unsolved = (
        system.comm.sum(int(np.count_nonzero(pixels)))
        for pixels in (statistics.hits, statistics.dead, statistics.unsolved)
    )
    n_flagged, texts = count_unused(system, observations)
    if n_cut:
        texts.append(_of_cut_pixels(system, (n_seen, n_cut, n_unsolved), max(rcond_min, SINGULAR)))
    if n_seen == n_cut:
        texts.append("no pixel can be solved for: the maps are empty" + _of_few_angles(system) * bool(n_cut))
    in_cut, n_unwritten = _in_cut_pixels(system)
    n_samp = sum(one.n_samp * one.n_det for one in observations)
    texts += _of_samples(system.layout.n_samp, n_samp, n_flagged, in_cut, n_unwritten)
    return DataUse(n_seen, n_cut, n_flagged, n_unwritten, tuple(texts))


def _of_few_angles(system: MapmakingSystem) -> str:
    """Say how a map may be made of pixels that are all cut."""
    if system.projection.stokes.n == 1 or isinstance(system, ComponentSystem):
        return ""
    return '; they are seen at too few polarization angles, of which map.stokes = "I" needs one alone'


def _in_cut_pixels(system: MapmakingSystem) -> tuple[int, int]:
    """Return the samples in pixels that are cut, and in those of them that are solved for. Collective."""
    statistics = reading_system(system).statistics
    in_cut, unwritten = (
        system.comm.sum(int(statistics.hits[pixels].sum()))
        for pixels in (statistics.dead, statistics.dead & ~statistics.unsolved)
    )
    return in_cut, unwritten


def _of_samples(n_inside: int, n_samp: int, n_flagged: int, in_cut: int, unwritten: int) -> list[str]:
    """Say that less than half of the samples make the map, and where the others are."""
    used = n_inside - n_flagged - unwritten
    if n_flagged == n_inside:
        return ["no sample makes the map: all are flagged, outside the map or in pixels that are cut"]
    if 2 * used >= n_samp:
        return []
    where = {
        "in pixels that are cut": in_cut,
        "flagged or outside the map": n_flagged + unwritten - in_cut,
        "outside the stationary intervals": n_samp - n_inside,
    }
    others = ", ".join(f"{number:,} {place}" for place, number in where.items() if number)
    return [f"ONLY {used / n_samp:.1%} OF THE SAMPLES MAKE THIS MAP: of {n_samp:,} are {others}"]


def _of_cut_pixels(system: MapmakingSystem, counts: tuple[int, int, int], least: float) -> str:
    """Say how many of the pixels seen are cut and not solved for, and why. Collective."""
    n, of = 1, " of all bands" if len(system.map_names) > 1 else ""
    why = [f"their reciprocal condition is below {least:g}"]
    if isinstance(system, ComponentSystem):
        n, of = len(system.map_names), ""
        few, cut = system.comm.sum(system.pixels.few_bands), counts[1] // n
        if few:
            low = [f"{why[0]} in {cut - few}"] if cut > few else []
            why = [f"fewer bands see {few} of them than there are components", *low]
    seen, cut, unsolved = (number // n for number in counts)
    text = f"{cut} of {seen} pixels{of} are cut: {', and '.join(why)}"
    whose = "their samples" if unsolved == cut else f"the samples of {unsolved}"
    return f"{text}; {whose} are treated as flagged" if unsolved else text
