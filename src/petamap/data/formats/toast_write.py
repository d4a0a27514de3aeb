"""Writing TOAST HDF5 volumes, format version 2."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import replacing
from petacomm.base.typing import FloatArray
from petamap.data.formats.volume_write import noise_key
from petamap.data.observation import Observation
from petamap.noise.model import InverseLags, NoiseModel, OneOverF
from petamap.noise.psd import psd
from petamap.noise.toeplitz import spectrum
from petamap.pointing.compressed import CompressedPointing, UniformPlate

_TELESCOPE = "petamap"
_WRITTEN_FOR = "3.0.6"  # the version of TOAST whose files these are like
_N_FREQUENCIES = 256
_KELVINS = {"K": 1.0, "mK": 1e-3, "uK": 1e-6, "nK": 1e-9}
_INDEX = (
    "CREATE TABLE observations (name TEXT PRIMARY KEY, path TEXT, uid INTEGER, session TEXT, "
    "samples INTEGER, valid_dets INTEGER, start REAL, end REAL)"
)


def write_toast(folder: Path, observations: Sequence[Observation]) -> None:
    """Write each observation to ``<name>.h5``, and ``index.sqlite``; every file is whole or absent.

    The pointing is written at full rate as ``boresight_radec``, contributions to the signal are summed,
    flags united, intervals called ``stationary``.

    Raises
    ------
    DataError
        Where an observation has what the format cannot say: pointing other than `CompressedPointing`, noise
        that differs between intervals, a name that is no file name.
    ResourceError
        If a file cannot be written.
    """
    for one in observations:
        if not one.name or one.name.startswith(".") or set(one.name) & set("/\\\0"):
            raise DataError(f"'{one.name}' is no name for a file", mend="rename the observation")
        write_observation(folder / f"{one.name}.h5", one)
    with replacing(folder / "index.sqlite") as path:
        _write_index(path, observations)


def write_observation(path: Path, one: Observation) -> None:
    """Write one observation; see `write_toast`."""
    import h5py

    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs.update(
            toast_version=_WRITTEN_FOR,
            toast_format_version=2,
            observation_name=one.name,
            observation_uid=np.uint32(one.uid),
            observation_samples=one.n_samp,
            observation_detectors=json.dumps(one.detectors),
            observation_detector_flags=json.dumps(dict.fromkeys(one.detectors, 0)),
            observation_detector_sets="NONE",
            observation_sample_sets="NONE",
        )
        pointing = _pointing(one)
        _write_instrument(file.create_group("instrument"), one, pointing)
        metadata = file.create_group("metadata")
        metadata.create_group("other").attrs["python_data_type"] = "dict"
        models = _models(one)
        if models:
            _write_noise(metadata.create_group("noise_model"), one, models)
        file.create_group("attr")
        _write_shared(file.create_group("shared"), one, pointing)
        _write_samples(file.create_group("detdata"), one)
        _write_intervals(file.create_group("intervals"), one)


def _pointing(one: Observation) -> CompressedPointing:
    if not isinstance(one.pointing, CompressedPointing):
        what = f"a TOAST volume cannot hold {type(one.pointing).__name__}"
        raise DataError(what, where=one.name, mend="only compressed pointing")
    return one.pointing


def _times(one: Observation) -> FloatArray:
    return one.start_time + np.arange(one.n_samp) / one.sample_rate


def _write_instrument(group: Any, one: Observation, pointing: CompressedPointing) -> None:
    start, stop = (float(_times(one)[k]) for k in (0, -1))
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
        session_name=one.name,
        session_uid=_uid(one.name),
        session_start=start,
        session_end=stop,
    )
    _write_focalplane(group, one, pointing)


def _write_focalplane(group: Any, one: Observation, pointing: CompressedPointing) -> None:
    from astropy import units as u
    from astropy.io.misc.hdf5 import write_table_hdf5
    from astropy.table import QTable

    x, y = pointing.detectors[:, 0], pointing.detectors[:, 1]
    radius = 2 * np.arcsin(np.minimum(1, np.hypot(x, y)))  # from the boresight
    table = QTable(
        {
            "name": one.detectors,
            "quat": pointing.detectors,
            "gamma": pointing.gamma * u.rad,
            "pol_leakage": pointing.epsilon,
            "fwhm": np.zeros(one.n_det) * u.arcmin,
        }
    )
    models = _models(one)
    if models and _all_analytic(models):
        net, fmin, fknee, alpha = (_column(models, name) for name in ("net", "fmin", "fknee", "alpha"))
        table["psd_net"] = net * u.Unit(f"{_unit(one)} s(1/2)")
        table["psd_fmin"], table["psd_fknee"], table["psd_alpha"] = fmin * u.Hz, fknee * u.Hz, -alpha
    table.meta["sample_rate"] = float(one.sample_rate) * u.Hz
    # TOAST divides by the field of view.
    table.meta["field_of_view"] = float(np.degrees(max(2 * radius.max(), 1e-6))) * u.deg
    write_table_hdf5(table, group, path="focalplane", serialize_meta=True)


def _write_shared(group: Any, one: Observation, pointing: CompressedPointing) -> None:
    columns = {
        "times": _times(one),
        "boresight_radec": pointing.boresight.quaternions(0, one.n_samp),
        "flags": np.zeros(one.n_samp, np.uint8),
    }
    if pointing.plate is not None:
        columns["hwp_angle"] = _plate_angles(pointing, one.n_samp)
    for name, values in columns.items():
        group.create_dataset(name, data=values).attrs["comm_type"] = "column"


def _plate_angles(pointing: CompressedPointing, n_samp: int) -> FloatArray:
    samples = np.arange(n_samp)
    plate = pointing.plate
    assert plate is not None
    if isinstance(plate, UniformPlate):
        turning: FloatArray = np.mod(plate.phase + plate.rate * samples, 2 * np.pi)
        return turning
    knots = plate.offset + plate.spacing * np.arange(len(plate.angles))
    return np.mod(np.interp(samples, knots, np.unwrap(plate.angles)), 2 * np.pi)


def _write_samples(group: Any, one: Observation) -> None:
    if one.signals:
        data = group.create_dataset("signal", (one.n_det, one.n_samp), np.float64)
        data.attrs["units"] = _unit(one)
        for detector in range(one.n_det):
            signal = np.zeros(one.n_samp)
            for part in one.signals:
                part.add_signal(detector, 0, one.n_samp, signal)
            data[detector] = signal
    data = group.create_dataset("flags", (one.n_det, one.n_samp), np.uint8)
    data.attrs["units"] = ""
    for detector in range(one.n_det):
        flags = np.zeros(one.n_samp, np.uint8)
        for mask in one.flags:
            mask.or_flags(detector, 0, one.n_samp, flags)
        data[detector] = flags


def _write_intervals(group: Any, one: Observation) -> None:
    group.attrs["times"] = "times"
    times = _times(one)
    last = one.n_samp - 1
    spans = [(times[start], times[min(stop, last)]) for start, stop in one.intervals if stop > start]
    group.create_dataset("stationary", data=np.array(spans, np.float64).reshape(-1, 2).T)


def _models(one: Observation) -> list[NoiseModel]:
    """Return the noise model of each detector; TOAST knows one for the whole observation."""
    if one.noise is None or not one.intervals:
        return []
    models = []
    for detector in range(one.n_det):
        each = [one.noise.noise_model(detector, interval) for interval in range(len(one.intervals))]
        if len({noise_key(model) for model in each}) > 1:
            raise DataError(
                "a TOAST volume cannot hold noise that differs between intervals",
                where=f"{one.name}, detector {one.detectors[detector]}",
                mend="write an observation for each interval",
            )
        models.append(each[0])
    return models


def _write_noise(group: Any, one: Observation, models: Sequence[NoiseModel]) -> None:
    """Write spectra as TOAST has them: K^2 s, half of the one-sided density."""
    names = [name.encode() for name in one.detectors]
    text, unit = _text_type(names), _unit(one)
    frequencies = np.linspace(0, one.sample_rate / 2, _N_FREQUENCIES + 1)
    low = frequencies[1] * np.logspace(-6, 0, 61)[:-1]
    frequencies = np.concatenate([low, frequencies[1:]])
    densities = [_density(model, frequencies, one, k) for k, model in enumerate(models)]
    weights = [1 / (density[-1] * one.sample_rate) for density in densities]
    pairs = list(zip(names, weights, strict=True))
    group.attrs["class"] = "toast.noise.Noise"
    group.attrs["psd_units"] = f"{unit}2 s"
    group.create_dataset("detector_weights", data=np.array(pairs, f"{text}, f4")).attrs["unit"] = (
        f"1 / {unit}2"
    )
    group["mixing_matrix"] = np.array([(name, name, 1.0) for name in names], f"{text}, {text}, f4")
    group["psd"] = np.array([frequencies, *densities], np.float32)
    group["psd_indices"] = np.arange(one.n_det, dtype=np.uint32)
    group["psd_keys"] = np.array(names, text)
    if unit in _KELVINS and _all_analytic(models):
        _write_analytic(group, one, models)


def _write_analytic(group: Any, one: Observation, models: Sequence[NoiseModel]) -> None:
    """Add the parameters of 1/f noise; TOAST's are in kelvin whatever the unit of the signal."""
    names = [name.encode() for name in one.detectors]
    rates = np.full(one.n_det, one.sample_rate)
    fmin, fknee, alpha, net = (_column(models, name) for name in ("fmin", "fknee", "alpha", "net"))
    rows = list(zip(names, rates, fmin, fknee, -alpha, net * _KELVINS[_unit(one)], strict=True))
    group["analytic"] = np.array(rows, f"{_text_type(names)}, f8, f8, f8, f8, f8")
    group.attrs["class"] = "toast.noise_sim.AnalyticNoise"


