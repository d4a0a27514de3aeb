"""Noise maps of a run, held against the full covariance of its pixels."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy import stats

from petacomm.base.progress import SilentProgress
from petacomm.mpi import SerialCommunicator
from petamap.data.config import open_sources, parse_config
from petamap.mapmaking.covariance import CovarianceColumns
from petamap.mapmaking.right_hand_side import right_hand_sides
from petamap.mapmaking.setup import RunSetup
from petamap.simulation.noise import SimulatedNoise

SATELLITE = """
[run]
name = "small"
[map]
n_side = {n_side}
[noise]
{noise}
[solver]
rcond_min = 0.1
max_iterations = 2000
[[source]]
kind = "satellite"
n_det = 4
sample_rate = "{rate} Hz"
duration = "{hours} h"
spin_period = "10 min"
opening = "50 deg"
precession_period = "3 h"
precession_angle = "45 deg"
net = "300 uK s^0.5"
fknee = "20 mHz"
fmin = "{fmin} mHz"
alpha = -1.5
[[source]]
kind = "noise"
[[source]]
kind = "cuts"
gap_every = "20 min"
gap_length = "1 min"
"""
_BATCH = 8


@dataclass(frozen=True)
class NoiseMaps:
    """Whitened noise maps, (n_maps, n_modes), and the longest band."""

    modes: np.ndarray
    n_lag: int

    @property
    def chi_squared(self):
        """Mean square of a whitened mode: chi-squared a degree of freedom."""
        return np.mean(self.modes**2)

    @property
    def variances(self):
        """Variance of each mode over what the covariance says."""
        return np.mean(self.modes**2, axis=0)

    @property
    def probability(self):
        """Of variances that scatter more, by Kolmogorov and Smirnov."""
        n = len(self.modes)
        return stats.kstest(n * self.variances, stats.chi2(n).cdf).pvalue


def noise_maps(n_maps, noise="", n_side=4, rate=2, hours=12, fmin=0.1, seed=1):
    """Return whitened noise maps of a small satellite; by default that of the first map, for 12 h."""
    text = SATELLITE.format(noise=noise, n_side=n_side, rate=rate, hours=hours, fmin=fmin)
    config = parse_config(text, Path("small.toml"))
    setup = RunSetup(config, SerialCommunicator(), SilentProgress())
    setup.open(open_sources)
    system = setup.set_up(_BATCH)
    limits = config.solver.tolerance, config.solver.max_iterations
    alive, columns = np.flatnonzero(~system.statistics.dead), CovarianceColumns(system)
    draw = partial(_signals, setup, seed)
    maps, solver = [], system.solver()
    for first in range(0, n_maps, _BATCH):
        data = [draw(number) for number in range(first, min(first + _BATCH, n_maps))]
        rhs = [one.unknowns for one in right_hand_sides(system, data)]
        solutions = solver.solve_many(rhs, *limits)
        assert all(solution.converged for solution in solutions)
        maps += [solution.map.pixels[alive] for solution in solutions]
    ring = system.projection.pixelization.reordered(system.keys[alive])
    values = np.array(maps)[:, np.argsort(ring)].transpose(0, 2, 1).reshape(n_maps, -1)
    found = columns.solve(*limits)
    assert not found.left_out
    eigenvalues, vectors = np.linalg.eigh(found.values)
    return NoiseMaps(values @ vectors / np.sqrt(eigenvalues), system.layout.n_lag)


def _signals(setup, seed, realization):
    """Return the noise of a realization, as signals of each observation."""
    return [(SimulatedNoise(one, one.noise, seed, realization),) for one in setup.observations]
