"""The amplitudes of templates as a product: a table of all streams."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from petacomm.base.files import atomic_write
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petamap.data.template import Sharing
from petamap.mapmaking.solution import Solution
from petamap.mapmaking.system import MapmakingSystem

ALL = "all"


@dataclass(frozen=True)
class AmplitudeTable:
    """Amplitudes of the templates of a run, by observation, interval and detector.

    Attributes
    ----------
    observations, detectors, templates : list of str
        Names, of each amplitude; "all" where all have it in common.
    intervals, numbers : int64 (n,)
        Stationary interval of the observation, -1 where all have it in common; number among those of the
        template (`TemplateTerm`).
    values : float64 (n,)
        In the unit of the signal; of known signals, factors on them.
    """

    observations: list[str]
    detectors: list[str]
    templates: list[str]
    intervals: Int64Array
    numbers: Int64Array
    values: FloatArray
    has_unit: BoolArray


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
    held = rows.scatter_fwd(solution.map.gaps)[-amplitudes.n :, 0] if amplitudes.n else np.zeros(0)
    values = held * amplitudes.scale * amplitudes.row_units() / amplitudes.divisors()
    parts = rows.comm.gather((amplitudes.keys, values))
    if parts is None:
        return None
    keys, places = np.unique(np.concatenate([part[0] for part in parts]), return_index=True)
    return _named(system, keys, np.concatenate([part[1] for part in parts])[places])


def _named(system: MapmakingSystem, keys: Int64Array, values: FloatArray) -> AmplitudeTable:
    layout, amplitudes = system.layout, system.projection.amplitudes
    assert amplitudes is not None
    streams = np.searchsorted(layout.sample_keys, keys - layout.sample_keys[-1], side="right") - 1
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


def write_amplitudes(path: str | os.PathLike[str], table: AmplitudeTable, unit: str, run_id: str) -> None:
    """Write amplitudes atomically: a FITS table AMPLITUDES with a row for each.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    from astropy.io import fits

    texts = {
        "OBSERVATION": table.observations, "DETECTOR": table.detectors, "TEMPLATE": table.templates,
        "UNIT": [unit if one else "" for one in table.has_unit],
    }  # fmt: skip
    columns = [
        fits.Column(name, f"{max([1, *map(len, values)])}A", array=np.array(values))
        for name, values in texts.items()
    ]
    columns += [
        fits.Column("INTERVAL", "K", array=table.intervals),
        fits.Column("NUMBER", "K", array=table.numbers),
        fits.Column("VALUE", "D", array=table.values),
    ]
    hdu = fits.BinTableHDU.from_columns(columns, name="AMPLITUDES")
    hdu.header["RUNID"] = (run_id, "run that made this table")
    hdu.header["CREATOR"] = "petamap"
    hdus = fits.HDUList([fits.PrimaryHDU(), hdu])
    for one in hdus:
        one.add_checksum(when="")  # else the bytes would tell the time
    with atomic_write(path) as temporary:
        hdus.writeto(temporary, overwrite=True)
