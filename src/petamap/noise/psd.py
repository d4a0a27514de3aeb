"""Power spectral densities and validation of noise models."""

from __future__ import annotations

import numpy as np

from petacomm.base.arguments import real_array
from petacomm.base.errors import DataError
from petacomm.base.typing import BoolArray, FloatArray
from petacomm.base.units import plain_values
from petamap.noise.model import InverseLags, NoiseModel, OneOverF, TabulatedPsd

_STEEPEST = -10.0  # slope of 1/f noise
# of roots of PSDs, K s^1/2: products of two PSDs and of their inverses are finite
_LEAST, _MOST = 1e-60, 1e60
_BEYOND = f"which is below {_LEAST**2:g} or above {_MOST**2:g}"


def noise_psd(model: OneOverF | TabulatedPsd, frequencies: FloatArray) -> FloatArray:
    """Return the one-sided PSD of a noise model.

    Parameters
    ----------
    model : OneOverF or TabulatedPsd
        A table is interpolated linearly in log P against log f, and constant outside its range; an entry at
        zero frequency is ignored.
    frequencies : array (n,)
        Hz, or quantities; not negative.

    Returns
    -------
    float64 (n,)
        K^2/Hz; infinite at zero frequency for a 1/f model with fmin = 0.

    Raises
    ------
    ConfigError
        If the unit of the frequencies is none of frequency.
    DataError
        If they are no real numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> petamap.noise_psd(petamap.OneOverF(net=3.0), np.array([0.1, 1.0]))
    array([18., 18.])
    """
    frequencies = real_array(plain_values(frequencies, "frequency", "frequencies"), "frequencies")
    if isinstance(model, TabulatedPsd):
        return _interpolated(model, frequencies)
    white = 2 * model.net**2
    if model.fknee == 0:
        return np.full(len(frequencies), white)
    slope = -model.alpha
    with np.errstate(divide="ignore"):
        power = frequencies**slope
        colour = (power + model.fknee**slope) / (power + model.fmin**slope)
    return np.asarray(white * colour)


def _interpolated(model: TabulatedPsd, frequencies: FloatArray) -> FloatArray:
    first = int(model.frequencies[0] == 0)
    known, values = model.frequencies[first:], model.values[first:]
    inside = np.clip(frequencies, known[0], known[-1])
    return np.exp(np.interp(np.log(inside), np.log(known), np.log(values)))


def is_white(model: NoiseModel) -> bool:
    """Return whether the noise of `model` is uncorrelated from sample to sample."""
    match model:
        case OneOverF():
            return model.fknee == 0 or model.fknee == model.fmin
        case TabulatedPsd():
            return bool(np.all(model.values == model.values[0]))
        case InverseLags():
            return not np.any(model.lags[1:])


def check_noise_model(model: NoiseModel, where: str | None = None) -> None:
    """Raise DataError if a noise model is not valid.

    Parameters
    ----------
    model : NoiseModel
    where : str, optional
        File, observation and detector, for the message.

    Raises
    ------
    DataError
        If a parameter is not finite or out of its range; if a table has zeros, negative values, nan or
        frequencies that do not increase; if lag 0 is not positive; or if squares of variances would not be
        finite.
    """
    match model:
        case OneOverF():
            _check_one_over_f(model, where)
        case TabulatedPsd():
            _check_table(model, where)
        case InverseLags():
            lags = model.lags
            _raise_if(lags.ndim != 1 or lags.size == 0, "inverse noise lags are not a list of numbers", where)
            _raise_at_first(~np.isfinite(lags), "inverse noise lag", lags, "not finite", where)
            _raise_if(not lags[0] > 0, f"inverse noise at lag 0 is {lags[0]:g}, not positive", where)
            _raise_at_first(_are_beyond(lags[:1]), "inverse noise lag", lags, _BEYOND, where)


def _check_one_over_f(model: OneOverF, where: str | None) -> None:
    for name in ("net", "fknee", "fmin", "alpha"):
        value = getattr(model, name)
        _raise_if(not np.isfinite(value), f"{name} is {value}", where)
    _raise_if(model.net <= 0, f"net is {model.net:g}, not positive", where)
    beyond = f"net is {model.net:g}, below {_LEAST:g} or above {_MOST:g} K s^0.5"
    _raise_if(not _LEAST <= model.net <= _MOST, beyond, where)
    _raise_if(model.fknee < 0 or model.fmin < 0, "fknee or fmin is negative", where)
    if model.fknee > 0:
        _raise_if(model.alpha >= 0, f"alpha is {model.alpha:g}; the slope of 1/f noise is negative", where)
        steep = f"alpha is {model.alpha:g}, steeper than {_STEEPEST:g}: powers of frequencies overflow"
        _raise_if(model.alpha < _STEEPEST, steep, where)
        _raise_if(
            model.fmin > model.fknee, f"fmin {model.fmin:g} Hz is above fknee {model.fknee:g} Hz", where
        )


def _check_table(model: TabulatedPsd, where: str | None) -> None:
    f, p = model.frequencies, model.values
    _raise_if(
        f.ndim != 1 or f.shape != p.shape or f.size == 0, "PSD frequencies and values don't match", where
    )
    _raise_at_first(~np.isfinite(f) | (f < 0), "PSD frequency", f, "not a frequency", where)
    increasing = np.concatenate(([True], np.diff(f) > 0))
    _raise_at_first(~increasing, "PSD frequency", f, "not above the one before", where)
    _raise_at_first((f > 0) & ~(np.isfinite(p) & (p > 0)), "PSD value", p, "not positive and finite", where)
    _raise_at_first((f > 0) & _are_beyond(p), "PSD value", p, _BEYOND, where)
    _raise_if(f[-1] == 0, "PSD has no entry above zero frequency", where)


def _are_beyond(powers: FloatArray) -> BoolArray:
    return (powers < _LEAST**2) | (powers > _MOST**2)


def _raise_at_first(bad: BoolArray, noun: str, values: FloatArray, why: str, where: str | None) -> None:
    if np.any(bad):
        entry = int(np.flatnonzero(bad)[0])
        raise DataError(f"{noun} at entry {entry} is {values[entry]:g}, {why}", where=where)


def _raise_if(condition: bool, what: str, where: str | None) -> None:
    if condition:
        raise DataError(what, where=where)
