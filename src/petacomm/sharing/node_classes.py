"""Classes of the keys of a hybrid reduction, by the number of nodes that hold them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import BoolArray


class KeyClasses(NamedTuple):
    """Algorithm that reduces each key between nodes: dense, by pairs of nodes, or by its owner's node.

    All bool (n,); a key on one node is in no class.
    """

    dense: BoolArray
    pairs: BoolArray
    owners: BoolArray


def classify_keys(n_holding: npt.NDArray[np.integer], n_nodes: int, theta: float, mu: int) -> KeyClasses:
    """Return the classes of keys.

    Parameters
    ----------
    n_holding : int (n,)
        Number of nodes that hold each key.
    n_nodes : int
        Number of all nodes.
    theta : float
        Fraction of the nodes that must hold a dense key.
    mu : int
        Largest number of nodes that may hold a key that pairs of nodes exchange.
    """
    dense = n_holding >= max(2.0, theta * n_nodes)
    pairs = (n_holding > 1) & (n_holding <= mu) & ~dense
    return KeyClasses(dense, pairs, (n_holding > 1) & ~dense & ~pairs)
