"""TOAST: pixels and Stokes weights, noise, and a weighted binned map with pointing kept."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOAST_LOGLEVEL", "ERROR")

import clock
import numpy as np
import toast
import toast.ops
from astropy import units
from astropy.table import QTable
from toast.instrument import Focalplane, SpaceSite, Telescope
from toast.observation import default_values as defaults


def data_of(scan: dict[str, np.ndarray]) -> toast.Data:
    """Return the scan as TOAST holds it."""
    rate = float(scan["rate"]) * units.Hz
    n_det, n_samp = len(scan["detectors"]), len(scan["boresight"])
    table = QTable({
        "name": [f"d{i}" for i in range(n_det)],
        "quat": scan["detectors"],
        "gamma": np.zeros(n_det) * units.rad,
        "psd_net": np.full(n_det, float(scan["net"])) * units.K * np.sqrt(1 * units.second),
        "psd_fknee": np.full(n_det, float(scan["fknee"])) * units.Hz,
        "psd_fmin": np.full(n_det, float(scan["fmin"])) * units.Hz,
        "psd_alpha": np.ones(n_det),
    })  # fmt: skip
    plane = Focalplane(table, field_of_view=10 * units.degree, sample_rate=rate)
    comm = toast.Comm()
    made = toast.Observation(comm, Telescope("one", focalplane=plane, site=SpaceSite("L2")), n_samp, "scan")
    made.shared.create_column(defaults.boresight_radec, (n_samp, 4), np.float64)
    made.shared.create_column(defaults.times, (n_samp,), np.float64)
    made.shared[defaults.boresight_radec].set(scan["boresight"])
    made.shared[defaults.times].set(np.arange(n_samp) / float(scan["rate"]))
    made.shared.create_column(defaults.shared_flags, (n_samp,), np.uint8)
    made.detdata.create(defaults.det_flags, dtype=np.uint8)
    made.detdata.create(defaults.det_data, dtype=np.float64, units=units.K)
    data = toast.Data(comm)
    data.obs.append(made)
    return data


def main() -> None:
    """Time the three."""
    scan = clock.scan()
    data = data_of(scan)
    n_samp = len(scan["detectors"]) * len(scan["boresight"])
    toast.ops.DefaultNoiseModel(noise_model="noise_model").apply(data)
    clock.report("toast", "noise", n_samp, lambda: toast.ops.SimNoise(noise_model="noise_model").apply(data))
    look = toast.ops.PointingDetectorSimple()
    pixels = toast.ops.PixelsHealpix(detector_pointing=look, nside=int(scan["n_side"]), create_dist="dist")
    weights = toast.ops.StokesWeights(detector_pointing=look, mode="IQU")

    def expand() -> None:
        for name in (look.quats, pixels.pixels, weights.weights):
            if name in data.obs[0].detdata:
                del data.obs[0].detdata[name]
        data.pop("dist", None)
        pixels.apply(data)
        weights.apply(data)

    clock.report("toast", "pointing", n_samp, expand)
    build = toast.ops.BuildNoiseWeighted(
        pixel_dist="dist", noise_model="noise_model", pixels=pixels.pixels, weights=weights.weights,
        det_data=defaults.det_data, zmap="zmap",
    )  # fmt: skip

    def bin_once() -> None:
        data.pop("zmap", None)
        build.apply(data)

    clock.report("toast", "binning", n_samp, bin_once)


if __name__ == "__main__":
    main()
