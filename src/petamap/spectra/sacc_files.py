"""Files of sacc: bandpowers of C_l with windows and covariance, written and read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError, DataError, UserError
from petacomm.base.files import require_file
from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petamap.sky.map_units import squared_unit, to_kelvin
from petamap.sky.power_spectra import cl_to_dl_factor
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.multipole_bins import Binning

SACC_ENDINGS = (".sacc", ".sacc.fits")
_TYPES = {
    "TT": "cl_00", "TE": "cl_0e", "TB": "cl_0b", "ET": "cl_e0", "EE": "cl_ee", "EB": "cl_eb", "BT": "cl_b0",
    "BE": "cl_be", "BB": "cl_bb",
}  # fmt: skip
_BINS = "petamap_bins"  # in the metadata: edges, and whether means of D_l were measured


def write_sacc(path: Path, bandpowers: Bandpowers) -> None:
    """Write bandpowers as C_l, in uK^2 where they are in K_CMB^2.

    Raises
    ------
    ConfigError
        If sacc is not installed.
    """
    sacc = _sacc(path)
    out, binning, kelvin = sacc.Sacc(), bandpowers.binning, bandpowers.unit == "K_CMB^2"
    out.metadata[_BINS] = json.dumps({"edges": binning.edges.tolist(), "of_d": binning.of_d})
    l = np.arange(1 if bandpowers.windows is None else bandpowers.windows.shape[-1])  # noqa: E741
    sides = ("first", "second") if {"ET", "BE"} & set(bandpowers.names) else ("map", "map")
    for side in dict.fromkeys(sides):
        for kind, spin in (("T", 0), ("P", 2)):
            unit = "uK_CMB" if kelvin else bandpowers.unit
            out.add_tracer("Map", f"{side}_{kind}", spin, l, np.ones(len(l)), map_unit=unit)
    scale, factor = _of_c(binning), 1e12 if kelvin else 1.0
    for i, name in enumerate(bandpowers.names):
        window = None
        if bandpowers.windows is not None:
            window = sacc.BandpowerWindow(l, (bandpowers.windows[i, :, i] * scale[:, None]).T)
        tracers = [f"{side}_{'TP'[letter != 'T']}" for side, letter in zip(sides, name, strict=True)]
        values = bandpowers[name] * scale * factor
        out.add_ell_cl(_TYPES[name], *tracers, binning.middle, values, window=window)
    if bandpowers.covariance is not None:
        both = np.tile(scale * factor, len(bandpowers.names))
        matrix = bandpowers.covariance.reshape(len(both), -1)
        out.add_covariance(matrix * np.multiply.outer(both, both))
    out.save_fits(str(path), overwrite=True)


def _of_c(binning: Binning) -> FloatArray:
    """Return the factors from bandpowers to C_l, which sacc knows alone."""
    return 1 / cl_to_dl_factor(binning.middle) if binning.of_d else np.ones(binning.n)


def read_sacc(path: Path) -> Bandpowers:
    """Read bandpowers of one pair of maps: C_l, or what petamap had written.

    Bins of others are taken as following each other, with the multipoles of the file in their middles.

    Raises
    ------
    ConfigError
        If sacc is not installed.
    DataError
        If the file is none, or has spectra of several pairs of maps, or of different bins.
    """
    sacc = _sacc(path)
    try:
        return _bandpowers(path, sacc.Sacc.load_fits(str(require_file(path))))
    except FileNotFoundError as error:
        raise DataError("no such file", where=str(path)) from error
    except UserError:  # what a signal raises, too
        raise
    except Exception as error:  # whatever sacc, astropy or NumPy think of it
        raise DataError(f"is no file of bandpowers: {error}", where=str(path)) from error


def _bandpowers(path: Path, found: Any) -> Bandpowers:
    """Return the bandpowers in what sacc has read."""
    names = tuple(name for name, kind in _TYPES.items() if kind in found.get_data_types())
    if not names:
        raise DataError(
            f"has no spectra of CMB maps, but {', '.join(found.get_data_types())}", where=str(path),
            mend=f"known: {', '.join(_TYPES.values())}",
        )  # fmt: skip
    rows = [_spectrum(path, found, name) for name in names]
    if any(len(one[0]) != len(rows[0][0]) or (one[0] != rows[0][0]).any() for one in rows):
        raise DataError("its spectra have different bins", where=str(path))
    binning = _binning(path, found, rows[0][0])
    unit, factor = _unit(found)
    scale = factor / _of_c(binning)
    places = np.concatenate([one[2] for one in rows])
    return Bandpowers(
        np.stack([one[1] for one in rows]) * scale, names, binning, unit,
        _covariance(found, places, np.tile(scale, len(rows)), (len(rows), binning.n)),
        _windows(found, [one[2] for one in rows], scale / factor),
    )  # fmt: skip


def _spectrum(path: Path, found: Any, name: str) -> tuple[FloatArray, FloatArray, Int64Array]:
    """Return middles, C_l and places of a spectrum."""
    kind = _TYPES[name]
    pairs = found.get_tracer_combinations(kind)
    if len(pairs) != 1:
        raise DataError(
            f"has {kind} of {len(pairs)} pairs of maps", where=str(path),
            mend="keep one by sacc: keep_selection(tracers=(first, second)), save_fits",
        )  # fmt: skip
    middle, values, places = found.get_ell_cl(kind, *pairs[0], return_ind=True)
    return np.asarray(middle, np.float64), np.asarray(values, np.float64), np.asarray(places)


def _binning(path: Path, found: Any, middle: FloatArray) -> Binning:
    """Return bins as petamap had written them; or those around the middles."""
    if _BINS in found.metadata:
        said = json.loads(found.metadata[_BINS])
        return Binning(np.array(said["edges"]), bool(said["of_d"]))
    width = middle[1] - middle[0] if len(middle) > 1 else 1.0
    edges = [np.ceil(middle[0] - (width - 1) / 2)]
    for one in middle:
        edges.append(np.floor(2 * one + 1 - edges[-1] + 0.5))
    if (np.diff(edges) < 1).any() or edges[0] < 0:
        raise DataError(
            f"no bins follow each other with middles at {', '.join(f'{one:g}' for one in middle[:4])}, ...",
            where=str(path), mend="give edges in the metadata: " + _BINS,
        )  # fmt: skip
    return Binning(np.array(edges, np.int64), of_d=False)


def _unit(found: Any) -> tuple[str, float]:
    """Return the unit of petamap's values, and the factor to it."""
    units = {str(getattr(one, "map_unit", None) or "") for one in found.tracers.values()}
    unit = units.pop() if len(units) == 1 else ""
    factor, kelvin = to_kelvin(unit)
    if kelvin == "K_CMB":
        return "K_CMB^2", factor**2
    return squared_unit(unit) if unit and not unit.endswith("^2") else unit, 1.0


def _covariance(
    found: Any, places: Int64Array, scale: FloatArray, shape: tuple[int, int]
) -> FloatArray | None:
    if found.covariance is None:
        return None
    matrix: AnyArray = np.asarray(found.covariance.dense)[np.ix_(places, places)]
    whole: FloatArray = (matrix * np.multiply.outer(scale, scale)).reshape(shape * 2)
    return whole


def _windows(found: Any, places: list[Int64Array], scale: FloatArray) -> FloatArray | None:
    """Return windows of spectra in themselves."""
    parts = [found.get_bandpower_windows(one) for one in places]
    if any(one is None for one in parts):
        return None
    size = int(max(one.values.max() for one in parts)) + 1
    windows = np.zeros((len(parts), len(scale), len(parts), size))
    for row, one in enumerate(parts):
        l = np.asarray(one.values, np.int64)  # noqa: E741
        windows[row][:, row, l] = np.asarray(one.weight).T * scale[:, None]
    return windows


def _sacc(path: Path) -> Any:
    try:
        import sacc
    except ImportError:
        raise ConfigError(
            "sacc is not installed", where=str(path), mend="pip install 'petamap[sacc]', or write .fits"
        ) from None
    return sacc
