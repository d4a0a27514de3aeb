"""Which keys of a hybrid reduction go which way, by the number of nodes that hold them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import BoolArray


class Classes(NamedTuple):
    """Whether each key crosses between nodes densely, by pairs of nodes, or through its owner's node.

    All bool (n,); a key on one node is in none of them.
    """

    dense: BoolArray
    pairs: BoolArray
    owners: BoolArray


def classify(n_holding: npt.NDArray[np.integer], n_nodes: int, theta: float, mu: int) -> Classes:
    """Tell the classes of keys.

    Parameters
    ----------
    n_holding : int (n,)
        Nodes that hold each key.
    n_nodes : int
        All nodes.
    theta : float
        Share of the nodes that must hold a key to make it a dense one.
    mu : int
        Most nodes that may hold a key which pairs exchange.
    """
    dense = n_holding >= max(2.0, theta * n_nodes)
    pairs = (n_holding > 1) & (n_holding <= mu) & ~dense
    return Classes(dense, pairs, (n_holding > 1) & ~dense & ~pairs)
