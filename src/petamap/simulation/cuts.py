"""Simulated cuts: random gaps, time ranges, detectors, and latitude ranges of the pointing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.name_patterns import choose_names
from petacomm.base.options import option
from petacomm.base.typing import UInt8Array
from petamap.data.observation import Flags, Observation
from petamap.data.source import SourceContext
from petamap.pointing.protocol import Pointing
from petamap.simulation.instrument import FlaggedRanges
from petamap.simulation.random_keys import Purpose, random_stream, uniforms

_CELLS_PER_GAP = 8  # cells in the mean time between random gaps, at most one of which begins in a cell
_SHARED = 0xFFFFFFFF


@dataclass(frozen=True)
class RandomGaps:
    """Random gaps of fixed length and given mean distance (implements `Flags`).

    Time is divided into cells of an eighth of the mean time between the beginnings of gaps. In each cell a
    gap begins with probability 1/8 at a uniformly distributed sample, which depends only on (seed,
    realization, uid, detector, cell).

    Attributes
    ----------
    cell, length : int
        Length of a cell and of a gap in samples.
    seed, realization, uid : int
        Keys of the random numbers.
    shared : bool
        Whether all detectors have the same gaps.
    """

    cell: int
    length: int
    seed: int
    realization: int
    uid: int
    shared: bool = False

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out`, uint8 (stop - start,), to 1 for samples of [start, stop) in a gap."""
        first, last = max(0, (start - self.length) // self.cell), stop // self.cell + 1
        key = _SHARED if self.shared else detector
        words = random_stream(Purpose.CUTS, self.seed, self.realization, self.uid, key)
        numbers = uniforms(words, 2 * (last - first), 2 * first).reshape(-1, 2)
        begins = np.arange(first, last) * self.cell + (numbers[:, 1] * self.cell).astype(np.int64)
        for begin in begins[numbers[:, 0] < 1 / _CELLS_PER_GAP]:
            out[max(begin - start, 0) : max(begin + self.length - start, 0)] = 1


@dataclass(frozen=True, eq=False)
class LatitudeRange:
    """Cut of samples in a range of latitudes of the pointing (implements `Flags`)."""

    pointing: Pointing
    lowest: float
    highest: float

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out`, uint8 (stop - start,), to 1 for samples of [start, stop) that are cut.

        Raises
        ------
        DataError
            If the pointing has no directions.
        """
        height = self.pointing.directions(detector, start, stop)[0][:, 2]
        out[(height >= np.sin(self.lowest)) & (height <= np.sin(self.highest))] = 1


@dataclass(frozen=True, eq=False)
class DetectorFlags:
    """Flags of some detectors alone (implements `Flags`)."""

    flags: Flags
    detectors: frozenset[int]

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out`, uint8 (stop - start,), to 1 for samples of [start, stop) that are cut."""
        if detector in self.detectors:
            self.flags.or_flags(detector, start, stop, out)


@dataclass(frozen=True)
class CutsOptions:
    """Bad samples by rule; a source has one rule, given by the options that it sets."""

    detectors: tuple[str, ...] = option((), help="to cut: names, patterns, beginnings of names; default: all")
    observations: tuple[str, ...] = option(
        (), help="to cut: names, patterns, beginnings of names; default: all"
    )
    gap_every: float | None = option(
        None,
        dimension="time",
        minimum=0.0,
        maximum=1e9,
        help="random gaps: mean time from the start of one to the next",
    )
    gap_length: float | None = option(
        None, dimension="time", minimum=0.0, maximum=1e9, help="random gaps: their length"
    )
    gaps_shared: bool = option(False, help="random gaps: the same in all detectors")
    begin: float | None = option(
        None, dimension="time", minimum=0.0, help="time range: begin, since the start of the observation"
    )
    end: float | None = option(None, dimension="time", minimum=0.0, help="time range: end")
    lat_min: float | None = option(
        None, dimension="angle", minimum=-np.pi / 2, maximum=np.pi / 2,
        help="latitude range: lowest, in the coordinates of the pointing",
    )  # fmt: skip
    lat_max: float | None = option(
        None, dimension="angle", minimum=-np.pi / 2, maximum=np.pi / 2, help="latitude range: highest"
    )
    seed: int = option(0, help="added to the seed of the run")
    realization: int = option(0, help="added to the realization of the run")


class CutsSource:
    """Source of flags by one rule: random gaps, a time range, a latitude range, or detectors."""

    options: ClassVar[type] = CutsOptions

    def __init__(self, options: CutsOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        rules = (
            options.gap_every is not None or options.gap_length is not None,
            options.begin is not None or options.end is not None,
            options.lat_min is not None or options.lat_max is not None,
        )
        if sum(rules) > 1:
            raise ConfigError("cuts have several rules", mend="give each rule a source of its own")
        if not any(rules) and not options.detectors:
            raise ConfigError(
                "cuts have no rule", mend="give gap_every and gap_length, begin or end, lat_min, or detectors"
            )
        if rules[0] and not (options.gap_every and options.gap_length):
            raise ConfigError("random gaps need gap_every and gap_length above zero")
        for low, high in (("begin", "end"), ("lat_min", "lat_max")):
            first, last = getattr(options, low), getattr(options, high)
            if first is not None and last is not None and first >= last:
                what = f"cuts from {low} to {high} are of nothing: {high} is not above {low}"
                raise ConfigError(what, where=context.place(high), mend=f"give {high} above {low}")
        self._gaps, _, self._latitudes = rules

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with the flags added.

        Raises
        ------
        ConfigError
            If a named observation or detector does not exist, or pointing is missing.
        """
        chosen = self._chosen(observations)
        self._require_samples([one for one in observations if chosen.get(one.name)])
        return [
            dataclasses.replace(one, flags=(*one.flags, DetectorFlags(self._flags(one), chosen[one.name])))
            if chosen.get(one.name)
            else one
            for one in observations
        ]

    def _require_samples(self, observations: Sequence[Observation]) -> None:
        """Raise a ConfigError if a time range begins after the end of all observations that it is to cut."""
        begin, ends = self._options.begin or 0.0, [one.n_samp / one.sample_rate for one in observations]
        if ends and begin >= max(ends):
            what = f"cuts begin after {begin:g} s, and their longest observation has {max(ends):g} s"
            raise ConfigError(what, where=self._context.place("begin"), mend="begin before its end")

    def _chosen(self, observations: Sequence[Observation]) -> dict[str, frozenset[int]]:
        """Return the numbers of the detectors to cut, by name of the observation."""
        options, places = self._options, self._context.places
        known = (one.name for one in observations)
        names = choose_names(options.observations, known, "observation", where=places.get("observations"))
        chosen = [one for one in observations if one.name in names]
        known = (name for one in chosen for name in one.detectors)
        kept = choose_names(options.detectors, known, "detector", where=places.get("detectors"))
        return {
            one.name: frozenset(number for number, name in enumerate(one.detectors) if name in kept)
            for one in chosen
        }

    def _flags(self, observation: Observation) -> Flags:
        options, rate = self._options, observation.sample_rate
        if self._gaps:
            return self._random_gaps(observation)
        if not self._latitudes:
            begin = 0 if options.begin is None else round(options.begin * rate)
            end = observation.n_samp if options.end is None else round(options.end * rate)
            return FlaggedRanges(np.array([[begin, min(end, observation.n_samp)]]))
        if observation.pointing is None:
            raise ConfigError(
                "has no pointing",
                where=observation.name,
                mend="name the source of the pointing before the cuts",
            )
        low = -np.pi / 2 if options.lat_min is None else options.lat_min
        high = np.pi / 2 if options.lat_max is None else options.lat_max
        return LatitudeRange(observation.pointing, low, high)

    def _random_gaps(self, observation: Observation) -> RandomGaps:
        options, context = self._options, self._context
        assert options.gap_every is not None and options.gap_length is not None
        return RandomGaps(
            cell=max(1, round(options.gap_every * observation.sample_rate / _CELLS_PER_GAP)),
            length=max(1, round(options.gap_length * observation.sample_rate)),
            seed=context.seed + options.seed,
            realization=context.realization + options.realization,
            uid=observation.uid,
            shared=options.gaps_shared,
        )
