"""Bounds of all-to-alls by their busiest link, to compare shapes of communicators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.network import Traffic, link_loads
from petacomm.topology import Torus


def alltoall_links_per_node(
    grid: Torus, groups: Sequence[npt.ArrayLike], routing: str = "dimension-ordered", tie: str = "split"
) -> float:
    """Return the largest injection rate of a node in concurrent all-to-alls, in units of the link bandwidth.

    All groups perform an all-to-all at the same time, in which each node sends one byte to each other node of
    its group. If the busiest link carries m bytes, a node sends (n - 1) / m bytes in the time in which a link
    transfers one.

    Parameters
    ----------
    grid : Torus
    groups : sequence of int (n,)
        The nodes of each communicator, all of one size.
    routing, tie : str
        As in `link_loads`.

    Raises
    ------
    ConfigError
        If groups have fewer than two nodes, or differ in size.
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
