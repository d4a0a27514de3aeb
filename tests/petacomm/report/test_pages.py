"""The page of placements: its data, and its rendering in a browser."""

import base64
import json
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from pages import BROWSER, run

from petacomm.mapping import CommunicationGraph, Placement, mapping_metrics
from petacomm.mapping.graph_sources import add_graphs, grid_graph, subgrid_alltoall_graph
from petacomm.mapping.metrics import placement_link_loads
from petacomm.report.gallery import openatom, pf3d
from petacomm.report.placement_page import (
    LabeledPlacement,
    PlacementComparison,
    minimaps,
    write_placement_page,
)
from petacomm.topology import Allocation, Network, Torus, load_machine, make_network, percs

GRID = Torus((4, 3, 2))


def make_comparison(network=GRID) -> PlacementComparison:
    graph = grid_graph((network.n_nodes,), True, 64.0)
    placed = {"before": Placement.identity(network), "after": Placement.random(network, seed=2)}
    shown = [
        LabeledPlacement(name, one, mapping_metrics(graph, one, network)) for name, one in placed.items()
    ]
    return PlacementComparison(
        "A <ring>", "Ranks in a ring.", graph, network, shown, {"More": (["a", "b"], [["x", "1 B"]])}
    )


def embedded(path: Path) -> dict:
    match = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL
    )
    assert match
    return json.loads(match.group(1))


@pytest.mark.parametrize("wrap", [True, False])
def test_minimaps_are_means_over_projected_links(wrap: bool) -> None:
    grid = Torus((3, 4, 2), wrap)
    graph = add_graphs([subgrid_alltoall_graph((3, 4, 2), [0, 1], 5.0), grid_graph((24,), True, 7.0)])
    on_links = placement_link_loads(graph, Placement.random(grid, seed=1), grid)
    source, _ = grid.link_ends()
    dimension, direction = np.empty((2, grid.n_links), int)
    for d, step in product(range(grid.n_dimensions), (1, -1)):
        links = grid.link(np.arange(grid.n_nodes), d, step)
        dimension[links[links >= 0]], direction[links[links >= 0]] = d, step
    for minimap in minimaps(grid, on_links):
        a, b = minimap["dimensions"]
        for key, along in (("down", a), ("across", b)):
            values = np.array(minimap[key]).reshape(minimap["shape"])
            # All links of the dimension are averaged in the projection: the sum is that of the means.
            depth = grid.n_nodes // values.size
            whole = on_links[dimension == along].sum() / 2 / depth
            assert values.sum() == pytest.approx(whole, abs=values.size * 0.05 + 1e-6)
            place = (1, 2)[:2] if values.shape[0] > 1 and values.shape[1] > 2 else (0, 0)
            here = [i for i in range(grid.n_links) if dimension[i] == along and direction[i] == 1
                    and tuple(grid.coordinates(source[i])[[a, b]]) == place]  # fmt: skip
            back = [int(grid.link(grid.neighbor(source[i], along, 1), along, -1)) for i in here]
            expected = (on_links[here].sum() + on_links[back].sum()) / 2 / depth if here else 0.0
            assert values[place] == pytest.approx(expected, abs=0.06)


def test_other_networks_have_no_minimaps(tmp_path: Path) -> None:
    network = percs(1)
    assert minimaps(network, np.zeros(network.n_links)) == []
    data = embedded(write_placement_page([make_comparison(network)], tmp_path / "p.html", "T"))
    assert data["scenes"][0]["placements"][0]["maps"] == []


@pytest.mark.parametrize(
    ("network", "routes"),
    [
        (GRID, "by the shortest way, dimension after dimension; half a ring both ways"),
        (Allocation(make_network(load_machine("frontier")), np.arange(8)), "by the shortest routes"),
    ],
)
def test_curves_begin_with_the_busiest_link(tmp_path: Path, network: Network, routes: str) -> None:
    """Links between nodes and their switches are among them: nodes of one switch load no others."""
    write_placement_page([make_comparison(network)], tmp_path / "a.html", "A")
    (scene,) = embedded(tmp_path / "a.html")["scenes"]
    for shown in scene["placements"]:
        assert shown["curve"][0] == [1, shown["metrics"]["largest_load"]]
    assert scene["routes"] == routes


