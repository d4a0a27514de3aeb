"""Which ranks hold, share and own which keys."""

from petacomm.sharing.index_map import IndexMap, ReductionError
from petacomm.sharing.setup import SETUPS
from petacomm.sharing.sharing_graph import SharingGraph

__all__ = ["SETUPS", "IndexMap", "ReductionError", "SharingGraph"]
