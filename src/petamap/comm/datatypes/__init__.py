"""Arrays that go from rank to rank, by datatypes, packed or through shared memory, as is quickest."""

from petamap.comm.datatypes.fft import ParallelFFT
from petamap.comm.datatypes.halo import HALO_WAYS, OBJECTS, Field
from petamap.comm.datatypes.lattice import Lattice
from petamap.comm.datatypes.layout import DatatypeError, Layout
from petamap.comm.datatypes.redistribution import Redistribution
from petamap.comm.datatypes.staggered import Staggered, solve
from petamap.comm.datatypes.tuner import Choice
from petamap.comm.datatypes.ways import WAYS

__all__ = [
    "HALO_WAYS",
    "OBJECTS",
    "WAYS",
    "Choice",
    "DatatypeError",
    "Field",
    "Lattice",
    "Layout",
    "ParallelFFT",
    "Redistribution",
    "Staggered",
    "solve",
]
