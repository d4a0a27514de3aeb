"""Time constants of detectors, deconvolved as their streams are read.

A detector of time constant tau answers y' = (x - y) / tau, a low-pass 1 / (1 + 2 pi i f tau), and its input
is x = y + tau y'. The derivative is that of the polynomial through the neighbours on both sides (central
differences, Fornberg 1988, Mathematics of Computation 51, 699), which has no delay.

Digital filters of one pole, y_t = a y_(t-1) + (1 - a) x_t with a = exp(-dt / tau), are the answer to an input
held from sample to sample; their input is x_t = (y_t - a y_(t-1)) / (1 - a).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import require_file
from petacomm.base.name_patterns import choose_names
from petacomm.base.options import option
from petamap.data.checks import check_given, error_location
from petamap.data.observation import Observation
from petamap.data.sample_filter import (
    EdgeFlags,
    FilteredFlags,
    FilteredNoise,
    FilteredSignal,
    Filters,
    SampleFilter,
    filtered_model,
)
from petamap.data.source import SourceContext
from petamap.noise.common_modes import CommonNoise

_NEIGHBOURS = 8  # samples on each side of which a derivative is made
_NEGLIGIBLE = 1e-17
_LONGEST = 30.0  # samples, of a time constant that is simulated
_SLOPE = 4.1  # of the derivative filter at Nyquist, where its inverse rings longest


@dataclass(frozen=True)
class TimeConstantsOptions:
    """Deconvolves the time constants of detectors from the signals before it."""

    tau: float | None = option(None, dimension="time", minimum=0.0, help="of all detectors")
    taus: tuple[float, ...] = option(
        (), dimension="time", minimum=0.0, help="instead: of each detector, in their order"
    )
    table: str | None = option(
        None, path=True, help="instead: a text file with a detector and its time constant in seconds a line"
    )
    response: str = option(
        "analogue", choices=("analogue", "held"),
        help="analogue: 1 / (1 + 2 pi i f tau); held: y_t = a y_(t-1) + (1 - a) x_t, a digital filter's",
    )  # fmt: skip
    simulate: bool = option(
        False, help="convolve instead: give the signals before it the detectors' response"
    )
    dilate: bool = option(
        True, help="flag samples that are made of flagged ones; false: these are sound, as of turnarounds"
    )
    detectors: tuple[str, ...] = option(
        (), help="that have it: names, patterns, beginnings of names; default: all"
    )
    observations: tuple[str, ...] = option(
        (), help="that have it: names, patterns, beginnings of names; default: all"
    )


def deconvolution(tau: float, sample_rate: float, response: str = "analogue") -> SampleFilter:
    """Return the filter that turns a detector's stream into its input.

    Parameters
    ----------
    tau : float
        Time constant, seconds, positive.
    sample_rate : float
        Hz.
    response : {"analogue", "held"}
        What is inverted: 1 / (1 + 2 pi i f tau), or the recursion of a digital filter.

    Returns
    -------
    SampleFilter
    """
    if response == "held":
        a = math.exp(-1 / (tau * sample_rate))
        return SampleFilter(np.array([1.0, -a]) / -math.expm1(-1 / (tau * sample_rate)))
    k = np.arange(1, _NEIGHBOURS + 1)
    whole = math.factorial(_NEIGHBOURS) ** 2
    products = [math.factorial(_NEIGHBOURS - i) * math.factorial(_NEIGHBOURS + i) for i in k.tolist()]
    later = tau * sample_rate * (-1.0) ** (k + 1) * whole / (k * np.array(products, np.float64))
    return SampleFilter(np.concatenate([later[::-1], [1.0], -later]), -_NEIGHBOURS)


def convolution(tau: float, sample_rate: float, response: str = "analogue") -> SampleFilter:
    """Return the inverse of `deconvolution`: the response of a detector, down to 1e-17 of it."""
    samples = tau * sample_rate
    if response == "held":
        n = 1 + math.ceil(-math.log(_NEGLIGIBLE) * samples)
        return SampleFilter(-math.expm1(-1 / samples) * np.exp(-np.arange(n) / samples))
    reach = math.ceil(-math.log(_NEGLIGIBLE) * (_SLOPE * samples + _NEIGHBOURS))
    n = 1 << (2 * reach).bit_length()
    inverse = np.fft.irfft(1 / deconvolution(tau, sample_rate).response(np.arange(n // 2 + 1) / n), n)
    lags = np.arange(-reach, reach + 1)
    taps = inverse[lags]
    kept = np.flatnonzero(np.abs(taps) > _NEGLIGIBLE)
    return SampleFilter(taps[kept[0] : kept[-1] + 1], int(lags[kept[0]]))


class TimeConstantsSource:
    """Source of no data, which deconvolves all signals before it."""

    options: ClassVar[type] = TimeConstantsOptions
    changes_signals: ClassVar[bool] = True

    def __init__(self, options: TimeConstantsOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        given = sum((options.tau is not None, bool(options.taus), options.table is not None))
        if given != 1:
            raise ConfigError(
                "time constants are given " + ("twice" if given else "nowhere"),
                where=context.place("taus", "table"),
                mend='give tau, as "1.2 ms", or taus of all detectors, or the table that has them',
            )
        named = options.table
        self._table = None if named is None else context.read(read_time_constants, context.folder / named)

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with signals, flags and noise behind the filters.

        Raises
        ------
        ConfigError
            If there is no such observation or detector; if their number is not that of the time constants;
            if an observation has templates already, or common noise of detectors with different ones.
        """
        o, place = self._options, self._context.place
        check_given(observations, "time constants", place("tau"))
        names = choose_names(
            o.observations, (one.name for one in observations), "observation",
            where=place("observations"),
        )  # fmt: skip
        chosen = [one for one in observations if one.name in names]
        detectors = (name for one in chosen for name in one.detectors)
        kept = choose_names(o.detectors, detectors, "detector", where=place("detectors"))
        return [self._filtered(one, kept) if one.name in names else one for one in observations]

    def _filtered(self, one: Observation, kept: set[str]) -> Observation:
        filters = [self._filter(tau, one) if tau > 0 else None for tau in self._time_constants(one, kept)]
        if not any(filters):
            return one
        check_no_templates(one, "time constants")
        flags = one.flags
        if not self._options.simulate:
            if self._options.dilate:
                flags = tuple(FilteredFlags(part, filters, one.n_samp) for part in flags)
            flags = (*flags, EdgeFlags(one.intervals, filters))
        return dataclasses.replace(
            one,
            signals=tuple(FilteredSignal(signal, filters, one.n_samp) for signal in one.signals),
            flags=flags,
            noise=None if one.noise is None else FilteredNoise(one.noise, filters, one.sample_rate),
            common_noise=tuple(_filtered_common(shared, filters, one) for shared in one.common_noise),
        )

    def _filter(self, tau: float, one: Observation) -> SampleFilter:
        o, sample_rate = self._options, one.sample_rate
        if not o.simulate:
            return deconvolution(tau, sample_rate, o.response)
        if tau * sample_rate > _LONGEST:
            raise ConfigError(
                f"a time constant of {tau * sample_rate:.0f} samples is too long to be simulated",
                where=error_location(one), mend=f"{_LONGEST:.0f} samples are the most",
            )  # fmt: skip
        return convolution(tau, sample_rate, o.response)

    def _time_constants(self, one: Observation, kept: set[str]) -> list[float]:
        """Return the time constant of each detector of an observation, 0 of those that have none."""
        names = [name for name in one.detectors if name in kept]
        if self._table is not None:
            missing = [name for name in names if name not in self._table]
            if missing:
                raise ConfigError(
                    f"has no time constant of detector {missing[0]}",
                    where=str(self._context.folder / str(self._options.table)),
                    mend="add it, or choose the others by detectors",
                )
            return [self._table[name] if name in kept else 0.0 for name in one.detectors]
        given = (self._options.tau,) * len(names) if self._options.tau is not None else self._options.taus
        if len(given) != len(names):
            raise ConfigError(
                f"{len(given)} time constants for {len(names)} detectors of {error_location(one)}",
                where=self._context.place("taus"),
                mend="give one of each, or tau of all",
            )
        found = dict(zip(names, given, strict=True))
        return [found.get(name, 0.0) for name in one.detectors]


