"""Writing of MADmap version 1 files; for the format see `petamap.data.formats.madmap1`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import atomic_write
from petacomm.base.typing import AnyArray, FloatArray, Int32Array
from petamap.data.checks import check_not_empty
from petamap.data.formats.madmap1_filters import BYTE_ORDERS
from petamap.data.formats.madmap1_response import UnknownNumbers
from petamap.data.formats.madmap1_stream import sample_dtype
from petamap.data.observation import Observation
from petamap.noise.model import InverseLags
from petamap.sky.pixelization import Pixelization


def write_madmap1(
    tod: Path,
    filters: Path,
    observations: Sequence[Observation],
    pixelization: Pixelization,
    byte_order: str = "little",
    stokes: str = "I",
    interleaved: bool = False,
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
    stokes : {"I", "IQU"}
        Whether samples have one pair, of I of their pixel, or three, of its I, Q and U (COSMO).
    interleaved : bool
        Whether the unknowns of pixel p of n are 3 p, 3 p + 1 and 3 p + 2, and not p, p + n and p + 2 n.

    Raises
    ------
    DataError
        If the format cannot represent an observation: flags, another noise model, no pointing, samples
        outside of the pixels, no samples or no detectors.
    ConfigError
        If `stokes` are others, or there are more unknowns than numbers of 32 bits.
    """
    for observation in observations:
        check_not_empty(observation)
    order, numbers = BYTE_ORDERS[byte_order], _numbers(pixelization, stokes, interleaved)
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
        header = np.array([0, bounds[-1] - 1, len(stokes), len(stokes) * pixelization.n_pix])
        file.write(header.astype(order + "i8").tobytes())
        dtype = sample_dtype(order, len(stokes))
        for observation, interval, detector in pieces:
            file.write(_records(observation, interval, detector, pixelization, numbers, dtype).tobytes())


def _numbers(pixelization: Pixelization, stokes: str, interleaved: bool) -> UnknownNumbers:
    n_pix = pixelization.n_pix
    if stokes not in ("I", "IQU"):
        raise ConfigError(f"stokes {stokes}", mend="MADmap files are of I, or of I, Q and U")
    if len(stokes) * n_pix >= 2**31:
        raise ConfigError(f"{stokes} of {n_pix} pixels are more unknowns than MADmap files can number")
    if stokes == "I":
        return UnknownNumbers(n_pix)
    return UnknownNumbers(n_pix, 3, 1) if interleaved else UnknownNumbers(n_pix, 1, n_pix)


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
    numbers: UnknownNumbers,
    dtype: np.dtype[np.void],
) -> AnyArray:
    start, stop = observation.intervals[interval]
    signal, flags = np.zeros(stop - start), np.zeros(stop - start, np.uint8)
    for part in observation.signals:
        part.add_signal(detector, start, stop, signal)
    for mask in observation.flags:
        mask.or_flags(detector, start, stop, flags)
    if flags.any():
        raise DataError("MADmap files cannot hold flags", where=f"{observation.name}, detector {detector}")
    records = np.empty(stop - start, dtype)
    n_stokes = dtype["pairs"].shape[0]
    pixels, weights = _response(observation, detector, start, stop, pixelization, n_stokes)
    records["signal"] = signal
    for stokes in range(n_stokes):
        records["pairs"]["weight"][:, stokes] = weights[stokes]
        records["pairs"]["number"][:, stokes] = numbers.stride * pixels + stokes * numbers.step
    return records


def _response(
    observation: Observation,
    detector: int,
    start: int,
    stop: int,
    pixelization: Pixelization,
    n_stokes: int,
) -> tuple[Int32Array, list[FloatArray]]:
    """Return pixels of samples, and their weights of I, or of I, Q and U."""
    pointing, n = observation.pointing, stop - start
    if pointing is None:
        raise DataError("no pointing to write", where=observation.name)
    pixels, gains = np.empty(n, np.int32), np.ones(n, np.float32)
    angles = np.empty(n, np.uint32) if n_stokes == 3 else None
    pointing.expand(pixelization, detector, start, stop, pixels, angles, gains)
    if (pixels < 0).any():
        where = f"{observation.name}, detector {detector}, sample {start + int((pixels < 0).argmax())}"
        raise DataError("MADmap files cannot hold samples outside of the pixels", where=where)
    exact = gains.astype(np.float64)
    weights = [exact * pointing.intensity(detector)]
    if angles is not None:
        phi, polarized = angles * (2 * np.pi / 2**32), exact * pointing.efficiency(detector)
        weights += [polarized * np.cos(phi), polarized * np.sin(phi)]
    return pixels, weights
