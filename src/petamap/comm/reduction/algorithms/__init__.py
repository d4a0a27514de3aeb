"""The ways to reduce values on shared keys, by name in `ALGORITHMS`."""

from petamap.comm.reduction.algorithms import butterfly, dense, hierarchical, hybrid, owner, pairwise
from petamap.comm.reduction.algorithms.base import ALGORITHMS, Algorithm, register

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
