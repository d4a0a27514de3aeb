"""TOAST's data in memory to maps: petamap's operator beside TOAST's `MapMaker` with the prior of the noise.

    .venv-interop/bin/python benchmarks/toast_data.py [--hours 7.5] [--turns 3]

The scan of from_file.py: 8 detectors at 64 Hz, I, Q, U at N_side 128, 1/f noise with a knee of 0.1 Hz, 1% of
samples flagged for all detectors and 0.2% for each. Each job is a process of its own on one core, in turns.
The least stands: seconds of the processor for the whole call, and the most memory of the process less
what it held before.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOAST_LOGLEVEL", "ERROR")

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from from_file import write_scan

from petacomm.base.host import peak_bytes, resident_bytes

HERE = Path(__file__).parent
JOBS = ("petamap", "toast")


def job(name: str, folder: Path) -> None:
    """Map the scan, and print what that took."""
    sys.path.insert(0, str(HERE / "peers"))
    import toast
    import toast.ops
    from peer_toast import data_of
    from toast.observation import default_values as defaults

    with np.load(folder / "scan.npz") as file:
        scan = dict(file)
    data = data_of(scan)
    one = data.obs[0]
    one.shared[defaults.shared_flags].set(scan["shared_flags"])
    one.detdata[defaults.det_data][:] = scan.pop("signal")
    one.detdata[defaults.det_flags][:] = scan.pop("detector_flags")
    toast.ops.DefaultNoiseModel(noise_model="noise_model").apply(data)
    operator = ours(scan) if name == "petamap" else theirs(scan)
    held, begin = resident_bytes(), time.process_time()
    operator.apply(data)
    seconds = time.process_time() - begin
    values = np.zeros((12 * int(scan["n_side"]) ** 2, 3))
    found = data["mapper_map"]
    n = found.distribution.n_pix_submap
    for local, submap in enumerate(found.distribution.local_submaps):
        values[submap * n : submap * n + n] = found.data[local]
    np.save(folder / f"{name}.npy", values)
    print(json.dumps({"seconds": seconds, "bytes": peak_bytes() - held}), flush=True)


def ours(scan: dict[str, np.ndarray]) -> Any:
    """Return petamap's operator."""
    from petamap.interop.toast import MapMaker

    return MapMaker(name="mapper", nside=int(scan["n_side"]), options={"resources.threads": 1})


def theirs(scan: dict[str, np.ndarray]) -> Any:
    """Return TOAST's operator, with pointing kept."""
    import toast.ops
    import toast.templates
    from astropy import units

    look = toast.ops.PointingDetectorSimple()
    pixels = toast.ops.PixelsHealpix(detector_pointing=look, nside=int(scan["n_side"]), nest=True)
    weights = toast.ops.StokesWeights(detector_pointing=look, mode="IQU")
    binning = toast.ops.BinMap(
        pixel_pointing=pixels, stokes_weights=weights, noise_model="noise_model", full_pointing=True,
        pixel_dist="dist", covariance="covariance",
    )  # fmt: skip
    offsets = toast.templates.Offset(
        name="baselines", step_time=float(scan["length"]) * units.second, noise_model="noise_model",
        use_noise_prior=True, precond_width=1,
    )  # fmt: skip
    return toast.ops.MapMaker(
        name="mapper", binning=binning, keep_final_products=True, write_map=False, write_hits=False,
        template_matrix=toast.ops.TemplateMatrix(templates=[offsets]), write_cov=False, write_rcond=False,
        write_binmap=False, solve_rcond_threshold=1e-3, map_rcond_threshold=1e-3,
    )  # fmt: skip


def main() -> None:
    """Print both, or do one job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hours", type=float, default=7.5)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if given.job:
        job(given.job[0], Path(given.job[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_scan(Path(folder), given.hours)
        least: dict[str, dict[str, float]] = {}
        for _ in range(given.turns):
            for name in JOBS:
                command = [sys.executable, __file__, "--job", name, folder]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found = json.loads(done.stdout.splitlines()[-1])
                known = least.setdefault(name, found)
                least[name] = {key: min(known[key], found[key]) for key in found}
        for name in JOBS:
            one, times = least[name], least[name]["seconds"] / least["petamap"]["seconds"]
            print(f"{name:8s} {one['seconds']:8.2f} s  {one['bytes'] / 1e6:7.0f} MB  x{times:.1f}")


if __name__ == "__main__":
    main()
