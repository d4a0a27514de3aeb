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
    n_types : int
        Number of types of atoms.
    n_channels : int
        Number of channels of the non-local pseudopotentials, each with its transforms in phase X.
    tile : int, optional
        Number of states of an Ortho object in each of its two dimensions; by default `block`.
    """

    name: str
    n_states: int
    n_g: int
    n_r: int
    radius: float
    block: int
    n_rho: int = 4
    n_types: int = 2
    n_channels: int = 1
    tile: int = 0

    def __post_init__(self) -> None:
        if self.n_states % self.block:
            raise ConfigError(
                f"blocks of {self.block} states do not divide {self.n_states}", mend="give a divisor"
            )
        if not self.tile:
            object.__setattr__(self, "tile", self.block)
        if self.block % self.tile:
            raise ConfigError(
                f"tiles of {self.tile} states do not divide {self.block}", mend="give a divisor"
            )

    @property
    def n_blocks(self) -> int:
        """Number of blocks of states."""
        return self.n_states // self.block

    @property
    def n_tiles(self) -> int:
        """Number of tiles of states, in each dimension of Ortho and of CLA_Matrix."""
        return self.n_states // self.tile

    @property
    def n_particle(self) -> int:
        """Number of planes of RealParticlePlane, 0.7 times those of RealSpace."""
        return round(0.7 * self.n_r)

    @property
    def n_hart(self) -> int:
        """Number of planes of RhoRHart, 1.4 times those of RealSpace."""
        return round(1.4 * self.n_r)

    @property
    def n_lines(self) -> float:
        """Number of lines of plane waves of a state; half a disc, as the other half is its conjugate."""
        return math.pi * self.radius**2 / 2

    @property
    def n_waves(self) -> float:
        """Number of plane waves of a state: half a sphere."""
        return 2 * math.pi * self.radius**3 / 3


def _system(
    name: str, electrons: int, length: float, cutoff: float, n_types: int, block: int, tile: int
) -> MolecularSystem:
    """Return a system of valence electrons in a box of `length` bohr, with a cutoff in Rydberg.

    The plane waves of states extend to |g| = sqrt(cutoff), those of densities to twice that, which requires
    4 |g| L / 2 pi planes.
    """
    radius = math.sqrt(cutoff) * length / (2 * math.pi)
    n_r = 4 * round(radius)
    # One channel for each type but hydrogen, whose pseudopotential is local.
    n_channels = n_types - 1 if name.startswith("WATER") else n_types
    return MolecularSystem(
        name, electrons // 2, 32, n_r, radius, block, n_types=n_types, n_channels=n_channels, tile=tile
    )


# 8 valence electrons per molecule, two per state; at 1 g/cm3 32 molecules fill a box of 18.6 bohr.
WATER_32 = _system("WATER_32M_70Ry", 32 * 8, 18.62, 70.0, 2, block=32, tile=16)
WATER_256 = _system("WATER_256M_70Ry", 256 * 8, 37.24, 70.0, 2, block=128, tile=32)
# 64 Ge (4), 128 Sb (5), 256 Te (6); 6 g/cm3 are assumed.
GST_BIG = _system("GST_BIG", 64 * 4 + 128 * 5 + 256 * 6, 46.2, 20.0, 3, block=152, tile=38)
