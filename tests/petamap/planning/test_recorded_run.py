"""What a recorded run of the map-maker sends equals the graph that is computed from its pointing."""

import sys
from collections import Counter

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
AGREEMENT = 5 * 8  # bytes that ranks sum to agree on when they save
COMMAND = "import sys; from petamap.cli.main import main; sys.exit(main(sys.argv[1:]))"


def recorded_iterations(folder, n_ranks, n_iterations):
    words = ["run", "run.toml", f"solver.max_iterations={n_iterations}", "--out", "map", "--force"]
    recording = record_command(
        folder, n_ranks, sys.executable, "-c", COMMAND, *words, code=4
    )  # not converged
    rows = recording.direct[recording.direct["call"] == CALLS.index("alltoallv")]
    sums: Counter[int] = Counter()
    for row in recording.collectives[recording.collectives["call"] == CALLS.index("allreduce")]:
        sums[int(row["size"])] += int(row["calls"])
    return byte_matrix(rows, n_ranks), sums


@pytest.mark.long
def test_iterations_send_the_graph_of_the_run(tmp_path):
    """Each further iteration reduces a map once, and adds two exact dot products and a flag.

    Now and then ranks agree on when to save their state, by their clocks.
    """
    n_ranks = 4
    (tmp_path / "run.toml").write_text(RUN)
    (few, few_sums), (more, more_sums) = (recorded_iterations(tmp_path, n_ranks, n) for n in (2, 5))
    graph = run_reduction_graph(load_config(tmp_path / "run.toml", []), n_ranks)
    expected = np.zeros((n_ranks, n_ranks))
    expected[graph.sources, graph.targets] = graph.n_bytes
    assert expected.sum() > 100_000
    assert np.array_equal(more - few, 3 * expected)
    more_sums.subtract(few_sums)
    assert more_sums.pop(AGREEMENT) <= 3
    assert {size: calls for size, calls in more_sums.items() if calls} == {60 * 8: 3 * 2, 8: 3}
