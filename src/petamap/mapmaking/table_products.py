"""Products of a run that are no maps: amplitudes of templates, and the covariance of pixels. Collective."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from petacomm.base.typing import FloatArray
from petacomm.mpi import agree_on_errors
from petamap.data.formats.amplitudes import write_amplitudes
from petamap.data.run_summary import Product, pixels_sha256
from petamap.mapmaking.amplitude_table import gather_amplitudes
from petamap.mapmaking.covariance import CovarianceColumns, FoundColumns
from petamap.mapmaking.maps_in_memory import KeptProducts
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.solution import Solution
from petamap.mapmaking.system import MapmakingSystem
from petamap.sky.covariance_file import PixelCovariance, write_pixel_covariance


def write_amplitude_table(
    setup: RunSetup, system: MapmakingSystem, solution: Solution, path: Path, kept: KeptProducts | None
) -> list[Product]:
    """Write the amplitudes of templates, or keep them, and return their entry in the summary, on rank 0."""
    table = gather_amplitudes(system, solution)
    with agree_on_errors(setup.comm):
        if table is None:
            return []
        if kept is None:
            write_amplitudes(path, table, setup.unit, setup.run_id())
        else:
            kept.keep(path, replace(table, unit=setup.unit))
    return [_entry("amplitudes of templates", "amplitudes", path, setup.unit, kept, table.values)]


def write_covariance_matrix(
    setup: RunSetup, columns: CovarianceColumns, found: FoundColumns, path: Path, kept: KeptProducts | None
) -> list[Product]:
    """Write the covariance of pixels, or keep it, and return its entry in the summary, on rank 0."""
    unit = f"{setup.unit}^2"
    with agree_on_errors(setup.comm):
        if found.values is None:
            return []
        covariance = PixelCovariance(
            found.values, found.pixels, columns.n_side, setup.config.map.stokes, unit, setup.run_id()
        )
        if kept is None:
            write_pixel_covariance(path, covariance)
        else:
            kept.keep(path, covariance)
    return [_entry("pixel covariance", "pixel_covariance", path, unit, kept, found.values)]


def _entry(
    name: str, kind: str, path: Path, unit: str, kept: KeptProducts | None, values: FloatArray
) -> Product:
    file = path.name if kept is None else ""
    return Product(name=name, file=file, kind=kind, unit=unit, stokes="", sha256=pixels_sha256(values))
