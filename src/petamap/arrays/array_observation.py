"""Observations made of a user's arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from petacomm.base.arguments import require_text
from petacomm.base.errors import ConfigError, DataError
from petacomm.base.units import as_number, quantity_of
from petamap.arrays.array_pointing import PointingArrays
from petamap.arrays.sample_arrays import SampleArrays, host_array, sample_arrays
from petamap.data.observation import DetectorNoise, Observation
from petamap.data.recorded_azimuth import RecordedAzimuth
from petamap.data.template import Template
from petamap.noise.model import NoiseModel
from petamap.noise.psd import check_noise_model
from petamap.pointing.frames import OFFSET
from petamap.pointing.protocol import Pointing
from petamap.sky.map_units import to_kelvin
from petamap.sky.pixelization import Pixelization


def array_observation(
    signal: Any,
    theta: Any = None,
    phi: Any = None,
    psi: Any = None,
    *,
    sample_rate: Any,
    noise: NoiseModel | Sequence[NoiseModel] | None = None,
    flags: Any = None,
    pixels: Any = None,
    weights: Any = None,
    pixelization: Pixelization | None = None,
    pointing: Pointing | Any = None,
    efficiency: Any = None,
    hwp_angle: Any = None,
    gamma: Any = None,
    intervals: Sequence[tuple[int, int]] | None = None,
    detectors: Sequence[str] | None = None,
    templates: Sequence[Template] = (),
    azimuth: Any = None,
    frame: str | None = None,
    unit: str = "K_CMB",
    start_time: float = 0.0,
    name: str = "arrays",
    uid: int = 0,
) -> Observation:
    """Return an observation of arrays, which are read where they are, not copied.

    Its pointing is one of: `theta`, `phi` and `psi`; `pixels` with `psi` or `weights`; or `pointing`. Arrays
    of samples are (n_det, n_samp), of any strides; (n_samp,), of all detectors, and (n_det, 1) are broadcast.
    Quantities of astropy are in their own units: angles in degrees are converted, which copies them, a signal
    in uK as it is read.

    Parameters
    ----------
    signal : array (n_det, n_samp)
        float32 or float64; (n_samp,) of one detector. Masked samples are flagged.
    theta, phi : array, optional
        Colatitude and longitude of the line of sight, radians.
    psi : array, optional
        Polarization angle, radians from the southward meridian to the east (COSMO, as in healpy and TOAST);
        without it only I can be mapped.
    sample_rate : float, str or Quantity
        Hz, or with a unit.
    noise : OneOverF, TabulatedPsd, InverseLags or a sequence of them, optional
        Of all detectors, or of each; without it, it must be estimated.
    flags : array, optional
        True, or not zero, where a sample is bad. Such samples may be nan, in the pointing as well.
    pixels : array of integers, optional
        Pixel numbers, -1 for none.
    weights : array (n_det, n_samp, 3), optional
        Responses to I, Q and U, with `pixels`; (n_det, n_samp, 1) to I alone.
    pixelization : Pixelization, optional
        What `pixels` are numbers of, with their order: ``Healpix(64, nest=False)``.
    pointing : Pointing or array (n_det, n_samp, 4), optional
        As a `CompressedPointing` of boresight and focal plane; or quaternions (x, y, z, w) of each sample.
    efficiency : float or array (n_det,), optional
        Polarization efficiencies, 1 by default.
    hwp_angle : array (n_samp,), optional
        Angle of an ideal half-wave plate, radians: adds 4 (hwp_angle - gamma) to 2 psi.
    gamma : float or array (n_det,), optional
        Polarization angles in the focal plane, radians; needed with `hwp_angle`.
    intervals : sequence of (int, int), optional
        Stationary intervals [start, stop); by default all samples are one.
    detectors : sequence of str, optional
        Names; d0, d1, ... by default.
    templates : sequence of Template, optional
        Solved for with the map; those of a configuration are sources.
    azimuth : array (n_samp,), optional
        Azimuth of the telescope, radians from north to east, for templates and splits.
    frame : str, optional
        Of the pointing: equatorial, galactic or ecliptic; it is mapped as it stands by default.
    unit : str
        Of the signal, if it is no Quantity. Kelvin of any prefix are turned into K_CMB as they are read.
    start_time : float
        Unix time of the first sample, s.
    name : str
        Unique in a run.
    uid : int
        Key of random numbers; unique in a run.

    Returns
    -------
    Observation

    Raises
    ------
    DataError
        If shapes do not match, or a value is not finite or no angle; names argument, detector and sample.
    ConfigError
        If arguments are missing or do not belong together, or text has no unit that fits.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> phi = np.linspace(0, 2 * np.pi, 1000)
    >>> noise = petamap.OneOverF("60 uK s^0.5", "50 mHz")
    >>> day = petamap.array_observation(
    ...     np.zeros((2, 1000)), np.pi / 2, phi, [[0.0], [np.pi / 2]], sample_rate="10 Hz", noise=noise)
    >>> day.detectors, day.sample_rate
    (('d0', 'd1'), 10.0)
    """
    require_text(name, "name")
    signal, unit = _without_unit(signal, unit)
    factor, unit = to_kelvin(unit)
    samples = sample_arrays(signal, flags, detectors, factor)
    arrays = PointingArrays(
        theta, phi, psi, pixels, weights, pointing, pixelization, efficiency, hwp_angle, gamma
    )
    n_samp = samples.shape[1]
    return Observation(
        name=name, uid=uid, n_samp=n_samp, sample_rate=_number(sample_rate, "sample_rate", "frequency"),
        detectors=samples.detectors, start_time=_number(start_time, "start_time", "time"),
        intervals=((0, n_samp),) if intervals is None else _ranges(intervals),
        pointing=arrays.of(samples), signals=(samples,), flags=() if samples.flags is None else (samples,),
        noise=_noise(samples, noise), templates=_templates(templates), azimuth=_azimuth(samples, azimuth),
        unit=unit, frame=OFFSET if frame is None else frame,
    )  # fmt: skip


def _without_unit(signal: Any, unit: str) -> tuple[Any, str]:
    """Return a signal as plain numbers, and its unit: that of a quantity of astropy, or the one given."""
    if quantity_of(signal) is None or not str(signal.unit):
        return signal, unit
    if unit != "K_CMB":
        raise ConfigError(f"the signal is in '{signal.unit}'", where="unit", mend="leave unit away")
    return signal.value, str(signal.unit)


def _number(value: Any, name: str, dimension: str) -> float:
    found = as_number(value, dimension)
    if np.ndim(found) or isinstance(found, complex) or not hasattr(found, "__float__"):
        raise ConfigError(f"is a {type(value).__name__}, no number", where=name)
    return float(found)


def _templates(templates: Sequence[Template]) -> tuple[Template, ...]:
    for number, one in enumerate(templates):
        if not hasattr(one, "term"):
            raise ConfigError(f"is a {type(one).__name__}, no template", where=f"templates, number {number}")
    return tuple(templates)


def _ranges(intervals: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    try:
        return tuple((operator.index(start), operator.index(stop)) for start, stop in intervals)
    except (TypeError, ValueError) as error:
        raise DataError(f"are no pairs of samples: {error}", where="intervals") from None


def _noise(samples: SampleArrays, noise: NoiseModel | Sequence[NoiseModel] | None) -> DetectorNoise | None:
    if noise is None:
        return None
    models = tuple(noise) if isinstance(noise, Sequence) else (noise,) * samples.shape[0]
    if len(models) != samples.shape[0]:
        raise DataError(f"{len(models)} models for {samples.shape[0]} detectors", where="noise")
    for detector, model in enumerate(models):
        if not isinstance(model, NoiseModel):
            raise ConfigError(
                f"is a {type(model).__name__}, no model of noise", where=samples.place("noise", detector),
                mend='give petamap.OneOverF(net="60 uK s^0.5", fknee="50 mHz"), say',
            )  # fmt: skip
        check_noise_model(model, samples.place("noise", detector))
    return DetectorNoise(models)


def _azimuth(samples: SampleArrays, azimuth: Any) -> RecordedAzimuth | None:
    if azimuth is None:
        return None
    track = host_array(azimuth, "azimuth", "angle")
    if track.shape != samples.shape[1:]:
        raise DataError(f"has the shape {track.shape} for {samples.shape[1]} samples", where="azimuth")
    return RecordedAzimuth(lambda start, stop: track[start:stop], lambda sample: f"azimuth, sample {sample}")
