"""Molecular systems simulated with OpenAtom: numbers of states, planes and plane waves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from petacomm.base.errors import ConfigError


@dataclass(frozen=True)
class MolecularSystem:
    """A system in a cubic box at the Gamma point, divided into objects.

    Attributes
    ----------
    name : str
    n_states : int
        Number of electronic states.
    n_g : int
        Number of planes of GSpace, i.e. collections of lines of plane waves; a parameter of a run.
    n_r : int
        Number of planes of RealSpace.
    radius : float
        Radius of the sphere of plane waves of a state, in units of 2 pi over the length of the box.
    block : int
        Number of states of a PairCalculator in each of its two dimensions.
    n_rho : int
        Number of RhoR objects of a plane.
    """

    name: str
    n_states: int
    n_g: int
    n_r: int
    radius: float
    block: int
    n_rho: int = 4

    def __post_init__(self) -> None:
        if self.n_states % self.block:
            raise ConfigError(
                f"blocks of {self.block} states do not divide {self.n_states}", mend="give a divisor"
            )

    @property
    def n_blocks(self) -> int:
        """Number of blocks of states."""
        return self.n_states // self.block

    @property
    def n_lines(self) -> float:
        """Number of lines of plane waves of a state; half a disc, as the other half is its conjugate."""
        return math.pi * self.radius**2 / 2

    @property
    def n_waves(self) -> float:
        """Number of plane waves of a state: half a sphere."""
        return 2 * math.pi * self.radius**3 / 3


def _system(name: str, electrons: int, length: float, cutoff: float, n_g: int, block: int) -> MolecularSystem:
    """Return a system of valence electrons in a box of `length` bohr, with a cutoff in Rydberg.

    The plane waves of states extend to |g| = sqrt(cutoff), those of densities to twice that, which requires
    4 |g| L / 2 pi planes.
    """
    radius = math.sqrt(cutoff) * length / (2 * math.pi)
    n_r = 4 * round(radius)
    return MolecularSystem(name, electrons // 2, n_g, n_r, radius, block)


# 8 valence electrons per molecule, two per state; at 1 g/cm3 32 molecules fill a box of 18.6 bohr.
WATER_32 = _system("WATER_32M_70Ry", 32 * 8, 18.62, 70.0, n_g=32, block=4)
WATER_256 = _system("WATER_256M_70Ry", 256 * 8, 37.24, 70.0, n_g=32, block=32)
# 64 Ge (4), 128 Sb (5), 256 Te (6); 6 g/cm3 are assumed.
GST_BIG = _system("GST_BIG", 64 * 4 + 128 * 5 + 256 * 6, 46.2, 20.0, n_g=32, block=38)
