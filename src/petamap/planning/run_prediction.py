"""Prediction of a run with one distribution of its data over ranks of so many threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from petacomm.costs.forecast import Forecast
from petamap.mapmaking.distribution import STREAMS, Distribution
from petamap.planning.detectors_alike import UNPAIRED_SECONDS
from petamap.planning.model_sizes import with_model_sizes
from petamap.planning.rank_traffic import RankSizes


@dataclass(frozen=True)
class RunPrediction:
    """Prediction for one distribution of the data and number of threads.

    Attributes
    ----------
    distribution : Distribution
    threads : int
        Cores of a rank.
    forecast : Forecast
    seconds : dict of str to float
        Time of one reduction, by algorithm.
    memory, memory_kept : float
        Largest memory of a rank in bytes, with pointing recomputed and with pointing kept.
    sizes : RankSizes
        Of the rank that has most: what it sends is bounded by them (`MessageBounds`).
    without_skies : (float, float)
        Its memory without what skies take, with pointing recomputed and with pointing kept.
    unpaired : int
        Samples whose rank has one detector of a pair alone, of the rank that has most.
    """

    distribution: Distribution
    threads: int
    forecast: Forecast
    seconds: dict[str, float]
    memory: float
    memory_kept: float
    sizes: RankSizes
    without_skies: tuple[float, float]
    unpaired: int = 0

    @property
    def unpaired_seconds(self) -> float:
        """Seconds that they take more in an iteration than pairs."""
        return self.unpaired * UNPAIRED_SECONDS / self.threads

    @property
    def node_memory(self) -> float:
        """Largest memory of a node in bytes, with pointing recomputed."""
        return self.memory * min(self.forecast.size, self.forecast.ranks_per_node)

    @property
    def best(self) -> str:
        """Name of the fastest algorithm."""
        return min(self.seconds, key=lambda name: self.seconds[name])


def with_model(predictions: Sequence[RunPrediction], knots: float) -> list[RunPrediction]:
    """Return predictions with what the two-level preconditioner exchanges: its model has whole streams."""
    streams = {one.threads: one.sizes for one in predictions if one.distribution == STREAMS}
    return [
        replace(one, sizes=with_model_sizes(one.sizes, streams.get(one.threads), knots))
        for one in predictions
    ]
