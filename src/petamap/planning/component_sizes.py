"""Sizes of the maps of components: pixels that ranks own in bands, and of which they own all components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.costs.forecast import forecast
from petacomm.costs.occupancy import Occupancy
from petamap.data.config import RunConfig
from petamap.data.observation import Observation
from petamap.mapmaking.map_outputs import output_names
from petamap.mapmaking.slabs import is_partial
from petamap.planning.rank_sizes import map_kinds, pixel_fields, product_columns, reduction_options
from petamap.planning.rank_traffic import ComponentSizes, ExchangedRows, RankSizes
from petamap.planning.scanned_run import ScannedRun
from petamap.sky.stokes import Stokes


def component_sizes(
    config: RunConfig, run: ScannedRun, bands: RankSizes, occupancy: Occupancy, *, exact: bool
) -> ComponentSizes:
    """Return the sizes of maps of components.

    Parameters
    ----------
    config : RunConfig
    run : ScannedRun
    bands : RankSizes
        Of their maps.
    occupancy : Occupancy
        Of the pixels of bands.
    exact : bool
        Whether all of these are known.
    """
    rows = _rows(config, run, bands, occupancy) if exact else rows_at_most(bands)
    columns = component_columns(config, run.observations)
    return ComponentSizes(bands.n_maps, len(config.components), rows, columns)


def _rows(config: RunConfig, run: ScannedRun, bands: RankSizes, occupancy: Occupancy) -> RankSizes:
    """Return the sizes of the components' rows where the owners of all rows of bands are known."""
    owners = owners_of_bands(occupancy, run.pixelization.n_pix)
    found = forecast(owners, bands.ranks_per_node, reduction_options(config))
    partial = is_partial(run.pixelization, len(owners.keys))
    return replace(bands, **pixel_fields(found, owners), partial=partial, n_maps=1)


def component_columns(config: RunConfig, observations: Sequence[Observation]) -> tuple[tuple[int, ...], ...]:
    """Return the columns of the products of each component, of pairs of these, and of their pixels."""
    n_stokes, kinds = Stokes(config.map.stokes).n, map_kinds(config, observations)
    found = []
    for output in output_names(config):
        own = [kind for kind in kinds if output.has(kind)]
        pair = len(output.numbers) > 1
        found.append(tuple(n_stokes**2 if pair else product_columns(kind, n_stokes) for kind in own))
    return tuple(found)


def owners_of_bands(occupancy: Occupancy, n_pix: int) -> Occupancy:
    """Return which ranks own a row of each pixel in any band: they hold its components.

    Parameters
    ----------
    occupancy : Occupancy
        Of the keys b n_pix + p of pixels p in bands b.
    n_pix : int
    """
    bits = max(1, occupancy.size - 1).bit_length()
    codes = ((occupancy.keys % n_pix) << bits) | occupancy.owner
    return Occupancy.from_codes(distinct(np.asarray(codes, np.int64)), bits, occupancy.size)


def rows_at_most(bands: RankSizes) -> RankSizes:
    """Return sizes of the components' rows where owners of bands are known of a part of the sky alone.

    Each rank may share all pixels that it owns in a band with owners of all others: a loose bound.
    """
    n_bands, n = bands.n_maps, bands.n_owned
    mean = bands.n_global / bands.size
    rows = (
        ExchangedRows(bands.others(n), n),
        ExchangedRows(bands.others((n_bands - 1) * n), (n_bands - 1) * n),
    )
    return replace(
        bands, n_keys=n, n_chunks=min(n, bands.n_chunks), n_held=mean, n_global=bands.n_global / n_bands,
        pair_rows=(n_bands - 1) * mean, rows={"owner": rows}, partial=True, n_maps=1,
    )  # fmt: skip
