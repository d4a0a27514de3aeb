"""Focal planes: positions, polarization angles, beams and noise of detectors; TOML, XML and RIMO files."""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.display import Displayed, some_names
from petacomm.base.errors import ConfigError, DataError, UserError, did_you_mean, located
from petacomm.base.files import read_text
from petacomm.base.name_patterns import choose_names
from petacomm.base.toml import parse_toml
from petacomm.base.typing import FloatArray
from petacomm.base.units import ARCMIN, DEGREE, parse_quantity
from petacomm.base.xml_text import parse_xml
from petamap.pointing import quaternion
from petamap.sky.checked_fits import open_fits, verify_checksums


@dataclass(frozen=True)
class Detector:
    """Detector: position in the focal plane, polarization, beam and noise.

    The quaternion from the detector frame (Z the line of sight, X the polarization axis) to the telescope
    frame is ``Rz(phi) Ry(theta) Rz(psi - phi)``: psi is the angle from X of the telescope to the polarization
    axis, parallel-transported along the great circle from the boresight.

    Attributes
    ----------
    name : str
    theta, phi : float
        Distance from the boresight, and azimuth from X towards Y; radians.
    psi : float
        Polarization angle in the focal plane, radians.
    epsilon : float
        Cross-polar leakage, 0 to 1; the polarization efficiency is (1 - epsilon) / (1 + epsilon).
    fwhm : float
        Full width at half maximum of the beam, radians.
    net : float
        Noise-equivalent temperature, K_CMB s^1/2.
    fknee, fmin : float
        Knee frequency and lower cut-off of the 1/f noise, Hz.
    alpha : float
        Slope of the noise PSD at low frequency, negative.
    sample_rate : float
        Hz; 0 if not given.
    """

    name: str
    theta: float = 0.0
    phi: float = 0.0
    psi: float = 0.0
    epsilon: float = 0.0
    fwhm: float = 0.0
    net: float = 0.0
    fknee: float = 0.0
    fmin: float = 0.0
    alpha: float = -1.0
    sample_rate: float = 0.0


