"""Strategies side by side, always with what a launcher does unasked and the best of ten random placements."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.progress import Progress, Silent
from petacomm.base.typing import FloatArray
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.metrics import Metrics, measure
from petacomm.mapping.placement import Placement
from petacomm.mapping.refinement import refine
from petacomm.mapping.strategies import STRATEGIES, Site, check_room, place, strategy

AUTO = "auto"
# Of these "auto" refines the one with the smallest largest load: they need no other package.
_CANDIDATES = ("identity", "greedy", "recursive", "folded")
_RANDOM = 10
IDENTITY, RANDOM = "identity", f"best of {_RANDOM} random"


@dataclass(frozen=True)
class Found:
    """A placement, what it does to the links, and how long it took to find.

    Attributes
    ----------
    name : str
        The strategy.
    refined : bool
    placement : Placement
    metrics : Metrics
    seconds : float
    """

    name: str
    refined: bool
    placement: Placement
    metrics: Metrics
    seconds: float

    @property
    def load(self) -> float:
        """What is made small: seconds of the busiest link where capacities are known, else its bytes."""
        return self.metrics.largest_time or self.metrics.largest_load

    @property
    def title(self) -> str:
        """The name, and whether it is refined."""
        return f"{self.name}, refined" if self.refined else self.name


@dataclass(frozen=True)
class Task:
    """What is to be placed where.

    Attributes
    ----------
    graph : CommunicationGraph
    site : Site
    capacity : float64 (n_links,), optional
        Bytes a second of each link.
    seed : int
    """

    graph: CommunicationGraph
    site: Site
    capacity: FloatArray | None = None
    seed: int = 0

    def measured(self, name: str, placement: Placement, begin: float, refined: bool = False) -> Found:
        """Return a placement with its metrics, found since `begin` of `time.perf_counter`."""
        seconds = time.perf_counter() - begin
        metrics = measure(self.graph, placement, self.site.network, self.capacity)
        return Found(name, refined, placement, metrics, seconds)

    def placed(self, name: str) -> Found:
        """Return what a strategy finds, not refined."""
        begin = time.perf_counter()
        return self.measured(name, place(name, self.graph, self.site, self.seed), begin)

    def refined(self, found: Found, n_moves: int | None = None) -> Found:
        """Return what refinement makes of it; its seconds are those of both."""
        begin = time.perf_counter() - found.seconds
        better = refine(
            self.graph, found.placement, self.site, capacity=self.capacity, n_moves=n_moves, seed=self.seed
        )
        return self.measured(found.name, better, begin, refined=True)

    def yardsticks(self) -> list[Found]:
        """Return what is always shown: identity, and the best of ten random placements."""
        check_room(self.graph.n_ranks, self.site)
        drawn = []
        for number in range(_RANDOM):
            begin = time.perf_counter()
            nodes = place("random", self.graph, self.site, self.seed + number)
            drawn.append(self.measured(RANDOM, nodes, begin))
        return [self.placed(IDENTITY), min(drawn, key=lambda found: found.load)]


@dataclass(frozen=True)
class Mapping:
    """A chosen placement beside the yardsticks.

    Attributes
    ----------
    chosen : Found
    identity, random : Found
    """

    chosen: Found
    identity: Found
    random: Found

    @property
    def rows(self) -> list[Found]:
        """All three, the chosen one last."""
        return [self.identity, self.random, self.chosen]

    @property
    def gains(self) -> bool:
        """Whether the chosen one is better than both yardsticks."""
        return self.chosen.load < min(self.identity.load, self.random.load)


def map_ranks(
    task: Task, name: str = AUTO, *, refined: bool = True, progress: Progress | None = None
) -> Mapping:
    """Place the ranks of a graph.

    Parameters
    ----------
    task : Task
    name : str
        A strategy; or "auto": of identity, greedy, recursive and, where it fits, folded that with the
        smallest largest load.
    refined : bool
        Whether refinement follows.
    progress : Progress, optional

    Raises
    ------
    ConfigError
        If the strategy is unknown or cannot be used, or ranks do not fit.
    """
    listener = progress or Silent()
    if name == AUTO:
        candidates = [one for one in _CANDIDATES if not STRATEGIES[one].lacks(task.graph, task.site)]
    else:
        strategy(name)
        candidates = [name]
    listener.begin("mapping", len(candidates) + 1 + refined, "placements")
    identity, random = task.yardsticks()
    listener.advance(1, "identity and random")
    found = []
    for candidate in candidates:
        found.append(identity if candidate == IDENTITY else task.placed(candidate))
        listener.advance(1, candidate)
    chosen = min(found, key=lambda one: one.load)
    if refined:
        chosen = task.refined(chosen)
        listener.advance(1, "refined")
    listener.end()
    return Mapping(chosen, identity, random)


def compare(
    task: Task, names: Sequence[str] | None = None, *, progress: Progress | None = None
) -> tuple[list[Found], dict[str, str]]:
    """Return what strategies find, each as it is and refined, after the yardsticks.

    Parameters
    ----------
    task : Task
    names : sequence of str, optional
        By default all that can be used here.
    progress : Progress, optional

    Returns
    -------
    list of Found
        Identity and random first.
    dict of str to str
        Why others cannot be used, by name.

    Raises
    ------
    ConfigError
        If a named strategy is unknown or cannot be used, or ranks do not fit.
    """
    chosen = [name for name in STRATEGIES if name != "random"] if names is None else list(names)
    for name in names or ():
        if name not in STRATEGIES:
            raise ConfigError(f"unknown strategy '{name}'", mend=did_you_mean(name, list(STRATEGIES)))
        strategy(name)
    reasons = {name: STRATEGIES[name].lacks(task.graph, task.site) for name in chosen}
    lacking = {name: reason for name, reason in reasons.items() if reason}
    usable = [name for name in chosen if name not in lacking]
    listener = progress or Silent()
    listener.begin("mapping", 1 + len(usable), "strategies")
    rows = task.yardsticks()
    listener.advance(1, "identity and random")
    for name in usable:
        found = rows[0] if name == IDENTITY else task.placed(name)
        rows += [found] if found is not rows[0] else []
        rows.append(task.refined(found))
        listener.advance(1, name)
    listener.end()
    return rows, lacking
