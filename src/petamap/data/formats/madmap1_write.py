"""Writing of MADmap version 1 files; for the format see `petamap.data.formats.madmap1`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import atomic_write
from petacomm.base.typing import AnyArray, FloatArray
from petamap.data.formats.madmap1 import sample_dtype
from petamap.data.formats.madmap1_filters import BYTE_ORDERS
from petamap.data.observation import Observation
from petamap.noise.model import InverseLags
from petamap.sky.pixelization import Pixelization


def write_madmap1(
    tod: Path,
    filters: Path,
    observations: Sequence[Observation],
    pixelization: Pixelization,
    byte_order: str = "little",
) -> None:
    """Write a stream and a folder of inverse-noise files, one block for each stationary interval.

    Parameters
    ----------
    tod, filters : Path
        Stream file, and folder for ``invntt.0``, ``invntt.1``, ... Each file is written atomically.
    observations : sequence of Observation
        Observations with signal, pointing and `InverseLags` noise; samples outside intervals are not written.
    pixelization : Pixelization
        Pixelization of the pixel numbers.
    byte_order : {"little", "big"}

    Raises
    ------
    DataError
        If the format cannot represent an observation: flags, another noise model, no pointing.
    """
    order = BYTE_ORDERS[byte_order]
    pieces = [
        (observation, interval, detector)
        for observation in observations
        for interval in range(len(observation.intervals))
        for detector in range(observation.n_det)
    ]
    bounds = np.cumsum([0, *(_length(observation, interval) for observation, interval, _ in pieces)])
    for k, (observation, interval, detector) in enumerate(pieces):
        lags = _lags(observation, interval, detector)
        header = np.array([bounds[k], bounds[k + 1] - 1, lags.size - 1])
        with atomic_write(filters / f"invntt.{k}") as path:
            path.write_bytes(header.astype(order + "i8").tobytes() + lags.astype(order + "f8").tobytes())
    with atomic_write(tod) as path, path.open("wb") as file:
        file.write(np.array([0, bounds[-1] - 1, 1, pixelization.n_pix]).astype(order + "i8").tobytes())
        for observation, interval, detector in pieces:
            file.write(_records(observation, interval, detector, pixelization, sample_dtype(order)).tobytes())


def _length(observation: Observation, interval: int) -> int:
    start, stop = observation.intervals[interval]
    return stop - start


def _lags(observation: Observation, interval: int, detector: int) -> FloatArray:
    noise = observation.noise.noise_model(detector, interval) if observation.noise else None
    if not isinstance(noise, InverseLags):
        raise DataError("MADmap files hold noise as inverse lags alone", where=observation.name)
    return noise.lags


def _records(
    observation: Observation,
    interval: int,
    detector: int,
    pixelization: Pixelization,
    dtype: np.dtype[np.void],
) -> AnyArray:
    if observation.pointing is None:
        raise DataError("no pointing to write", where=observation.name)
    start, stop = observation.intervals[interval]
    signal, flags = np.zeros(stop - start), np.zeros(stop - start, np.uint8)
    pixels, gains = np.empty(stop - start, np.int32), np.ones(stop - start, np.float32)
    for part in observation.signals:
        part.add_signal(detector, start, stop, signal)
    for mask in observation.flags:
        mask.or_flags(detector, start, stop, flags)
    if flags.any():
        raise DataError("MADmap files cannot hold flags", where=f"{observation.name}, detector {detector}")
    weights = gains if observation.pointing.has_gains else None
    observation.pointing.expand(pixelization, detector, start, stop, pixels, None, weights)
    records = np.empty(stop - start, dtype)
    records["signal"], records["weight"], records["pixel"] = signal, gains, pixels
    return records
