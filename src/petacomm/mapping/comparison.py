"""Mapping by strategies, and their comparison with the identity and the best of ten random placements."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.arguments import require_instance, require_integer, require_real, require_text
from petacomm.base.display import Displayed
from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.typing import FloatArray
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.metrics import MappingMetrics, mapping_metrics, require_capacities
from petacomm.mapping.node_counts import with_node_counts
from petacomm.mapping.placement import Placement, check_capacity
from petacomm.mapping.refinement import refine_placement
from petacomm.mapping.strategies import STRATEGIES, Resources, get_strategy, place_ranks

AUTO = "auto"
# Strategies among which "auto" chooses; they need no other package.
_CANDIDATES = ("identity", "cyclic", "greedy", "recursive", "folded", "blocks")
_RANDOM = 10
_ROUNDING = 1e-9  # of loads that are summed in another order
IDENTITY, RANDOM = "identity", f"best of {_RANDOM} random"


@dataclass(frozen=True)
class MeasuredPlacement:
    """A placement with its metrics and computing time.

    Attributes
    ----------
    name : str
        Name of the strategy.
    refined : bool
    placement : Placement
    metrics : MappingMetrics
    seconds : float
        Time in which the placement was computed.
    """

    name: str
    refined: bool
    placement: Placement
    metrics: MappingMetrics
    seconds: float

    @property
    def load(self) -> float:
        """Objective of the metrics, to be minimized."""
        return self.metrics.objective

    @property
    def objectives(self) -> tuple[float, float]:
        """What placements are compared by, in this order: the load, then hop-bytes."""
        return self.load, self.metrics.hop_bytes

    @property
    def label(self) -> str:
        """Name of the strategy, and whether the placement is refined."""
        return f"{self.name}, refined" if self.refined else self.name


@dataclass(frozen=True)
class MappingTask:
    """Input of the mapping strategies.

    Parameters
    ----------
    graph : CommunicationGraph
    resources : Resources
        Network and slots of its nodes.
    capacity : float64 (n_links,) or (n_links + 2 n_nodes,), optional
        Bandwidth of each link, in bytes per second; the longer one, where the network does not number the
        links between nodes and switches, has each of these from its node, then each to it.
    seed : int
    routing : str
        Routing by which link loads are measured, as in `routed_link_loads`; refinement takes shortest routes.

    Raises
    ------
    ConfigError
        If a link has no bandwidth above 0.

    Examples
    --------
    >>> import petacomm
    >>> graph = petacomm.CommunicationGraph.from_edges(2, [0], [1], [100])
    >>> petacomm.MappingTask(graph, petacomm.Resources(petacomm.Torus((2,)))).seed
    0
    """

    graph: CommunicationGraph
    resources: Resources
    capacity: FloatArray | None = None
    seed: int = 0
    routing: str = "minimal"

    def __post_init__(self) -> None:
        require_instance(self.graph, "graph", CommunicationGraph, "read one by read_graph")
        require_instance(self.resources, "resources", Resources, "give Resources(network, ranks_per_node)")
        require_integer(self.seed, "seed", 0)
        if self.capacity is not None:
            object.__setattr__(self, "capacity", require_capacities(self.capacity, self.resources.network))

    def measure(
        self, name: str, placement: Placement, begin: float, refined: bool = False
    ) -> MeasuredPlacement:
        """Return a placement with its metrics and the time since `begin`, of `time.perf_counter`.

        Parameters
        ----------
        name : str
            Of the strategy.
        placement : Placement
        begin : float
            Seconds of `time.perf_counter`.
        refined : bool

        Returns
        -------
        MeasuredPlacement
        """
        require_instance(placement, "placement", Placement)
        seconds = time.perf_counter() - require_real(begin, "begin", 0.0, 1e300)
        network, capacity = self.resources.network, self.capacity
        metrics = mapping_metrics(self.graph, placement, network, capacity, self.routing)
        return MeasuredPlacement(name, refined, placement, metrics, seconds)

    def place(self, name: str) -> MeasuredPlacement:
        """Return the placement of a strategy, not refined.

        Parameters
        ----------
        name : str
            Of the strategy.

        Returns
        -------
        MeasuredPlacement
        """
        begin = time.perf_counter()
        return self.measure(name, place_ranks(name, self.graph, self.resources, self.seed), begin)

    def refine(self, measured: MeasuredPlacement, n_moves: int | None = None) -> MeasuredPlacement:
        """Return the refined placement; its computing time includes that of the original.

        Parameters
        ----------
        measured : MeasuredPlacement
        n_moves : int, optional

        Returns
        -------
        MeasuredPlacement
        """
        require_instance(measured, "measured", MeasuredPlacement)
        begin = time.perf_counter() - measured.seconds
        better = refine_placement(
            self.graph,
            measured.placement,
            self.resources,
            capacity=self.capacity,
            n_moves=n_moves,
            seed=self.seed,
        )
        refined = self.measure(measured.name, better, begin, refined=True)
        if refined.load <= measured.load * (1 + _ROUNDING):
            return refined
        # It has gone by shortest routes, and loads are those of detours.
        return self.measure(measured.name, measured.placement, begin, refined=True)

    def with_filled_nodes(self, measured: MeasuredPlacement) -> MeasuredPlacement:
        """Return a placement on the slots that a launcher fills by itself: nodes in turn, each to its end.

        Parameters
        ----------
        measured : MeasuredPlacement

        Returns
        -------
        MeasuredPlacement
            The identity where the fitted placement is no better.
        """
        require_instance(measured, "measured", MeasuredPlacement)
        begin = time.perf_counter() - measured.seconds
        network, identity = self.resources.network, self.place(IDENTITY)
        counts = np.bincount(identity.placement.nodes, minlength=network.n_nodes)
        nodes = with_node_counts(measured.placement.nodes, counts, self.graph, network)
        placement = Placement.from_nodes(nodes, network, self.resources.ranks_per_node)
        fitted = self.measure(measured.name, placement, begin, measured.refined)
        return min(fitted, identity, key=lambda one: one.objectives)

    def baselines(self) -> list[MeasuredPlacement]:
        """Return the baselines: the identity, and the best of ten random placements.

        Returns
        -------
        list of MeasuredPlacement
        """
        check_capacity(self.graph.n_ranks, self.resources.network, self.resources.ranks_per_node)
        random = []
        for number in range(_RANDOM):
            begin = time.perf_counter()
            nodes = place_ranks("random", self.graph, self.resources, self.seed + number)
            random.append(self.measure(RANDOM, nodes, begin))
        return [self.place(IDENTITY), min(random, key=lambda measured: measured.objectives)]


@dataclass(frozen=True, repr=False)
class MappingResult(Displayed):
    """The chosen placement and the baselines.

    Attributes
    ----------
    chosen : MeasuredPlacement
    identity, random : MeasuredPlacement
        Baselines.
    """

    chosen: MeasuredPlacement
    identity: MeasuredPlacement
    random: MeasuredPlacement

    def _facts(self) -> dict[str, object]:
        return {
            "ranks": len(self.chosen.placement.nodes),
            **{f"{row.name}_load": f"{row.load:.4g}" for row in (self.chosen, self.identity, self.random)},
        }

    @property
    def rows(self) -> list[MeasuredPlacement]:
        """All three placements, the chosen one last."""
        return [self.identity, self.random, self.chosen]

    @property
    def improves(self) -> bool:
        """Whether the chosen placement is better than both baselines."""
        return self.chosen.load < min(self.identity.load, self.random.load)


def map_ranks(
    task: MappingTask, name: str = AUTO, *, refined: bool = True, progress: Progress | None = None
) -> MappingResult:
    """Return a placement of the ranks of a graph, with the baselines.

    Parameters
    ----------
    task : MappingTask
    name : str
        Name of a strategy; or "auto": the one with the smallest largest load among identity, cyclic, greedy,
        recursive and, if applicable, folded and blocks.
    refined : bool
        Whether the placement is refined.
    progress : Progress, optional

    Returns
    -------
    MappingResult
        Its `chosen` has placement and metrics; its `rows` those of the baselines too.

    Raises
    ------
    ConfigError
        If the strategy is unknown or cannot be used, or ranks do not fit.

    Examples
    --------
    >>> import petacomm
    >>> from petacomm.mapping.graph_sources import grid_graph
    >>> task = petacomm.MappingTask(grid_graph([8, 8]), petacomm.Resources(petacomm.Torus((8, 8))))
    >>> result = petacomm.map_ranks(task)
    >>> result.chosen.placement.n_ranks
    64
    """
    require_instance(task, "task", MappingTask, "give MappingTask(graph, resources)")
    require_text(name, "name")
    require_instance(refined, "refined", bool)
    listener = progress or SilentProgress()
    if name == AUTO:
        candidates = [
            candidate
            for candidate in _CANDIDATES
            if not STRATEGIES[candidate].reason_unusable(task.graph, task.resources)
        ]
    else:
        get_strategy(name)
        candidates = [name]
    listener.begin("mapping", len(candidates) + 1 + refined, "placements")
    identity, random = task.baselines()
    listener.advance(1, "identity and random")
    placements = []
    for candidate in candidates:
        placements.append(identity if candidate == IDENTITY else task.place(candidate))
        listener.advance(1, candidate)
    chosen = min(placements, key=lambda measured: measured.objectives)
    if refined:
        chosen = task.refine(chosen)
        listener.advance(1, "refined")
    listener.end()
    return MappingResult(chosen, identity, random)


def compare_strategies(
    task: MappingTask, names: Sequence[str] | None = None, *, progress: Progress | None = None
) -> tuple[list[MeasuredPlacement], dict[str, str]]:
    """Return the placements of several strategies, with and without refinement, after the baselines.

    Parameters
    ----------
    task : MappingTask
    names : sequence of str, optional
        Names of strategies; by default all that can be used.
    progress : Progress, optional

    Returns
    -------
    list of MeasuredPlacement
        Identity and random first.
    dict of str to str
        Reasons why other strategies cannot be used, by name.

    Raises
    ------
    ConfigError
        If a named strategy is unknown or cannot be used, or ranks do not fit.
    """
    chosen = [name for name in STRATEGIES if name != "random"] if names is None else list(names)
    for name in names or ():
        get_strategy(name)
    reasons = {name: STRATEGIES[name].reason_unusable(task.graph, task.resources) for name in chosen}
    lacking = {name: reason for name, reason in reasons.items() if reason}
    usable = [name for name in chosen if name not in lacking]
    listener = progress or SilentProgress()
    listener.begin("mapping", 1 + len(usable), "strategies")
    rows = task.baselines()
    listener.advance(1, "identity and random")
    for name in usable:
        plain = rows[0] if name == IDENTITY else task.place(name)
        rows += [plain] if plain is not rows[0] else []
        rows.append(task.refine(plain))
        listener.advance(1, name)
    listener.end()
    return rows, lacking
