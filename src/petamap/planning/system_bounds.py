"""Upper bounds of what a rank sends for one system: that of maps, of bands or of components."""

from __future__ import annotations

from petamap.planning.component_bounds import ComponentBounds
from petamap.planning.message_bounds import MessageBounds
from petamap.planning.rank_traffic import RankSizes, Sent
from petamap.planning.reduction_bounds import choice_of_reduction, elementwise_max


def bound_system(sizes: RankSizes, iterations: int) -> dict[str, Sent]:
    """Bound each phase of a run without splits, with the reduction that it has or any that it may choose.

    Parameters
    ----------
    sizes : RankSizes
    iterations : int
        Of the solver.
    """
    kind = ComponentBounds if sizes.components else MessageBounds
    found = [kind(sizes, name).phases(iterations) for name in sizes.reductions]
    phases = {name: elementwise_max(*(one[name] for one in found)) for name in found[0]}
    if sizes.is_chosen and sizes.size > 1:
        plan = phases["reduction plan"]
        phases["reduction plan"] = plan.plus(choice_of_reduction(sizes, sizes.reductions))
    return phases
