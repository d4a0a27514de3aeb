"""How much of a scan a run looks at for the choice of its distribution, and where it does not choose."""

from __future__ import annotations

from petamap.mapmaking.time_layout import TimeLayout
from petamap.planning.sky_regions import count_regions
from petamap.sky.pixelization import Pixelization

# Up to so many samples all of the sky is looked at, else about so many regions, found by so many samples.
ALL_SAMPLES, N_REGIONS, HIT_SAMPLES = 200_000, 128, 50_000
# Regions of all of the sky at most, which take each rank 16 bytes: at N_side 1024 there are 196,608.
MOST_REGIONS = 1 << 18
# Each rank would have the segments of all: of more blocks, four distributions take more than 70 MB.
MOST_BLOCKS = 1 << 19


def chooses_distribution(layout: TimeLayout, size: int) -> bool:
    """Return whether blocks are few enough for predictions of all distributions, and enough for the ranks."""
    return size <= layout.n_blocks <= MOST_BLOCKS


def looked_at_regions(layout: TimeLayout, pixelization: Pixelization) -> int:
    """Return how many regions of the sky a run looks at; as many as there are where it looks at all."""
    n_regions = count_regions(pixelization)
    most = MOST_REGIONS if layout.n_samp <= ALL_SAMPLES else N_REGIONS
    return n_regions if n_regions <= most else N_REGIONS