def check_no_templates(one: Observation, what: str) -> None:
    """Raise ConfigError if an observation has templates before a source that filters its streams."""
    if one.templates:
        raise ConfigError(
            f"template {one.templates[0].name} is named before {what}, which filter the data",
            where=error_location(one),
            mend="name templates after them: they are of the streams that are mapped",
        )


def _filtered_common(shared: CommonNoise, filters: Filters, one: Observation) -> CommonNoise:
    coupled = [
        None if chosen is None else (chosen.first, chosen.taps.tobytes())
        for chosen, coupling in zip(filters, shared.couplings, strict=True)
        if coupling != 0
    ]
    if len(set(coupled)) > 1:
        raise ConfigError(
            "detectors with different time constants share noise that is named before them",
            where=error_location(one),
            mend="name the common mode after the time constants",
        )
    numbers = np.flatnonzero(shared.couplings)
    chosen = filters[int(numbers[0])] if len(numbers) else None
    if chosen is None:
        return shared
    return dataclasses.replace(shared, model=filtered_model(shared.model, chosen, one.sample_rate))


def read_time_constants(path: Path) -> dict[str, float]:
    """Read time constants from a text file of two columns, detector and seconds; # for comments.

    Raises
    ------
    DataError
        If the file cannot be read, a line has not two words, a time is negative, or a detector stands twice.
    """
    try:
        lines = require_file(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", where=str(path)) from None
    found: dict[str, float] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        where = f"{path}:{number}"
        if len(words) != 2:
            raise DataError(f"has {len(words)} words, not a detector and its time constant", where=where)
        if words[0] in found:
            raise DataError(f"has detector {words[0]} again", where=where)
        found[words[0]] = _seconds(words[1], where)
    return found


def _seconds(word: str, where: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise DataError(f"{word} is no time constant in seconds", where=where)
    return value
