"""Search for glitches in all streams of a run, dealt to the ranks piece by piece."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from petacomm.base.progress import Progress
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator, agree_on_errors
from petamap.data.config import GlitchOptions
from petamap.data.observation import Observation, read_flags, read_signal, share_signals
from petamap.data.run_summary import DetectorGlitches
from petamap.glitches.detection import find_glitches, find_steps
from petamap.glitches.found import GlitchFlags, StepOffsets, united_ranges
from petamap.glitches.template_fit import FastTemplates

_PIECE = 1 << 16  # samples at most that are searched together
_GLITCHES_BESIDE = 4  # glitches near a step that may take samples of its means
_SUSPICIOUS = 0.1  # of the samples of a detector


class _Piece(NamedTuple):
    """Samples [begin, end) of a detector, of the interval [start, stop)."""

    observation: int
    detector: int
    start: int
    stop: int
    begin: int
    end: int


class _Event(NamedTuple):
    """Samples [begin, end) to be flagged for a glitch, for a step, or for its edge."""

    observation: int
    detector: int
    begin: int
    end: int
    kind: str
    step: int = -1  # first sample of the new level
    significance: float = 0.0


@dataclass(frozen=True)
class GlitchSearch:
    """Search for glitches by the options of a run.

    Pieces and their margins follow from intervals and options, so that what is found does not depend on
    ranks.

    Attributes
    ----------
    options : GlitchOptions
    """

    options: GlitchOptions

    def apply(
        self, observations: Sequence[Observation], comm: Communicator, progress: Progress
    ) -> tuple[list[Observation], tuple[DetectorGlitches, ...]]:
        """Return the observations with flags and templates of what is found, and its numbers. Collective.

        Raises
        ------
        DataError
            If samples cannot be read.
        """
        pieces = list(_pieces(observations))
        first, last = (len(pieces) * rank // comm.size for rank in (comm.rank, comm.rank + 1))
        own, fast = list[_Event](), FastTemplates()
        progress.begin("glitches", float(last - first), "pieces")
        share_signals([[one.signals for one in observations]], comm)
        with agree_on_errors(comm):
            for piece in pieces[first:last]:
                own += self._search(observations[piece.observation], piece, fast)
                progress.advance(1)
        found = _distinct([one for part in comm.allgather(own) for one in part], self.options.step_length)
        kinds = Counter(one.kind for one in found)
        progress.end(f"{kinds['glitch']:,} glitches, {kinds['step']:,} steps")
        by_observation: list[list[_Event]] = [[] for _ in observations]
        for one in found:
            by_observation[one.observation].append(one)
        extended = [_with_glitches(*both) for both in zip(observations, by_observation, strict=True)]
        return extended, _counts(observations, found)

    def _search(self, observation: Observation, piece: _Piece, fast: FastTemplates) -> list[_Event]:
        """Return the glitches and steps that begin in a piece."""
        options, rate = self.options, observation.sample_rate
        around = np.array([-max(1, round(options.before * rate)), max(1, round(options.after * rate))])
        widest = int(np.diff(around)[0]) + 2 * options.lag + 1
        longest = 2 * options.step_length + _GLITCHES_BESIDE * widest
        first = max(piece.begin - longest - widest, piece.start)
        last = min(piece.end + longest + widest, piece.stop)
        data = read_signal(observation, piece.detector, first, last)
        good = (read_flags(observation, piece.detector, first, last) == 0) & np.isfinite(data)
        data[~good] = 0.0
        fast.subtract(observation, (piece.start, piece.stop), first, data, good)
        glitches = find_glitches(data, good, options.lag, options.threshold)
        ranges = np.clip(glitches + around, 0, len(data))
        for begin, end in ranges.tolist():
            good[begin:end] = False
        steps, significances = np.zeros(0, np.int64), np.zeros(0)
        if options.find == "glitches-and-steps":
            steps, significances = find_steps(data, good, options.step_length, options.threshold, longest)
        own = (glitches[:, 0] >= piece.begin - first) & (glitches[:, 0] < piece.end - first)
        aside = max(2, options.step_length // 4)
        events = _glitch_events(piece, ranges[own] + first, steps + first, aside)
        return events + _step_events(piece, steps + first, significances, aside)


def _glitch_events(piece: _Piece, ranges: Int64Array, steps: Int64Array, aside: int) -> list[_Event]:
    """Return glitches of ranges of samples; what is beside a step is its edge, which the filter sees, too."""
    near = np.searchsorted(steps, ranges[:, 1] + aside, "right")
    edges = near > np.searchsorted(steps, ranges[:, 0] - aside)
    return [
        _Event(piece.observation, piece.detector, begin, end, "edge" if edge else "glitch")
        for (begin, end), edge in zip(ranges.tolist(), edges.tolist(), strict=True)
    ]


def _step_events(piece: _Piece, steps: Int64Array, significances: FloatArray, aside: int) -> list[_Event]:
    """Return the steps at samples in a piece, with the samples beside them."""
    return [
        _Event(
            piece.observation, piece.detector, max(step - aside, piece.start), min(step + aside, piece.stop),
            "step", step, significance,
        )
        for step, significance in zip(steps.tolist(), significances.tolist(), strict=True)
        if piece.begin <= step < piece.end
    ]  # fmt: skip


def _pieces(observations: Sequence[Observation]) -> Iterator[_Piece]:
    """Yield the pieces of all streams: stationary intervals, cut into equal parts."""
    for number, observation in enumerate(observations):
        for start, stop in observation.intervals:
            n = max(1, math.ceil((stop - start) / _PIECE))
            edges = [start + (stop - start) * k // n for k in range(n + 1)]
            for begin, end in itertools.pairwise(edges):
                for detector in range(observation.n_det):
                    yield _Piece(number, detector, start, stop, begin, end)


def _distinct(found: Sequence[_Event], length: int) -> list[_Event]:
    """Return the glitches, but of steps that two pieces have seen at their common end the larger one."""
    kept: list[_Event] = []
    for one in sorted((one for one in found if one.kind == "step"), key=lambda one: (*one[:2], one.step)):
        near = kept and kept[-1][:2] == one[:2] and one.step - kept[-1].step < length
        if not near:
            kept.append(one)
        elif one.significance > kept[-1].significance:
            kept[-1] = one
    return [*(one for one in found if one.kind != "step"), *kept]


def _with_glitches(observation: Observation, found: Sequence[_Event]) -> Observation:
    """Return an observation with what was found in it."""
    flagged: dict[int, list[tuple[int, int]]] = {}
    steps: dict[int, list[int]] = {}
    for one in found:
        flagged.setdefault(one.detector, []).append((one.begin, one.end))
        if one.kind == "step":
            steps.setdefault(one.detector, []).append(one.step)
    if not flagged:
        return observation
    flags = GlitchFlags({who: united_ranges(np.array(ranges)) for who, ranges in flagged.items()})
    templates = (StepOffsets(who, np.array(sorted(places))) for who, places in sorted(steps.items()))
    return dataclasses.replace(
        observation, flags=(*observation.flags, flags), templates=(*observation.templates, *templates)
    )


def _counts(observations: Sequence[Observation], found: Sequence[_Event]) -> tuple[DetectorGlitches, ...]:
    """Return the numbers of each detector that has glitches, in all observations."""
    ranges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for one in found:
        ranges.setdefault((one.observation, one.detector), []).append((one.begin, one.end))
    samples, kinds = Counter[str](), Counter[tuple[str, str]]()
    for (observation, detector), parts in ranges.items():
        flagged = np.diff(united_ranges(np.array(parts))).sum()
        samples[observations[observation].detectors[detector]] += int(flagged)
    for one in found:
        kinds[observations[one.observation].detectors[one.detector], one.kind] += 1
    return tuple(
        DetectorGlitches(
            detector=name, glitches=kinds[name, "glitch"], steps=kinds[name, "step"], samples=samples[name]
        )
        for name in sorted(samples)
    )


def glitch_warnings(observations: Sequence[Observation], found: Sequence[DetectorGlitches]) -> list[str]:
    """Return warnings of detectors of which so much is flagged that the sky may be part of it."""
    n_samp: Counter[str] = Counter()
    for observation in observations:
        for name in observation.detectors:
            n_samp[name] += observation.n_samp
    return [
        f"{one.samples / n_samp[one.detector]:.0%} of the samples of detector {one.detector} are flagged as "
        "glitches, as the sky or a half-wave plate may be: a larger glitches.threshold"
        for one in found
        if one.samples > _SUSPICIOUS * n_samp[one.detector]
    ]
