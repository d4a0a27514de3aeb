"""TOAST from its volume to maps: `write` makes the volume, `binned` and `destriped` are whole jobs.

    from_file_toast.py SCAN VOLUME write [N_OBSERVATIONS]
    from_file_toast.py SCAN VOLUME binned|destriped keep|recompute

What is called `full_pointing` there keeps pointing between passes; by default it is expanded in each.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOAST_LOGLEVEL", "ERROR")

import json
import resource
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


def write(scan: dict[str, np.ndarray], volume: str, n_observations: int) -> None:
    """Write the scan as a volume, by TOAST's own operator, in so many observations of equal length."""
    whole = np.arange(len(scan["boresight"]))
    for number, samples in enumerate(np.array_split(whole, n_observations)):
        data = data_of(scan | {"boresight": scan["boresight"][samples]})
        one = data.obs[0]
        one._name, one._uid = f"scan-{number:04d}", number
        one.shared[defaults.times].set(samples / float(scan["rate"]))
        one.shared[defaults.shared_flags].set(scan["shared_flags"][samples])
        one.detdata[defaults.det_data][:] = scan["signal"][:, samples]
        one.detdata[defaults.det_flags][:] = scan["detector_flags"][:, samples]
        toast.ops.DefaultNoiseModel(noise_model="noise_model").apply(data)
        one["name"] = "scan"  # TOAST cannot load an observation without a word of its own
        toast.ops.SaveHDF5(volume=volume, volume_index=None).apply(data)


class Job:
    """What both jobs begin with: the data are loaded, and operators know how to expand their pointing."""

    def __init__(self, scan: dict[str, np.ndarray], volume: str, keep: bool) -> None:
        self.scan, self.data = scan, toast.Data(toast.Comm())
        toast.ops.LoadHDF5(volume=volume, volume_index=None).apply(self.data)
        look = toast.ops.PointingDetectorSimple()
        self.pixels = toast.ops.PixelsHealpix(detector_pointing=look, nside=int(scan["n_side"]), nest=True)
        self.weights = toast.ops.StokesWeights(detector_pointing=look, mode="IQU")
        self.binning = toast.ops.BinMap(
            pixel_pointing=self.pixels, stokes_weights=self.weights, noise_model="noise_model",
            full_pointing=keep, pixel_dist="dist", covariance="covariance",
        )  # fmt: skip

    def binned(self) -> str:
        """Bin the samples, and return the name of the map."""
        common = {"pixel_dist": "dist", "pixel_pointing": self.pixels}
        common["save_pointing"] = self.binning.full_pointing
        toast.ops.BuildPixelDistribution(**common).apply(self.data)
        toast.ops.CovarianceAndHits(
            stokes_weights=self.weights, noise_model="noise_model", covariance="covariance", hits="hits",
            rcond="rcond", rcond_threshold=1e-3, **common,
        ).apply(self.data)  # fmt: skip
        self.binning.apply(self.data)
        return str(self.binning.binned)

    def destriped(self) -> str:
        """Destripe with the prior of the noise, and return the name of the map."""
        offsets = toast.templates.Offset(
            name="baselines", step_time=float(self.scan["length"]) * units.second, noise_model="noise_model",
            use_noise_prior=True, precond_width=1,
        )  # fmt: skip
        toast.ops.MapMaker(
            name="mapper", det_data=defaults.det_data, binning=self.binning, keep_final_products=True,
            template_matrix=toast.ops.TemplateMatrix(templates=[offsets]), write_map=False, write_hits=False,
            write_cov=False, write_rcond=False, write_binmap=False, solve_rcond_threshold=1e-3,
            map_rcond_threshold=1e-3,
        ).apply(self.data)  # fmt: skip
        return "mapper_map"

    def values(self, name: str) -> np.ndarray:
        """Return a map, (n_pix, 3)."""
        found, values = self.data[name], np.zeros((12 * int(self.scan["n_side"]) ** 2, 3))
        n = found.distribution.n_pix_submap
        for local, submap in enumerate(found.distribution.local_submaps):
            values[submap * n : submap * n + n] = found.data[local]
        return values


def main() -> None:
    """Do what is asked; of a job, print seconds of the processor and the most memory, and write the map."""
    volume, what, how = sys.argv[2:5]
    if what == "write":
        write(clock.scan(), volume, int(how))
        return
    with np.load(sys.argv[1]) as file:  # of the scan, numbers alone
        numbers = {name: file[name] for name in ("n_side", "length")}
    begin = time.process_time()
    job = Job(numbers, volume, how == "keep")
    name = getattr(job, what)()
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    np.save(f"{sys.argv[1]}.{what}.npy", job.values(name))
    found = {"seconds": seconds, "with_imports": begin + seconds, "bytes": peak, "name": version("toast")}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
