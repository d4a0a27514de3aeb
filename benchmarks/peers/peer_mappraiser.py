"""P^T N^-1 P by MAPPRAISER's library, MIDAPACK, built from its source: the folder is that of $MIDAPACK.

Needed are an MPI compiler and FFTW: apt install libmpich-dev libfftw3-dev. Its time is that of one process.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import clock
import numpy as np

_TIMES = 3
# What MIDAPACK's own build leaves out.
_LEFT_OUT = (
    "butterfly_extra.c", "butterfly_new.c", "truebutterfly.c", "toeplitz_devtools.c",
    "toeplitz_gappy_seq.dev.c",
)  # fmt: skip


def build(source: Path, folder: Path) -> Path:
    """Return the program, compiled as MIDAPACK's own build does for a release, and for this processor."""
    algebra = source / "algebra"
    files = [*sorted((algebra / "src/mapmat").glob("*.c")), *sorted((algebra / "src/toeplitz").glob("*.c"))]
    includes = [f"-I{algebra / 'include' / room}" for room in ("", "mapmat", "toeplitz")]
    program = folder / "mappraiser"
    command = ["mpicc", "-O3", "-march=native", "-DNDEBUG", "-DW_MPI=1", "-w", *includes, "-o", program]
    command += [file for file in files if file.name not in _LEFT_OUT]
    command += [Path(__file__).with_name("mappraiser.c"), "-lfftw3", "-lm"]
    subprocess.run(command, check=True)
    return program


def write(scan: dict[str, np.ndarray], path: Path) -> None:
    """Write what the program reads."""
    n_det, n_samp = scan["pixels"].shape
    lags = scan["lags"][0]
    assert (scan["lags"] == lags).all(), "the detectors have the same noise"
    head = np.array([n_det, n_samp, len(lags), 12 * int(scan["n_side"]) ** 2], np.int32)
    with path.open("wb") as file:
        for values in (head, lags, scan["pixels"].astype(np.int32), scan["angles"].astype(np.float64)):
            values.tofile(file)


def main() -> None:
    """Time it; each Stokes parameter of the map is one."""
    scan = clock.scan()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(Path(os.environ["MIDAPACK"]), folder)
        write(scan, folder / "scan")
        done = subprocess.run(
            [program, str(_TIMES), folder / "scan"], check=True, stdout=subprocess.PIPE, text=True
        )
    seconds = float(done.stdout.split()[-2])
    found = {"line": "apply", "peer": "MAPPRAISER (MIDAPACK)", "value": 1e9 * seconds / scan["pixels"].size}
    print(json.dumps(found), file=sys.stdout, flush=True)


if __name__ == "__main__":
    main()
