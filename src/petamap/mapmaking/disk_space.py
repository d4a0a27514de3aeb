"""Disk space that the products of a run need: checked before the work that they come from."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from petacomm.base.errors import ResourceError
from petacomm.mpi import Communicator, agree_on_errors
from petamap.mapmaking.map_outputs import MADE_APART, output_names, product_kinds
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.slabs import is_partial
from petamap.mapmaking.system import MapmakingSystem

_HEADER_BYTES = 3 * 2880  # of FITS


def product_bytes(
    setup: RunSetup, system: MapmakingSystem, of_splits: Iterable[tuple[Path, str]], n_covariance: int
) -> int:
    """Return the bytes of the products whose size is known before they are made.

    These are maps and the covariance of all pixels; not amplitudes, and not the observation matrix.

    Parameters
    ----------
    setup : RunSetup
    system : MapmakingSystem
    of_splits : iterable of (Path, str)
        Files of splits, and their kinds.
    n_covariance : int
        Rows of the covariance of all pixels; 0 for none.
    """
    n, row = system.projection.stokes.n, 0
    n_rows = system.projection.sky.n_pix
    n_seen = -(-setup.use.n_seen // len(system.map_names))
    if is_partial(system.projection.sky, n_seen):
        n_rows, row = n_seen, 4
    columns = {"hits": 1, "part_hits": 1, "rcond": 1, "covariance": n * (n + 1) // 2}
    kinds = [kind for kind in product_kinds(setup.config, setup.observations) if kind not in MADE_APART]
    maps = [
        n**2 if len(output.numbers) == 2 else columns.get(kind, n)
        for output in output_names(setup.config)
        for kind in kinds
        if output.has(kind)
    ]
    maps += [columns.get(kind, n) for _, kind in of_splits]
    covariance = _HEADER_BYTES + 8 * n_covariance**2 if n_covariance else 0
    return sum(_HEADER_BYTES + (row + 8 * n_columns) * n_rows for n_columns in maps) + covariance


def require_space(comm: Communicator, out: Path, n_bytes: int) -> None:
    """Raise a ResourceError if the file system of a folder has fewer bytes free. Collective."""
    with agree_on_errors(comm):
        if comm.rank == 0 and n_bytes > (free := shutil.disk_usage(out).free):
            raise ResourceError(
                f"the maps take {n_bytes / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free",
                where=str(out),
                mend="free space, choose another --out, or fewer [products]",
            )
