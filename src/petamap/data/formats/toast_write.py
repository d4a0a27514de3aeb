"""Writing of TOAST HDF5 volumes, format version 2."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import atomic_write
from petacomm.base.typing import AnyArray, FloatArray
from petamap.data.checks import check_not_empty
from petamap.data.formats.hdf5_text import write_text_digests
from petamap.data.formats.volume_write import compressed_pointing
from petamap.data.observation import Observation, noise_models, read_flags, read_signal
from petamap.noise.model import InverseLags, NoiseModel, OneOverF, noise_key
from petamap.noise.psd import noise_psd
from petamap.noise.toeplitz import toeplitz_spectrum
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.frames import FRAMES, frame_rotation
from petamap.pointing.half_wave_plate import HalfWavePlate, plate_angles

_TELESCOPE = "petamap"
_TOAST_VERSION = "3.0.6"  # version of TOAST whose format is written
_N_FREQUENCIES = 256
_CHUNK = 1 << 16  # samples
_KELVINS = {"K": 1.0, "mK": 1e-3, "uK": 1e-6, "nK": 1e-9}
_INDEX = (
    "CREATE TABLE observations (name TEXT PRIMARY KEY, path TEXT, uid INTEGER, session TEXT, "
    "samples INTEGER, valid_dets INTEGER, start REAL, end REAL)"
)


def write_toast(folder: str | os.PathLike[str], observations: Sequence[Observation]) -> None:
    """Write each observation to ``<name>.h5``, and ``index.sqlite``, each file atomically.

    The pointing is written at full rate as ``boresight_radec``, the signal as the sum of its contributions,
    the flags as their union, and the intervals as ``stationary``.

    Raises
    ------
    DataError
        If the format cannot represent an observation: pointing other than `CompressedPointing`, noise that
        differs between intervals, a name that is no file name, no samples or no detectors.
    ResourceError
        If a file cannot be written.
    """
    folder = Path(folder)
    for observation in observations:
        check_not_empty(observation)
        if not observation.name or observation.name.startswith(".") or set(observation.name) & set("/\\\0"):
            raise DataError(f"'{observation.name}' is no name for a file", mend="rename the observation")
        write_toast_observation(folder / f"{observation.name}.h5", observation)
    with atomic_write(folder / "index.sqlite") as path:
        _write_index(path, observations)


def write_toast_observation(path: Path, observation: Observation) -> None:
    """Write an observation to a file; see `write_toast`."""
    import h5py

    with atomic_write(path) as temporary, h5py.File(temporary, "w", libver=("v110", "latest")) as file:
        file.attrs.update(
            toast_version=_TOAST_VERSION,
            toast_format_version=2,
            observation_name=observation.name,
            observation_uid=np.uint32(observation.uid),
            observation_samples=observation.n_samp,
            observation_detectors=json.dumps(observation.detectors),
            observation_detector_flags=json.dumps(dict.fromkeys(observation.detectors, 0)),
            observation_detector_sets="NONE",
            observation_sample_sets="NONE",
        )
        pointing = compressed_pointing(observation, "TOAST volume")
        _write_instrument(file.create_group("instrument"), observation, pointing)
        metadata = file.create_group("metadata")
        metadata.create_group("other").attrs["python_data_type"] = "dict"
        models = _models(observation)
        if models:
            _write_noise(metadata.create_group("noise_model"), observation, models)
        file.create_group("attr")
        _write_shared(file.create_group("shared"), observation, pointing)
        _write_samples(file.create_group("detdata"), observation)
        _write_intervals(file.create_group("intervals"), observation)
        write_text_digests(file)


def _dataset(group: Any, name: str, values: AnyArray) -> Any:
    """Write an array, with checksums of its chunks: TOAST's own have none."""
    return group.create_dataset(name, data=values, fletcher32=values.size > 0)


def _rows_of_samples(group: Any, name: str, observation: Observation, kind: type) -> Any:
    """Return a new array (n_det, n_samp) with checksums, in chunks of one detector."""
    shape = observation.n_det, observation.n_samp
    chunks = (1, min(_CHUNK, observation.n_samp))
    return group.create_dataset(name, shape, kind, chunks=chunks, fletcher32=True)


def _times(observation: Observation) -> FloatArray:
    return observation.start_time + np.arange(observation.n_samp) / observation.sample_rate


