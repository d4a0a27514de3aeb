"""Steps of OpenAtom predicted for the runs of Tables 7.2 to 7.4.

One number of each machine and mode is calibrated: the rate at which a core computes, such that the smallest
run of WATER_256M_70Ry with topology-aware maps takes its published time. All else is predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from petacomm.mapping import Placement
from petacomm.mapping.job_time import PhaseTime, idle_share, predict_phases
from petacomm.mapping.openatom import (
    WATER_256,
    MolecularSystem,
    ObjectMaps,
    default_maps,
    step_phases,
    topology_maps,
)
from petacomm.papers.bhatele2010.runs import PublishedRun
from petacomm.topology import TopologyManager, load_machine

MAPS = (default_maps, topology_maps)


@dataclass(frozen=True)
class PredictedStep:
    """The step of a run, with the default maps and with the topology-aware maps.

    Attributes
    ----------
    run : PublishedRun
    calibrated : bool
        Whether the time with topology-aware maps is that by which the rate was calibrated.
    phases : two of list of PhaseTime
    """

    run: PublishedRun
    calibrated: bool
    phases: tuple[list[PhaseTime], list[PhaseTime]]

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds of the step, phases and their parts one after the other."""
        return step_seconds(self.phases[0]), step_seconds(self.phases[1])

    @property
    def idle(self) -> tuple[float, float]:
        """Parts of the step in which cores are idle."""
        first, second = (
            idle_share(times, seconds) for times, seconds in zip(self.phases, self.seconds, strict=True)
        )
        return first, second

    @property
    def idle_published(self) -> tuple[float, float]:
        """Parts of the published times in which cores are idle if they compute and send as predicted."""
        published = self.run.default, self.run.topology
        first, second = (
            idle_share(times, seconds) for times, seconds in zip(self.phases, published, strict=True)
        )
        return first, second


def step_seconds(phases: Sequence[PhaseTime]) -> float:
    """Return the seconds of phases one after the other, communication after computation."""
    return sum(phase.in_turn for phase in phases)


def predict_steps(runs: Sequence[PublishedRun]) -> tuple[list[PredictedStep], dict[str, float]]:
    """Return the predicted steps of runs, and the rates of a core that were calibrated, by machine.

    Parameters
    ----------
    runs : sequence of PublishedRun
        With a run of WATER_256M_70Ry on each machine; the first of these calibrates its rate.
    """
    counted = [tuple(_count_step(run, make) for make in MAPS) for run in runs]
    first: dict[str, int] = {}
    for index, run in enumerate(runs):
        if run.system.name == WATER_256.name:
            first.setdefault(run.machine, index)
    rates = {
        machine: _calibrated_rate(counted[index][1], runs[index].topology) for machine, index in first.items()
    }
    steps = []
    for index, run in enumerate(runs):
        default, topology = (_at_rate(times, rates[run.machine]) for times in counted[index])
        steps.append(PredictedStep(run, first[run.machine] == index, (default, topology)))
    return steps, rates


def _count_step(
    run: PublishedRun, make: Callable[[TopologyManager, MolecularSystem], ObjectMaps]
) -> list[PhaseTime]:
    """Return the phases of a step, with a floating-point operation a second."""
    manager = run.allocation()
    phases = step_phases(manager, make(manager, run.system), run.system, 1.0)
    placement = Placement.from_nodes(manager.nodes, manager.network, manager.ranks_per_node)
    return predict_phases(phases, placement, manager.network, load_machine(run.machine_file))


def _calibrated_rate(counted: Sequence[PhaseTime], seconds: float) -> float:
    communication = sum(phase.communication for phase in counted)
    return sum(phase.work for phase in counted) / (seconds - communication)


def _at_rate(counted: Sequence[PhaseTime], rate: float) -> list[PhaseTime]:
    return [replace(phase, work=phase.work / rate, mean_work=phase.mean_work / rate) for phase in counted]
