"""A recorded map-making run: each iteration sends what its reduction plan says, to the byte."""

import json

import numpy as np
import pytest
from cases import cases
from recorded import byte_matrix, record_python

ITERATIONS = """\
import json
from pathlib import Path
from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petacomm.mapping.graph_sources import add_graphs, reduction_plan_graph
from petacomm.mpi import world
from petamap.data.config import open_sources, parse_config
from petamap.mapmaking.noise_kernels import declared_model
from petamap.mapmaking.system import set_up
from petamap.mapmaking.system_options import SystemOptions
from petamap.mapmaking.vectors import stack
from petamap.sky.healpix import Healpix
text = '''
[map]
n_side = 32
[[source]]
kind = "ground"
n_det = 4
duration = "20 min"
sample_rate = "20 Hz"
net = "60 uK s^0.5"
fknee = "50 mHz"
[[source]]
kind = "noise"
'''
scans = open_sources(parse_config(text, Path("run.toml")))
options = SystemOptions(n_lag=64, reduction="{reduction}")
system = set_up(scans, Healpix(32, nest=True), options, declared_model, world(), Timers(), SilentProgress())
operator = system.operator()
vector = system.shared.zeros(3)
vector.pixels[:] = 1
vector = stack([vector])
operator.apply(vector)  # plans are chosen and buffers made in the first call
phase(1)
for _ in range(4):
    operator.apply(vector)
phase(0)
plans = (system.shared.pixels.plan, 3), (system.shared.gaps.plan, 1)
graph = add_graphs([reduction_plan_graph(plan, k) for plan, k in plans])
if rank == 0:
    ends = graph.sources.tolist(), graph.targets.tolist(), graph.n_bytes.tolist()
    Path("expected.json").write_text(json.dumps(ends))
"""


@pytest.mark.parametrize(
    ("n_ranks", "reduction"), cases((5, "pairwise"), long=[(2, "owner"), (2, "pairwise"), (5, "owner")])
)
def test_iterations_send_what_the_plans_of_their_reductions_say(tmp_path, reduction, n_ranks):
    recording = record_python(tmp_path, n_ranks, ITERATIONS.format(reduction=reduction))
    sources, targets, n_bytes = json.loads((tmp_path / "expected.json").read_text())
    expected = np.zeros((n_ranks, n_ranks))
    expected[sources, targets] = n_bytes
    rows = recording.of_phase(1).direct
    assert expected.sum() > 0
    assert np.array_equal(byte_matrix(rows, n_ranks), 4 * expected)
