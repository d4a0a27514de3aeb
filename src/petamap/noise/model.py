"""Noise models of a detector in one stationary interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from petacomm.base.typing import FloatArray
from petacomm.base.units import as_number, plain_values


@dataclass(frozen=True, init=False)
class OneOverF:
    """1/f noise: one-sided PSD  P(f) = 2 net^2 (f^-s + fknee^-s) / (f^-s + fmin^-s)  with s = alpha < 0.

    Well above fmin, P = 2 net^2 (1 + (f/fknee)^alpha); below fmin, P is flat.

    Parameters
    ----------
    net : float, str or Quantity
        White noise level, K s^1/2 or with a unit; the white standard deviation of a sample is
        net * sqrt(sample_rate).
    fknee, fmin : float, str or Quantity
        Hz, or with a unit; fknee = 0 gives white noise.
    alpha : float
        Slope of the PSD at low frequency, negative.

    Raises
    ------
    ConfigError
        If a unit does not fit, or text is no number with a unit.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> model = petamap.OneOverF(net="60 uK s^0.5", fknee="50 mHz", fmin=1e-5)
    >>> psd = petamap.noise_psd(model, np.array([0.05, 100.0]))
    >>> np.round(psd / (2 * model.net**2), 2)
    array([2., 1.])
    """

    net: float
    fknee: float = 0.0
    fmin: float = 0.0
    alpha: float = -1.0

    def __init__(self, net: Any, fknee: Any = 0.0, fmin: Any = 0.0, alpha: float = -1.0) -> None:
        object.__setattr__(self, "net", as_number(net, "noise"))
        object.__setattr__(self, "fknee", as_number(fknee, "frequency"))
        object.__setattr__(self, "fmin", as_number(fmin, "frequency"))
        object.__setattr__(self, "alpha", alpha)


@dataclass(frozen=True)
class TabulatedPsd:
    """Tabulated one-sided PSD, interpolated linearly in log P against log f.

    Parameters
    ----------
    frequencies : float64 (n,) or Quantity
        Hz, increasing.
    values : float64 (n,) or Quantity
        K^2/Hz.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> table = petamap.TabulatedPsd(np.array([0.1, 10.0]), np.array([100.0, 1.0]))
    >>> petamap.noise_psd(table, np.array([1.0, 20.0])).round(6)
    array([10.,  1.])
    """

    frequencies: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        for name, dimension in (("frequencies", "frequency"), ("values", "spectrum")):
            object.__setattr__(self, name, plain_values(getattr(self, name), dimension, name))


@dataclass(frozen=True)
class EstimatedPsd(TabulatedPsd):
    """PSD measured from data.

    Attributes
    ----------
    scatter : float64 (n,)
        Relative standard error of each value.
    """

    scatter: FloatArray


@dataclass(frozen=True)
class InverseLags:
    """Inverse noise covariance given directly, as in the filter files of MADmap.

    Parameters
    ----------
    lags : float64 (n_lag + 1,)
        N^-1 at lags 0 to n_lag, 1/K^2.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> petamap.InverseLags(np.array([4.0, -1.0])).lags
    array([ 4., -1.])
    """

    lags: FloatArray


NoiseModel: TypeAlias = OneOverF | TabulatedPsd | InverseLags  # a table may be an `EstimatedPsd`


def noise_key(model: NoiseModel) -> OneOverF | tuple[Any, ...]:
    """Return a hashable key that is equal for equal noise models: the model, or its type and its bytes."""
    if isinstance(model, OneOverF):
        return model
    return type(model), *(np.asarray(array, np.float64).tobytes() for array in vars(model).values())
