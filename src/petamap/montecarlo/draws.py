"""Simulated signals of the realizations: skies and noise, which depend only on the realization number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray
from petamap.data.config import MonteCarloOptions, RandomSource, SignalParts
from petamap.data.observation import Observation, Signal
from petamap.noise.model import NoiseModel
from petamap.simulation.noise import SimulatedNoise
from petamap.sky.power_spectra import Spectra
from petamap.spectra.beams import map_window
from petamap.spectra.cross_spectra import cross_spectrum

ModelOf = Callable[[Observation, int, int], NoiseModel]
Signals = list[tuple[Signal, ...]]

# parts that are mapped, by `MonteCarloOptions.parts`
MAPPED_PARTS = {"apart": ("sky", "noise"), "together": ("both",), "sky": ("sky",), "noise": ("noise",)}
# order of the spectra of simulated skies
_THEORY = ("TT", "EE", "BB", "TE")


@dataclass(frozen=True)
class _ModelNoise:
    """Noise model of map-making for an observation (implements `Noise`)."""

    observation: Observation
    model_of: ModelOf

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the model of a detector in an interval."""
        return self.model_of(self.observation, detector, interval)


class Draws:
    """Sources of the random signals of all realizations of a run.

    Parameters
    ----------
    options : MonteCarloOptions
    parts : SignalParts
        Fixed and random signals of the observations.
    observations : sequence of Observation
        Observations in the order of the system; their signals are ignored.
    seed : int
        Seed of the run.

    Attributes
    ----------
    solved : tuple of str
        Parts that are mapped in each realization: ``sky``, ``noise``, ``both``.
    skies, noises : list of RandomSource
        Random sources.
    model_of : callable, optional
        Noise model of map-making, used if there is no noise source. Set after the system is set up.

    Raises
    ------
    ConfigError
        If there is no source for a part that is mapped.
    """

    def __init__(
        self, options: MonteCarloOptions, parts: SignalParts, observations: Sequence[Observation], seed: int
    ) -> None:
        self.solved: tuple[str, ...] = MAPPED_PARTS[options.parts]
        self.observations = observations
        self.seed = seed
        self.skies = [source for source in parts.random_sources if source.part == "sky"]
        self.noises = [
            source for source in parts.random_sources if source.part == "noise" and options.noise != "model"
        ]
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
        """Signals common to all realizations, for each observation."""
        return [self._fixed.get(observation.name, ()) for observation in self.observations]

    @cached_property
    def _first(self) -> list[Any]:
        return [source.source(0) for source in self.skies if self.solved != ("noise",)]

    @property
    def fwhm(self) -> float:
        """Full width at half maximum of the beam of the first sky, radians; 0 without a beam."""
        return max((float(getattr(source, "fwhm", 0.0)) for source in self._first[:1]), default=0.0)

    @property
    def has_known_input(self) -> bool:
        """Whether the a_lm of all skies and their spectra are known, and all detectors see these."""
        return bool(self._first) and all(
            hasattr(source, "coefficients") and getattr(source, "seen_by_all", True) for source in self._first
        )

    @cached_property
    def theory(self) -> Spectra | None:
        """Spectra TT, EE, BB, TE of the simulated skies; None if they are not known."""
        if not self.has_known_input:
            return None
        rows = [source.expected() for source in self._first]
        end = max(row.shape[1] for row in rows)
        return Spectra(np.sum([_pad(row, end) for row in rows], axis=0), _THEORY)

    def sky_variance(self, n_side: int) -> dict[str, float]:
        """Return the sky variance of a pixel in I (``T``) and in each of Q and U (``P``)."""
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

    def source_signals(self, random_sources: Sequence[RandomSource], sources: Sequence[Any]) -> Signals:
        """Return the signals of the sources of a realization, for each observation."""
        by_name: dict[str, tuple[Signal, ...]] = {}
        for random_source, source in zip(random_sources, sources, strict=True):
            for name, signals in random_source.signals(source).items():
                by_name[name] = (*by_name.get(name, ()), *signals)
        return [by_name.get(observation.name, ()) for observation in self.observations]

    def model_noise(self, number: int) -> Signals:
        """Return noise with the noise model of map-making, for each observation."""
        assert self.model_of is not None, "the system is set up before noise is drawn"
        return [
            (SimulatedNoise(observation, _ModelNoise(observation, self.model_of), self.seed, number),)
            for observation in self.observations
        ]


@dataclass(eq=False)
class Realization:
    """Random signals of one realization, made at first use and kept until they are forgotten."""

    draws: Draws
    number: int

    @cached_property
    def _sky_sources(self) -> list[Any]:
        return [source.source(self.number) for source in self.draws.skies]

    @cached_property
    def _sky(self) -> Signals:
        return self.draws.source_signals(self.draws.skies, self._sky_sources)

    @cached_property
    def _noise(self) -> Signals:
        draws = self.draws
        if not draws.noises:
            return draws.model_noise(self.number)
        return draws.source_signals(draws.noises, [source.source(self.number) for source in draws.noises])

    def signals(self, part: str) -> Signals:
        """Return the signals of ``sky``, ``noise`` or ``both``, for each observation."""
        if part == "both":
            return [(*sky, *noise) for sky, noise in zip(self._sky, self._noise, strict=True)]
        return self._sky if part == "sky" else self._noise

    def forget_signals(self) -> None:
        """Forget skies and noise, which take much memory, and are made again if they are asked for."""
        for name in ("_sky", "_noise"):
            self.__dict__.pop(name, None)

    def input(self, names: Sequence[str], l_max: int) -> FloatArray:
        """Return the spectra of the a_lm of the sky, float64 (n_names, l_max + 1); 0 beyond their l_max."""
        parts = [source.coefficients() for source in self._sky_sources]
        last = max(end for _, end in parts)
        alm = sum(_pad_alm(each, end, last) for each, end in parts)
        spectra = np.zeros((len(names), l_max + 1))
        stop = min(l_max, last) + 1
        for row, name in zip(spectra, names, strict=True):
            first, second = (alm["TEB".index(letter)] for letter in name)
            row[:stop] = cross_spectrum(first, second, last)[:stop]
        return spectra


def _pad(rows: FloatArray, n: int) -> FloatArray:
    return np.pad(rows, ((0, 0), (0, n - rows.shape[1])))


def _pad_alm(alm: Any, l_max: int, last: int) -> Any:
    """Return m-major coefficients up to `l_max`, padded with zeros up to `last`."""
    if l_max == last:
        return alm
    padded = np.zeros((len(alm), (last + 1) * (last + 2) // 2), np.complex128)
    begin = to = 0
    for m in range(l_max + 1):
        n = l_max + 1 - m
        padded[:, to : to + n] = alm[:, begin : begin + n]
        begin, to = begin + n, to + last + 1 - m
    return padded
