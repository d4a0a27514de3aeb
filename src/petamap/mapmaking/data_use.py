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
    n_seen, n_cut, n_unsolved : int
        Pixels observed, those of them that have no value in the map, and those of these that are not solved
        for.
    n_flagged : int
        Samples that are not used: flagged, outside the map, or in pixels that are not solved for.
    n_unwritten : int
        Samples in pixels that are solved for, but have no value in the map.
    warnings : tuple of str
    """

    n_seen: int
    n_cut: int
    n_unsolved: int
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
    comm, statistics = system.comm, system.statistics
    dead, unsolved = statistics.dead, statistics.unsolved
    n_seen, n_cut, n_unsolved = (
        comm.sum(int(np.count_nonzero(pixels))) for pixels in (statistics.hits, dead, unsolved)
    )
    n_flagged, texts = count_unused(system, observations)
    read = reading_system(system).statistics
    in_cut, unwritten = (
        comm.sum(int(read.hits[pixels].sum())) for pixels in (read.dead, read.dead & ~read.unsolved)
    )
    if n_seen == n_cut:
        texts.append("no pixel can be solved for: the maps are empty")
    elif n_cut:
        texts.append(_of_cut_pixels(system, (n_seen, n_cut, n_unsolved), max(rcond_min, SINGULAR)))
    n_samp = sum(one.n_samp * one.n_det for one in observations)
    used = system.layout.n_samp - n_flagged - unwritten
    if n_flagged == system.layout.n_samp:
        texts.append("all samples are flagged or outside the map")
    elif 2 * used < n_samp:
        where = {
            "in pixels that are cut": in_cut,
            "flagged or outside the map": n_flagged + unwritten - in_cut,
            "outside the stationary intervals": n_samp - system.layout.n_samp,
        }
        others = ", ".join(f"{number:,} {place}" for place, number in where.items() if number)
        texts.append(f"ONLY {used / n_samp:.1%} OF THE SAMPLES MAKE THIS MAP: of {n_samp:,} are {others}")
    return DataUse(n_seen, n_cut, n_unsolved, n_flagged, unwritten, tuple(texts))


def _of_cut_pixels(system: MapmakingSystem, counts: tuple[int, int, int], least: float) -> str:
    """Say how many pixels cannot be solved for, and why. Collective."""
    n, of = 1, " of all bands" if len(system.map_names) > 1 else ""
    low, why = f"their reciprocal condition is below {least:g}", []
    if isinstance(system, ComponentSystem):
        n, of = len(system.map_names), ""
        few = system.comm.sum(system.pixels.few_bands)
        why += [f"fewer bands see {few} of them than there are components"] if few else []
        low += f" in {counts[1] // n - few}" if few else ""
        why += [low] if counts[1] // n > few else []
    seen, cut, unsolved = (number // n for number in counts)
    text = f"{cut} of {seen} pixels{of} are cut: {', and '.join(why or [low])}"
    if unsolved:
        text += (
            f"; the samples of {unsolved} are treated as flagged"
            if unsolved < cut
            else ("; their samples are treated as flagged")
        )
    return text
