"""Comparison of published numbers with reproduced ones, and inconsistencies among the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from petacomm.topology import load_machine
from petamap.papers.sudarsan2011.costs import VALUES, Costs, closed_form_speedup, modelled_ratio
from petamap.papers.sudarsan2011.overlaps import RankOverlaps
from petamap.papers.sudarsan2011.published import Sudarsan2011Data

if TYPE_CHECKING:
    from petamap.papers.sudarsan2011.figures import KeyDistribution


# What a number of ours is. Only predicted ones are counted.
PREDICTED = "predicted"
BOUND = "bound"
FROM_PUBLISHED = "from the published value"  # it takes all or a part from results that the source states
_NEAR = 2.0  # factor within which a predicted number counts as near the published one


@dataclass(frozen=True)
class PublishedComparison:
    """A published number and its reproduction. The attributes are also the keys of its JSON.

    Attributes
    ----------
    figure : int
    what, machine, section : str
    published : tuple of float
        One number, or the limits of a range.
    ours : float
    why : str
        Reason for a difference; may be empty.
    bound : str
        "" for a value, "below" for an upper bound, "almost" for an approximate statement.
    error : float
        Standard error of `ours` due to the sample of the sky.
    kind : str
        What `ours` is: ``predicted``, a ``bound``, or ``from the published value``.
    """

    figure: int
    what: str
    machine: str
    section: str
    published: tuple[float, ...]
    ours: float
    why: str = ""
    bound: str = ""
    error: float = 0.0
    kind: str = PREDICTED

    @property
    def is_near(self) -> bool:
        """Whether `ours` is below a published upper bound, or else within a factor of two of the number."""
        low, high = self.published[0], self.published[-1]
        return self.ours < high if self.bound == "below" else low / _NEAR <= self.ours <= high * _NEAR


def summarize_comparisons(comparisons: Sequence[PublishedComparison]) -> str:
    """Return a line that counts the predicted numbers, and how many are near the published ones."""
    predicted = [row for row in comparisons if row.kind == PREDICTED]
    others = [f"{sum(row.kind == kind for row in comparisons)} {kind}" for kind in (BOUND, FROM_PUBLISHED)]
    return (
        f"{sum(row.is_near for row in predicted)} of {len(predicted)} predicted numbers within a factor of "
        f"{_NEAR:g} of the published ones, or below their bounds; not counted: {', '.join(others)}"
    )


def compare_with_published(
    paper: Sudarsan2011Data,
    overlaps: Sequence[RankOverlaps],
    spreads: Sequence[KeyDistribution],
    costs: Costs,
) -> list[PublishedComparison]:
    """Return all comparisons, sorted by figure."""
    rows = _of_overlaps(paper, overlaps, spreads) + _of_ratios(paper, costs)
    rows += _of_closed_forms(paper) + _of_sustained(paper) + _of_set_up(paper, costs)
    rows += _of_overall(paper, costs)
    return sorted(rows, key=lambda comparison: comparison.figure)


_SCAN = (
    "the scan, the positions of the detectors and the ranks of the figure are not in the text; here the axis "
    "moves steadily, and each pair of detectors, 45' apart, scans separate rings"
)
_UNITS = f"{_SCAN}; if n_all counts pixels and N_p values, three of a pixel, ours are a third of this"


def _of_overlaps(
    paper: Sudarsan2011Data, overlaps: Sequence[RankOverlaps], spreads: Sequence[KeyDistribution]
) -> list[PublishedComparison]:
    facts = paper.overlaps
    section, last, few = facts["section"], facts["shared_with"], facts["few"]
    rows = []
    for overlap in overlaps:
        where = f"{overlap.size:,} ranks"
        rows += [
            PublishedComparison(
                2, f"part of the keys of rank 0 that ranks 1 to {last} hold too", where, section,
                (facts["shared_part"],), overlap.shared_part(last), _SCAN,
            ),
            PublishedComparison(
                2, f"part of the ranks that share fewer than {few} keys with it", where, section,
                (1.0,), overlap.few_part(few // VALUES), _SCAN, "almost",
            ),
            PublishedComparison(
                2, "sum of overlaps of rank 0, over its keys", where, section,
                (facts["sum_bound"],), overlap.sum_over_keys, _SCAN, "below",
            ),
        ]  # fmt: skip
    for spread in spreads:
        if spread.cores <= facts["all_up_to"] * 1.1:
            estimate = spread.all_over_map
            rows.append(
                PublishedComparison(
                    2, "n_all over N_p, all detectors", f"{spread.cores:,} ranks", section,
                    tuple(facts["all_over_map"]), estimate.value, _UNITS, error=estimate.error,
                )
            )  # fmt: skip
    return rows


_NEGLECTED = "the model has no congestion, no jitter and no imbalance"
_AMORTISED = "communication speed-up, set-up amortised"
_WHY = {
    "communication speed-up, set-up included": f"{_NEGLECTED}, nor the work of sifting",
    "communication of unthreaded allreduce, in Franklin's": "the model has Table 2's bandwidth shared by "
    "the ranks of a node; collectives sustained less, and not in proportion",
    "less communication by threads alone": "in the model fewer ranks on a node send less off it and fill and "
    "sum fewer buffers; what MPI made of it differed from machine to machine",
    "communication of threaded allreduce, in Franklin's": "as for unthreaded",
    "communication of threaded allgather, in Franklin's": "the text's own ratios give 0.61 with the set-up "
    "and 0.32 without",
    _AMORTISED: f"{_NEGLECTED}; and ranks of our scan share more keys than those of the source (Figure 2)",
}


def _of_ratios(paper: Sudarsan2011Data, costs: Costs) -> list[PublishedComparison]:
    rows = []
    for ratio in paper.ratios:
        ours = modelled_ratio(ratio, costs, paper.study["iterations"])
        rows += [
            PublishedComparison(
                ratio.figure, ratio.name, name, ratio.section, (value,), ours[name], _WHY[ratio.name]
            )
            for name, value in ratio.values.items()
        ]
    return rows


def _of_closed_forms(paper: Sudarsan2011Data) -> list[PublishedComparison]:
    """Return the speed-ups by the closed forms, with the published bounds of the overlaps."""
    ratio = paper.ratio(6, "unthreaded allreduce", "threaded allgather", set_up=False)
    n_all = sum(paper.overlaps["all_over_map"]) / 2
    bounds = paper.study["map_values"], n_all, paper.overlaps["sum_bound"]
    why = f"{_NEGLECTED}: with what the text says of overlaps and Table 2 of machines it promises far more"
    return [
        PublishedComparison(
            6, f"{_AMORTISED}: closed forms of 3.2 and 3.3 with n_all = {n_all:g} N_p", name, ratio.section,
            (value,), closed_form_speedup(load_machine(name), paper.hosts[name], *bounds), why,
            kind=FROM_PUBLISHED,
        )
        for name, value in ratio.values.items()
    ]  # fmt: skip


def _of_sustained(paper: Sudarsan2011Data) -> list[PublishedComparison]:
    """Return the sustained bandwidth of a process on Franklin, compared with its share of the peak."""
    machine = load_machine("franklin")
    rows = []
    for version, value in paper.sustained.items():
        shared = version == "unthreaded allreduce"
        most = machine.bandwidth / (machine.cores if shared else 1)
        why = "ours: Table 2's point-to-point bandwidth, the most there can be; the ranks of a node "
        why += "share it, but in a ring one of them alone sends off the node"
        what = f"sustained by a process, {version}, GB/s"
        told = (value / 1e9,)
        rows.append(PublishedComparison(5, what, machine.name, "5.2", told, most / 1e9, why, kind=BOUND))
    return rows


def _of_set_up(paper: Sudarsan2011Data, costs: Costs) -> list[PublishedComparison]:
    """Return the fraction of communication that is set-up, as implied by the two published speed-ups."""
    versions = "unthreaded allreduce", "threaded allgather"
    with_it, without = paper.ratio(4, *versions), paper.ratio(6, *versions, set_up=False)
    rows = []
    for name, value in with_it.values.items():
        cost = costs[name]["threaded allgather"][-1]
        total = cost.core_seconds(paper.study["iterations"])
        ours = cost.cores * cost.set_up / total
        rows.append(
            PublishedComparison(
                6, "part of the communication of threaded allgather that is set-up", name, "5.1, 5.3",
                (1 - value / without.values[name],), ours,
                "published: what the two speed-ups imply; the model leaves out the sifting, and its sum is "
                "slower as ranks share more",
            )
        )  # fmt: skip
    return rows


def _of_overall(paper: Sudarsan2011Data, costs: Costs) -> list[PublishedComparison]:
    """Return the overall speed-up with the modelled communication, and all else as published.

    If a run is S times faster and a fraction f of it is communication, which is c times faster, replacing c
    by c' makes the run S / (1 - f + f c / c') times faster.
    """
    ratio = paper.ratio(6, "unthreaded allreduce", "threaded allgather", set_up=False)
    part = sum(paper.overall["communication_part"]) / 2
    ours = modelled_ratio(ratio, costs, paper.study["iterations"])
    return [
        PublishedComparison(
            6, "overall speed-up, set-up amortised", name, paper.overall["section"], (speed_up,),
            speed_up / (1 - part + part * ratio.values[name] / ours[name]),
            "ours: the published run with the model's communication for its own 3 %",
            kind=FROM_PUBLISHED,
        )
        for name, speed_up in paper.overall["values"].items()
    ]  # fmt: skip


def published_inconsistencies(paper: Sudarsan2011Data) -> list[str]:
    """Return descriptions of the contradictions among the published numbers."""
    less = paper.ratio(4, "unthreaded allreduce", "threaded allreduce").values
    first = paper.ratio(4, "unthreaded allreduce", None).values
    second = paper.ratio(4, "threaded allreduce", None).values
    third = paper.ratio(4, "threaded allgather", None).values["jaguar"]
    with_it = paper.ratio(4, "unthreaded allreduce", "threaded allgather").values
    without = paper.ratio(6, "unthreaded allreduce", "threaded allgather", set_up=False).values
    recomputed = {name: first[name] / less[name] * less["franklin"] for name in second}
    printed = ", ".join(f"{name} {second[name]:g} and {recomputed[name]:.2f}" for name in second)
    implied = [first["jaguar"] / s["jaguar"] * s["franklin"] for s in (with_it, without)]
    sustained = paper.sustained
    factors = [sustained[f"threaded {v}"] / sustained[f"unthreaded {v}"] for v in ("allreduce", "allgather")]
    low, high = paper.overall["communication_part"]
    share = [without["jaguar"] * part / paper.overall["values"]["jaguar"] for part in (low, high)]
    hopper = load_machine("hopper").cores
    return [
        "Section 4.1 announces eight concurrencies; from 256 to 16384 there are seven powers of two.",
        "Section 5.2 says that threads raise the sustained bandwidth by a factor of "
        f"{paper.threading_factor:g} for both collectives; its own numbers give {factors[0]:.2f} for "
        f"allreduce and {factors[1]:.2f} for allgather.",
        f"Threaded allreduce in Franklin's, printed in 5.2 and recomputed from its other ratios: {printed}.",
        f"Threaded allgather is said to be {1 / third:.2f} times quicker on Jaguar than on Franklin; the "
        f"other ratios give {1 / implied[0]:.2f} with the set-up and {1 / implied[1]:.2f} without.",
        f"Hopper has {paper.hosts['hopper'].ranks_per_node} ranks a node in 5.2, and {hopper} cores a node "
        "in Table 2 and section 4.2.",
        f"If communication is {low:.0%} to {high:.0%} of the quicker run, it was {share[0]:.0%} to "
        f"{share[1]:.0%} of the slower one on Jaguar: more than all of it.",
    ]
