"""Link loads and placements as tables for Boxfish (Isaacs et al. 2012, LLNL)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.files import write_text
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mapping.placement import Placement
from petacomm.topology import Network, Torus

# Names of dimensions: x, y, z as on BlueGene/P, or a to e as on BlueGene/Q.
_NAMES = {1: "x", 2: "xy", 3: "xyz"}
_LETTERS = "abcdef"
# Name of the run in Boxfish.
_KEY = "PETAMAP"


def write_boxfish(
    folder: str | Path, network: Network, placement: Placement, loads: FloatArray
) -> list[Path]:
    """Write ``meta.yaml``, ``nodes.yaml``, ``links.yaml`` and ``map.yaml``.

    Parameters
    ----------
    folder : path
        Created if it does not exist.
    network : Torus
    placement : Placement
    loads : float64 (n_links,)
        Bytes on each link.

    Raises
    ------
    ConfigError
        If the network is no torus or mesh.
    """
    grid = require_grid(network)
    folder = Path(folder)
    names = _NAMES.get(grid.n_dimensions, _LETTERS[: grid.n_dimensions])
    nodes = np.arange(grid.n_nodes)
    coordinates = grid.coordinates(nodes)
    ranks = np.bincount(placement.nodes, minlength=grid.n_nodes)
    source, target = grid.link_ends()
    links = np.arange(grid.n_links)
    ends = [*grid.coordinates(source).T, *grid.coordinates(target).T]
    n_bytes = np.rint(loads).astype(np.int64)
    end_names = [end + name for end in "st" for name in names]
    texts = {
        "meta": _meta(names, grid),
        "nodes": _table(["nodeid", *names, "ranks"], [nodes, *coordinates.T, ranks]),
        "links": _table(
            ["linkid", *end_names, "code_region", "bytes"], [links, *ends, np.zeros_like(links), n_bytes]
        ),
        "map": _table(["mpirank", "nodeid"], [np.arange(placement.n_ranks), placement.nodes]),
    }
    written = []
    for name, text in texts.items():
        written.append(folder / f"{name}.yaml")
        write_text(written[-1], text)
    return written


def require_grid(network: Network) -> Torus:
    """Return the network as a torus or mesh; raise a ConfigError if it is none, which Boxfish cannot draw."""
    if not isinstance(network, Torus):
        raise ConfigError("Boxfish draws whole tori and meshes", mend="leave its tables out")
    return network


def _table(fields: Sequence[str], columns: list[Int64Array]) -> str:
    head = [f"- [{field}, {'int64' if field == 'bytes' else 'int32'}]" for field in fields]
    rows = [" ".join(map(str, row)) for row in np.stack(columns, axis=1).tolist()]
    return "\n".join(["---", f"key: {_KEY}", "---", *head, "...", *rows, ""])


def _meta(names: Sequence[str], network: Torus) -> str:
    def named(prefix: str) -> str:
        return ", ".join(f"{name}: {prefix}{name}" for name in names)

    sizes = ", ".join(f"{name}: {size}" for name, size in zip(names, network.shape, strict=True))
    node, link = "{ domain: HW, type: NODE, field: nodeid }", "{ domain: HW, type: LINK, field: linkid }"
    return f"""\
---
key: {_KEY}
hardware: {{
 network: {"torus" if any(network.wrap) else "mesh"},
 nodes: {network.n_nodes},
 coords: [{", ".join(names)}],
 coords_table: nodes.yaml,
 dim: {{{sizes}}},
 source_coords: {{{named("s")}}},
 destination_coords: {{{named("t")}}},
 link_coords_table: links.yaml
}}
---
filetype: table
filename: nodes.yaml
domain: HW
type: NODE
field: nodeid
flags: 0
---
filetype: table
filename: links.yaml
domain: HW
type: LINK
field: linkid
flags: 0
---
filetype: projection
type: file
filename: map.yaml
subdomain:
- {node}
- {{ domain: COMM, type: RANK, field: mpirank }}
flags: 0
---
filetype: projection
type: node link
node_policy: Source
link_policy: Source
subdomain:
- {node}
- {link}
flags: 0
...
"""
