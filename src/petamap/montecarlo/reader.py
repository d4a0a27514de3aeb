"""Reading of finished realizations from the file of a Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray, UInt8Array
from petamap.montecarlo.file_layout import UNFILTERED
from petamap.montecarlo.realizations import PARTS, Realizations
from petamap.montecarlo.store import DONE, FAILED, plain_attribute
from petamap.montecarlo.store_opening import require_whole
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.spectra.measure import SpectraChoices


@dataclass(frozen=True)
class MonteCarloResults:
    """Content of the file of a Monte Carlo.

    Attributes
    ----------
    realizations : Realizations
        Finished realizations.
    name, run_id, frame : str
        Name and identifier of the run, and coordinate frame of its maps.
    theory : Spectra or None
        Spectra of the simulated skies.
    failed : tuple of (int, str)
        Failed realizations, and the errors.
    n_remaining : int
        Number of realizations that are neither finished nor failed.
    estimator : str
        What made the maps: "maximum-likelihood" or "filter-and-bin".
    """

    realizations: Realizations
    name: str
    run_id: str
    frame: str
    theory: Spectra | None
    failed: tuple[tuple[int, str], ...]
    n_remaining: int
    estimator: str = ""


def find_montecarlo_file(folder: Path) -> Path | None:
    """Return the path of the file of a Monte Carlo in a folder; None if there is none.

    Raises
    ------
    DataError
        If there are several.
    """
    file_path = sorted(folder.glob("*_mc.h5"))
    if len(file_path) > 1:
        raise DataError(
            f"holds {len(file_path)} Monte Carlos",
            where=str(folder),
            mend=f"name one, such as {file_path[0]}",
        )
    return file_path[0] if file_path else None


def read_results(path: Path) -> MonteCarloResults:
    """Read the finished realizations from a file, or from the file in a folder.

    The pseudo-spectra of fixed signals that were added to ``both`` are subtracted; on average, sky and noise
    are not correlated with fixed signals.

    Raises
    ------
    DataError
        If there is no such file, it is damaged, or no realization is finished.
    """
    import h5py

    file_path = find_montecarlo_file(path) if path.is_dir() else path
    if file_path is None or not file_path.exists():
        raise DataError("no Monte Carlo here", where=str(path), mend="petamap mc makes one")
    status = require_whole(file_path)
    try:
        with h5py.File(file_path, "r") as file:
            return _results(file, status)
    except DataError as error:
        raise error if error.where else DataError(error.what, where=str(file_path), mend=error.mend) from None
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, IndexError) as error:
        raise DataError(f"is no file of a Monte Carlo: {error}", where=str(file_path)) from None


def _results(file: Any, status: UInt8Array) -> MonteCarloResults:
    done = status == DONE
    failed = tuple(
        (
            int(file["numbers"][row]),
            bytes(file["error"][row]).decode(errors="replace") if "error" in file else "",
        )
        for row in np.flatnonzero(status == FAILED)
    )
    if len(failed) == len(status) > 0:
        raise DataError(f"all realizations failed, number {failed[0][0]} by this: {failed[0][1]}")
    names, unit = plain_attribute(file.attrs["names"]), plain_attribute(file.attrs["unit"])
    pseudo = {part: file["pseudo"][part][...][done] for part in PARTS if part in file["pseudo"]}
    if "both" in pseudo and _adds_fixed(file):
        pseudo["both"] = pseudo["both"] - file["fixed/pseudo"][...]
    pixelization = Healpix(int(file.attrs["n_side"]), plain_attribute(file.attrs["ordering"]) == "nest")
    realizations = Realizations(
        numbers=file["numbers"][...][done],
        names=names,
        pseudo=pseudo,
        pixelization=pixelization,
        weights=_weights(file, pixelization.n_pix),
        input=_rows(file, "input", done),
        choices=_choices(file["choices"].attrs),
        unit=unit,
        iterations=_rows(file, "iterations", done),
        unfiltered=_rows(file, f"pseudo/{UNFILTERED}", done),
    )
    theory = Spectra(file["theory"][...], names, unit) if "theory" in file else None
    n_remaining = int(np.count_nonzero((status != DONE) & (status != FAILED)))
    words = (plain_attribute(file.attrs.get(word, b"")) for word in ("name", "run_id", "frame", "estimator"))
    name, run_id, frame, estimator = words
    return MonteCarloResults(realizations, name, run_id, frame, theory, failed, n_remaining, estimator)


def _weights(file: Any, n_pix: int) -> FloatArray:
    """Return the weights of all pixels, float64 (2, n_pix)."""
    weights: FloatArray = file["weights"][...]
    if "pixels" not in file:
        return weights
    pixels = file["pixels"][...]
    if not (pixels >= 0).all():
        raise ValueError("pixels have negative numbers")
    whole = np.zeros((2, n_pix))
    whole[:, pixels] = weights
    return whole


def _adds_fixed(file: Any) -> bool:
    """Return whether ``both`` includes the fixed signals."""
    return "fixed" in file and plain_attribute(file["fixed"].attrs.get("added", b"")) == "both"


def _rows(file: Any, name: str, done: Any) -> Any:
    return file[name][...][done] if name in file else None


def _choices(attributes: Any) -> SpectraChoices:
    """Return the choices of the measurement, without the mask, whose weights are in the file."""
    given = {field.name for field in fields(SpectraChoices)} - {"mask", "n_threads"}
    return SpectraChoices(**{name: plain_attribute(attributes[name]) for name in attributes if name in given})


def reordered_weights(realizations: Realizations, pixelization: Healpix) -> FloatArray:
    """Return the weights, (2, n_pix), in the pixel ordering of `pixelization`.

    Raises
    ------
    DataError
        If `pixelization` has another n_side.
    """
    pixels = realizations.pixelization
    if pixels.n_side != pixelization.n_side:
        raise DataError(f"the map has n_side {pixelization.n_side}, the Monte Carlo {pixels.n_side}")
    if pixels.nest == pixelization.nest:
        return realizations.weights
    return realizations.weights[:, pixelization.reordered(np.arange(pixelization.n_pix))]
