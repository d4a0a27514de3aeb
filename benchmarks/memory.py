"""Memory of one run in a fresh process: predicted and measured. Usage: memory.py keep|recompute SAMPLES."""

from __future__ import annotations

import json
import sys
import tempfile

from cases import config

from petamap.mapmaking.run import run


def main() -> None:
    """Print the summary's memory as JSON."""
    pointing, n_samples = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        memory = run(config(n_samples, pointing), out=folder).memory
    print(
        json.dumps({
            "predicted": memory.predicted_bytes,
            "peak": memory.peak_bytes,
            "bytes_per_sample": memory.bytes_per_sample,
        })
    )  # fmt: skip


if __name__ == "__main__":
    main()
