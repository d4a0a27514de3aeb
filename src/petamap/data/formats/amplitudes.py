"""The amplitudes of templates as a file: a FITS table of all streams."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petamap.sky.checked_fits import open_checked, write_checked

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
    has_unit : bool (n,)
    unit : str
        Of those that have one.
    """

    observations: list[str]
    detectors: list[str]
    templates: list[str]
    intervals: Int64Array
    numbers: Int64Array
    values: FloatArray
    has_unit: BoolArray
    unit: str = ""

    def of(self, observation: str, detector: str, template: str, interval: int) -> FloatArray | None:
        """Return the amplitudes of a stream and template in the order of their numbers, or None without any.

        Those that it has in common with others are its own, too.
        """
        for key in itertools.product((observation, ALL), (detector, ALL), (template,), (interval, -1)):
            if key in self._places:
                found: FloatArray = self.values[np.array(self._places[key])]
                return found
        return None

    @cached_property
    def _places(self) -> dict[tuple[str, str, str, int], list[int]]:
        found: dict[tuple[str, str, str, int], list[int]] = {}
        names = zip(self.observations, self.detectors, self.templates, self.intervals.tolist(), strict=True)
        for place, key in sorted(enumerate(names), key=lambda one: int(self.numbers[one[0]])):
            found.setdefault(key, []).append(place)
        return found


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
    written = {name: list(map(_in_ascii, values)) for name, values in texts.items()}
    columns = [
        fits.Column(name, f"{max([1, *map(len, values)])}A", array=np.array(values))
        for name, values in written.items()
    ]
    columns += [
        fits.Column("INTERVAL", "K", array=table.intervals),
        fits.Column("NUMBER", "K", array=table.numbers),
        fits.Column("VALUE", "D", array=table.values),
    ]
    hdu = fits.BinTableHDU.from_columns(columns, name="AMPLITUDES")
    hdu.header["RUNID"] = (run_id, "run that made this table")
    hdu.header["CREATOR"] = "petamap"
    write_checked(path, [fits.PrimaryHDU(), hdu])


def read_amplitudes(path: str | os.PathLike[str]) -> AmplitudeTable:
    """Read amplitudes as `write_amplitudes` writes them.

    Raises
    ------
    DataError
        If the file is damaged or is none of amplitudes.
    """
    with open_checked(path, "table of amplitudes", "name NAME_amplitudes.fits of a run") as units:
        table = units["AMPLITUDES"].data
        texts = [
            [
                text.encode().decode("unicode_escape")
                for text in np.char.strip(np.asarray(table[key])).tolist()
            ]
            for key in ("OBSERVATION", "DETECTOR", "TEMPLATE", "UNIT")
        ]
        intervals, numbers = (np.asarray(table[key], np.int64) for key in ("INTERVAL", "NUMBER"))
        values = np.asarray(table["VALUE"], np.float64)
    observations, detectors, templates, of_each = texts
    has_unit = np.array([bool(unit) for unit in of_each], np.bool_)
    unit = next((unit for unit in of_each if unit), "")
    return AmplitudeTable(observations, detectors, templates, intervals, numbers, values, has_unit, unit)


def _in_ascii(text: str) -> str:
    r"""Return a name, which has no backslashes, as FITS can hold it: letters beyond ASCII as ``\u00e4``."""
    return text.encode("ascii", "backslashreplace").decode()
