"""What each realization adds to the time streams: skies and noise, keyed by its number alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray
from petamap.data.config import Drawing, MonteCarloOptions, Parts
from petamap.data.observation import Observation, Signal
from petamap.noise.model import NoiseModel
from petamap.simulation.noise import SimulatedNoise
from petamap.sky.power_spectra import Spectra
from petamap.spectra.beams import map_window
from petamap.spectra.cross_spectra import cross_spectrum

ModelOf = Callable[[Observation, int, int], NoiseModel]
Signals = list[tuple[Signal, ...]]

# what is mapped, by the choice of parts
SOLVED = {"apart": ("sky", "noise"), "together": ("both",), "sky": ("sky",), "noise": ("noise",)}
# the order of the spectra that skies are drawn from
_THEORY = ("TT", "EE", "BB", "TE")


@dataclass(frozen=True)
class _ModelNoise:
    """The noise that map-making assumes of an observation (implements `Noise`)."""

    observation: Observation
    model_of: ModelOf

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the model of a detector in an interval."""
        return self.model_of(self.observation, detector, interval)


class Draws:
    """The signals of all realizations of a run.

    Parameters
    ----------
    options : MonteCarloOptions
    parts : Parts
        The signals of the observations, sorted.
    observations : sequence of Observation
        In the order of the system; their own signals are not looked at.
    seed : int
        Of the run.

    Attributes
    ----------
    solved : tuple of str
        What is mapped in each realization: ``sky``, ``noise``, ``both``.
    skies, noises : list of Drawing
        The sources that draw.
    model_of : callable, optional
        The noise that map-making assumes: what is drawn where no source draws noise. To be set before.

    Raises
    ------
    ConfigError
        If nothing draws what is to be mapped.
    """

    def __init__(
        self, options: MonteCarloOptions, parts: Parts, observations: Sequence[Observation], seed: int
    ) -> None:
        self.solved: tuple[str, ...] = SOLVED[options.parts]
        self.observations = observations
        self.seed = seed
        self.skies = [one for one in parts.drawings if one.part == "sky"]
        self.noises = [one for one in parts.drawings if one.part == "noise" and options.noise != "model"]
        self.model_of: ModelOf | None = None
        self._fixed = parts.fixed
        if self.solved != ("noise",) and not self.skies:
            raise ConfigError(
                "no source draws a sky",
                mend='add a [[source]] of kind "sky-spectra", or choose montecarlo.parts = "noise"',
            )
        if options.noise == "sources" and self.solved != ("sky",) and not self.noises:
            raise ConfigError(
                "no source draws noise",
                mend='add a [[source]] of kind "noise", or montecarlo.noise = "model"',
            )

    @cached_property
    def fixed(self) -> Signals:
        """The signals that all realizations have in common, for each observation."""
        return [self._fixed.get(one.name, ()) for one in self.observations]

    @property
    def has_fixed(self) -> bool:
        """Whether there are any."""
        return any(self.fixed)

    @cached_property
    def _first(self) -> list[Any]:
        return [one.source(0) for one in self.skies if self.solved != ("noise",)]

    @property
    def fwhm(self) -> float:
        """The beam that the first sky is seen with, radians; 0 without one."""
        return max((float(getattr(source, "fwhm", 0.0)) for source in self._first[:1]), default=0.0)

    @property
    def tells_input(self) -> bool:
        """Whether it is known what is drawn, and from which spectra."""
        return bool(self._first) and all(hasattr(source, "coefficients") for source in self._first)

    @cached_property
    def theory(self) -> Spectra | None:
        """The spectra that skies are drawn from, TT, EE, BB, TE; None where that is not known."""
        if not self.tells_input:
            return None
        rows = [source.expected() for source in self._first]
        end = max(row.shape[1] for row in rows)
        return Spectra(np.sum([_padded(row, end) for row in rows], axis=0), _THEORY)

    def sky_variance(self, n_side: int) -> dict[str, float]:
        """Return the variance of a pixel of ``T`` and, of Q and of U, ``P``, as beam and pixels leave it."""
        theory = self.theory
        if theory is None:
            return {"T": 0.0, "P": 0.0}
        l = theory.multipoles[: 3 * n_side]  # noqa: E741
        window = map_window(n_side, self.fwhm, len(l) - 1)
        each = {"T": theory["TT"], "P": 0.5 * (theory["EE"] + theory["BB"])}
        return {
            kind: float(np.sum((2 * l + 1) / (4 * np.pi) * power[: len(l)] * window[kind] ** 2))
            for kind, power in each.items()
        }

    def drawn(self, drawings: Sequence[Drawing], sources: Sequence[Any]) -> Signals:
        """Return the signals of sources of one realization, for each observation."""
        by_name: dict[str, tuple[Signal, ...]] = {}
        for drawing, source in zip(drawings, sources, strict=True):
            for name, signals in drawing.signals(source).items():
                by_name[name] = (*by_name.get(name, ()), *signals)
        return [by_name.get(one.name, ()) for one in self.observations]

    def of_model(self, number: int) -> Signals:
        """Return noise by the model that map-making assumes, for each observation."""
        assert self.model_of is not None, "the system is set up before noise is drawn"
        return [
            (SimulatedNoise(one, _ModelNoise(one, self.model_of), self.seed, number),)
            for one in self.observations
        ]


class Realization:
    """One realization: what it adds to the time streams.

    Its signals are made when they are first asked for and kept as long as it lives.
    """

    def __init__(self, draws: Draws, number: int) -> None:
        self.draws = draws
        self.number = number

    @cached_property
    def _sky_sources(self) -> list[Any]:
        return [one.source(self.number) for one in self.draws.skies]

    @cached_property
    def _sky(self) -> Signals:
        return self.draws.drawn(self.draws.skies, self._sky_sources)

    @cached_property
    def _noise(self) -> Signals:
        draws = self.draws
        if not draws.noises:
            return draws.of_model(self.number)
        return draws.drawn(draws.noises, [one.source(self.number) for one in draws.noises])

    def signals(self, part: str) -> Signals:
        """Return the signals of ``sky``, ``noise`` or ``both``, for each observation."""
        if part == "both":
            return [(*sky, *noise) for sky, noise in zip(self._sky, self._noise, strict=True)]
        return self._sky if part == "sky" else self._noise

    def input(self, names: Sequence[str], l_max: int) -> FloatArray:
        """Return the spectra of the coefficients of its sky, float64 (n_names, l_max + 1); 0 beyond them."""
        parts = [source.coefficients() for source in self._sky_sources]
        last = max(end for _, end in parts)
        alm = sum(_padded_alm(each, end, last) for each, end in parts)
        found = np.zeros((len(names), l_max + 1))
        stop = min(l_max, last) + 1
        for row, name in zip(found, names, strict=True):
            first, second = (alm["TEB".index(letter)] for letter in name)
            row[:stop] = cross_spectrum(first, second, last)[:stop]
        return found


def _padded(rows: FloatArray, n: int) -> FloatArray:
    return np.pad(rows, ((0, 0), (0, n - rows.shape[1])))


def _padded_alm(alm: Any, l_max: int, last: int) -> Any:
    """Return m-major coefficients up to `l_max` among those up to `last`."""
    if l_max == last:
        return alm
    padded = np.zeros((len(alm), (last + 1) * (last + 2) // 2), np.complex128)
    begin = to = 0
    for m in range(l_max + 1):
        n = l_max + 1 - m
        padded[:, to : to + n] = alm[:, begin : begin + n]
        begin, to = begin + n, to + last + 1 - m
    return padded