def _write_instrument(group: Any, observation: Observation, pointing: CompressedPointing) -> None:
    start, stop = (float(_times(observation)[k]) for k in (0, -1))
    group.attrs.update(
        toast_format_version=2,
        telescope_class="toast.instrument.Telescope",
        telescope_name=_TELESCOPE,
        telescope_uid=_uid(_TELESCOPE),
        site_class="toast.instrument.SpaceSite",
        site_name=_TELESCOPE,
        site_uid=_uid(_TELESCOPE),
        focalplane_class="toast.instrument.Focalplane",
        session_class="toast.instrument.Session",
        session_name=observation.name,
        session_uid=_uid(observation.name),
        session_start=start,
        session_end=stop,
    )
    _write_focalplane(group, observation, pointing)


def _write_focalplane(group: Any, observation: Observation, pointing: CompressedPointing) -> None:
    from astropy import units as u
    from astropy.io.misc.hdf5 import write_table_hdf5
    from astropy.table import QTable

    x, y = pointing.detectors[:, 0], pointing.detectors[:, 1]
    radius = 2 * np.arcsin(np.minimum(1, np.hypot(x, y)))  # from the boresight
    table = QTable(
        {
            "name": observation.detectors,
            "quat": pointing.detectors,
            "gamma": pointing.gamma * u.rad,
            "pol_leakage": pointing.epsilon,
            "fwhm": np.zeros(observation.n_det) * u.arcmin,
        }
    )
    analytic = _one_over_f(_models(observation))
    if analytic is not None:
        net, fknee, fmin, alpha = analytic
        table["psd_net"] = net * u.Unit(f"{_unit(observation)} s(1/2)")
        table["psd_fmin"], table["psd_fknee"], table["psd_alpha"] = fmin * u.Hz, fknee * u.Hz, -alpha
    table.meta["sample_rate"] = float(observation.sample_rate) * u.Hz
    # TOAST divides by the field of view, which must not be zero.
    table.meta["field_of_view"] = float(np.degrees(max(2 * radius.max(), 1e-6))) * u.deg
    write_table_hdf5(table, group, path="focalplane", serialize_meta=True, fletcher32=True)
    for name in [name for name in group if not group[name].fletcher32]:  # the description of its columns
        content = np.asarray(group[name])
        del group[name]
        _dataset(group, name, content)


def _write_shared(group: Any, observation: Observation, pointing: CompressedPointing) -> None:
    columns = {
        "times": _times(observation),
        "boresight_radec": _equatorial(observation, pointing),
        "flags": np.zeros(observation.n_samp, np.uint8),
    }
    if pointing.plate is not None:
        columns["hwp_angle"] = _plate_angles(pointing.plate, observation.n_samp)
    if observation.azimuth is not None:
        columns["azimuth"] = observation.azimuth.azimuths(0, observation.n_samp)
    for name, samples in columns.items():
        _dataset(group, name, np.asarray(samples)).attrs["comm_type"] = "column"


def _equatorial(observation: Observation, pointing: CompressedPointing) -> FloatArray:
    """Return the boresight quaternions of all samples in equatorial coordinates."""
    if observation.frame not in FRAMES:
        raise DataError(
            f"its pointing is in the frame {observation.frame}, which cannot be turned into equatorial",
            where=observation.name, mend=f"give it one of {', '.join(FRAMES)}",
        )  # fmt: skip
    turn = frame_rotation(observation.frame, "equatorial")
    return pointing.boresight.rotated(turn).quaternions(0, observation.n_samp)


def _plate_angles(plate: HalfWavePlate, n_samp: int) -> FloatArray:
    return np.mod(plate_angles(plate, np.arange(n_samp)), 2 * np.pi)


def _write_samples(group: Any, observation: Observation) -> None:
    if observation.signals:
        data = _rows_of_samples(group, "signal", observation, np.float64)
        data.attrs["units"] = _unit(observation)
        for detector in range(observation.n_det):
            data[detector] = read_signal(observation, detector, 0, observation.n_samp)
    data = _rows_of_samples(group, "flags", observation, np.uint8)
    data.attrs["units"] = ""
    for detector in range(observation.n_det):
        data[detector] = read_flags(observation, detector, 0, observation.n_samp)


