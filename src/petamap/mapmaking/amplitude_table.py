"""The amplitudes of a solution, gathered into a table of all streams."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array
from petamap.data.formats.amplitudes import ALL, AmplitudeTable
from petamap.data.template import Sharing
from petamap.mapmaking.solution import Solution
from petamap.mapmaking.system import MapmakingSystem


def gather_amplitudes(system: MapmakingSystem, solution: Solution) -> AmplitudeTable | None:
    """Return the amplitudes of a solution on rank 0, None on others. Collective.

    Raises
    ------
    ValueError
        If the system has no templates.
    """
    projection, rows = system.projection, system.shared.gaps
    amplitudes = projection.amplitudes
    if amplitudes is None:
        raise ValueError("there are no templates")
    held = rows.scatter_fwd(solution.map.gaps)[:, 0]  # on all ranks: some may have no amplitudes
    values = (
        held[len(held) - amplitudes.n :] * amplitudes.scale * amplitudes.row_units() / amplitudes.divisors()
    )
    parts = rows.comm.gather((amplitudes.keys, values))
    if parts is None:
        return None
    keys, places = np.unique(np.concatenate([part[0] for part in parts]), return_index=True)
    return _named(system, keys, np.concatenate([part[1] for part in parts])[places])


def _named(system: MapmakingSystem, keys: Int64Array, values: FloatArray) -> AmplitudeTable:
    layout, amplitudes = system.layout, system.projection.amplitudes
    assert amplitudes is not None
    streams = layout.streams.holding(keys - layout.streams.n_keys)
    names: tuple[list[str], list[str], list[str]] = ([], [], [])
    intervals, numbers = np.zeros((2, len(keys)), np.int64)
    has_unit = np.ones(len(keys), np.bool_)
    for stream in np.unique(streams).tolist():
        one = layout.streams[stream]
        observation = system.projection.observations[one.observation]
        for template, own in zip(
            amplitudes.terms.templates(stream), amplitudes.terms.shared_keys(stream), strict=True
        ):
            places = np.searchsorted(keys, own)
            if streams[places[0]] != stream:  # another stream's, which is the first to have them
                continue
            sharing = getattr(template, "sharing", None) or Sharing()
            names[0].extend([ALL if sharing.time == "run" else observation.name] * len(own))
            names[1].extend([ALL if sharing.detectors else observation.detectors[one.detector]] * len(own))
            names[2].extend([template.name] * len(own))
            intervals[places] = one.interval if sharing.time == "interval" else -1
            numbers[places] = np.arange(len(own))
            has_unit[places] = getattr(template, "has_unit", True)
    return AmplitudeTable(*names, intervals, numbers, values, has_unit)
