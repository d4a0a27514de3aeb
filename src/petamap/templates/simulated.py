"""Signals of templates with amplitudes that are drawn, to try out what map-making does with them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from petacomm.base.typing import FloatArray
from petamap.data.observation import Observation
from petamap.data.template import DetectorTemplate, Sharing, Template, TemplateTerm
from petamap.simulation.random_keys import Purpose, gaussians, random_stream

_ALL = 2**32 - 1  # of a key: what is the same in all observations or detectors


@dataclass(frozen=True, eq=False)
class SimulatedTemplate:
    """Signal of a template whose amplitudes are normal numbers of a given size (implements `Signal`).

    Attributes
    ----------
    observation : Observation
    template : Template
    rms : float
        Of the amplitudes, in the unit of the signal; of a known signal's, without unit.
    seed : int
        Key of the random numbers; they are the same in all realizations.
    """

    observation: Observation
    template: Template
    rms: float
    seed: int
    _terms: dict[tuple[int, int], TemplateTerm] = field(default_factory=dict, repr=False)

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,), K."""
        for interval, (first, last) in enumerate(self.observation.intervals):
            begin, end = max(start, first), min(stop, last)
            if begin >= end:
                continue
            term = self._term(detector, interval)
            amplitudes = self._amplitudes(term, detector, interval)
            out[begin - start : end - start] += term.matrix(begin - first, end - first) @ amplitudes

    def _term(self, detector: int, interval: int) -> TemplateTerm:
        key = detector if isinstance(self.template, DetectorTemplate) else -1, interval
        if key not in self._terms:
            start, stop = self.observation.intervals[interval]
            self._terms[key] = (
                self.template.detector_term(self.observation, detector, start, stop)
                if isinstance(self.template, DetectorTemplate)
                else self.template.term(self.observation, start, stop)
            )
        return self._terms[key]

    def _amplitudes(self, term: TemplateTerm, detector: int, interval: int) -> FloatArray:
        sharing = getattr(self.template, "sharing", None) or Sharing()
        one = self.observation
        uid = _ALL if sharing.time == "run" else one.uid
        # in a run, detectors have the same numbers where they have the same names
        name = zlib.crc32(f"{self.template.name} {one.detectors[detector]}".encode())
        own = zlib.crc32(self.template.name.encode()) if sharing.detectors else name
        key = interval if sharing.time == "interval" else _ALL
        words = random_stream(Purpose.TEMPLATES, self.seed, 0, uid, own, key)
        return self.rms * term.divisor * gaussians(words, term.n_amplitudes)