def test_the_page_is_self_contained_and_escapes_text(tmp_path: Path) -> None:
    path = write_placement_page([make_comparison()], tmp_path / "new" / "page.html", "Title & more")
    text = path.read_text()
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)[^"']+""", text) and "@import" not in text
    assert "<title>Title &amp; more" in text and "A <ring>" not in text
    data = embedded(path)
    assert data["scenes"][0]["title"] == "A <ring>"
    squares = base64.b64decode(data["scenes"][0]["matrix"]["squares"])
    matrix = np.frombuffer(squares, np.uint8).reshape(24, 24)
    assert np.count_nonzero(matrix) == 48 and matrix[0, 1] == matrix[0, 23] == 255


def test_a_tilt_helps_one_communicator_and_not_all_at_once() -> None:
    comparison = pf3d()
    (_, rows) = next(iter(comparison.tables.values()))
    table = {(row[0], row[1]): [float(cell.split()[0]) for cell in row[2:]] for row in rows}
    for routing in ("dimension-ordered", "all-orders"):
        tiles, tilted = table["planes on tiles", routing], table["tiles, tilted twice", routing]
        assert tilted[0] <= tiles[0]  # a separate line of 8
        assert tilted[3] >= tiles[3]  # all at once
    tiles, tilted = table["planes on tiles", "all-orders"], table["tiles, tilted twice", "all-orders"]
    assert all(one < 0.8 * other for one, other in zip(tilted[:3], tiles[:3], strict=True))
    loads_of = [labeled.metrics.largest_load for labeled in comparison.placements]
    assert loads_of[1] < 0.7 * loads_of[0]  # tiles against identity


def test_nodes_of_pf3d_have_four_cores_each() -> None:
    # The poster's torus has 8 x 8 x 8 nodes; 8 x 8 x 32 is the box of their cores.
    comparison = pf3d()
    assert isinstance(comparison.network, Torus) and comparison.network.shape == (8, 8, 8)
    assert all((np.bincount(one.placement.nodes) == 4).all() for one in comparison.placements)
    assert all(one.metrics.internal_edges > 0 for one in comparison.placements[:2])


def test_prisms_of_openatom_unburden_the_busiest_link(tmp_path: Path) -> None:
    comparison = openatom()
    default, prisms = (labeled.metrics for labeled in comparison.placements)
    assert prisms.hop_bytes < 0.7 * default.hop_bytes and prisms.largest_load < 0.5 * default.largest_load
    placements = embedded(write_placement_page([comparison], tmp_path / "page.html", "T"))["scenes"][0][
        "placements"
    ]
    # Objects are on other ranks, so each placement has another matrix.
    assert placements[0]["matrix"]["squares"] != placements[1]["matrix"]["squares"]


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 1)])
def test_a_graph_of_nothing_has_a_page(tmp_path: Path, shape: tuple[int, ...]) -> None:
    network = Torus(shape)
    graph = CommunicationGraph.from_edges(network.n_nodes, [], [])
    placement = Placement.identity(network)
    shown = [LabeledPlacement("one", placement, mapping_metrics(graph, placement, network))]
    comparison = PlacementComparison("A", "B.", graph, network, shown, {})
    page = embedded(write_placement_page([comparison], tmp_path / "page.html", "T"))
    matrix = page["scenes"][0]["matrix"]
    assert matrix["largest"] == matrix["least"] == 0 and not any(base64.b64decode(matrix["squares"]))


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_browser_renders_it_without_errors(tmp_path: Path) -> None:
    path = write_placement_page(
        [make_comparison(), make_comparison(percs(1))], tmp_path / "page.html", "Title"
    )
    dom, said = run(path, tmp_path)
    assert not said, said
    # Three pairs of dimensions for two placements, and two matrices for each comparison.
    assert dom.count('class="minimap"') == 6 and dom.count('class="matrix"') == 4
