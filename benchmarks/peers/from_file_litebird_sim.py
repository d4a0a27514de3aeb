"""litebird_sim's destriper on a scan in memory, for a number of iterations: SCAN ITERATIONS."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import json
import resource
import sys
import time
from importlib.metadata import version

import clock
import litebird_sim as lbs
import numpy as np
from litebird_sim.mapmaking.destriper import DestriperParameters, make_destriped_map
from peer_litebird_sim import observation


def destriped(scan: dict[str, np.ndarray], n_samp: int, iterations: int) -> float:
    """Return the seconds of the processor that the first samples take, from their quaternions on."""
    part = scan | {"boresight": scan["boresight"][:n_samp]}
    made = observation(part)
    made.tod = scan["signal"][:, :n_samp]
    params = DestriperParameters(
        output_coordinate_system=lbs.CoordinateSystem.Ecliptic,
        samples_per_baseline=int(float(scan["length"]) * float(scan["rate"])),
        iter_max=iterations,
        threshold=0.0,
    )
    begin = time.process_time()
    make_destriped_map(int(scan["n_side"]), made, params=params, nthreads=1)
    return time.process_time() - begin


def main() -> None:
    """Print seconds of the processor and the most memory; what is compiled is compiled before."""
    scan, iterations = clock.scan(), int(sys.argv[2])
    destriped(scan, 20_000, 2)
    seconds = destriped(scan, len(scan["boresight"]), iterations)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "bytes": peak, "name": version("litebird_sim")}), flush=True)


if __name__ == "__main__":
    main()
