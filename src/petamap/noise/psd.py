"""Power spectral densities of noise models."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import BoolArray, FloatArray
from petamap.noise.model import InverseLags, NoiseModel, OneOverF, TabulatedPsd


def psd(model: OneOverF | TabulatedPsd, frequencies: FloatArray) -> FloatArray:
    """Return the one-sided PSD at `frequencies`.

    Parameters
    ----------
    model : OneOverF or TabulatedPsd
        A table is interpolated linearly in log P against log f, and flat outside; an entry at zero frequency,
        which a logarithm cannot hold, is left out.
    frequencies : float64 (n,)
        Hz, not negative.

    Returns
    -------
    float64 (n,)
        K^2/Hz; infinite at zero frequency where a 1/f model has no fmin.
    """
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
    """Tell whether the noise of `model` is uncorrelated from sample to sample."""
    match model:
        case OneOverF():
            return model.fknee == 0 or model.fknee == model.fmin
        case TabulatedPsd():
            return bool(np.all(model.values == model.values[0]))
        case InverseLags():
            return not np.any(model.lags[1:])


def check(model: NoiseModel, where: str | None = None) -> None:
    """Refuse a model that describes no noise.

    Parameters
    ----------
    model : NoiseModel
    where : str, optional
        File, observation, detector: what the error names beside the entry.

    Raises
    ------
    DataError
        If a parameter is not finite or out of its range, a table has zeros, negative values, NaN or
        frequencies that do not increase, or lags do not begin with a positive number.
    """
    match model:
        case OneOverF():
            _check_one_over_f(model, where)
        case TabulatedPsd():
            _check_table(model, where)
        case InverseLags():
            lags = model.lags
            _refuse(lags.ndim != 1 or lags.size == 0, "inverse noise lags are not a list of numbers", where)
            _refuse_first(~np.isfinite(lags), "inverse noise lag", lags, "not finite", where)
            _refuse(not lags[0] > 0, f"inverse noise at lag 0 is {lags[0]:g}, not positive", where)


def _check_one_over_f(model: OneOverF, where: str | None) -> None:
    for name in ("net", "fknee", "fmin", "alpha"):
        value = getattr(model, name)
        _refuse(not np.isfinite(value), f"{name} is {value}", where)
    _refuse(model.net <= 0, f"net is {model.net:g}, not positive", where)
    _refuse(model.fknee < 0 or model.fmin < 0, "fknee or fmin is negative", where)
    if model.fknee > 0:
        _refuse(model.alpha >= 0, f"alpha is {model.alpha:g}; the slope of 1/f noise is negative", where)
        _refuse(model.fmin > model.fknee, f"fmin {model.fmin:g} Hz is above fknee {model.fknee:g} Hz", where)


def _check_table(model: TabulatedPsd, where: str | None) -> None:
    f, p = model.frequencies, model.values
    _refuse(f.ndim != 1 or f.shape != p.shape or f.size == 0, "PSD frequencies and values don't match", where)
    _refuse_first(~np.isfinite(f) | (f < 0), "PSD frequency", f, "not a frequency", where)
    rising = np.concatenate(([True], np.diff(f) > 0))
    _refuse_first(~rising, "PSD frequency", f, "not above the one before", where)
    _refuse_first((f > 0) & ~(np.isfinite(p) & (p > 0)), "PSD value", p, "not positive and finite", where)
    _refuse(f[-1] == 0, "PSD has no entry above zero frequency", where)


def _refuse_first(bad: BoolArray, noun: str, values: FloatArray, why: str, where: str | None) -> None:
    if np.any(bad):
        entry = int(np.flatnonzero(bad)[0])
        raise DataError(f"{noun} at entry {entry} is {values[entry]:g}, {why}", where=where)


def _refuse(condition: bool, what: str, where: str | None) -> None:
    if condition:
        raise DataError(what, where=where)
