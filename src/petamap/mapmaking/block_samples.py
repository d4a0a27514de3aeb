"""The samples of blocks as the kernels take them: kept, or expanded in every pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import Int64Array
from petamap.mapmaking.detector_pairs import partner_blocks

if TYPE_CHECKING:
    from petamap.mapmaking.projection import Projection

Samples: TypeAlias = _mapmaking.KeptTable | _mapmaking.ExpandedTable


def samples_of(
    projection: Projection, blocks: Int64Array, gap_length: int, first_slots: Int64Array, pairs: bool = False
) -> Samples:
    """Return the samples of blocks of a projection.

    Parameters
    ----------
    projection : Projection
    blocks : int64 (n_block, 6)
    gap_length : int
        Most samples of one slot; 0 for all gaps in one.
    first_slots : int64 (n_block,)
        Slot of the first gap of each block.
    pairs : bool
        Whether blocks of two detectors that look at the same places are visited together.
    """
    partners = None
    if pairs and not projection.has_gains:
        partners = partner_blocks(blocks, projection.stream_table, projection.sights)
    kept = projection.kept
    if kept is not None:
        turns = projection.layout.turns(replace(projection.local, blocks=blocks))
        psi = projection.psi.table if projection.psi else None
        return _mapmaking.KeptTable(
            blocks, kept.pixels, kept.angles, kept.gains, projection.responses, turns, psi, partners
        )
    gap_bits = projection.gaps.bits if projection.gaps else None
    return _mapmaking.ExpandedTable(
        blocks, projection.pointing_arguments, projection.pixelization.grid, projection.index,
        projection.stream_table, projection.responses, gap_bits, first_slots, gap_length,
        projection.part_table, partners,
    )  # fmt: skip


def output_samples(projection: Projection, every: int = 1) -> Samples:
    """Return the samples that are outputs of one of `every` blocks, all gaps in one slot."""
    blocks = projection.local.blocks[::every].copy()
    blocks[:, 0] += blocks[:, 2]
    blocks[:, 1], blocks[:, 2] = blocks[:, 3], 0
    return samples_of(projection, blocks, 0, np.zeros(len(blocks), np.int64))
