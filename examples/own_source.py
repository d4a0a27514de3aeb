"""A source of one's own: a heater that glows in all detectors, switched on and off.

    python examples/own_source.py

A package makes it known to every run configuration, as ``kind = "heater"``, by an entry point:

    [project.entry-points."petamap.sources"]
    heater = "own_source:HeaterSource"
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from petacomm.base.options import option
from petamap.data.config import open_sources, parse_config
from petamap.data.observation import Observation
from petamap.data.source import SourceContext


@dataclass(frozen=True)
class HeaterOptions:
    """A heater that is switched on and off with a period."""

    amplitude: float = option(dimension="temperature", help="signal while it is on")
    period: float = option(60.0, dimension="time", minimum=0.1, help="from one switch-on to the next")


@dataclass(frozen=True)
class Heater:
    """Its signal: any range of samples gives the same numbers."""

    amplitude: float
    period: float  # samples

    def add_signal(self, detector: int, start: int, stop: int, out: np.ndarray) -> None:
        phase = np.arange(start, stop) / self.period % 1.0
        out += self.amplitude * (phase < 0.5)


class HeaterSource:
    """Adds the heater to every observation before it."""

    options: ClassVar[type] = HeaterOptions

    def __init__(self, options: HeaterOptions, context: SourceContext) -> None:
        self._options = options

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with one more contribution to their signal."""
        options = self._options
        return [
            dataclasses.replace(
                one, signals=(*one.signals, Heater(options.amplitude, options.period * one.sample_rate))
            )
            for one in observations
        ]


SCAN = """
[map]
n_side = 64
[[source]]
kind = "satellite"
sample_rate = "10 Hz"
duration = "10 min"
"""

if __name__ == "__main__":
    scan = open_sources(parse_config(SCAN, Path("scan.toml")))
    source = HeaterSource(HeaterOptions(amplitude=1e-3), SourceContext(folder=Path()))
    (heated,) = source.extend(scan)
    whole, parts = np.zeros(1000), np.zeros(1000)
    heated.signals[0].add_signal(0, 0, 1000, whole)
    for start in range(0, 1000, 100):
        heated.signals[0].add_signal(0, start, start + 100, parts[start : start + 100])
    same = bool((whole == parts).all())
    print(f"on for {np.count_nonzero(whole)} of {len(whole)} samples; the same in pieces: {same}")
