"""Observations held in memory, and what dense linear algebra makes of them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.linalg import toeplitz

from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petacomm.mpi import SerialCommunicator
from petamap.data.observation import Observation
from petamap.mapmaking.filter_and_bin import white_options
from petamap.mapmaking.noise_kernels import declared_model
from petamap.mapmaking.right_hand_side import right_hand_side, right_hand_sides
from petamap.mapmaking.system import set_up
from petamap.mapmaking.system_options import SystemOptions
from petamap.mapmaking.vectors import Unknowns, stack
from petamap.noise.model import InverseLags
from petamap.noise.toeplitz import inverse_lags
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.numbered import NumberedPixels
from petamap.sky.stokes import Stokes

TURN = 2**32


@dataclass(frozen=True, eq=False)
class Samples:
    """A signal in memory, (n_det, n_samp)."""

    values: np.ndarray

    def add_signal(self, detector, start, stop, out):
        out += self.values[detector, start:stop]


@dataclass(frozen=True, eq=False)
class Bad:
    """Flags in memory, (n_det, n_samp)."""

    values: np.ndarray

    def or_flags(self, detector, start, stop, out):
        out |= self.values[detector, start:stop].astype(np.uint8)


@dataclass(frozen=True)
class Models:
    """A noise model for each detector and interval; the last ones for all that follow."""

    rows: tuple

    def noise_model(self, detector, interval):
        row = self.rows[min(detector, len(self.rows) - 1)]
        return row[min(interval, len(row) - 1)]


def lags_of(rng, n_lag, weight=1.0):
    """Return positive inverse noise lags 0..n_lag: a decaying oscillation, smaller in sum than lag 0."""
    lags = rng.uniform(-1, 1, n_lag + 1) * 0.8 ** np.arange(n_lag + 1)
    lags[0] = 1.05 * (1e-3 + 2 * np.abs(lags[1:]).sum())
    return InverseLags(weight * lags / lags[0])


def recorded(
    rng, n_det=2, n_samp=300, n_pix=12, n_lag=5, intervals=None, gains=None, flagged=0.0, outside=0.0,
    weights=(1.0,), name="made", uid=1, intensities=None,
):  # fmt: skip
    """Return an observation of recorded pixels with random everything."""
    pixels = rng.integers(0, n_pix, (n_det, n_samp)).astype(np.int32)
    pixels[rng.random(pixels.shape) < outside] = -1
    angles = rng.integers(0, TURN, (n_det, n_samp)).astype(np.uint32)
    amounts = None if gains is None else (gains * rng.uniform(0.5, 1.5, pixels.shape)).astype(np.float32)
    bad = rng.random(pixels.shape) < flagged
    if flagged:
        bad[:, n_samp // 3 : n_samp // 3 + 20] = True
    intervals = intervals or ((0, n_samp),)
    rows = tuple(
        tuple(lags_of(rng, n_lag, weights[detector % len(weights)]) for _ in intervals)
        for detector in range(n_det)
    )
    return Observation(
        name=name, uid=uid, n_samp=n_samp, sample_rate=10.0,
        detectors=tuple(f"d{detector}" for detector in range(n_det)), intervals=tuple(intervals),
        pointing=RecordedPixels(
            pixels, NumberedPixels(n_pix), angles=angles, gains=amounts,
            efficiencies=rng.uniform(0.6, 1.0, n_det), intensities=intensities,
        ),
        signals=(Samples(rng.standard_normal(pixels.shape)),),
        flags=(Bad(bad),) if flagged else (), noise=Models(rows),
    )  # fmt: skip


def spinning(n_samp, speed=0.05, n_det=2, spacing=20, seed=0):
    """Return compressed pointing that covers the sky: a spin axis that precesses."""
    knots = int(np.ceil(n_samp / spacing)) + 2
    t = np.arange(knots) * spacing
    axes = [(2, 0.0013 * speed * t), (1, np.full(knots, 0.7)), (2, speed * t), (1, np.full(knots, 1.2))]
    boresight = np.tile([0.0, 0.0, 0.0, 1.0], (knots, 1))
    for axis, angle in axes:
        turn = np.zeros((knots, 4))
        turn[:, axis], turn[:, 3] = np.sin(angle / 2), np.cos(angle / 2)
        boresight = _product(boresight, turn)
    rng = np.random.default_rng(seed)
    detectors = np.zeros((n_det, 4))
    psi = np.pi / 4 * np.arange(n_det)
    detectors[:, 2], detectors[:, 3] = np.sin(psi / 2), np.cos(psi / 2)
    return CompressedPointing(
        Boresight(boresight, n_samp, spacing=float(spacing)), detectors, epsilon=rng.uniform(0, 0.1, n_det)
    )


def _product(a, b):
    ax, ay, az, aw = a.T
    bx, by, bz, bw = b.T
    return np.stack(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ],
        axis=1,
    )


def compressed(rng, n_samp=2000, n_det=4, n_lag=8, flagged=0.0, speed=0.05, name="made", uid=1):
    """Return an observation with compressed pointing."""
    bad = rng.random((n_det, n_samp)) < flagged
    return Observation(
        name=name, uid=uid, n_samp=n_samp, sample_rate=10.0,
        detectors=tuple(f"d{detector}" for detector in range(n_det)), intervals=((0, n_samp),),
        pointing=spinning(n_samp, speed, n_det), frame="galactic",
        signals=(Samples(rng.standard_normal((n_det, n_samp))),), flags=(Bad(bad),) if flagged else (),
        noise=Models(tuple((lags_of(rng, n_lag),) for _ in range(n_det))),
    )  # fmt: skip


def numbered(n_pix=12):
    return NumberedPixels(n_pix)


# Options of a system of white noise.
WHITE = {
    field.name: getattr(white_options(SystemOptions()), field.name)
    for field in fields(SystemOptions)
    if field.name != "stokes"
}


def make_system(observations, pixelization, comm=None, model_of=declared_model, **choices):
    """Return the system of observations; with `rcond_min`, samples of all pixels below it are unknowns."""
    choices.setdefault("rcond_solved", choices.get("rcond_min", SystemOptions.rcond_solved))
    choices["stokes"] = Stokes(choices.get("stokes", "IQU"))
    options = SystemOptions(**choices)
    return set_up(
        observations,
        pixelization,
        options,
        model_of,
        comm or SerialCommunicator(),
        Timers(),
        SilentProgress(),
    )


def two_level_of(system):
    """Return the preconditioner of two levels, whether modes are undetermined or not."""
    return getattr(system.preconditioner, "inner", system.preconditioner)


def operator_of(system):
    return system.operator()


def as_matrix(operator, n_local, n_stokes, n_gaps):
    """Return A as a dense matrix over (pixels, gaps) of a single process."""
    columns = []
    for i in range(n_local * n_stokes + n_gaps):
        vector, out = (stack([Unknowns.zeros(n_local, n_stokes, n_gaps)]) for _ in range(2))
        flat = np.zeros(n_local * n_stokes + n_gaps)
        flat[i] = 1
        vector.pixels[..., 0] = flat[: n_local * n_stokes].reshape(n_local, n_stokes)
        vector.gaps[:, 0, 0] = flat[n_local * n_stokes :]
        (unit,) = operator.apply_integers(vector, np.ones(1), out)
        columns.append(np.concatenate([part.view(np.int64).ravel() * unit for part in out]))
    return np.array(columns).T


def n_gap_samples(system):
    """Return the number of output samples of this rank that are gaps."""
    return int(system.projection.gaps.by_segment()[:, 1].sum())


def times(operator, vector, largest):
    """Return the operator times a vector of which no row is larger."""
    one = stack([vector])
    out = one.zeros_like()
    (step,) = operator.apply_integers(one, np.array([largest]), out)
    return Unknowns(*(part.view(np.int64)[..., 0] * step for part in out))


def read(system):
    return right_hand_side(system)


def read_many(system, sets):
    """Return the right-hand sides of data sets."""
    return right_hand_sides(system, sets)


def unknowns(rhs):
    """Return what is to be solved for right-hand sides."""
    return [one.unknowns for one in rhs]


def gradients_of(system):
    return system.solver()


def datasets(made, n, seed=5):
    """Return n data sets of random signals, of quite different sizes."""
    rng = np.random.default_rng(seed)
    shapes = [(o.n_det, o.n_samp) for o in made]
    return [
        [(Samples(rng.standard_normal(s) * 10.0 ** (i % 4)), Samples(np.ones(s))) for s in shapes]
        for i in range(n)
    ]


def solve(system, tolerance=1e-12, max_iterations=500):
    """Return the solution of a system's own data."""
    rhs = read(system)
    return gradients_of(system).solve(rhs.unknowns, tolerance, max_iterations)


