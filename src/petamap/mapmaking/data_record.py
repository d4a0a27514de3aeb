"""Which samples runs have: observations and detectors, as summaries record them, and what two runs share.

Which samples of an observation are flagged is not recorded. Runs that have an observation in common may so be
of different samples of it, as of halves that are cut in turn: that they share some is certain only where they
use more than there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from petamap.data.config import RunConfig
from petamap.data.observation import Observation
from petamap.data.run_summary import ObservedData, ObservedRange, Summary
from petamap.data.source import source_class

# Observations, and names of detectors, of which a summary of a few megabytes has room.
_MOST_OBSERVATIONS, _MOST_NAMES = 20_000, 500_000


def data_records(config: RunConfig, observations: Sequence[Observation]) -> tuple[ObservedData, ...]:
    """Return the record of a run's observations, those of the same detectors together.

    There is none where it would be large.
    """
    drawn = _drawn(config)
    by_detectors: dict[tuple[str, ...], list[ObservedRange]] = {}
    for one in observations:
        file = str(Path(str(one.meta["file"])).absolute()) if "file" in one.meta else ""
        found = ObservedRange(
            name=one.name, start=float(one.start_time), samples=one.n_samp,
            sample_rate=float(one.sample_rate), file=file, drawn=drawn,
        )  # fmt: skip
        by_detectors.setdefault(one.detectors, []).append(found)
    if len(observations) > _MOST_OBSERVATIONS or sum(map(len, by_detectors)) > _MOST_NAMES:
        return ()
    return tuple(
        ObservedData(detectors=detectors, observations=tuple(some))
        for detectors, some in by_detectors.items()
    )


def _drawn(config: RunConfig) -> str:
    """Return what keys the noise of a run, if a source draws it."""
    draws = any(getattr(source_class(one.kind), "part", None) == "noise" for one in config.sources)
    return f"seed {config.run.seed}, realization {config.run.realization}" if draws else ""


@dataclass(frozen=True)
class SharedData:
    """What two runs have in common.

    Attributes
    ----------
    observations : tuple of str
        Names.
    samples : int
        Samples of their common detectors.
    twice : int
        Those of them that both runs use for certain.
    """

    observations: tuple[str, ...]
    samples: int
    twice: int

    def describe(self) -> str:
        """Return in words which observations they are."""
        return named(self.observations)


def named(observations: Sequence[str]) -> str:
    """Return in words which observations these are, one at least."""
    first, *others = observations
    return f"observation '{first}'" + (f" and {len(others)} more" if others else "")


def shared_data(one: Summary, other: Summary) -> SharedData | None:
    """Return what two runs have in common, as far as their summaries tell; None if nothing.

    Samples are certainly in both if they come from the same file, or are drawn by the same key, and both runs
    use more of them than there are.
    """
    found = list(_overlaps(one.data, other.data))
    if not found:
        return None
    unused = sum(run.totals.samples - run.totals.samples_used for run in (one, other))
    certain = sum(samples for _, samples, is_same in found if is_same)
    names = tuple(dict.fromkeys(name for name, _, _ in found))
    return SharedData(names, sum(samples for _, samples, _ in found), max(0, certain - unused))


def same_noise(one: Summary, other: Summary) -> list[str]:
    """Return the names of observations whose noise two runs draw by the same numbers.

    These are keyed by the name of the observation and the place of the detector in it, whatever is observed.
    """
    known = {(each.name, each.drawn) for data in one.data for each in data.observations if each.drawn}
    found = (each for data in other.data for each in data.observations)
    return list(dict.fromkeys(each.name for each in found if (each.name, each.drawn) in known))


def _overlaps(
    some: Sequence[ObservedData], others: Sequence[ObservedData]
) -> Iterator[tuple[str, int, bool]]:
    """Yield observations in two records: name, samples, and whether these are the same for certain."""
    known: dict[str, list[tuple[int, ObservedRange]]] = {}
    for number, data in enumerate(some):
        for one in data.observations:
            known.setdefault(one.name, []).append((number, one))
    for data in others:
        own = set(data.detectors)
        in_common = [len(own.intersection(each.detectors)) for each in some]
        for other in data.observations:
            for number, one in known.get(other.name, ()):
                n_det, n_samp = in_common[number], _common_samples(one, other)
                if n_det and n_samp and not _is_other_noise(one, other):
                    yield other.name, n_det * n_samp, _is_same(one, other)


def _common_samples(one: ObservedRange, other: ObservedRange) -> int:
    """Return how many samples of a detector are in the time of both."""
    begin = max(one.start, other.start)
    end = min(each.start + each.samples / each.sample_rate for each in (one, other))
    return max(0, round((end - begin) * min(one.sample_rate, other.sample_rate)))


def _is_other_noise(one: ObservedRange, other: ObservedRange) -> bool:
    """Return whether two simulated observations have noise of their own."""
    return not one.file and not other.file and "" not in (one.drawn, other.drawn) and one.drawn != other.drawn


def _is_same(one: ObservedRange, other: ObservedRange) -> bool:
    origins = [(each.file, each.drawn) for each in (one, other)]
    return origins[0] == origins[1] != ("", "") and one.sample_rate == other.sample_rate
