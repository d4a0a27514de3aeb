"""Inverse noise of a rank's streams: one band of lags for each different noise model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.data.observation import Observation
from petamap.mapmaking.time_layout import LocalBlocks, TimeLayout
from petamap.noise.model import NoiseModel, OneOverF, TabulatedPsd
from petamap.noise.toeplitz import inverse_lags, white_lags


@dataclass(frozen=True)
class InverseNoise:
    """N^-1 of the streams of a rank.

    Attributes
    ----------
    lags : (n_kernel, n_lag + 1) float64
        1/K^2.
    kernel_of : (n_segment,) int64
        The kernel of each segment's stream.
    """

    lags: FloatArray
    kernel_of: Int64Array
    handle: _mapmaking.Kernels

    @property
    def norm(self) -> float:
        """Bound of |N^-1 t| / max|t|: the largest sum of |N^-1(lag)| over all lags."""
        if len(self.lags) == 0:
            return 0.0
        sizes = np.abs(self.lags)
        return float((2 * sizes.sum(axis=1) - sizes[:, 0]).max())

    @property
    def weights(self) -> FloatArray:
        """Weight of a single sample of each segment, 1/K^2, float64 (n_segment,): lag 0 of its kernel."""
        weights: FloatArray = self.lags[self.kernel_of, 0]
        return weights

    def in_units(self, units: FloatArray, local: LocalBlocks, transform: int) -> InverseNoise:
        """Return N^-1 of streams whose samples are in multiples of `units`, (n_segment,).

        The kernel of each block in ``local.blocks`` is overwritten.
        """
        if np.all(units == 1):
            return self
        pairs, kernel_of = np.unique(np.stack([self.kernel_of, units], axis=1), axis=0, return_inverse=True)
        kernel_of = kernel_of.reshape(-1)
        lags = self.lags[pairs[:, 0].astype(np.int64)] * pairs[:, 1:] ** 2
        local.blocks[:, 4] = kernel_of[local.blocks[:, 5]]
        return InverseNoise(lags, kernel_of, _mapmaking.Kernels(lags, transform))


ModelOf = Callable[[Observation, int, int], NoiseModel]


def declared_model(observation: Observation, detector: int, interval: int) -> NoiseModel:
    """Return the model that the observation's sources declare."""
    if observation.noise is None:
        raise ConfigError(
            "no source gives the noise",
            where=f"observation {observation.name}",
            mend='add a noise source, or set noise.kernel = "estimate"',
        )
    return observation.noise.noise_model(detector, interval)


def inverse_noise(
    observations: Sequence[Observation],
    layout: TimeLayout,
    local: LocalBlocks,
    model_of: ModelOf,
    white: bool,
    stream_lags: Int64Array | None = None,
) -> InverseNoise:
    """Return the inverse noise of a rank; write the kernel of each block into ``local.blocks``.

    Equal models make one kernel. With `white`, the correlations are left out. Streams with shorter bands than
    the layout's, `stream_lags`, have zeros beyond: their weights do not depend on other streams of the run,
    and all share one transform, which their own would shorten little.
    """
    known: dict[Hashable, int] = {}
    rows: list[FloatArray] = []
    kernel_of = np.zeros(len(local.segments), np.int64)
    for number, segment in enumerate(local.segments):
        stream = layout.streams[segment.stream]
        observation = observations[stream.observation]
        model = model_of(observation, stream.detector, stream.interval)
        n_lag = layout.n_lag if stream_lags is None else int(stream_lags[segment.stream])
        key = (_identity(model), observation.sample_rate, n_lag)
        if key not in known:
            where = f"observation {observation.name}, detector {observation.detectors[stream.detector]}"
            known[key] = len(rows)
            rate = observation.sample_rate
            lags = np.zeros(layout.n_lag + 1)
            found = white_lags(model, rate, where) if white else inverse_lags(model, rate, n_lag, where)
            lags[: len(found)] = found
            if not 1e-100 < lags[0] < 1e100:
                raise DataError(
                    f"the noise of a sample is {lags[0] ** -0.5:.3g}", where=where, mend="check its unit"
                )
            rows.append(lags)
        kernel_of[number] = known[key]
    local.blocks[:, 4] = kernel_of[local.blocks[:, 5]]
    lags = np.array(rows) if rows else np.zeros((0, layout.n_lag + 1))
    return InverseNoise(lags, kernel_of, _mapmaking.Kernels(lags, layout.transform))


def _identity(model: NoiseModel) -> Hashable:
    if isinstance(model, OneOverF):
        return model
    if isinstance(model, TabulatedPsd):
        return model.frequencies.tobytes(), model.values.tobytes()
    return model.lags.tobytes()
