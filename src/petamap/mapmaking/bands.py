"""Bands of the inverse noise of a run's streams: chosen or given, with what they lose."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from petacomm.mpi import Communicator, SerialCommunicator, agree_on_errors
from petamap.data.config import RunConfig
from petamap.data.observation import Observation, noise_in_common
from petamap.mapmaking.interval_classes import interval_classes
from petamap.mapmaking.joint_blocks import interval_amplitudes
from petamap.mapmaking.noise_kernels import ModeLags, ModelOf, declared_model
from petamap.mapmaking.stream_lags import StreamLags
from petamap.mapmaking.stream_table import StreamTable
from petamap.noise.band import Band, choose_band, describe_bands, measure_band, rounded_length
from petamap.noise.model import NoiseModel, noise_key
from petamap.noise.psd import check_noise_model

_UNMEASURED = 4096  # lags that a plan assumes where the data decide


@dataclass(frozen=True)
class StreamBands:
    """Bands of the streams of a run.

    Attributes
    ----------
    lags : StreamLags
    loss, misstated : float, optional
        The largest of all streams, as in `petamap.noise.band.Band`; None where there is no noise model yet,
        or correlations are left out.
    mode_lags : dict
        Lags of the common modes of each observation and interval that has any.
    """

    lags: StreamLags
    loss: float | None = None
    misstated: float | None = None
    mode_lags: ModeLags = field(default_factory=dict)

    @property
    def n_lag(self) -> int:
        """The longest band."""
        return max(self.lags.longest, *(max(lags) for lags in self.mode_lags.values()), 0)

    @property
    def shortest(self) -> int:
        """The shortest band."""
        return self.lags.shortest

    def describe(self) -> str:
        """Return a line for the user."""
        return describe_bands(self.shortest, self.n_lag, self.loss, self.misstated)


def stream_bands(
    observations: Sequence[Observation],
    n_lag: int | str,
    model_of: ModelOf = declared_model,
    comm: Communicator | None = None,
) -> StreamBands:
    """Return the bands of all streams, the same on all ranks, which share the work. Collective.

    Parameters
    ----------
    observations : sequence of Observation
    n_lag : int or str
        Lags of all streams, or "auto" to choose those of each by its noise, sample rate and interval.
    model_of : callable
    comm : Communicator, optional

    Raises
    ------
    ConfigError, DataError
        On all ranks, if a stream has no noise model, or one that is not valid.
    """
    comm, streams = comm or SerialCommunicator(), StreamTable(observations)
    classes, cases = interval_classes(observations, streams, model_of), _Cases()
    for row, length in zip(classes.rows.tolist(), classes.lengths.tolist(), strict=True):
        observation = observations[int(streams.observation[row])]
        for detector, name in enumerate(observation.detectors):
            model = model_of(observation, detector, int(streams.interval[row]))
            where = f"observation {observation.name}, detector {name}"
            cases.add(row, model, observation.sample_rate, length, where)
    _add_modes(cases, observations, model_of)
    found = cases.bands(n_lag, comm)
    patterns: dict[int, list[int]] = {}
    mode_lags: dict[tuple[int, int], tuple[int, ...]] = {}
    for key, band in zip(cases.keys, found, strict=True):
        if isinstance(key, int):
            patterns.setdefault(key, []).append(band.n_lag)
        else:
            mode_lags[key] = (*mode_lags.get(key, ()), band.n_lag)
    arrays = tuple(np.array(lags, np.int64) for lags in patterns.values())
    return StreamBands(
        StreamLags(streams, classes.class_of, arrays),
        max((band.loss for band in found), default=0.0),
        max((band.misstated for band in found), default=0.0),
        mode_lags,
    )


def _add_modes(cases: _Cases, observations: Sequence[Observation], model_of: ModelOf) -> None:
    """Add the common modes of all intervals."""
    for number, observation in enumerate(observations):
        for interval, (start, stop) in enumerate(observation.intervals if observation.common_noise else ()):
            if not noise_in_common(observation, interval):
                continue
            models = [model_of(observation, detector, interval) for detector in range(observation.n_det)]
            amplitudes = interval_amplitudes(observation, interval, models)
            where, length = f"observation {observation.name}, common noise", rounded_length(stop - start)
            for model in amplitudes.models if amplitudes else ():
                cases.add((number, interval), model, observation.sample_rate, length, where)


class _Cases:
    """Streams and modes of which the bands are asked for: equal ones are one case."""

    def __init__(self) -> None:
        self.keys: list[int | tuple[int, int]] = []
        self._case_of: list[int] = []
        self._cases: dict[Hashable, tuple[int, NoiseModel, float, int, str]] = {}

    def add(
        self, key: int | tuple[int, int], model: NoiseModel, rate: float, length: int, where: str
    ) -> None:
        """Add a stream of an interval's row, or a mode of an observation and interval."""
        same = noise_key(model), rate, length
        case = self._cases.setdefault(same, (len(self._cases), model, rate, length, where))
        self.keys.append(key)
        self._case_of.append(case[0])

    def bands(self, n_lag: int | str, comm: Communicator) -> list[Band]:
        """Return the band of each that was added, the same on all ranks, which share the work. Collective."""
        own: dict[int, Band] = {}
        with agree_on_errors(comm):
            for index, model, rate, length, where in list(self._cases.values())[comm.rank :: comm.size]:
                own[index] = _band(n_lag, model, rate, length, where)
        found = {index: band for part in comm.allgather(own) for index, band in part.items()}
        return [found[case] for case in self._case_of]


def _band(n_lag: int | str, model: NoiseModel, rate: float, length: int, where: str) -> Band:
    if not isinstance(n_lag, int):
        return choose_band(model, rate, length, where)
    check_noise_model(model, where)
    return measure_band(model, rate, length, n_lag)


def planned_bands(config: RunConfig, observations: Sequence[Observation]) -> StreamBands:
    """Return the bands of a run whose data are not read: where these decide, 4096 lags or an interval."""
    chosen, streams = config.noise.n_lag, StreamTable(observations)
    if config.noise.kernel == "model" and all(one.noise is not None for one in observations):
        return stream_bands(observations, chosen)
    lags = np.full(streams.n_rows, _UNMEASURED if isinstance(chosen, str) else chosen)
    if config.noise.kernel == "white":
        lags[:] = 0
    elif isinstance(chosen, str):
        lags = np.minimum(lags, streams.stop - streams.start)
    modes = {}
    for row, (number, interval) in enumerate(zip(streams.observation, streams.interval, strict=True)):
        if shared := noise_in_common(observations[number], int(interval)):
            modes[int(number), int(interval)] = (int(lags[row]),) * len(shared)
    return StreamBands(StreamLags.of_rows(streams, lags), mode_lags=modes)
