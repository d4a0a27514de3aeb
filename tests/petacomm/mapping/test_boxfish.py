"""Tables for Boxfish: YAML headers, and sums of rows."""

from pathlib import Path

import numpy as np
import pytest

from petacomm.base.errors import ConfigError
from petacomm.mapping import Placement
from petacomm.mapping.boxfish import write_boxfish
from petacomm.mapping.graph_sources import grid_graph
from petacomm.mapping.metrics import placement_link_loads
from petacomm.topology import Torus, percs


def rows(path: Path) -> np.ndarray:
    """Return the rows of a table as Boxfish reads them: after the line of three dots, typed by the header."""
    head, body = path.read_text().split("\n...\n")
    fields = [line[3:-1].split(", ") for line in head.splitlines() if line.startswith("- [")]
    return np.loadtxt(body.splitlines(), dtype=np.dtype([(name, kind) for name, kind in fields]))


@pytest.mark.parametrize(("shape", "names"), [((2, 3, 4), "xyz"), ((2, 3, 2, 2, 3), "abcde")])
def test_tables_hold_links_and_places(tmp_path: Path, shape: tuple[int, ...], names: str) -> None:
    grid = Torus(shape)
    placed = Placement.random(grid, 2, seed=3)
    on_links = placement_link_loads(grid_graph((placed.n_ranks,), True, 100.0), placed, grid)
    written = write_boxfish(tmp_path / "new", grid, placed, on_links)
    assert [path.name for path in written] == ["meta.yaml", "nodes.yaml", "links.yaml", "map.yaml"]
    nodes, links, places = (rows(path) for path in written[1:])
    assert (
        np.stack([nodes[name] for name in names], 1).tolist()
        == grid.coordinates(np.arange(grid.n_nodes)).tolist()
    )
    source = grid.node_at(np.stack([links[f"s{name}"] for name in names], 1))
    target = grid.node_at(np.stack([links[f"t{name}"] for name in names], 1))
    assert [source.tolist(), target.tolist()] == [ends.tolist() for ends in grid.link_ends()]
    np.testing.assert_array_equal(links["bytes"], on_links)
    assert places["nodeid"].tolist() == placed.nodes.tolist()
    assert np.bincount(places["nodeid"]).tolist() == nodes["ranks"].tolist()
    meta = written[0].read_text()
    assert f"nodes: {grid.n_nodes}" in meta and f"coords: [{', '.join(names)}]" in meta


def test_only_grids_are_drawn(tmp_path: Path) -> None:
    network = percs(2)
    with pytest.raises(ConfigError, match="whole tori and meshes"):
        write_boxfish(tmp_path / "x", network, Placement.identity(network), np.zeros(network.n_links))
    assert not (tmp_path / "x").exists()
