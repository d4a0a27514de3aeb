"""Comparisons of the maps of a run with map files that its configuration names."""

from __future__ import annotations

from collections.abc import Callable

from petacomm.base.errors import STOPS, UserError
from petacomm.base.typing import FloatArray
from petamap.data.config import RunConfig
from petamap.data.run_summary import MapComparison
from petamap.mapmaking.products import MapWriter


def require_references(config: RunConfig, writer: MapWriter, n_columns: int) -> None:
    """Raise the error of a file that cannot be compared with, if any, before there is a map. Collective.

    Parameters
    ----------
    config : RunConfig
    writer : MapWriter
        Of the map.
    n_columns : int
        Stokes parameters of the map.
    """
    for file in (config.products.compare, config.products.compare_binned):
        if file is not None:
            writer.require_reference(config.folder / file, n_columns)


def compare_with_references(
    config: RunConfig,
    writer: MapWriter,
    best: FloatArray,
    binned: FloatArray,
    unit: str,
    warn: Callable[[str], None],
) -> list[MapComparison]:
    """Compare the maps of a run with files; return the differences, on rank 0. Collective.

    Parameters
    ----------
    config : RunConfig
    writer : MapWriter
    best, binned : float64 (n_owned, n_columns)
        The map and the binned map.
    unit : str
    warn : callable
        Gets what cannot be compared: the maps are made, and not to be lost for that.
    """
    chosen = config.products
    wanted = (
        ("map", chosen.compare, chosen.compare_limit, best),
        ("binned map", chosen.compare_binned, chosen.compare_binned_limit, binned),
    )
    comparisons = []
    for name, file, limit, values in wanted:
        if file is None:
            continue
        path = config.folder / file
        try:
            found = writer.compare(path, values)
        except STOPS:
            raise
        except UserError as error:
            warn(f"the {name} is not compared: {error}")
            continue
        if found is not None:
            comparisons.append(
                MapComparison(
                    name=name, reference=path.name, max_abs=found[0], rms=found[1], limit=limit, unit=unit
                )
            )  # fmt: skip
    return comparisons