@dataclass(frozen=True, repr=False)
class FocalPlane(Displayed):
    """Named, ordered set of detectors.

    Parameters
    ----------
    name : str
        Name of the focal plane.
    detectors : tuple of Detector
        Detectors in order.
    comment : str
        Free text.

    Raises
    ------
    ConfigError
        If there are no detectors, or two have the same name.

    Examples
    --------
    >>> import petamap
    >>> plane = petamap.load_focalplane("planck-lfi")
    >>> plane.select(("LFI27",)).names
    ('LFI27S', 'LFI27M')
    """

    name: str
    detectors: tuple[Detector, ...]
    comment: str = field(default="", compare=False)

    def _facts(self) -> dict[str, object]:
        return {"name": self.name, "detectors": some_names(self.names), "comment": self.comment}

    def __post_init__(self) -> None:
        for number, detector in enumerate(self.detectors):
            if not isinstance(detector, Detector):
                raise ConfigError(f"detector {number} is a {type(detector).__name__}", where=str(self.name))
        names = [detector.name for detector in self.detectors]
        twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
        if twice:
            raise ConfigError(f"two detectors are called '{min(twice)}'", where=self.name)
        if not names:
            raise ConfigError("no detectors", where=self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the detectors."""
        return tuple(detector.name for detector in self.detectors)

    @property
    def quaternions(self) -> FloatArray:
        """Quaternions of all detectors, (n_det, 4)."""
        theta, phi, psi = (self.values(name) for name in ("theta", "phi", "psi"))
        return quaternion.from_angles(theta, phi, psi - phi)

    def values(self, name: str) -> FloatArray:
        """Return a numeric attribute of all detectors.

        Parameters
        ----------
        name : str
            Name of the attribute of `Detector`.

        Returns
        -------
        float64 (n_det,)
        """
        return np.array([getattr(detector, name) for detector in self.detectors], dtype=np.float64)

    def select(self, wanted: tuple[str, ...], *, where: str | None = None) -> FocalPlane:
        """Return the focal plane with the wanted detectors only, in its order.

        Parameters
        ----------
        wanted : tuple of str
            Names, patterns or beginnings of names (`petacomm.base.name_patterns`); empty for all detectors.
        where : str, optional
            Place of the words, for messages; default: the name of the focal plane.

        Returns
        -------
        FocalPlane

        Raises
        ------
        ConfigError
            If a word matches no detector.
        """
        if not wanted:
            return self
        kept = choose_names(wanted, self.names, "detector", where=where or self.name)
        return dataclasses.replace(self, detectors=tuple(d for d in self.detectors if d.name in kept))


def hexagonal(n_det: int, spacing: float, **common: Any) -> FocalPlane:
    """Return a focal plane of orthogonal detector pairs on a hexagonal grid, filled from the centre outwards.

    Consecutive pairs are rotated by 45 degrees, so that both Q and U are measured.

    Parameters
    ----------
    n_det : int
        Number of detectors.
    spacing : float
        Distance of neighbouring pairs, radians.
    **common
        Further attributes of `Detector`, equal for all detectors.

    Raises
    ------
    ConfigError
        If `n_det` is less than 1.
    """
    if n_det < 1:
        raise ConfigError(f"a focal plane of {n_det} detectors")
    positions = _hexagonal_grid((n_det + 1) // 2)
    detectors = []
    for i in range(n_det):
        x, y = positions[i // 2] * spacing
        psi = math.pi / 4 * (i // 2 % 2) + math.pi / 2 * (i % 2)
        label = f"{i // 2:04d}{'AB'[i % 2]}"
        detectors.append(Detector(label, math.hypot(x, y), math.atan2(y, x), psi, **common))
    return FocalPlane("hexagonal", tuple(detectors))


def _hexagonal_grid(n: int) -> FloatArray:
    """Return n points of the unit hexagonal grid ordered by ring and azimuth, (n, 2)."""
    rings = 0
    while 1 + 3 * rings * (rings + 1) < n:
        rings += 1
    a, b = np.meshgrid(np.arange(-rings, rings + 1), np.arange(-rings, rings + 1), indexing="ij")
    ring = np.maximum(np.maximum(abs(a), abs(b)), abs(a + b))
    x, y = a + 0.5 * b, math.sqrt(0.75) * b
    order = np.lexsort((np.mod(np.arctan2(y, x).ravel() + 1e-9, 2 * math.pi), ring.ravel()))[:n]
    return np.stack([x.ravel(), y.ravel()], axis=1)[order]


def load_focalplane(name: str | os.PathLike[str], folder: Path | None = None) -> FocalPlane:
    """Return a built-in focal plane ("planck-lfi"), or one read from a .toml, .xml or RIMO .fits file.

    Parameters
    ----------
    name : str or path
        Name of a built-in focal plane, or path of a file.
    folder : Path, optional
        Folder that a relative path refers to; by default the current one.

    Returns
    -------
    FocalPlane

    Raises
    ------
    ConfigError, DataError
        If there is no such focal plane, or it cannot be read.

    Examples
    --------
    >>> import petamap
    >>> plane = petamap.load_focalplane("planck-lfi")
    >>> plane.names[:3]
    ('LFI18S', 'LFI18M', 'LFI19S')
    >>> plane.values("fwhm").shape
    (22,)
    """
    if len(os.fspath(name)) > _LONGEST_NAME:
        raise ConfigError("the name of a focal plane is too long", where=os.fspath(name)[:50])
    built_in = Path(__file__).parents[1] / "examples" / f"{str(name).replace('-', '_')}.toml"
    if built_in.is_file() and "/" not in str(name):
        return read_focalplane_toml(built_in)
    path = (folder or Path()) / name
    if not path.is_file():
        raise ConfigError(
            f"no focal plane '{name}'", mend="name a .toml, .xml or RIMO .fits file, or planck-lfi"
        )
    if ".fits" in path.name:
        return read_rimo(path)
    return read_focalplane_xml(path) if path.suffix.lower() == ".xml" else read_focalplane_toml(path)


_LONGEST_NAME = 4096  # characters; systems have no longer paths
# keys of a detector in TOML -> (dimension, usual unit); None for a plain number
_KEYS: dict[str, tuple[str, str] | None] = {
    "theta": ("angle", "deg"),
    "phi": ("angle", "deg"),
    "psi": ("angle", "deg"),
    "epsilon": None,
    "fwhm": ("angle", "arcmin"),
    "net": ("noise", "uK s^0.5"),
    "fknee": ("frequency", "mHz"),
    "fmin": ("frequency", "mHz"),
    "alpha": None,
    "sample_rate": ("frequency", "Hz"),
}


def read_focalplane_toml(path: str | os.PathLike[str]) -> FocalPlane:
    """Read a focal plane from TOML: ``name``, an optional table ``[defaults]``, and ``[[detector]]`` tables.

    Each detector has a ``name`` and any of theta, phi, psi, fwhm, net, fknee, fmin, sample_rate (quantities,
    such as "13.2 arcmin"), epsilon and alpha (numbers).

    Raises
    ------
    ConfigError
        If the file cannot be read or a value is not valid; names file and detector.
    """
    content, _ = parse_toml(read_text(path), str(path))
    return _of_tables(content, path)


def read_focalplane_xml(path: str | os.PathLike[str]) -> FocalPlane:
    """Read a focal plane from XML: ``<focalplane>`` with an element for each key of TOML.

    ``<defaults>`` and each ``<detector>`` hold ``<name>``, ``<theta>`` and so on.

    Raises
    ------
    ConfigError
        If the file cannot be read or a value is not valid; names file, line or detector.
    """
    root = parse_xml(read_text(path), str(path))
    if root.tag != "focalplane":
        where = f"{path}:{root.sourceline}"
        raise ConfigError(f"the root is <{root.tag}>", where=where, mend="it must be <focalplane>")
    content: dict[str, Any] = {}
    for element in root:
        if element.tag == "detector":
            content.setdefault("detector", []).append(_table_of(element, path))
        elif element.tag in content:
            raise ConfigError(f"<{element.tag}> is given twice", where=f"{path}:{element.sourceline}")
        else:
            is_table = element.tag == "defaults"
            content[element.tag] = _table_of(element, path) if is_table else (element.text or "").strip()
    return _of_tables(content, path)


def _table_of(element: Any, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the keys of an element with their values: numbers where these have no unit."""
    found: dict[str, Any] = {}
    for child in element:
        text, where = (child.text or "").strip(), f"{path}:{child.sourceline}"
        if child.tag in found or len(child) or child.attrib:
            raise ConfigError(f"<{child.tag}> is no single value", where=where, mend="write it once, as text")
        found[child.tag] = text
        if _KEYS.get(child.tag, "") is None:
            try:
                found[child.tag] = float(text)
            except ValueError:
                raise ConfigError(f"{child.tag} = {text!r:.40} is not a number", where=where) from None
    return found


def _of_tables(content: dict[str, Any], path: str | os.PathLike[str]) -> FocalPlane:
    """Return the focal plane of the tables of a file."""
    _check_keys(content, ["name", "comment", "defaults", "detector"], str(path))
    rows, defaults = content.get("detector", []), content.get("defaults", {})
    if not isinstance(rows, list) or not isinstance(defaults, dict):
        raise ConfigError("[defaults] is one table, [[detector]] many", where=str(path))
    detectors = tuple(
        _detector({**defaults, **row}, f"{path}: detector {i + 1}") for i, row in enumerate(rows)
    )
    with located(str(path)):
        return FocalPlane(
            str(content.get("name", Path(path).stem)), detectors, str(content.get("comment", ""))
        )


def _check_keys(table: dict[str, Any], known: list[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"unknown key '{key}'", where=where, mend=did_you_mean(key, known))


def _detector(row: dict[str, Any], where: str) -> Detector:
    _check_keys(row, ["name", *_KEYS], where)
    if not isinstance(row.get("name"), str):
        raise ConfigError("has no name", where=where)
    where = f"{where} ({row['name']})"
    values = {key: _value(key, value, where) for key, value in row.items() if key != "name"}
    return _validated(Detector(row["name"], **values), where)


def _value(key: str, value: object, where: str) -> float:
    kind = _KEYS[key]
    if kind is None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise ConfigError(f"{key} = {value!r} is not a number", where=where)
    if not isinstance(value, str):
        raise ConfigError(f"{key} = {value!r} has no unit", where=where, mend=f'write "{value} {kind[1]}"')
    try:
        return parse_quantity(value, kind[0])
    except ConfigError as error:
        raise ConfigError(f"{key}: {error.what}", where=where, mend=error.mend) from None


def _validated(detector: Detector, where: str, kind: type[UserError] = ConfigError) -> Detector:
    for key in _KEYS:
        value = getattr(detector, key)
        positive = key not in ("theta", "phi", "psi", "alpha")
        if not math.isfinite(value) or (positive and value < 0) or (key == "alpha" and value > 0):
            raise kind(f"{key} = {value} makes no sense", where=where)
    if detector.epsilon > 1:
        raise kind(f"epsilon = {detector.epsilon} is above 1", where=where)
    return detector


def read_rimo(path: str | os.PathLike[str]) -> FocalPlane:
    """Read a Planck reduced instrument model (FITS, table CHANNEL_PARAMETERS).

    The rotation from the telescope frame to a beam frame is ``Rz(PHI_UV) Ry(THETA_UV) Rz(PSI_UV - PHI_UV)``;
    the polarization axis is at PSI_POL from X of the beam frame. Hence psi = PSI_UV + PSI_POL (Planck's Dxx
    frame, as in the LFI and NPIPE pipelines).

    Raises
    ------
    DataError
        If the file is not a reduced instrument model, has checksums that do not hold, or a column has an
        unexpected unit.
    """
    where = os.fspath(path)
    with open_fits(path, "is no reduced instrument model") as file:
        for number, unit in enumerate(file):
            verify_checksums(unit, f"{where}, HDU {number}")
        table = file["CHANNEL_PARAMETERS"].data
        units = dict(zip(table.names, table.columns.units, strict=True))
        column = {name: np.asarray(table[name]).reshape(len(table)) for name in table.names}
        _check_units(units, path)
        detectors = tuple(_rimo_row(column, i, path) for i in range(len(column["DETECTOR"])))
    return FocalPlane(Path(path).stem, detectors)


_RIMO_UNITS = {
    "PHI_UV": "deg", "THETA_UV": "deg", "PSI_UV": "deg", "PSI_POL": "deg", "FWHM": "arcmin", "NET": "K*s^1/2",
    "F_KNEE": "Hz", "F_MIN": "Hz", "F_SAMP": "Hz",
}  # fmt: skip
# attributes of a detector -> (column, factor)
_RIMO_COLUMNS = {
    "theta": ("THETA_UV", DEGREE), "phi": ("PHI_UV", DEGREE), "epsilon": ("EPSILON", 1.0),
    "fwhm": ("FWHM", ARCMIN), "net": ("NET", 1.0), "fknee": ("F_KNEE", 1.0), "fmin": ("F_MIN", 1.0),
    "alpha": ("ALPHA", 1.0), "sample_rate": ("F_SAMP", 1.0),
}  # fmt: skip


def _check_units(units: dict[str, str], path: str | os.PathLike[str]) -> None:
    for name, unit in _RIMO_UNITS.items():
        given = (units[name] or "").strip()
        if given and given != unit:
            raise DataError(f"column {name} is in '{given}', not '{unit}'", where=str(path))


def _rimo_row(column: dict[str, Any], i: int, path: str | os.PathLike[str]) -> Detector:
    name = str(column["DETECTOR"][i]).strip()
    psi = float(column["PSI_UV"][i] + column["PSI_POL"][i]) * DEGREE
    values = {key: float(column[source][i]) * factor for key, (source, factor) in _RIMO_COLUMNS.items()}
    return _validated(Detector(name, psi=psi, **values), f"{path}: {name}", DataError)