@dataclass
class Dense:
    """P of the good samples, which samples are good, N^-1 and data, over all streams one after the other."""

    response: np.ndarray  # (n_samp, n_pix * n_stokes)
    good: np.ndarray
    inverse: np.ndarray
    data: np.ndarray

    @property
    def normal(self):
        return self.response.T @ self.inverse @ self.response

    def map(self):
        """Return the maximum-likelihood map of the good samples alone, as their own covariance has it."""
        covariance = np.linalg.inv(self.inverse)[np.ix_(self.good, self.good)]
        weighted = np.linalg.solve(covariance, self.response[self.good])
        normal = self.response[self.good].T @ weighted
        return np.linalg.lstsq(normal, weighted.T @ self.data[self.good], rcond=1e-10)[0]


def dense(observations, pixelization, stokes="IQU", n_lag=5, dead=()):
    """Return what the map-making equation is made of, by NumPy; pixels in `dead` are left out."""
    rows, goods, inverses, data = [], [], [], []
    for one in observations:
        for number, (start, stop) in enumerate(one.intervals):
            for detector in range(one.n_det):
                if stop == start:
                    continue
                n = stop - start
                pixels, angles = np.empty(n, np.int32), np.empty(n, np.uint32)
                gains = np.ones(n, np.float32)
                one.pointing.expand(pixelization, detector, start, stop, pixels, angles, gains)
                bad = np.zeros(n, np.uint8)
                for flags in one.flags:
                    flags.or_flags(detector, start, stop, bad)
                good = (bad == 0) & (pixels >= 0) & ~np.isin(pixels, dead)
                phi = angles * (2 * np.pi / TURN)
                efficiency = one.pointing.efficiency(detector)
                intensity = np.full(n, one.pointing.intensity(detector))
                each = {"I": intensity, "Q": efficiency * np.cos(phi), "U": efficiency * np.sin(phi)}
                response = np.zeros((n, pixelization.n_pix, len(stokes)))
                at = np.flatnonzero(good)
                for k, letter in enumerate(stokes):
                    response[at, pixels[at], k] = (gains * each[letter])[at]
                rows.append(response.reshape(n, -1))
                goods.append(good)
                column = np.zeros(max(n, n_lag + 1))
                lags = inverse_lags(one.noise.noise_model(detector, number), one.sample_rate, n_lag)
                column[: n_lag + 1] = lags
                inverses.append(toeplitz(column[:n]))
                values = np.zeros(n)
                for signal in one.signals:
                    signal.add_signal(detector, start, stop, values)
                values[~good] = 0
                data.append(values)
    from scipy.linalg import block_diag

    return Dense(np.concatenate(rows), np.concatenate(goods), block_diag(*inverses), np.concatenate(data))


def full_map(system, values):
    """Return local values, (n_local, k), as (n_pix, k) with nan elsewhere."""
    full = np.full((system.projection.pixelization.n_pix, values.shape[1]), np.nan)
    full[system.keys] = values
    return full