def _write_intervals(group: Any, observation: Observation) -> None:
    group.attrs["times"] = "times"
    times = _times(observation)
    last = observation.n_samp - 1
    spans = [(times[start], times[min(stop, last)]) for start, stop in observation.intervals if stop > start]
    _dataset(group, "stationary", np.array(spans, np.float64).reshape(-1, 2).T)


def _models(observation: Observation) -> list[NoiseModel]:
    """Return the noise model of each detector, which must be common to all intervals in TOAST."""
    if observation.noise is None or not observation.intervals:
        return []
    models = []
    for detector, each in enumerate(noise_models(observation)):
        if len({noise_key(model) for model in each}) > 1:
            raise DataError(
                "a TOAST volume cannot hold noise that differs between intervals",
                where=f"{observation.name}, detector {observation.detectors[detector]}",
                mend="write an observation for each interval",
            )
        models.append(each[0])
    return models


def _write_noise(group: Any, observation: Observation, models: Sequence[NoiseModel]) -> None:
    """Write spectra in the convention of TOAST: K^2 s, half of the one-sided PSD."""
    names = [name.encode() for name in observation.detectors]
    text, unit = f"S{1 + max(map(len, names))}", _unit(observation)
    frequencies = np.linspace(0, observation.sample_rate / 2, _N_FREQUENCIES + 1)
    low = frequencies[1] * np.logspace(-6, 0, 61)[:-1]
    frequencies = np.concatenate([low, frequencies[1:]])
    densities = [_density(model, frequencies, observation, k) for k, model in enumerate(models)]
    weights = [1 / (density[-1] * observation.sample_rate) for density in densities]
    pairs = list(zip(names, weights, strict=True))
    group.attrs["class"] = "toast.noise.Noise"
    group.attrs["psd_units"] = f"{unit}2 s"
    _dataset(group, "detector_weights", np.array(pairs, f"{text}, f4")).attrs["unit"] = f"1 / {unit}2"
    mixing = np.array([(name, name, 1.0) for name in names], f"{text}, {text}, f4")
    _dataset(group, "mixing_matrix", mixing)
    _dataset(group, "psd", np.array([frequencies, *densities], np.float32))
    _dataset(group, "psd_indices", np.arange(observation.n_det, dtype=np.uint32))
    _dataset(group, "psd_keys", np.array(names, text))
    analytic = _one_over_f(models)
    if unit in _KELVINS and analytic is not None:  # in kelvin whatever the unit of the signal
        net, fknee, fmin, alpha = analytic
        rates = np.full(observation.n_det, observation.sample_rate)
        rows = list(zip(names, rates, fmin, fknee, -alpha, net * _KELVINS[unit], strict=True))
        _dataset(group, "analytic", np.array(rows, f"{text}, f8, f8, f8, f8, f8"))
        group.attrs["class"] = "toast.noise_sim.AnalyticNoise"


def _one_over_f(models: Sequence[NoiseModel]) -> FloatArray | None:
    """Return net, fknee, fmin and alpha by detector, (4, n_det), or None if not all noise is 1/f noise."""
    if not models or not all(isinstance(model, OneOverF) for model in models):
        return None
    return np.array([list(vars(model).values()) for model in models], np.float64).T


def _density(
    model: NoiseModel, frequencies: FloatArray, observation: Observation, detector: int
) -> FloatArray:
    if not isinstance(model, InverseLags):
        return noise_psd(model, frequencies) / 2
    grid = toeplitz_spectrum(model.lags, max(4 * len(model.lags), 1024))
    inverse = np.interp(frequencies, np.linspace(0, observation.sample_rate / 2, len(grid)), grid)
    if inverse.min() <= 0:
        where = f"{observation.name}, detector {observation.detectors[detector]}"
        raise DataError("the inverse noise has no spectrum: it is not positive", where=where)
    return 1 / (inverse * observation.sample_rate)


def _write_index(path: Path, observations: Sequence[Observation]) -> None:
    rows = [
        (
            observation.name,
            f"{observation.name}.h5",
            observation.uid,
            observation.name,
            observation.n_samp,
            observation.n_det,
            *_times(observation)[[0, -1]].tolist(),
        )
        for observation in observations
    ]
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = MEMORY")  # no journal file
        with database:
            database.execute(_INDEX)
            database.executemany("INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _unit(observation: Observation) -> str:
    return observation.unit.removesuffix("_CMB")


def _uid(name: str) -> np.uint32:
    return np.uint32(zlib.crc32(name.encode()))