def _all_analytic(models: Sequence[NoiseModel]) -> bool:
    return all(isinstance(model, OneOverF) for model in models)


def _text_type(names: Sequence[bytes]) -> str:
    return f"S{1 + max(map(len, names))}"


def _density(model: NoiseModel, frequencies: FloatArray, one: Observation, detector: int) -> FloatArray:
    if not isinstance(model, InverseLags):
        return psd(model, frequencies) / 2
    grid = spectrum(model.lags, max(4 * len(model.lags), 1024))
    inverse = np.interp(frequencies, np.linspace(0, one.sample_rate / 2, len(grid)), grid)
    if inverse.min() <= 0:
        where = f"{one.name}, detector {one.detectors[detector]}"
        raise DataError("the inverse noise has no spectrum: it is not positive", where=where)
    density: FloatArray = 1 / (inverse * one.sample_rate)
    return density


def _write_index(path: Path, observations: Sequence[Observation]) -> None:
    rows = [
        (one.name, f"{one.name}.h5", one.uid, one.name, one.n_samp, one.n_det, *_times(one)[[0, -1]].tolist())
        for one in observations
    ]
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = MEMORY")  # leave no file beside it
        with database:
            database.execute(_INDEX)
            database.executemany("INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _column(models: Sequence[NoiseModel], name: str) -> FloatArray:
    return np.array([getattr(model, name) for model in models], np.float64)


def _unit(one: Observation) -> str:
    return one.unit.removesuffix("_CMB")


def _uid(name: str) -> np.uint32:
    return np.uint32(zlib.crc32(name.encode()))
