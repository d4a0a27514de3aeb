"""Arrays that go from rank to rank, by datatypes, packed or through shared memory, as is quickest."""

from petacomm.mpi.autotuner import Choice
from petacomm.redistribution.array_layout import DatatypeError, Layout
from petacomm.redistribution.exchanges import WAYS
from petacomm.redistribution.fft import ParallelFFT
from petacomm.redistribution.halo import HALO_WAYS, OBJECTS, Field
from petacomm.redistribution.lattice import Lattice
from petacomm.redistribution.redistribution import Redistribution
from petacomm.redistribution.staggered import Staggered, solve

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
