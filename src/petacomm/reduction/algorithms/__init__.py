"""The ways to reduce values on shared keys, by name in `ALGORITHMS`."""

from petacomm.reduction.algorithms import (
    butterfly,
    dense,
    hierarchical,
    hybrid,
    owner,
)
from petacomm.reduction.algorithms import (
    pairs as pairwise,
)
from petacomm.reduction.algorithms.base import ALGORITHMS, Algorithm, register

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "butterfly",
    "dense",
    "hierarchical",
    "hybrid",
    "owner",
    "pairwise",
    "register",
]
