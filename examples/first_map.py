"""From nothing to a map: a virtual satellite, a Gaussian sky, 1/f noise; then the map against the sky.

    python examples/first_map.py [folder]

Nothing is read from disk; signal and noise are made when the map-maker asks for them.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from petamap.data.config import parse_config
from petamap.mapmaking.run import run
from petamap.sky.map_file import read_map

CONFIGURATION = """
[run]
name = "first"

[map]
n_side = 16

[solver]
tolerance = 1e-5
rcond_min = 0.1

[[source]]
kind = "satellite"
n_det = 4
sample_rate = "2 Hz"
duration = "24 h"
spin_period = "10 min"
opening = "50 deg"
precession_period = "3 h"
precession_angle = "45 deg"
net = "300 uK s^0.5"
fknee = "20 mHz"
fmin = "0.1 mHz"
alpha = -1.5

[[source]]
kind = "sky-spectra"
n_side = 16

[[source]]
kind = "noise"
"""


def main(folder: Path) -> None:
    """Make the map with and without noise, and compare."""
    config = parse_config(CONFIGURATION, Path("first.toml"))
    summary = run(config, out=folder / "noisy")
    print(f"{summary.solver.iterations} iterations, {summary.solver.reason}")

    without = CONFIGURATION.rpartition("[[source]]")[0]
    run(parse_config(without, Path("first.toml")), out=folder / "noiseless")

    truth = read_map(folder / "noiseless" / "first_map.fits").values
    for kind in ("map", "binned"):
        difference = read_map(folder / "noisy" / f"first_{kind}.fits").values - truth
        rms = np.sqrt(np.nanmean(difference**2, axis=1)) * 1e6
        print(f"{kind:<7} rms error of I, Q, U: " + ", ".join(f"{value:.2f}" for value in rms) + " uK")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
