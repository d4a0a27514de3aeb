"""Forecast of the preconditioner of a run from the models of its noise."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from petamap.data.config import RunConfig
from petamap.data.observation import Observation
from petamap.mapmaking.bands import StreamBands
from petamap.mapmaking.noise_kernels import declared_model
from petamap.mapmaking.preconditioning import BLOCK_DIAGONAL, TWO_LEVEL, bytes_a_sample, is_steep
from petamap.mapmaking.time_layout import time_streams
from petamap.noise.baselines import fit_baselines
from petamap.noise.model import noise_key
from petamap.noise.toeplitz import inverse_lags

# Samples between knots where the noise is not known.
_ASSUMED_STEP = 16


@dataclass(frozen=True)
class PreconditionerForecast:
    """Preconditioner that a run will have.

    Attributes
    ----------
    kind : str, optional
        None where the data decide.
    bytes_a_sample : float
        Memory that it takes at most for a sample of a rank, without gaps.
    """

    kind: str | None
    bytes_a_sample: float = 0.0

    def describe(self) -> str:
        """Return what is said of it."""
        name = self.kind or "chosen by the noise of the data"
        if not self.bytes_a_sample:
            return name
        return f"{name}, at most {self.bytes_a_sample:.2g} bytes a sample, counted in"


def _two_level(step: int) -> PreconditionerForecast:
    return PreconditionerForecast(TWO_LEVEL, bytes_a_sample(step))


def forecast_preconditioner(
    config: RunConfig, observations: Sequence[Observation], bands: StreamBands
) -> PreconditionerForecast:
    """Return the preconditioner that a run will have, of which no data are read.

    Parameters
    ----------
    config : RunConfig
    observations : sequence of Observation
    bands : StreamBands
        Of their streams.
    """
    kind: str | None = config.solver.preconditioner
    if kind not in ("auto", TWO_LEVEL):
        return PreconditionerForecast(kind)
    if config.noise.kernel == "white":
        return PreconditionerForecast(BLOCK_DIAGONAL) if kind == "auto" else _two_level(4096)
    if config.noise.kernel != "model" or any(one.noise is None for one in observations):
        return replace(_two_level(_ASSUMED_STEP), kind=None if kind == "auto" else kind)
    n_samp, n_steep, n_bytes = 0, 0, 0.0
    cases: dict[Hashable, tuple[bool, float]] = {}
    for stream, n_lag in zip(time_streams(observations), bands.lags, strict=True):
        observation = observations[stream.observation]
        model = declared_model(observation, stream.detector, stream.interval)
        case = noise_key(model), observation.sample_rate, int(n_lag)
        if case not in cases:
            lags = inverse_lags(model, observation.sample_rate, int(n_lag))
            cases[case] = is_steep(lags), bytes_a_sample(fit_baselines(lags).step)
        steep, taken = cases[case]
        n = stream.stop - stream.start
        n_samp, n_steep, n_bytes = n_samp + n, n_steep + n * steep, n_bytes + n * taken
    if kind == "auto":
        kind = TWO_LEVEL if 2 * n_steep > n_samp else BLOCK_DIAGONAL
    return PreconditionerForecast(kind, n_bytes / max(n_samp, 1) if kind == TWO_LEVEL else 0.0)
