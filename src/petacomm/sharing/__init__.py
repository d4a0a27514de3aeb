"""Index maps of distributed keys: which ranks hold, share and own each key.

Must not import: redistribution, costs, reduction or higher rooms.
"""

from petacomm.sharing.index_map import IndexMap, ReductionError
from petacomm.sharing.setup import SETUPS
from petacomm.sharing.sharing_graph import SharingGraph

__all__ = ["SETUPS", "IndexMap", "ReductionError", "SharingGraph"]
