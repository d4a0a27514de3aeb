"""Parts of the splits of the data: by detectors, observations, time, scan direction or subscans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.name_patterns import choose_names
from petacomm.base.typing import FloatArray, Int64Array
from petamap.data.config import SplitOptions
from petamap.data.observation import Observation
from petamap.data.parts import NO_PART, PartRuns, Parts
from petamap.templates.subscans import find_subscans, scan_directions

# Observations whose runs are held while streams are gone through in order.
_CACHED = 4


def split_parts(options: SplitOptions, observations: Sequence[Observation]) -> Parts:
    """Return the parts of a split.

    Scans are looked at when the runs of an observation are asked for.

    Raises
    ------
    ConfigError
        If a group fits no name, two groups the same one, or there is one part.
    """
    match options.by:
        case "detectors" | "detector":
            names = list(dict.fromkeys(name for one in observations for name in one.detectors))
            part_of = _parts_of_names(options, names, "detector")
            return _of_streams(options, names, lambda o, d: part_of[observations[o].detectors[d]])
        case "observations" | "observation":
            names = [one.name for one in observations]
            part_of = _parts_of_names(options, names, "observation")
            return _of_streams(options, names, lambda o, d: part_of[names[o]])
        case "time":
            runs = _of_time(options, observations)
        case "direction":
            runs = lambda one: _runs_of(one, _directions, options.name)  # noqa: E731
        case _:
            runs = lambda one: _runs_of(one, _in_turn(options.n_parts), options.name)  # noqa: E731
    cached = lru_cache(_CACHED)(lambda number: runs(observations[number]))
    return Parts(_names(options), lambda observation, detector: cached(observation))


def _names(options: SplitOptions) -> tuple[str, ...]:
    if options.names:
        return options.names
    if options.by == "direction":
        return "left", "right"
    if options.n_parts == 2 and options.by != "time" and not options.groups:
        return "odd", "even"
    return tuple(str(number) for number in range(1, (len(options.groups) or options.n_parts) + 1))


# --- detectors and observations


def _parts_of_names(options: SplitOptions, names: Sequence[str], what: str) -> dict[str, int]:
    """Return the part of each name, `NO_PART` for those in no group."""
    if options.by == what:
        if len(names) == 1:
            raise ConfigError(
                f"there is one {what}, '{names[0]}'", where=f"split {options.name}",
                mend="split the data by something else",
            )  # fmt: skip
        return {name: number for number, name in enumerate(names)}
    if not options.groups:
        if len(names) < options.n_parts:
            raise ConfigError(
                f"{len(names)} {what}{'s' * (len(names) > 1)} for {options.n_parts} parts",
                where=f"split {options.name}", mend="make fewer parts, or split the data by something else",
            )  # fmt: skip
        return {name: number % options.n_parts for number, name in enumerate(names)}
    parts = dict.fromkeys(names, NO_PART)
    where = f"split {options.name}"
    for number, group in enumerate(options.groups):
        for name in choose_names(group.split(), names, what, where=where):
            if parts[name] not in (NO_PART, number):
                raise ConfigError(
                    f"{what} '{name}' is in two groups", where=where, mend="a sample is in one part alone"
                )
            parts[name] = number
    return parts


def _of_streams(options: SplitOptions, names: Sequence[str], part_of: Callable[[int, int], int]) -> Parts:
    each = options.by in ("detector", "observation")
    return Parts(tuple(names) if each else _names(options), lambda o, d: PartRuns.constant(part_of(o, d)))


# --- time


def _of_time(options: SplitOptions, observations: Sequence[Observation]) -> Callable[[Observation], PartRuns]:
    """Return the runs of an observation in parts of equal time."""
    bounds = _equal_times(observations, options.n_parts)

    def runs(one: Observation) -> PartRuns:
        if options.whole_intervals:
            starts = np.array([start for start, _ in one.intervals], np.int64)
            middles = np.array([(start + stop) / 2 for start, stop in one.intervals])
            parts = np.searchsorted(bounds, one.start_time + middles / one.sample_rate, side="right")
            return _merged(starts, parts.astype(np.int64))
        firsts = np.ceil((bounds - one.start_time) * one.sample_rate).astype(np.int64)
        firsts = np.append(0, np.maximum(firsts, 0))
        within = firsts < max(one.n_samp, 1)
        return _merged(firsts[within], np.flatnonzero(within))

    return runs


def _equal_times(observations: Sequence[Observation], n: int) -> FloatArray:
    """Return the times between n parts in which as much time is observed, (n - 1,) Unix seconds."""
    spans = sorted((one.start_time, one.start_time + one.n_samp / one.sample_rate) for one in observations)
    merged: list[list[float]] = []
    for begin, end in spans:
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    edges = np.array(merged)
    before = np.concatenate([[0.0], np.cumsum(edges[:, 1] - edges[:, 0])])
    wanted = before[-1] * np.arange(1, n) / n
    span = np.minimum(np.searchsorted(before, wanted, side="right") - 1, len(edges) - 1)
    return np.asarray(edges[span, 0] + wanted - before[span])


# --- scans


def _runs_of(
    one: Observation, parts_of: Callable[[Observation, int, int, Int64Array], Int64Array], split: str
) -> PartRuns:
    """Return the runs of an observation by the subscans of its intervals.

    Raises
    ------
    DataError
        If subscans cannot be found.
    """
    starts, parts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for start, stop in one.intervals:
        if stop > start:
            try:
                edges = find_subscans(one, start, stop)
            except DataError as error:
                raise DataError(
                    f"{error.what}: no subscans", where=f"split {split}",
                    mend="split the data by time, detectors or observations",
                ) from error  # fmt: skip
            starts.append(start + edges[:-1])
            parts.append(parts_of(one, start, stop, edges))
    return _merged(np.concatenate(starts), np.concatenate(parts))


def _directions(one: Observation, start: int, stop: int, edges: Int64Array) -> Int64Array:
    return scan_directions(one, start, stop, edges).astype(np.int64)


def _in_turn(n: int) -> Callable[[Observation, int, int, Int64Array], Int64Array]:
    """Return the parts of subscans that go to n parts in turn, beginning anew in each interval."""
    return lambda one, start, stop, edges: np.arange(len(edges) - 1) % n


def _merged(starts: Int64Array, parts: Int64Array) -> PartRuns:
    """Return runs, of equal starts the last one, the first one from the first sample on."""
    if len(starts) == 0:
        return PartRuns.constant(NO_PART)
    last = np.append(starts[1:] > starts[:-1], True)
    starts, parts = starts[last], parts[last]
    starts[0] = 0
    changed = np.append(True, parts[1:] != parts[:-1])
    return PartRuns(starts[changed].astype(np.int64), parts[changed].astype(np.int64))
