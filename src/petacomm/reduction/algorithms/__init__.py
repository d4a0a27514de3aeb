"""Algorithms of reductions on shared keys, by name in `ALGORITHMS`."""

from petacomm.reduction.algorithms import (
    butterfly,
    dense,
    hierarchical,
    hybrid,
    owner,
    pairwise,
)
from petacomm.reduction.algorithms.base import ALGORITHMS, ReductionAlgorithm, register_algorithm

__all__ = [
    "ALGORITHMS",
    "ReductionAlgorithm",
    "butterfly",
    "dense",
    "hierarchical",
    "hybrid",
    "owner",
    "pairwise",
    "register_algorithm",
]
