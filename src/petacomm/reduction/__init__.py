"""Reductions of values on keys that several ranks share: plans, algorithms and their tuner.

Must not import: mapping, papers, report or cli.
"""

from petacomm.costs.options import TRANSPORTS
from petacomm.reduction.algorithms import ALGORITHMS
from petacomm.reduction.halo import Halo
from petacomm.reduction.owned_rows import OwnedRows
from petacomm.reduction.plan import AUTO, ReductionPlan
from petacomm.sharing.index_map import IndexMap, ReductionError
from petacomm.sharing.setup import SETUPS

__all__ = [
    "ALGORITHMS",
    "AUTO",
    "SETUPS",
    "TRANSPORTS",
    "Halo",
    "IndexMap",
    "OwnedRows",
    "ReductionError",
    "ReductionPlan",
]
