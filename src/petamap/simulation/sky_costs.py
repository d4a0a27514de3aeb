"""Memory and time that skies take, foreseen without making them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from petamap.data.observation import Observation
from petamap.sky.ring_distribution import RingDistribution
from petamap.sky.ring_transforms import EXCHANGES, PIXELS
from petamap.sky.submaps import Submaps

_VALUE = 3 * 8  # bytes of I, Q and U of a pixel
# bytes of a coefficient of I, E and B while it is drawn: random numbers, indices, products, the beam
_COEFFICIENT = 3 * 3 * 16
_WRITTEN = 60  # bytes of a pixel whose values are written: of two components, its number, row, and copies
# seconds on one core for each n_side l_max^2 of I, Q and U; within 20 % of what was measured for n_side 128
# to 1024
_SYNTHESIS = 1e-9


@dataclass(frozen=True)
class SkyCosts:
    """What a sky takes.

    Attributes
    ----------
    n_pix : int
        Pixels that are held.
    n_made : int
        Pixels that the rank has which makes it alone, of skies that are not made by rings.
    n_rings, n_legendre : int
        Rings that are made, and those with Legendre transforms; 0 of skies that one rank makes.
    n_side, l_max : int
        Of skies that are drawn and made by rings; else 0.
    """

    n_pix: int
    n_made: int = 0
    n_rings: int = 0
    n_legendre: int = 0
    n_side: int = 0
    l_max: int = 0

    @classmethod
    def of(cls, n_pix: int, submaps: Submaps | None = None, l_max: int = 0) -> SkyCosts:
        """Return the costs of a sky of so many pixels of which submaps are held, or all.

        `l_max` is that of a HEALPix map that is drawn and made by rings.
        """
        held = n_pix if submaps is None else submaps.n_rows
        if not l_max:
            return cls(held, n_pix)
        n_side = round((n_pix / 12) ** 0.5)
        rings = RingDistribution(n_side, None, submaps)
        return cls(held, 0, len(rings.rings["nphi"]), len(rings.theta), n_side, l_max)

    @property
    def is_drawn(self) -> bool:
        """Whether it is drawn from spectra, as each realization has its own."""
        return self.l_max > 0

    @property
    def n_bytes(self) -> int:
        """Bytes of what a node holds."""
        return _VALUE * self.n_pix

    def bytes_to_make(self, on_node: int) -> int:
        """Return the bytes of one of so many ranks of a node beside what is held, while the sky is made."""
        if not self.l_max:
            return _VALUE * (self.n_made + self.n_pix)
        partly = on_node > 1 or self.n_legendre < 4 * self.n_side - 1
        orders = self.l_max * (1 + 2 * partly / EXCHANGES * self.n_legendre / max(self.n_rings, 1))
        fourier = 16 * 2 * self.n_rings * orders
        own = (fourier + _COEFFICIENT * self.l_max**2 / 2) / on_node
        return int(own + _WRITTEN * min(PIXELS, self.n_rings * 4 * self.n_side / on_node))

    def seconds(self, cores: int) -> float:
        """Return the seconds in which so many cores of a node make it."""
        if not self.l_max:
            return 0.0
        return (self.n_legendre + 1) / 4 * self.l_max**2 * _SYNTHESIS / cores


def sky_costs(observations: Iterable[Observation]) -> tuple[SkyCosts, ...]:
    """Return the costs of each sky that signals of observations see, made or not."""
    return tuple(sky.costs for sky in _skies(observations))


def count_looked_for(observations: Iterable[Observation]) -> int:
    """Return the number of skies of which ranks find together what detectors see."""
    return sum(getattr(sky, "is_looked_for", False) for sky in _skies(observations))


def _skies(observations: Iterable[Observation]) -> Iterable[Any]:
    shared = (getattr(signal, "shared_sky", None) for one in observations for signal in one.signals)
    return {id(one): one for one in shared if one is not None}.values()
