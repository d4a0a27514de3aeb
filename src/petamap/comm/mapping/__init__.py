"""Where ranks go: placements of ranks on the nodes of a network, how they are made and what they cost."""

from petamap.comm.mapping.placement import Placement

__all__ = ["Placement"]
