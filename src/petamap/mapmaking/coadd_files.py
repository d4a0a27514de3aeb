"""Files of coadded maps, in a folder like that of a run."""

from __future__ import annotations

import hashlib
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from petacomm.base.host import cpu_model, peak_bytes
from petacomm.base.instruction_set import kernel_set
from petacomm.base.typing import FloatArray
from petamap import __version__
from petamap.data import run_summary as summary
from petamap.mapmaking.coadd import CoaddedMap
from petamap.mapmaking.product_set import put_in_place
from petamap.mapmaking.products import covariance_names, product_cards
from petamap.mapmaking.slabs import is_partial
from petamap.sky.map_digest import map_sha256
from petamap.sky.map_file import write_columns
from petamap.sky.stokes import Stokes


def write_coadd(
    coadded: CoaddedMap,
    runs: Sequence[summary.Summary],
    out: Path,
    *,
    name: str = "coadd",
    command: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> summary.Summary:
    """Write map, covariance, hits and ``summary.json`` of a coadded map, and return the summary.

    They replace those of a run in the folder as one, once all are written.

    Parameters
    ----------
    coadded : CoaddedMap
    runs : sequence of Summary
        Of what was added.
    out : Path
        Folder; created if it does not exist.
    name : str
        Of the files.
    command, warnings : sequence of str
        For the summary.
    """
    run_id = hashlib.sha256("\n".join(["coadd", *(run.run_id for run in runs)]).encode()).hexdigest()[:16]
    made = out / f".{name}.products"
    shutil.rmtree(made, ignore_errors=True)
    try:
        found = _write(made, coadded, runs, name, run_id, command, warnings)
        put_in_place(made, out, "free space: the same command with --force makes all anew")
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return found


def _write(
    out: Path, coadded: CoaddedMap, runs: Sequence[summary.Summary], name: str, run_id: str,
    command: Sequence[str], warnings: Sequence[str],
) -> summary.Summary:  # fmt: skip
    sky, letters = coadded.sky, "".join(coadded.sky.names)
    triangle = coadded.covariance.transpose(1, 2, 0)[np.triu_indices(len(letters))]
    products = []

    def write(kind: str, title: str, values: FloatArray, names: Sequence[str], unit: str) -> None:
        path = out / f"{name}_{kind}.fits"
        partial = is_partial(sky.pixelization, int(np.isfinite(values).any(axis=0).sum()))
        write_columns(
            path, values, sky.pixelization, names=names, unit=unit, run_id=run_id, frame=sky.frame,
            cards=product_cards(kind), partial=partial,
        )  # fmt: skip
        digest = map_sha256(values)
        stokes = letters if kind == "map" else ""
        products.append(
            summary.Product(name=title, file=path.name, kind=kind, unit=unit, stokes=stokes, sha256=digest)
        )

    unit = sky.units[0]
    write("map", "Coadded map", sky.values, sky.names, unit)
    write(
        "covariance",
        "Covariance of the white noise",
        triangle,
        covariance_names(Stokes(letters)),
        f"{unit}^2",
    )
    if coadded.hits is not None:
        write("hits", "Hits", coadded.hits[None], ["HITS"], "")
    found = _summary(coadded, runs, name, run_id, command, warnings, tuple(products))
    found.write(out)
    return found


def _summary(
    coadded: CoaddedMap, runs: Sequence[summary.Summary], name: str, run_id: str, command: Sequence[str],
    warnings: Sequence[str], products: tuple[summary.Product, ...],
) -> summary.Summary:  # fmt: skip
    names = " + ".join(run.name for run in runs)
    seen = np.isfinite(coadded.sky.values).all(axis=0)
    totals = [run.totals for run in runs]
    return summary.Summary(
        petamap=__version__, name=name, title=f"Coadded map: {names}", run_id=run_id, command=tuple(command),
        configuration="".join(f"# coadded: run {run.name}, {run.run_id}\n" for run in runs),
        seed=runs[0].seed,
        environment=summary.Environment(
            python=platform.python_version(), numpy=np.__version__, mpi=None, cpu=cpu_model(),
            kernels=kernel_set(), ranks=1, threads=1, hosts=1, distribution=None, reduction=None,
        ),
        totals=summary.Totals(
            observations=sum(one.observations for one in totals),
            detectors=max(one.detectors for one in totals),
            samples=sum(one.samples for one in totals),
            samples_used=sum(one.samples_used for one in totals),
            samples_flagged=sum(one.samples_flagged for one in totals),
            samples_unwritten=sum(one.samples_unwritten for one in totals),
            pixels=coadded.sky.pixelization.n_pix, pixels_observed=int(seen.sum()),
            pixels_cut=0, pixels_degenerate=0,
        ),
        noise=None, solver=None, phases=(),
        memory=summary.Memory(predicted_bytes=0, peak_bytes=peak_bytes(), bytes_per_sample=0.0),
        products=products, comparisons=(), warnings=tuple(warnings),
        data=tuple(one for run in runs for one in run.data),
    )  # fmt: skip
