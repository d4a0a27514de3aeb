"""Focal plane and noise model of a TOAST observation, read without a YAML loader."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, FloatArray
from petamap.data.formats.hdf5 import Hdf5Reader
from petamap.data.observation import DetectorNoise
from petamap.noise.model import OneOverF, TabulatedPsd

_TABLE = "instrument/focalplane"
_META = "instrument/focalplane.__table_column_meta__"
_META_LIMIT = 2**24  # bytes

# parts of the table's YAML that are needed: units of columns, and the sample rate
_COLUMN = re.compile(r"- \{name: (\S+?), unit: ([^,}]+), datatype")
_RATE = re.compile(r"- sample_rate: !astropy\.units\.Quantity\n\s+unit: (.+)\n\s+value: ([-+.\deE]+)\n")
_UNIT = re.compile(r"!astropy\.units\.Unit \{unit: ([^}]+)\}")


class ToastFocalplane:
    """Table of detectors, in the order of the observation.

    Raises
    ------
    DataError
        If a detector or a column is missing.
    """

    def __init__(self, reader: Hdf5Reader, detectors: tuple[str, ...]) -> None:
        self._reader = reader
        table = reader.array(_TABLE, "V", (None,))
        self._known = {_text(name): row for row, name in enumerate(self._column(table, "name"))}
        missing = [name for name in detectors if name not in self._known]
        if missing:
            raise DataError(f"lacks detector '{missing[0]}'", where=reader.where(_TABLE))
        self._table = table[[self._known[name] for name in detectors]]

    def quaternions(self) -> FloatArray:
        """Return detector quaternions (n_det, 4), scalar last."""
        values = self._column(self._table, "quat")
        if values.shape[1:] != (4,):
            raise DataError(f"column quat has shape {values.shape}", where=self._reader.where(_TABLE))
        return values.astype(np.float64)

    def values(self, name: str, unit: str = "") -> FloatArray | None:
        """Return a column in a unit, (n_det,), or None if there is no such column."""
        if name not in (self._table.dtype.names or ()):
            return None
        column = self._column(self._table, name)
        if column.ndim != 1 or column.dtype.kind not in "fiu":
            raise DataError(f"column {name} is not of numbers", where=self._reader.where(_TABLE))
        factor = unit_factor(self._units.get(name, unit), unit, self._reader.where(_TABLE, f"column {name}"))
        return column.astype(np.float64) * factor

    def sample_rate(self) -> float | None:
        """Return the sample rate in Hz, or None if the table does not have it."""
        match = _RATE.search(self._yaml)
        if not match:
            return None
        unit = match[1]
        if unit.startswith("*"):  # an alias of a unit defined before
            anchor = re.search(rf"&{re.escape(unit[1:].strip())} (.+)", self._yaml)
            unit = anchor[1] if anchor else ""
        named = _UNIT.search(unit)
        rate = float(match[2]) * unit_factor(named[1] if named else "Hz", "Hz", self._reader.where(_META))
        return rate if np.isfinite(rate) and rate > 0 else None

    @cached_property
    def _units(self) -> dict[str, str]:
        return dict(_COLUMN.findall(self._yaml))

    @cached_property
    def _yaml(self) -> str:
        if not self._reader.has(_META):
            return ""
        if self._reader.dataset(_META, "S", (None,)).n_bytes > _META_LIMIT:
            raise DataError("is too large to be believed", where=self._reader.where(_META))
        return "\n".join(_text(line) for line in self._reader.array(_META, "S")) + "\n"

    def _column(self, table: AnyArray, name: str) -> AnyArray:
        if name not in (table.dtype.names or ()):
            raise DataError(f"lacks the column '{name}'", where=self._reader.where(_TABLE))
        return table[name]


def noise_from_focalplane(focalplane: ToastFocalplane, unit: str) -> DetectorNoise | None:
    """Return the noise given by the columns psd_* of the focal plane, or None if there are none."""
    net = focalplane.values("psd_net", f"{unit} s(1/2)")
    if net is None:
        return None
    fknee, fmin = focalplane.values("psd_fknee", "Hz"), focalplane.values("psd_fmin", "Hz")
    alpha = focalplane.values("psd_alpha")
    if fknee is None or fmin is None or alpha is None:
        return DetectorNoise(tuple(OneOverF(float(level)) for level in net))
    rows = np.stack([net, fknee, fmin, -alpha], axis=1).tolist()
    return DetectorNoise(tuple(OneOverF(*row) for row in rows))


def noise_from_model(reader: Hdf5Reader, group: str, detectors: tuple[str, ...], unit: str) -> DetectorNoise:
    """Return the noise of a TOAST noise model: the analytic one if there is one, else its tables.

    TOAST's densities equal the square of the white level of a detector: half of the one-sided PSD of
    `petamap.noise.model`. Streams that are mixed into a detector are added with their squared weights;
    correlations between detectors are ignored.

    Raises
    ------
    DataError
        If a detector has no noise.
    """
    if reader.has(f"{group}/analytic"):
        return _analytic(reader, f"{group}/analytic", detectors, unit)
    tables = _tables(reader, group, unit)
    streams: dict[str, list[tuple[str, float]]] = {}
    for row in reader.array(f"{group}/mixing_matrix", "V", (None,)).tolist():
        streams.setdefault(_text(row[0]), []).append((_text(row[1]), float(row[2])))
    models = [
        _mixed(streams.get(name, []), tables, reader.where(group, f"detector {name}")) for name in detectors
    ]
    return DetectorNoise(tuple(models))


def _analytic(reader: Hdf5Reader, name: str, detectors: tuple[str, ...], unit: str) -> DetectorNoise:
    factor = unit_factor("K s(1/2)", f"{unit} s(1/2)", reader.where(name))
    rows = {_text(row[0]): row[1:] for row in reader.array(name, "V", (None,)).tolist()}
    models = []
    for detector in detectors:
        if detector not in rows:
            raise DataError(f"lacks detector '{detector}'", where=reader.where(name))
        _, fmin, fknee, alpha, net = (float(value) for value in rows[detector])
        models.append(OneOverF(net * factor, fknee, fmin, -alpha))
    return DetectorNoise(tuple(models))


def _tables(reader: Hdf5Reader, group: str, unit: str) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return frequencies and one-sided PSDs by stream; the names of datasets are hashes."""
    stored = reader.attribute(group, "psd_units", str)
    factor = 2 * unit_factor(stored, f"{unit}2 s", reader.where(group))
    tables = {}
    for keys in (name for name in reader.names(group) if name.endswith("_keys")):
        name = keys.removesuffix("_keys")
        values = reader.array(f"{group}/{name}", "f", (None, None)).astype(np.float64)
        names = reader.array(f"{group}/{keys}", "S", (len(values) - 1,))
        above = values[0] > 0
        for key, density in zip(names, values[1:], strict=True):
            tables[_text(key)] = values[0][above], factor * density[above]
    return tables


