"""Redistribution of arrays, parallel FFTs and halo exchanges, by the fastest of several methods.

Must not import: sharing, costs, reduction, mapping or higher rooms.
"""

from petacomm.mpi.autotuner import Choice
from petacomm.redistribution.array_layout import ArrayLayout, DatatypeError
from petacomm.redistribution.exchanges import METHODS
from petacomm.redistribution.fft import ParallelFFT
from petacomm.redistribution.halo import HALO_METHODS, OBJECTS, LatticeField
from petacomm.redistribution.lattice import Lattice
from petacomm.redistribution.redistribution import Redistribution
from petacomm.redistribution.staggered import StaggeredOperator, solve_cg

__all__ = [
    "HALO_METHODS",
    "METHODS",
    "OBJECTS",
    "ArrayLayout",
    "Choice",
    "DatatypeError",
    "Lattice",
    "LatticeField",
    "ParallelFFT",
    "Redistribution",
    "StaggeredOperator",
    "solve_cg",
]
