"""Noise models estimated from the data, after subtraction of a binned map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.progress import Progress
from petacomm.base.timers import Timers
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.mpi import Communicator
from petamap.data.observation import Observation
from petamap.mapmaking.noise_kernels import ModelOf
from petamap.mapmaking.right_hand_side import binned_map, right_hand_side
from petamap.mapmaking.system import MapmakingSystem, SystemOptions, set_up
from petamap.noise.model import InverseLags, NoiseModel, TabulatedPsd
from petamap.noise.spectrum_estimate import estimate_psd
from petamap.sky.pixelization import Pixelization

_ANY = TabulatedPsd(np.ones(1), np.ones(1))


def estimated_models(
    observations: Sequence[Observation],
    pixelization: Pixelization,
    options: SystemOptions,
    comm: Communicator,
    timers: Timers,
    progress: Progress,
) -> ModelOf:
    """Return noise models of each detector in each interval, estimated from the data. Collective.

    The data are binned with equal weights, the binned map is scanned and subtracted, and the spectrum of the
    residual is measured. Each stream is measured on one rank, so the number of ranks does not matter.

    Raises
    ------
    DataError
        If a stream has too few good samples.
    """
    white = replace(options, n_lag=0, flags="cut", uniform_binning=True)
    unit_noise: ModelOf = lambda observation, detector, interval: InverseLags(np.ones(1))  # noqa: E731
    system = set_up(observations, pixelization, white, unit_noise, comm, timers, progress, whole_streams=True)
    progress.begin("noise estimate", system.projection.local.n_out, "samples")
    with timers.phase("noise estimate"):
        sky = binned_map(system, right_hand_side(system))
        own = _measure(observations, system, system.shared.pixels.scatter_fwd(sky), progress)
        models: dict[tuple[int, int, int], NoiseModel] = {}
        for part in comm.allgather(own):
            models |= part
    progress.end()
    numbers = {id(observation): number for number, observation in enumerate(observations)}

    def model_of(observation: Observation, detector: int, interval: int) -> NoiseModel:
        return models[numbers[id(observation)], detector, interval]

    return model_of


def _measure(
    observations: Sequence[Observation], system: MapmakingSystem, sky: FloatArray, progress: Progress
) -> dict[tuple[int, int, int], TabulatedPsd]:
    found = {}
    blocks = system.projection.local.blocks
    for number, segment in enumerate(system.projection.local.segments):
        stream = system.layout.streams[segment.stream]
        observation = observations[stream.observation]
        parts = [_noise_of(system, block, sky) for block in blocks[blocks[:, 5] == number]]
        samples = np.concatenate([part[0] for part in parts])
        good = np.concatenate([part[1] for part in parts])
        where = (
            f"observation {observation.name}, detector {observation.detectors[stream.detector]}, "
            f"interval {stream.interval}"
        )
        # A stream without a good sample adds nothing to the map, whatever its noise.
        measured = estimate_psd(samples, good, observation.sample_rate, where=where) if good.any() else _ANY
        found[stream.observation, stream.detector, stream.interval] = measured
        progress.advance(float(len(samples)))
    return found


def _noise_of(system: MapmakingSystem, block: Int64Array, sky: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return data minus the scanned map for the samples of a block, and a mask of good samples."""
    samples = system.projection.sample_pointing(block, inputs=False)
    data, scanned = np.empty((2, len(samples.pixels)))
    system.projection.read(block, samples.pixels, data[None])
    _mapmaking.scan(
        samples.pixels, samples.angles, samples.gains, samples.efficiency, sky, np.zeros(1), scanned
    )
    return (data - scanned) * system.projection.units[block[5]], samples.pixels >= 0
