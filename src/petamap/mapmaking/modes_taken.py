"""What templates take of the sky: by angular scale, the part of it that they can imitate.

Of the samples P x of a sky x, templates T that are fitted to them take P x - F P x (`filter_and_bin`). The
part of the weighted square that they take,

    1 - (x^T P^T W F P x) / (x^T P^T W P x),

is what a map of white noise loses of its information on x to T, whose amplitudes are solved for with the map;
and what a filter-and-bin map loses of x itself, in the mean. x are random waves of one scale after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.exact import round_limbs
from petacomm.base.typing import FloatArray
from petamap.data.run_summary import ModesTaken
from petamap.mapmaking.filter_and_bin import FilterAndBin
from petamap.mapmaking.linear_operators import exact_dots
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.vectors import MAX_WIDTH, Unknowns, stack
from petamap.sky.stokes import Stokes


def modes_taken(filtering: FilterAndBin) -> list[ModesTaken]:
    """Return what templates take of each scale that the map has, in octaves of the multipole. Collective.

    Raises
    ------
    ConfigError
        On all ranks, if pixels have no place on the sky.
    ConvergenceError
        If templates cannot be told apart.
    """
    system = filtering.system
    directions = system.projection.sky.directions_of(system.keys)
    scales = _octaves(system, directions)
    stokes = system.projection.stokes
    kinds = [False] * ("I" in stokes.value) + [True] * (stokes is not Stokes.I)
    wanted = [(scale, polarized) for scale in scales for polarized in kinds]
    shares: dict[tuple[tuple[int, int], bool], float] = {}
    for first in range(0, len(wanted), MAX_WIDTH):
        chosen = wanted[first : first + MAX_WIDTH]
        maps = [_wave_map(system, directions, *one) for one in chosen]
        shares.update(zip(chosen, _shares(filtering, maps), strict=True))
    return [
        ModesTaken(
            l_first=scale[0], l_last=scale[1], intensity=shares.get((scale, False)),
            polarization=shares.get((scale, True)),
        )
        for scale in scales
    ]  # fmt: skip


def _octaves(system: MapmakingSystem, directions: FloatArray) -> list[tuple[int, int]]:
    """Return first and last multipoles from the size of the observed sky to that of a pixel. Collective."""
    seen = directions[system.statistics.hits > 0]
    most = system.comm.allreduce(np.concatenate([seen, -seen], axis=1).max(axis=0, initial=-2.0), "max")
    if not np.isfinite(most).all():
        raise ConfigError(
            "products.modes_taken needs pixels that have a place on the sky",
            mend="leave it away, or map on HEALPix, CAR or flat pixels",
        )
    size = float(np.sqrt(np.sum((most[:3] + most[3:]) ** 2)))  # 2 sqrt(3) at most
    widest = 2 * math.asin(min(size / 2, 1.0))
    first = max(1, math.floor(math.log2(math.pi / max(widest, 1e-9))))
    last = math.floor(math.log2(math.pi / math.sqrt(system.projection.sky.pixel_area)))
    return [(2**k, 2 ** (k + 1) - 1) for k in range(first, max(first, last) + 1)]


def _wave_map(
    system: MapmakingSystem, directions: FloatArray, scale: tuple[int, int], polarized: bool
) -> FloatArray:
    """Return a random wave on the pixels of this rank, (n_owned, n_stokes), zero where none is solved for."""
    from petamap.simulation.random_waves import random_waves

    stokes = system.projection.stokes.value
    out = np.zeros((len(directions), len(stokes)))
    places = [stokes.index(name) for name in ("QU" if polarized else "I")]
    out[:, places] = random_waves(directions, *scale, polarized=polarized)
    out[system.statistics.dead] = 0.0
    return out


def _shares(filtering: FilterAndBin, maps: Sequence[FloatArray]) -> list[float]:
    seen, left = filtering.filtered(maps)
    squares = [_squares(filtering.system, maps, others) for others in (seen, left)]
    parts = [of / whole if whole > 0 else 1.0 for whole, of in zip(*squares, strict=True)]
    return [min(max(1 - part, 0.0), 1.0) for part in parts]


def _squares(
    system: MapmakingSystem, maps: Sequence[FloatArray], others: Sequence[FloatArray]
) -> list[float]:
    """Return the products of maps with others, the same on any ranks."""
    none = np.zeros((0, 1))
    one, two = (stack([Unknowns(np.ascontiguousarray(m), none) for m in part]) for part in (maps, others))
    limbs = system.comm.allreduce(exact_dots(one, two))
    return [round_limbs(row) for row in limbs[: len(maps)]]
