"""What a recorded run of the map-maker sends equals the graph that is computed from its pointing."""

import sys

import numpy as np
import pytest
from recorded import byte_matrix, record_command

from petacomm.recording.recording import CALLS
from petamap.data.config import load_config
from petamap.planning.reduction_graph import run_reduction_graph

RUN = """\
[map]
n_side = 16
[noise]
n_lag = 64
[solver]
tolerance = 1e-30
[comm]
reduction = "owner"
distribution = "streams"
[products]
report = false
[[source]]
kind = "satellite"
sample_rate = "4 Hz"
duration = "3 h"
year = "3 h"
interval = "1 h"
net = "100 uK s^0.5"
fknee = "0.05 Hz"
[[source]]
kind = "noise"
"""
COMMAND = "import sys; from petamap.cli.main import main; sys.exit(main(sys.argv[1:]))"


def recorded_iterations(folder, n_ranks, n_iterations):
    words = ["run", "run.toml", f"solver.max_iterations={n_iterations}", "--out", "map", "--force"]
    recording = record_command(
        folder, n_ranks, sys.executable, "-c", COMMAND, *words, code=4
    )  # not converged
    rows = recording.direct[recording.direct["call"] == CALLS.index("alltoallv")]
    sums = recording.collectives[recording.collectives["call"] == CALLS.index("allreduce")]
    return byte_matrix(rows, n_ranks), int((sums["calls"] * sums["size"]).sum())


@pytest.mark.long
def test_iterations_send_the_graph_of_the_run(tmp_path):
    """Each further iteration reduces a map once, and adds two exact dot products and a flag."""
    n_ranks = 4
    (tmp_path / "run.toml").write_text(RUN)
    (few, few_sums), (more, more_sums) = (recorded_iterations(tmp_path, n_ranks, n) for n in (2, 5))
    graph = run_reduction_graph(load_config(tmp_path / "run.toml", []), n_ranks)
    expected = np.zeros((n_ranks, n_ranks))
    expected[graph.sources, graph.targets] = graph.n_bytes
    assert expected.sum() > 100_000
    assert np.array_equal(more - few, 3 * expected)
    assert more_sums - few_sums == 3 * (2 * 60 * 8 + 8)
