"""TOAST's MapMaker on a scan that `destriping.py` has written: whole jobs, from data to a map in memory."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOAST_LOGLEVEL", "ERROR")

import json
import sys
import time
from importlib.metadata import version

import clock
import numpy as np
import toast
import toast.ops
import toast.templates
from astropy import units
from peer_toast import data_of
from toast.observation import default_values as defaults


def destriped(scan: dict[str, np.ndarray], *, prior: bool) -> dict[str, object]:
    """Return seconds, iterations' tolerance and the map of a job."""
    data = data_of(scan)
    one = data.obs[0]
    for number, detector in enumerate(one.local_detectors):
        one.detdata[defaults.det_data][detector] = scan["signal"][number]
    toast.ops.DefaultNoiseModel(noise_model="noise_model").apply(data)
    look = toast.ops.PointingDetectorSimple()
    pixels = toast.ops.PixelsHealpix(detector_pointing=look, nside=int(scan["n_side"]), nest=True)
    weights = toast.ops.StokesWeights(detector_pointing=look, mode="IQU")
    binning = toast.ops.BinMap(
        pixel_pointing=pixels, stokes_weights=weights, noise_model="noise_model", full_pointing=True,
        pixel_dist="dist",
    )  # fmt: skip
    offsets = toast.templates.Offset(
        name="baselines", step_time=float(scan["length"]) * units.second, noise_model="noise_model",
        use_noise_prior=prior,
        precond_width=1 if prior else 20, good_fraction=0.0,
    )  # fmt: skip
    mapper = toast.ops.MapMaker(
        name="mapper", det_data=defaults.det_data, binning=binning, keep_final_products=True,
        template_matrix=toast.ops.TemplateMatrix(templates=[offsets]), write_map=False, write_hits=False,
        write_cov=False, write_invcov=False, write_rcond=False, write_binmap=False, iter_min=1000,
        iter_max=1000,
        convergence=float(scan["tolerance"]) ** 2, solve_rcond_threshold=1e-3, map_rcond_threshold=1e-3,
    )  # fmt: skip
    begin = time.process_time()
    mapper.apply(data)
    seconds = time.process_time() - begin
    found = data["mapper_map"]
    n_pix = 12 * int(scan["n_side"]) ** 2
    values = np.zeros((n_pix, 3))
    for local, submap in enumerate(found.distribution.local_submaps):
        first = submap * found.distribution.n_pix_submap
        values[first : first + found.distribution.n_pix_submap] = found.data[local]
    return {"seconds": seconds, "map": values}


def main() -> None:
    """Print seconds, and write the maps beside the scan."""
    scan = clock.scan()
    for prior in (False, True):
        found = destriped(scan, prior=prior)
        name = "noise" if prior else "none"
        np.save(f"{sys.argv[1]}.{name}.npy", found["map"])
        print(
            json.dumps({"prior": name, "seconds": found["seconds"], "version": version("toast")}), flush=True
        )


if __name__ == "__main__":
    main()
