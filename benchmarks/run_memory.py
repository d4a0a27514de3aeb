"""Memory of runs with templates, splits, bands and filters: planned, predicted by the run, and taken.

    python benchmarks/run_memory.py              # on one rank and on three, some minutes
    python benchmarks/run_memory.py offsets      # only cases with this in their name

Each run is a process, or three, of its own. The scan: 8 detectors on the ground, 3 h at 40 Hz in two
observations, bands of 16,384 lags, pointing kept. MB of the rank that takes most.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(sys.executable).parent
RANKS = (1, 3)
SCAN = """
[run]
name = "memory"
[map]
n_side = 256
[noise]
n_lag = 16384
kernel = "{kernel}"
[solver]
max_iterations = 3
[resources]
threads = 1
pointing = "keep"
[products]
filtered = {filtered}
[[source]]
kind = "ground"
n_det = 8
duration = "3 h"
n_observations = 2
sample_rate = "40 Hz"
net = "300 uK s^0.5"
fknee = "0.5 Hz"
[[source]]
kind = "noise"
"""


def source(kind: str, **options: object) -> str:
    """Return a source of a configuration."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    return "\n".join(["[[source]]", f'kind = "{kind}"', *lines, ""])


BANDS = """
[[band]]
name = "a"
frequency = "90 GHz"
detectors = ["000[01]*"]
[[band]]
name = "b"
frequency = "150 GHz"
detectors = ["000[23]*"]
"""
CASES = {
    "no templates": "",
    "offsets": source("offsets"),
    "baselines, white, with prior": source("baselines", length="4 s", prior="noise"),
    "polynomials, order 3": source("polynomials", order=3),
    "a common mode": source("common-mode", net="10 uK s^0.5", fknee="2 Hz"),
    "a split in two": '[[split]]\nname = "halves"\nby = "observations"\n',
    "azimuth-synchronous, 200 bins": source("azimuth-synchronous", bins=200),
    "gain-drift of 10 min": source("gain-drift", length="10 min", rms=0.01),
    "leakage": source("leakage", rms=0.01),
    "polynomials, filtered": source("polynomials", order=3),
    "two bands": BANDS,
}


def configuration(name: str) -> str:
    """Return the configuration of a case as TOML."""
    kernel = "white" if "white" in name else "model"
    return SCAN.format(kernel=kernel, filtered=str("filtered" in name).lower()) + CASES[name]


def planned(path: Path, ranks: int) -> float:
    """Return the bytes of a rank that the planner tells."""
    words = [BIN / "petamap", "plan", path, "--ranks", str(ranks), "--machine", "perlmutter", "--json"]
    plan = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    ranked = [one for one in plan["predictions"] if one["threads"] == 1]
    return max(one["memory_with_pointing_kept"] for one in ranked)


def taken(path: Path, ranks: int) -> tuple[float, float]:
    """Return the bytes of a rank that a run predicts, and its peak."""
    launcher = ["mpiexec", "-n", str(ranks)] if ranks > 1 else []
    words = [*launcher, BIN / "petamap", "run", path, "--out", path.with_suffix(""), "--force"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):  # three iterations are not enough to converge
        raise SystemExit(done.stderr)
    memory = json.loads((path.with_suffix("") / "summary.json").read_text())["memory"]
    return memory["predicted_bytes"], memory["peak_bytes"]


def main() -> None:
    """Print a row for each case."""
    print(f"{'MB: planned, predicted, taken':32s}" + "".join(f"{f'{n} ranks':>21s}" for n in RANKS))
    for name in CASES:
        if not all(word in name for word in sys.argv[1:]):
            continue
        print(f"{name:32s}", end="", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.toml"
            path.write_text(configuration(name))
            for ranks in RANKS:
                told = (planned(path, ranks), *taken(path, ranks))
                print("".join(f"{value / 1e6:7.0f}" for value in told), end="", flush=True)
        print()


if __name__ == "__main__":
    main()
