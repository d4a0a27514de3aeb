"""Noise beyond the ends of stationary intervals: unknown samples there are as good as flagged ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_systems import n_gap_samples

from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petacomm.mpi import SerialCommunicator
from petamap.data.config import open_sources, parse_config
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.intervals import free_ends
from petamap.mapmaking.noise_kernels import declared_model
from petamap.mapmaking.normal_operator import NormalOperator
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.mapmaking.system import set_up
from petamap.mapmaking.system_options import SystemOptions
from petamap.simulation.instrument import FlaggedRanges
from petamap.sky.healpix import Healpix

N_LAG = 64
CONFIG = """
[map]
n_side = 8
[[source]]
kind = "satellite"
n_det = 4
duration = "{seconds} s"
sample_rate = "10 Hz"
spin_period = "20 s"
opening = "50 deg"
precession_angle = "45 deg"
precession_period = "10 min"
net = "100 uK s^0.5"
fknee = "1 Hz"
alpha = -2.0
fmin = "0.1 mHz"
[[source]]
kind = "noise"
"""


def solve(observation, **choices):
    """Return the map (n_local, 3) and the pixels that are solved for."""
    options = SystemOptions(n_lag=N_LAG, **choices)
    comm = SerialCommunicator()
    system = set_up(
        [observation], Healpix(8, nest=True), options, declared_model, comm, Timers(), SilentProgress()
    )
    statistics = system.statistics
    rhs = right_hand_side(system)
    operator = NormalOperator(system.projection, system.noise, system.shared, statistics.hits_max)
    gradients = ConjugateGradients(operator, system.preconditioner)
    solution = gradients.solve(rhs.unknowns, 1e-10, 2000)
    assert solution.converged
    return solution.map.pixels, ~statistics.dead, n_gap_samples(system)


def observation(seconds):
    return open_sources(parse_config(CONFIG.format(seconds=seconds), Path("test.toml")))[0]


@pytest.mark.parametrize("pointing", ["keep", "recompute"])
@pytest.mark.parametrize("flags", ["exact", "levels"])
def test_free_ends_are_flagged_samples(pointing, flags):
    """An interval with free ends gives the bits of a longer one whose ends are flagged."""
    whole = observation(600)
    inner = (N_LAG, whole.n_samp - N_LAG)
    ends = FlaggedRanges(np.array([[0, N_LAG], [inner[1], whole.n_samp]]))
    free, solved, n_free = solve(
        replace(whole, intervals=(inner,)), free_ends=True, pointing=pointing, flags=flags
    )
    flagged, also, n_flagged = solve(replace(whole, flags=(ends,)), pointing=pointing, flags=flags)
    assert np.array_equal(solved, also)
    assert np.array_equal(free, flagged)
    assert n_free == n_flagged - 2 * N_LAG * whole.n_det


def test_free_ends_lower_the_noise_of_short_intervals():
    """Steep noise that is taken as zero beyond short intervals makes the map noisier."""
    whole = observation(1200)
    short = replace(whole, intervals=tuple((i, i + 1000) for i in range(0, whole.n_samp, 1000)))
    spread = {}
    for free in (False, True):
        # the sky is empty: what is in the map is noise
        noise, solved, _ = solve(short, free_ends=free)
        spread[free] = np.std(noise[solved] - noise[solved].mean(axis=0))
    assert spread[True] < 0.8 * spread[False]


def test_auto_looks_at_the_length_of_intervals():
    whole = observation(600)
    assert whole.intervals == ((0, 6000),)
    assert free_ends("auto", [whole], 64)
    assert not free_ends("auto", [whole], 6000 // 128)
    assert free_ends("free", [whole], 1)
    assert not free_ends("zero", [whole], 6000)
