"""Memory of the filter is that of one block, however many are filtered."""

import sys

from commands import run_command

PROGRAM = """
import numpy as np
from petacomm.base.host import resident_bytes
from petamap.mapmaking import _mapmaking

n_lag, n_out, transform = 4096, 196608, 1 << 17
lags = np.zeros((1, n_lag + 1))
lags[0, 0] = 2.0
kernels = _mapmaking.Kernels(lags, transform)
block = np.array([0, n_out + 2 * n_lag, n_lag, n_out, 0, 0])
data, out = np.ones((1, n_out + 2 * n_lag)), np.empty((1, n_out))
kept, held = [], []
for _ in range(30):
    _mapmaking.filter_block(block, kernels, data, out)
    kept.append(np.empty(3000))  # something that stays beside what is freed
    held.append(resident_bytes())
print(held[-1] - held[1])
"""


def test_blocks_use_the_same_memory_again():
    ended = run_command([sys.executable, "-c", PROGRAM])
    assert ended.returncode == 0, ended.stderr
    # of each block 3 MB for two halves and a spectrum
    assert int(ended.stdout) < 2e6
