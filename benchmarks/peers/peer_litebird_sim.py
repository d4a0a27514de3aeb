"""litebird_sim: detector pointing (angles alone, without pixels), 1/f noise, and a binned map."""

import clock
import litebird_sim as lbs
import numpy as np
from litebird_sim.mapmaking.binner import make_binned_map


def observation(scan: dict[str, np.ndarray]) -> lbs.Observation:
    """Return the scan as an observation."""
    rate, n_samp = float(scan["rate"]), len(scan["boresight"])
    detectors = [
        vars(lbs.DetectorInfo(
            name=f"d{i}", sampling_rate_hz=rate, quat=q, net_ukrts=float(scan["net"]) * 1e6,
            fknee_mhz=float(scan["fknee"]) * 1e3, fmin_hz=float(scan["fmin"]), alpha=1.0,
        ))
        for i, q in enumerate(scan["detectors"])
    ]  # fmt: skip
    made = lbs.Observation(
        detectors=detectors, start_time_global=0.0, sampling_rate_hz=rate, n_samples_global=n_samp
    )
    made.prepare_pointings(
        instrument=lbs.InstrumentInfo(name="one"),
        spin2ecliptic_quats=lbs.RotQuaternion(scan["boresight"], start_time=0.0, sampling_rate_hz=rate),
    )
    return made


def main() -> None:
    """Time the three."""
    scan = clock.scan()
    made = observation(scan)
    n_samp = made.tod.size
    pointings = np.empty((made.n_detectors, made.n_samples, 3))
    clock.report(
        "litebird_sim", "pointing", n_samp,
        lambda: made.get_pointings("all", pointing_buffer=pointings), " angles alone",
    )  # fmt: skip
    random = [np.random.default_rng(i) for i in range(made.n_detectors)]
    clock.report(
        "litebird_sim", "noise", n_samp,
        lambda: lbs.add_noise_to_observations([made], "one_over_f", dets_random=random),
    )  # fmt: skip
    made.precompute_pointings()
    clock.report(
        "litebird_sim", "binning", n_samp,
        lambda: make_binned_map(int(scan["n_side"]), made, nthreads=1,
                                output_coordinate_system=lbs.CoordinateSystem.Ecliptic),
        " with matrices",
    )  # fmt: skip


if __name__ == "__main__":
    main()
