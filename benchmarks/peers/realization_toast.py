"""TOAST: a realization simulated and mapped from scratch, by its destriper."""

import tempfile
from pathlib import Path

from peer_toast import data_of  # first: it sets TOAST's threads

import clock  # isort: skip
import healpy
import numpy as np
import toast
import toast.ops
import toast.templates
from astropy import units
from toast.observation import default_values as defaults


def sky(path: Path, n_side: int) -> None:
    """Draw a sky and write it."""
    l = np.arange(2 * n_side + 1.0)  # noqa: E741
    power = np.where(l > 1, 6e-9 / np.maximum(l * (l + 1), 1), 0)
    cls = [power, 0.02 * power, 0 * power, 0 * power]
    drawn = healpy.synfast(cls, n_side, lmax=2 * n_side, new=True)
    healpy.write_map(path, drawn, overwrite=True, column_units="K", nest=True, dtype=np.float64)


def realization(scan: dict[str, np.ndarray], folder: Path) -> None:
    """Simulate sky and noise, and map them: baselines of a second with the prior of their noise."""
    data, n_side = data_of(scan), int(scan["n_side"])
    look = toast.ops.PointingDetectorSimple()
    pixels = toast.ops.PixelsHealpix(detector_pointing=look, nside=n_side, create_dist="dist")
    weights = toast.ops.StokesWeights(detector_pointing=look, mode="IQU")
    sky(folder / "sky.fits", n_side)
    toast.ops.DefaultNoiseModel(noise_model="noise_model").apply(data)
    toast.ops.ScanHealpixMap(
        file=str(folder / "sky.fits"), det_data=defaults.det_data, pixel_dist="dist", pixel_pointing=pixels,
        stokes_weights=weights,
    ).apply(data)  # fmt: skip
    toast.ops.SimNoise(noise_model="noise_model").apply(data)
    binner = toast.ops.BinMap(
        pixel_dist="dist", pixel_pointing=pixels, stokes_weights=weights, noise_model="noise_model",
        full_pointing=True,
    )  # fmt: skip
    offsets = toast.templates.Offset(
        times=defaults.times, noise_model="noise_model", step_time=1 * units.second, use_noise_prior=True,
        precond_width=1,
    )  # fmt: skip
    toast.ops.MapMaker(
        name="maps", det_data=defaults.det_data, binning=binner, convergence=1e-5, iter_max=100,
        template_matrix=toast.ops.TemplateMatrix(templates=[offsets]), output_dir=str(folder),
        write_hits=False, write_cov=False, write_rcond=False,
    ).apply(data)  # fmt: skip


def main() -> None:
    """Time it."""
    scan = clock.scan()
    n_samp = len(scan["detectors"]) * len(scan["boresight"])
    with tempfile.TemporaryDirectory() as folder:
        work = lambda: realization(scan, Path(folder))  # noqa: E731
        clock.report("toast", "realization", n_samp, work, ", destriper with baselines of 1 s")


if __name__ == "__main__":
    main()
