"""Memory of maps of a user's arrays beside these: angles, held as pixel and angle or as a boresight.

    .venv/bin/python benchmarks/array_memory.py

Each case is a process of its own: 8 detectors whose angles do not fit one boresight, or 40 that do, with
pointing recomputed or kept, whose intervals are too short in one case to go without unknown samples beyond
their ends; I, Q, U at N_side 128, 1/f noise. Bytes a sample are the most memory of the process in the call,
less what it held before, over all samples of all detectors.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import numpy as np

from petacomm.base.host import peak_bytes, resident_bytes

BINNED = {"solver.binned_only": True, "noise.kernel": "white"}
KEPT = {"resources.pointing": "keep"}
# name -> detectors, samples of each, whether they are a rigid focal plane, and options
CASES = {
    "20 million samples, binned": (8, 2_500_000, False, BINNED),
    "20 million samples": (8, 2_500_000, False, {}),
    "80 million samples": (8, 10_000_000, False, {}),
    "a rigid focal plane, 20 million": (40, 500_000, True, {}),
    "the same, 20 million, kept": (40, 500_000, True, KEPT),
    "a rigid focal plane, 100 million": (40, 2_500_000, True, {}),
    "the same, 100 million, kept": (40, 2_500_000, True, KEPT),
}


def job(name: str) -> None:
    """Map arrays, and print what that took."""
    import petamap
    from petamap.pointing import quaternion

    n_det, n_samp, rigid, more = CASES[name]
    signal, theta, phi, psi = (np.empty((n_det, n_samp)) for _ in range(4))
    rng, t = np.random.default_rng(1), np.arange(n_samp)
    boresight = 1.4 + 0.3 * np.sin(0.0031 * t), 0.00012 * t, 0.37 * t % 6.28  # all angles in all pixels
    for k in range(n_det):
        signal[k] = 1e-4 * rng.standard_normal(n_samp)
        if rigid:
            for part in range(0, n_samp, 1 << 16):
                along = quaternion.from_angles(*(one[part : part + (1 << 16)] for one in boresight))
                own = quaternion.multiply(along, quaternion.from_angles(0.002 * k, 0.7 * k, 0.4 * k))
                x, y, z, w = own.T
                rows = slice(part, part + len(own))
                theta[k, rows] = 2 * np.arctan2(np.hypot(x, y), np.hypot(z, w))
                phi[k, rows] = np.arctan2(y * z - w * x, x * z + w * y)
                psi[k, rows] = np.arctan2(y * z + w * x, w * y - x * z)
        else:
            theta[k], phi[k], psi[k] = (
                boresight[0] + 0.01 * k,
                boresight[1] + 0.01 * k,
                boresight[2] + 0.4 * k,
            )
    del t, boresight
    noise = petamap.OneOverF(net="60 uK s^0.5", fknee="50 mHz", fmin="1 mHz")
    options = {"solver.max_iterations": 5, "resources.threads": 1, **more}
    held, begin = resident_bytes(), time.process_time()
    maps = petamap.make_map(
        signal, theta, phi, psi, noise=noise, sample_rate=64.0, n_side=128, options=options, progress=False
    )
    seconds = time.process_time() - begin
    print(json.dumps({
        "seconds": seconds, "bytes": (peak_bytes() - held) / signal.size,
        "kept": maps.summary.memory.bytes_per_sample, "pixels": maps.summary.totals.pixels_observed,
    }))  # fmt: skip


def main() -> None:
    """Print all cases, or do one job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--job", choices=CASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        job(given.job)
        return
    for name in CASES:
        command = [sys.executable, "-W", "ignore", __file__, "--job", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        one = json.loads(done.stdout.splitlines()[-1])
        print(f"{name:36s} {one['bytes']:6.2f} bytes a sample, {one['seconds']:6.2f} s of the processor")


if __name__ == "__main__":
    main()
