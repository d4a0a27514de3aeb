"""Allocation of a job from the variables of Fujitsu's job operation software (K, FX100, Fugaku)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.topology.manager import TopologyManager
from petacomm.topology.torus import Torus


def pjm_allocation(environ: Mapping[str, str], wrap: bool = False) -> TopologyManager:
    """Return the allocation of a job from its shape and number of processes.

    They are read from ``PJM_MPI_SHAPE_X``, Y, Z, else ``PJM_NODE_X``, ..., and ``PJM_MPI_PROC``. Nodes are
    those of the job-logical torus of one to three dimensions. Ranks are assumed to be placed by
    ``rank-map-bychip``: each node filled before the next, x fastest. The variables do not report other
    orders, nor a `vcoordfile`.

    Parameters
    ----------
    environ : mapping
    wrap : bool
        Whether the dimensions are rings (``node=4x6x4:torus``), which the variables do not report.

    Raises
    ------
    ConfigError
        If the shape is missing, a number is wrong, or the nodes do not have the same number of ranks.
    """
    prefix = "PJM_MPI_SHAPE_" if environ.get("PJM_MPI_SHAPE_X") else "PJM_NODE_"
    shape = [_number(environ, prefix + "X")]
    shape += [_number(environ, prefix + axis) for axis in "YZ" if environ.get(prefix + axis)]
    grid = Torus(shape, wrap)
    n_ranks = _number(environ, "PJM_MPI_PROC") if environ.get("PJM_MPI_PROC") else grid.n_nodes
    per_node = -(-n_ranks // grid.n_nodes)
    if per_node * grid.n_nodes != n_ranks and per_node > 1:
        raise ConfigError(
            f"{n_ranks} ranks on {grid.n_nodes} nodes are not the same number on each",
            mend="write a file of coordinates",
        )
    node, core = np.divmod(np.arange(n_ranks), per_node)
    # Fujitsu numbers nodes with x fastest, `Torus` with the last dimension fastest.
    coordinates = np.stack(np.unravel_index(node, grid.shape[::-1]), -1)[:, ::-1]
    return TopologyManager(grid, grid.node_at(coordinates), core, source="Fujitsu's PJM variables, by chip")


def _number(environ: Mapping[str, str], name: str) -> int:
    value = environ.get(name, "")
    if not (value.isdecimal() and len(value) < 11 and int(value) > 0):
        raise ConfigError(f"{name} is '{printable(value)}'", mend="it must be a whole number, 1 or more")
    return int(value)
