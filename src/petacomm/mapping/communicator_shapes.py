"""What shape a communicator should have: bounds of its all-to-all by the busiest link."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.network import Traffic, link_loads
from petacomm.topology import Torus


def links_per_node(
    grid: Torus, groups: Sequence[npt.ArrayLike], routing: str = "dimension-ordered", tie: str = "split"
) -> float:
    """Return how many links' worth of an all-to-all each node can send at most.

    All groups have one at once, each node sending one byte to each other one of its group; the busiest link
    carries m of them. A node then sends (n - 1) / m bytes in the time that a link takes for one.

    Parameters
    ----------
    grid : Torus
    groups : sequence of int (n,)
        The nodes of communicators of one size; several are active at once.
    routing, tie : str
        As `link_loads` has them.

    Raises
    ------
    ConfigError
        If there is no group of two nodes, or they differ in size.
    """
    nodes = [np.asarray(group, np.int64).ravel() for group in groups]
    sizes = {len(group) for group in nodes}
    if len(sizes) != 1 or min(sizes) < 2:
        raise ConfigError(f"communicators of {sorted(sizes)} nodes", mend="give some of one size, 2 or more")
    size = sizes.pop()
    sources = np.concatenate([np.repeat(group, size) for group in nodes])
    targets = np.concatenate([np.tile(group, size) for group in nodes])
    loads = link_loads(grid, Traffic(sources, targets, 1.0), routing, tie)
    return (size - 1) / float(loads.max())
