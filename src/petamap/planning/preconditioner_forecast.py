"""Forecast of the preconditioner of a run from the models of its noise."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from petamap.data.config import RunConfig
from petamap.data.observation import Observation
from petamap.mapmaking.bands import StreamBands
from petamap.mapmaking.interval_classes import interval_classes
from petamap.mapmaking.noise_kernels import declared_model
from petamap.mapmaking.preconditioning import (
    BLOCK_DIAGONAL,
    TWO_LEVEL,
    bytes_a_sample,
    fewest_samples_per_visit,
    has_templates,
    is_steep,
)
from petamap.mapmaking.stream_table import StreamTable
from petamap.noise.baselines import LONGEST_STEP, fit_baselines
from petamap.noise.model import noise_key
from petamap.noise.toeplitz import inverse_lags

# Knots a sample where the noise is not known.
_ASSUMED_KNOTS = 1 / 16
# Time of an application and of the set-up in iterations of block-diagonal with pointing kept, the least and
# the most: a number, and one for each knot a sample. Measured on the six scans of benchmarks/solver.py and an
# example, one thread: 0.8 to 4.7 and 8 to 37. What lies between them is the polynomial's degree, 2 to 12,
# which the scan decides.
_APPLICATION = (0.35, 9.0), (2.2, 45.0)
_SET_UP = (5.0, 80.0), (13.5, 240.0)


@dataclass(frozen=True)
class PreconditionerForecast:
    """Preconditioner that a run will have.

    Attributes
    ----------
    kind : str, optional
        None where the data decide.
    knots : float
        Knots a sample of the model of two levels; 0 of others.
    visits : float
        Visits of pixels a sample of that model, about.
    """

    kind: str | None
    knots: float = 0.0
    visits: float = 1.0

    def bytes_a_sample(self, n_ranks: int) -> float:
        """Return what it takes for a sample of a rank, without gaps."""
        return bytes_a_sample(self.knots, self.visits, n_ranks) if self.knots else 0.0

    @property
    def iteration(self) -> tuple[float, float]:
        """Time of an iteration at least and at most, in iterations of block-diagonal."""
        return _between(_APPLICATION, self.knots, 1.0) if self.knots else (1.0, 1.0)

    @property
    def set_up(self) -> tuple[float, float]:
        """Time of its set-up at least and at most, in iterations of block-diagonal."""
        return _between(_SET_UP, self.knots) if self.knots else (0.0, 0.0)

    def describe(self) -> str:
        """Return what is said of it."""
        name = self.kind or "chosen by the noise of the data"
        if not self.knots:
            return name
        least, most = self.iteration
        first, last = self.set_up
        return (
            f"{name}, about {self.bytes_a_sample(2):.2g} bytes a sample on several ranks, counted in;\n"
            f"an iteration takes {least:.1f} to {most:.1f} times that of block-diagonal, "
            f"its set-up {first:.0f} to {last:.0f} of these"
        )


_SIMPLE = PreconditionerForecast(BLOCK_DIAGONAL)


def _between(
    bounds: tuple[tuple[float, float], tuple[float, float]], knots: float, more: float = 0.0
) -> tuple[float, float]:
    (least, least_a_knot), (most, most_a_knot) = bounds
    return more + least + least_a_knot * knots, more + most + most_a_knot * knots


def forecast_preconditioner(
    config: RunConfig, observations: Sequence[Observation], bands: StreamBands, visits: float = 1.0
) -> PreconditionerForecast:
    """Return the preconditioner that a run will have, of which no data are read.

    Parameters
    ----------
    config : RunConfig
    observations : sequence of Observation
    bands : StreamBands
        Of their streams.
    visits : float
        Visits of the map's pixels a sample; the model takes coarser pixels where these are too many.
    """
    found = _forecast(config, observations, bands)
    most = 1 / fewest_samples_per_visit(has_templates(observations))
    return replace(found, visits=min(visits, most))


def _forecast(
    config: RunConfig, observations: Sequence[Observation], bands: StreamBands
) -> PreconditionerForecast:
    if config.solver.binned_only:
        return _SIMPLE
    kind: str | None = config.solver.preconditioner
    if kind not in ("auto", TWO_LEVEL):
        return PreconditionerForecast(kind)
    if kind == "auto" and has_templates(observations):
        kind = TWO_LEVEL
    if config.noise.kernel == "white":
        return PreconditionerForecast(kind, 1 / LONGEST_STEP) if kind == TWO_LEVEL else _SIMPLE
    if config.noise.kernel != "model" or any(one.noise is None for one in observations):
        return PreconditionerForecast(None if kind == "auto" else kind, _ASSUMED_KNOTS)
    n_samp, n_steep, n_knots = _steepness(observations, bands)
    if kind == "auto":
        kind = TWO_LEVEL if 2 * n_steep > n_samp else BLOCK_DIAGONAL
    return PreconditionerForecast(kind, n_knots / max(n_samp, 1) if kind == TWO_LEVEL else 0.0)


def _steepness(observations: Sequence[Observation], bands: StreamBands) -> tuple[int, int, float]:
    """Return the number of samples, of those with steep noise, and of knots of the model of two levels."""
    n_samp, n_steep, n_knots = 0, 0, 0.0
    cases: dict[Hashable, tuple[bool, float]] = {}
    streams = StreamTable(observations)
    classes = interval_classes(observations, streams)
    samples = np.bincount(classes.class_of, streams.stop - streams.start)
    for row, n in zip(classes.rows.tolist(), samples.astype(np.int64).tolist(), strict=True):
        observation, interval = observations[int(streams.observation[row])], int(streams.interval[row])
        lags_of_all = bands.lags.of(np.arange(streams.first[row], streams.first[row + 1]))
        for detector, n_lag in enumerate(lags_of_all.tolist()):
            model = declared_model(observation, detector, interval)
            case = noise_key(model), observation.sample_rate, n_lag
            if case not in cases:
                lags = inverse_lags(model, observation.sample_rate, n_lag)
                cases[case] = is_steep(lags), 1 / fit_baselines(lags).step
            steep, knots = cases[case]
            n_samp, n_steep, n_knots = n_samp + n, n_steep + n * steep, n_knots + n * knots
    return n_samp, n_steep, n_knots