def _mixed(streams: list[tuple[str, float]], tables: dict[str, Any], where: str) -> TabulatedPsd:
    parts = [(tables[key], weight**2) for key, weight in streams if key in tables]
    return mixed_psd(parts if len(parts) == len(streams) else [], where)


def mixed_psd(parts: Sequence[tuple[tuple[FloatArray, FloatArray], float]], where: str) -> TabulatedPsd:
    """Return the sum of spectra, given as frequencies and values, by their weights.

    Raises
    ------
    DataError
        If there are none, or their frequencies differ.
    """
    if not parts:
        raise DataError("has no noise spectrum", where=where)
    (frequencies, _), _ = parts[0]
    if any(not np.array_equal(frequencies, table[0]) for table, _ in parts):
        raise DataError("mixes noise streams tabulated at different frequencies", where=where)
    return TabulatedPsd(frequencies, np.sum([weight * table[1] for table, weight in parts], axis=0))


def unit_factor(unit: str, wanted: str, where: str) -> float:
    """Return the factor from the unit in a file to the wanted unit.

    Raises
    ------
    DataError
        If the unit in the file is unknown or of another dimension.
    """
    if unit == wanted:
        return 1.0
    import warnings

    from astropy import units

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", units.UnitsWarning)
            return float(units.Unit(unit).to(units.Unit(wanted)))
    except (ValueError, TypeError, units.UnitsError) as error:
        raise DataError(f"unit '{unit}' cannot be turned into '{wanted}'", where=where) from error


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
