"""P^T N^-1 P on a device, beside one core of its host and furax on the same device.

    python benchmarks/accelerator.py [--samples 1e9] [--few 30e6] [--peers PYTHON]

A satellite scan of 8 detectors, I, Q, U at N_side 512, a band of 4096 lags, float64; times of the wall, the
best of turns, vectors brought to the device and back each time. The processor takes the scan of few samples.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cases
import numpy as np

from petacomm.base.host import cpu_model
from petacomm.base.threads import available_threads
from petamap.cuda.device import CupyDevice
from petamap.mapmaking.vectors import Unknowns

HERE = Path(__file__).parent


def best_of(work: cases.Solver, repeats: int = 3) -> float:
    """Return the least seconds of a pass, after one that is not counted."""
    work.apply()
    best = cases.Best()
    for _ in range(repeats):
        best.measure(work.apply)
    return best.wall


def product(one: cases.Solver) -> Unknowns:
    """Return A times a map of noise."""
    rng = np.random.default_rng(0)
    n = len(one.system.keys)
    return one.operator.apply(
        Unknowns(rng.normal(size=(n, 3, 1)), np.zeros((one.system.projection.gaps.n, 1, 1)))
    )


def show_few(device: CupyDevice, n_samples: int) -> None:
    """Compare the device with one core, in time and in what comes out."""
    scan = cases.observation(n_samples)
    n_samp = scan.n_samp * cases.N_DET
    processor = cases.solver(scan, "keep", 1)
    core, expected = best_of(processor), product(processor).pixels
    print(f"{n_samp / 1e6:.0f} M samples; one core: {n_samp / core / 1e6:.0f} M samples/s", flush=True)
    for how in ("keep", "recompute"):
        one = cases.solver(scan, how, available_threads(), device=device)
        took = best_of(one)
        off = np.abs(product(one).pixels - expected).max() / np.sqrt(np.mean(expected**2))
        print(
            f"  device, {how}: {n_samp / took / 1e9:.2f} G samples/s, {core / took:.0f} times one core, "
            f"differs by {off:.1e} of rms at most",
            flush=True,
        )


def show_peer(python: str, n_samples: int) -> None:
    """Time furax on the device."""
    scan = cases.observation(n_samples)
    lags = cases.inverse_lags(cases.solver(scan, "keep", available_threads()).system)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scan.npz"
        cases.write_scan(file, scan, lags)
        subprocess.run([python, str(HERE / "peers" / "device_furax.py"), str(file)], check=False)


def show_many(device: CupyDevice, n_samples: int) -> None:
    """Time a scan that is long enough to hide what does not grow with it."""
    begin, scan = time.perf_counter(), cases.observation(n_samples)
    n_samp = scan.n_samp * cases.N_DET
    before = device.free_bytes()
    one = cases.solver(scan, "recompute", available_threads(), device=device)
    took, set_up = best_of(one), time.perf_counter() - begin
    used = before - device.free_bytes()
    print(
        f"{n_samp / 1e6:.0f} M samples, recomputed: {n_samp / took / 1e9:.2f} G samples/s; "
        f"{used / 1e9:.2f} GB on the device, {used / n_samp:.2f} bytes a sample; set-up {set_up:.1f} s",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--samples", type=float, default=1e9, help="of all detectors together")
    parser.add_argument("--few", type=float, default=30e6, help="of the scan that the processor takes, too")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="interpreter; '' for none")
    given = parser.parse_args()
    device = CupyDevice()
    print(f"{device.name}; {cpu_model()}, {available_threads()} threads", flush=True)
    show_few(device, int(given.few))
    if given.peers:
        show_peer(given.peers, int(given.few))
    show_many(device, int(given.samples))


if __name__ == "__main__":
    main()
