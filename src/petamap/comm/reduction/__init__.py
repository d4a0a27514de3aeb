"""Sums of values on keys that several ranks share."""

from petamap.comm.reduction.algorithms import ALGORITHMS
from petamap.comm.reduction.exchange import TRANSPORTS
from petamap.comm.reduction.index_map import IndexMap, ReductionError
from petamap.comm.reduction.owned import OwnedRows
from petamap.comm.reduction.plan import AUTO, ReductionPlan
from petamap.comm.reduction.setup import SETUPS

__all__ = [
    "ALGORITHMS",
    "AUTO",
    "SETUPS",
    "TRANSPORTS",
    "IndexMap",
    "OwnedRows",
    "ReductionError",
    "ReductionPlan",
]
