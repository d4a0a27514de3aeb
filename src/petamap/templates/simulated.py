"""Signals of templates with amplitudes that are drawn, to try out what map-making does with them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from petacomm.base.typing import FloatArray
from petamap.data.template import Sharing, TemplateTerm
from petamap.simulation.random_keys import Purpose, gaussians, random_stream
from petamap.templates.template_signal import TemplateSignal

_ALL = 2**32 - 1  # of a key: what is the same in all observations or detectors


@dataclass(frozen=True, eq=False)
class SimulatedTemplate(TemplateSignal):
    """Signal of a template whose amplitudes are normal numbers of a given size.

    Attributes
    ----------
    rms : float
        Of the amplitudes, in the unit of the signal; of a known signal's, without unit.
    seed : int
        Key of the random numbers; they are the same in all realizations.
    """

    rms: float
    seed: int

    def amplitudes(self, term: TemplateTerm, detector: int, interval: int) -> FloatArray:
        """Return the amplitudes of a stream, or those that it has in common with others."""
        sharing = getattr(self.template, "sharing", None) or Sharing()
        one = self.observation
        uid = _ALL if sharing.time == "run" else one.uid
        # in a run, detectors have the same numbers where they have the same names
        name = zlib.crc32(f"{self.template.name} {one.detectors[detector]}".encode())
        own = zlib.crc32(self.template.name.encode()) if sharing.detectors else name
        key = interval if sharing.time == "interval" else _ALL
        words = random_stream(Purpose.TEMPLATES, self.seed, 0, uid, own, key)
        return self.rms * term.divisor * gaussians(words, term.n_amplitudes)
