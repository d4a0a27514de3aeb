"""Inverse noise of a rank's streams: one band of lags for each different noise model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import ConfigError, DataError
from petacomm.base.threads import map_threads
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petamap.data.observation import Observation
from petamap.mapmaking.joint_blocks import JointGroup, JointNoise, group_blocks, interval_amplitudes
from petamap.mapmaking.stream_lags import StreamLags
from petamap.mapmaking.time_layout import LocalBlocks, TimeLayout
from petamap.noise.model import NoiseModel, OneOverF, TabulatedPsd
from petamap.noise.toeplitz import inverse_lags, white_lags

# Lags of the common modes of each observation and interval.
ModeLags: TypeAlias = dict[tuple[int, int], tuple[int, ...]]


@dataclass(frozen=True)
class InverseNoise:
    """N^-1 of the streams of a rank.

    Attributes
    ----------
    lags : (n_kernel, n_lag + 1) float64
        1/K^2.
    kernel_of : (n_segment,) int64
        The kernel of each segment's stream.
    blocks : (n_block, 6) int64
        Of the rank; `kernel_of` is in them.
    transform : int
    joint : JointNoise
        Blocks of detectors that share noise.
    mode_lags : (n_mode, n_lag + 1) float64
        Of the amplitudes of common modes; without unit.
    """

    lags: FloatArray
    kernel_of: Int64Array
    blocks: Int64Array
    transform: int
    joint: JointNoise
    mode_lags: FloatArray

    @cached_property
    def handle(self) -> _mapmaking.Kernels:
        """The kernels: those of detectors, then those of modes."""
        return _mapmaking.Kernels(np.concatenate([self.lags, self.mode_lags]), self.transform)

    @cached_property
    def joint_table(self) -> _mapmaking.JointTable | None:
        """Blocks that are filtered together, if there are any."""
        return self.joint.table(len(self.lags)) if self.joint.groups else None

    @cached_property
    def norm(self) -> float:
        """Bound of |N^-1 t| / max|t|: the largest sum of |N^-1| over all samples that share noise."""
        if len(self.lags) == 0:
            return 0.0
        norms = _absolute_sums(self.lags)
        together = self.joint.norm(norms[self.blocks[:, 4]], _absolute_sums(self.mode_lags))
        return max(float(norms.max()), together)

    @property
    def weights(self) -> FloatArray:
        """Weight of a single sample of each segment, 1/K^2, float64 (n_segment,): lag 0 of its kernel."""
        weights: FloatArray = self.lags[self.kernel_of, 0]
        return weights

    def units_of_work(self) -> list[int]:
        """Return what is filtered at once: numbers of blocks, and ~number of groups of blocks."""
        return [*self.joint.alone.tolist(), *(~number for number in range(len(self.joint.groups)))]

    def members(self, unit: int) -> Int64Array:
        """Return the numbers of the blocks of a unit of work."""
        return np.array([unit]) if unit >= 0 else self.joint.groups[~unit].members

    def filter(self, unit: int, data: FloatArray, out: FloatArray | None = None) -> list[FloatArray]:
        """Return N^-1 of the inputs of each block of a unit, (n_member, n, n_in), for each (n, n_out).

        `data` may be overwritten where blocks share noise; `out` is memory for the result of a single block.
        """
        if unit < 0:
            return self.joint.filter(~unit, self.blocks, self.handle, len(self.lags), data)
        filtered = np.empty((data.shape[1], int(self.blocks[unit, 3]))) if out is None else out
        _mapmaking.filter_block(self.blocks[unit], self.handle, data[0], filtered)
        return [filtered]

    def in_units(self, units: FloatArray) -> InverseNoise:
        """Return N^-1 of streams whose samples are in multiples of `units`, (n_segment,).

        The kernel of each of the rank's blocks is overwritten.
        """
        if np.all(units == 1):
            return self
        pairs, kernel_of = np.unique(np.stack([self.kernel_of, units], axis=1), axis=0, return_inverse=True)
        kernel_of = kernel_of.reshape(-1)
        lags = self.lags[pairs[:, 0].astype(np.int64)] * pairs[:, 1:] ** 2
        self.blocks[:, 4] = kernel_of[self.blocks[:, 5]]
        joint = self.joint.in_units(units, self.blocks)
        return InverseNoise(lags, kernel_of, self.blocks, self.transform, joint, self.mode_lags)

    def of_blocks(self, used: BoolArray) -> InverseNoise:
        """Return N^-1 of some of the blocks, (n_block,) bool, all or none of those filtered together."""
        if used.all():
            return self
        return replace(self, blocks=self.blocks[used], joint=self.joint.of_blocks(used))


def _absolute_sums(lags: FloatArray) -> FloatArray:
    """Return the sum of |N^-1(lag)| over all lags, positive and negative, of each kernel."""
    sizes = np.abs(lags)
    sums: FloatArray = 2 * sizes.sum(axis=1) - sizes[:, 0]
    return sums


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
    stream_lags: StreamLags | None = None,
    mode_lags: ModeLags | None = None,
    n_threads: int = 1,
) -> InverseNoise:
    """Return the inverse noise of a rank; write the kernel of each block into ``local.blocks``.

    Equal models make one kernel. Where the layout has no band, correlations are left out, and what detectors
    share. Streams with shorter bands than the layout's, `stream_lags`, have zeros beyond: their weights do
    not depend on other streams of the run, and all share one transform, which their own would shorten little.
    """
    kernels, modes = _KernelRows(layout), _KernelRows(layout)
    kernel_of = np.zeros(len(local.segments), np.int64)
    n_lags = np.full(len(local.segments), layout.n_lag)
    if stream_lags is not None:
        n_lags = stream_lags.of(local.segments.stream)
    for number, segment in enumerate(local.segments):
        stream = layout.streams[segment.stream]
        observation = observations[stream.observation]
        model = model_of(observation, stream.detector, stream.interval)
        where = f"observation {observation.name}, detector {observation.detectors[stream.detector]}"
        kernel_of[number] = kernels.of(model, observation.sample_rate, int(n_lags[number]), where)
    local.blocks[:, 4] = kernel_of[local.blocks[:, 5]]
    found, alone = group_blocks(layout, local)
    groups = []
    for number, interval, members in found:
        observation, where = observations[number], f"observation {observations[number].name}, common noise"
        models = [model_of(observation, detector, interval) for detector in range(observation.n_det)]
        amplitudes = interval_amplitudes(observation, interval, models)
        assert amplitudes is not None
        lags = [layout.n_lag] * amplitudes.n if mode_lags is None else mode_lags[number, interval]
        own = modes.following(amplitudes.models, observation.sample_rate, lags, where)
        groups.append(JointGroup(members, amplitudes.forward, amplitudes.backward, own))
    return InverseNoise(
        kernels.lags(n_threads), kernel_of, local.blocks, layout.transform,
        JointNoise(tuple(groups), alone), modes.lags(n_threads),
    )  # fmt: skip


class _KernelRows:
    """Kernels of a rank, one for equal models."""

    def __init__(self, layout: TimeLayout) -> None:
        self._n_lag = layout.n_lag
        self._known: dict[Hashable, int] = {}
        self._models: list[tuple[NoiseModel, float, int, str]] = []

    def of(self, model: NoiseModel, rate: float, n_lag: int, where: str) -> int:
        """Return the number of the kernel of a model."""
        return int(self.following([model], rate, [n_lag], where)[0])

    def following(
        self, models: Sequence[NoiseModel], rate: float, n_lags: Sequence[int], where: str
    ) -> Int64Array:
        """Return the numbers of kernels of models, which follow each other, also those of equal ones."""
        key = tuple((_identity(model), rate, n_lag) for model, n_lag in zip(models, n_lags, strict=True))
        if key not in self._known:
            self._known[key] = len(self._models)
            self._models += [(model, rate, n_lag, where) for model, n_lag in zip(models, n_lags, strict=True)]
        return self._known[key] + np.arange(len(models))

    def lags(self, n_threads: int) -> FloatArray:
        """Return all kernels, (n, n_lag + 1)."""
        lags = np.zeros((len(self._models), self._n_lag + 1))
        map_threads(
            lambda number: self._write(lags[number], *self._models[number]), range(len(lags)), n_threads
        )
        return lags

    def _write(self, lags: FloatArray, model: NoiseModel, rate: float, n_lag: int, where: str) -> None:
        """Write the kernel of a model."""
        white = self._n_lag == 0
        found = white_lags(model, rate, where) if white else inverse_lags(model, rate, n_lag, where)
        lags[: len(found)] = found
        if not np.isfinite(lags).all():
            raise DataError("the inverse noise is not finite", where=where, mend="check the noise model")
        if not 1e-100 < lags[0] < 1e100:
            raise DataError(
                f"the noise of a sample is {lags[0] ** -0.5:.3g}", where=where, mend="check its unit"
            )


def _identity(model: NoiseModel) -> Hashable:
    if isinstance(model, OneOverF):
        return model
    if isinstance(model, TabulatedPsd):
        return model.frequencies.tobytes(), model.values.tobytes()
    return model.lags.tobytes()
