"""The temperature of the run's own map, which leaks into detectors: rounds of maps until it is known.

Leakage of a detector is a factor on the map that is solved for, d = P m + lambda I + n with I of m itself. It
becomes linear with I of the last map: the first is made without leakage, and each further one with the
temperature of the one before. What a round leaves of an error of I is its part that factors of the order of
lambda make of it, so that two or three rounds do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress
from petacomm.base.timers import Timers
from petacomm.base.typing import FloatArray
from petacomm.mpi import Communicator, collect_on_nodes
from petamap.data.observation import Observation
from petamap.data.template import Template
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.mapmaking.system import MapmakingSystem
from petamap.sky.pixelization import Pixelization

if TYPE_CHECKING:
    from petamap.simulation.sky import Sky

# Rounds at most; the change of I that is small enough, relative, and the accuracy of the maps of rounds.
MOST_ROUNDS, CHANGE, _MAP_TOLERANCE = 6, 0.01, "10% of noise"
_AT_ONCE = 1 << 20  # pixels that are compared at once


def needs_own_temperature(observations: Sequence[Observation]) -> bool:
    """Return whether a template is of the temperature of the run's own map, which is not known yet."""
    return any(_is_open(template) for one in observations for template in one.templates)


def with_temperature(observations: Sequence[Observation], sky: Sky | None) -> list[Observation]:
    """Return observations whose open templates have the temperature of a sky, or are left out without one."""
    return [
        replace(one, templates=tuple(_known(one, template, sky) for template in one.templates
                                     if sky is not None or not _is_open(template)))
        for one in observations
    ]  # fmt: skip


def _is_open(template: Template) -> bool:
    from petamap.templates.known_signals import KnownSignal  # imported where there are templates

    return isinstance(template, KnownSignal) and template.signal is None


def _known(observation: Observation, template: Template, sky: Sky | None) -> Template:
    if sky is None or not _is_open(template):
        return template
    from petamap.simulation.sky import SkySignal
    from petamap.templates.known_signals import KnownSignal, temperature_pointing

    assert isinstance(template, KnownSignal)
    return replace(template, signal=SkySignal(sky, temperature_pointing(observation)))


@dataclass(frozen=True)
class OwnTemperature:
    """Rounds of maps that find the temperature which leaks (module docstring). Collective.

    Parameters
    ----------
    observations : sequence of Observation
    pixelization : Pixelization
    set_up : callable
        Return the system of observations; called on all ranks.
    max_iterations : int
        Of the solver.
    comm, timers, progress
        Of the run.
    """

    observations: Sequence[Observation]
    pixelization: Pixelization
    set_up: Callable[[Sequence[Observation]], MapmakingSystem]
    max_iterations: int
    comm: Communicator
    timers: Timers
    progress: Progress

    def find(self) -> tuple[list[Observation], float]:
        """Return the observations with the templates of the temperature found, and its last change.

        The change is that of I in the last round, relative, both rms over pixels. Collective.

        Raises
        ------
        ConfigError
            On all ranks, if the maps have no I.
        """
        change, last = np.inf, self._temperature(with_temperature(self.observations, None), 1)
        for number in range(2, MOST_ROUNDS + 1):
            found = self._temperature(with_temperature(self.observations, self._sky(last)), number)
            change, last = self._change(last, found), found
            if change <= CHANGE:
                break
        return with_temperature(self.observations, self._sky(last)), change

    def _change(self, last: FloatArray, found: FloatArray) -> float:
        """Return the rms of a change over that of what was before; rank 0 has looked at it. Collective."""
        ratio = 0.0
        if self.comm.rank == 0:
            parts = [slice(begin, begin + _AT_ONCE) for begin in range(0, len(last), _AT_ONCE)]
            before = sum(float(np.sum(last[part] ** 2)) for part in parts)
            moved = sum(float(np.sum((found[part] - last[part]) ** 2)) for part in parts)
            ratio = math.sqrt(moved / before) if before > 0 else 0.0
        return float(self.comm.bcast(ratio))

    def _sky(self, temperature: FloatArray) -> Sky:
        from petamap.simulation.sky import Sky

        return Sky.of_values(self.pixelization, temperature[:, None])

    def _temperature(self, observations: Sequence[Observation], number: int) -> FloatArray:
        """Return I of the maximum-likelihood map of all pixels, (n_pix,), zero where there is none.

        The ranks of a node share it.
        """
        system = self.set_up(observations)
        if "I" not in system.projection.stokes.value:
            raise ConfigError(
                "leakage of the temperature of the run's own map, which has none",
                mend='give the template a map, or set map.stokes = "IQU"',
            )
        self.progress.begin("own temperature")
        with self.timers.phase("own temperature"):
            rhs = right_hand_side(system)
            solution = system.solver().solve(rhs.unknowns, _MAP_TOLERANCE, self.max_iterations)
            if solution.error is not None:
                raise solution.error
            own = np.where(system.statistics.unsolved, 0.0, solution.map.pixels[:, 0])
            found = collect_on_nodes(self.comm, self.pixelization.n_pix, system.keys, own)
        self.progress.end(f"round {number}, {solution.iterations} iterations")
        return found
