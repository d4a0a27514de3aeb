"""litebird_sim: its observations, in memory or in its HDF5 files, as those that `petamap.make_map` takes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import litebird_sim
import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import FloatArray
from petamap.arrays.sample_arrays import SampleArrays, sample_arrays
from petamap.data.observation import DetectorNoise, Observation
from petamap.noise.model import OneOverF
from petamap.noise.psd import check_noise_model
from petamap.pointing import quaternion
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import SampledPlate
from petamap.sky.map_units import to_kelvin


def litebird_sim_observations(observations: Any, tod: str = "tod") -> list[Observation]:
    """Return observations of litebird_sim as petamap's, in ecliptic coordinates; samples are not copied.

    Pointing is that of ``prepare_pointings``. The polarization angles of detectors, which its psi leaves out,
    are added; an ideal half-wave plate turns the response as in its own map-makers. Noise has the levels of
    the detectors: ``net_ukrts``, ``fknee_mhz``, ``fmin_hz`` and ``alpha``.

    Parameters
    ----------
    observations : Observation of litebird_sim, or several of them
    tod : str
        Attribute with the samples.

    Raises
    ------
    ConfigError
        If the pointing is not prepared, or data are dealt to several processes.
    DataError
        If samples or noise levels are missing or not valid.
    """
    given = list(observations) if isinstance(observations, Iterable) else [observations]
    return [_observation(one, number, tod) for number, one in enumerate(given)]


def read_litebird_sim(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], tod: str = "tod"
) -> list[Observation]:
    """Read observations from HDF5 files of litebird_sim, with the pointing that it has written.

    Parameters
    ----------
    path : path, or several of them
        Files, or folders of which all files ``*.h5`` are read, in the order of their names.
    tod : str
        Dataset with the samples.

    Raises
    ------
    DataError
        If a file is missing or damaged, or has no such samples or no pointing.
    """
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    files = [file for one in given for file in _files(Path(one))]
    found = []
    for file in files:
        try:
            one = litebird_sim.read_list_of_observations(
                [file], tod_dtype=None, limit_mpi_rank=False, tod_fields=[tod]
            )
        except (OSError, KeyError, AssertionError, ValueError) as error:
            raise DataError(f"is no file of litebird_sim with '{tod}': {error}", where=str(file)) from error
        found += one
    return litebird_sim_observations(found, tod)


def _files(path: Path) -> list[Path]:
    """Return a file, or those of a folder."""
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.h5"))
    if not files:
        raise DataError("has no files *.h5", where=str(path))
    return files


def _observation(one: Any, number: int, tod: str) -> Observation:
    where = f"observation {number} of litebird_sim"
    if one.comm is not None and one.comm.size > 1:
        raise ConfigError("data dealt to several processes are not mapped in memory", where=where)
    if one.pointing_provider is None:
        raise ConfigError("has no pointing", where=where, mend="call prepare_pointings first")
    if getattr(one, tod, None) is None:
        raise DataError(f"has no samples called '{tod}'", where=where)
    units = {name.name: str(getattr(name.units, "value", name.units)) for name in one.tod_list}
    factor, unit = to_kelvin(units.get(tod, "K_CMB"))
    names = [str(name) for name in getattr(one, "name", [f"d{k}" for k in range(one.n_detectors)])]
    samples = sample_arrays(getattr(one, tod), getattr(one, "local_flags", None), names, factor)
    common = getattr(one, "global_flags", None)
    flags = [] if samples.flags is None else [samples]
    if common is not None:
        flags.append(sample_arrays(getattr(one, tod), common, names, factor))
    start = one.start_time
    return Observation(
        name=f"observation-{number}", uid=number, n_samp=samples.shape[1], detectors=samples.detectors,
        sample_rate=float(one.sampling_rate_hz), intervals=((0, samples.shape[1]),),
        start_time=float(getattr(start, "unix", start)), pointing=_pointing(one, samples),
        signals=(samples,), flags=tuple(flags),
        noise=_noise(one, samples), unit=unit, frame="ecliptic",
    )  # fmt: skip


def _pointing(one: Any, samples: SampleArrays) -> CompressedPointing:
    knots = one.pointing_provider.bore2ecliptic_quats.slerp(
        start_time=one.start_time, sampling_rate_hz=one.sampling_rate_hz, nsamples=one.n_samples
    )
    moving = [k for k, quat in enumerate(one.quat) if len(quat.quats) != 1]
    if moving:
        raise DataError("the detector moves in the focal plane", where=samples.place("quat", moving[0]))
    gamma = samples.of_detectors("pol_angle_rad", getattr(one, "pol_angle_rad", None), 0.0)
    efficiency = samples.of_detectors("pol_efficiency", getattr(one, "pol_efficiency", None), 1.0)
    detectors = np.array([quat.quats[0] for quat in one.quat])
    plate = one.get_hwp_angle()
    return CompressedPointing(
        Boresight(knots, samples.shape[1]),
        # its psi is that of the detector's Y axis, without the polarization angle
        quaternion.multiply(detectors, quaternion.about_z(gamma + np.pi / 2)),
        epsilon=(1 - efficiency) / (1 + efficiency),
        gamma=gamma,
        plate=None if plate is None else SampledPlate(plate),
    )


def _noise(one: Any, samples: SampleArrays) -> DetectorNoise:
    def levels(name: str, default: float) -> FloatArray:
        return samples.of_detectors(name, getattr(one, name, None), default)

    net, fknee = 1e-6 * levels("net_ukrts", np.nan), 1e-3 * levels("fknee_mhz", 0.0)
    rows = zip(net, fknee, levels("fmin_hz", 0.0), -levels("alpha", 1.0), strict=True)
    models = tuple(OneOverF(*map(float, row)) for row in rows)
    for detector, model in enumerate(models):
        check_noise_model(model, samples.place("noise", detector))
    return DetectorNoise(models)
