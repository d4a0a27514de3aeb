"""The finished realizations in the file of a Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.montecarlo.realizations import PARTS, Realizations
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.spectra.measure import Choices

_FORMAT, _DONE, _FAILED = "petamap-montecarlo", 1, 2


@dataclass(frozen=True)
class Finished:
    """What a file holds.

    Attributes
    ----------
    realizations : Realizations
        Those that are done.
    name, run_id, frame : str
    theory : Spectra or None
        What skies were drawn from.
    failed : tuple of (int, str)
        Realizations that failed, and why.
    left : int
        How many are not made yet.
    """

    realizations: Realizations
    name: str
    run_id: str
    frame: str
    theory: Spectra | None
    failed: tuple[tuple[int, str], ...]
    left: int


def file_in(folder: Path) -> Path | None:
    """Return the file of a Monte Carlo in a folder; None where there is none.

    Raises
    ------
    DataError
        If there are several.
    """
    found = sorted(folder.glob("*_mc.h5"))
    if len(found) > 1:
        raise DataError(
            f"holds {len(found)} Monte Carlos", where=str(folder), mend=f"name one, such as {found[0]}"
        )
    return found[0] if found else None


def read_finished(path: Path) -> Finished:
    """Read the realizations that are done, from the file or the folder that it is in.

    Signals that all realizations have in common and that were added to ``both`` are taken off its
    pseudo-spectra again, as far as they are known: sky and noise do not correlate with them on average.

    Raises
    ------
    DataError
        If there is no such file, it is damaged, or no realization is done.
    """
    import h5py

    found = file_in(path) if path.is_dir() else path
    if found is None or not found.exists():
        raise DataError("no Monte Carlo here", where=str(path), mend="petamap mc makes one")
    try:
        with h5py.File(found, "r") as file:
            if _plain(file.attrs.get("format")) != _FORMAT or file.attrs.get("version") != 1:
                raise DataError(f"is no file of format {_FORMAT} 1", where=str(found))
            return _finished(file)
    except DataError as error:
        raise error if error.where else DataError(error.what, where=str(found), mend=error.mend) from None
    except (OSError, KeyError, ValueError, TypeError, IndexError) as error:
        raise DataError(f"is no file of a Monte Carlo: {error}", where=str(found)) from None


def _finished(file: Any) -> Finished:
    status = file["status"][...]
    done = status == _DONE
    names, unit = _plain(file.attrs["names"]), _plain(file.attrs["unit"])
    pseudo = {part: file["pseudo"][part][...][done] for part in PARTS if part in file["pseudo"]}
    if "both" in pseudo and _adds_fixed(file):
        pseudo["both"] = pseudo["both"] - file["fixed/pseudo"][...]
    realizations = Realizations(
        numbers=file["numbers"][...][done],
        names=names,
        pseudo=pseudo,
        pixelization=Healpix(int(file.attrs["n_side"]), _plain(file.attrs["ordering"]) == "nest"),
        weights=file["weights"][...],
        input=_rows(file, "input", done),
        choices=_choices(file["choices"].attrs),
        unit=unit,
        iterations=_rows(file, "iterations", done),
    )
    failed = tuple(
        (
            int(file["numbers"][row]),
            bytes(file["error"][row]).decode(errors="replace") if "error" in file else "",
        )
        for row in np.flatnonzero(status == _FAILED)
    )
    theory = Spectra(file["theory"][...], names, unit) if "theory" in file else None
    left = int(np.count_nonzero((status != _DONE) & (status != _FAILED)))
    name, run_id, frame = (_plain(file.attrs.get(word, b"")) for word in ("name", "run_id", "frame"))
    return Finished(realizations, name, run_id, frame, theory, failed, left)


def _adds_fixed(file: Any) -> bool:
    """Whether ``both`` holds signals that all realizations have in common."""
    return "fixed" in file and _plain(file["fixed"].attrs.get("added", b"")) == "both"


def _rows(file: Any, name: str, done: Any) -> Any:
    return file[name][...][done] if name in file else None


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray) and value.dtype.kind in "SO":
        return tuple(_plain(word) for word in value.tolist())
    return value


def _choices(attributes: Any) -> Choices:
    """Return how maps were seen; of the mask only its weights are known."""
    given = {field.name for field in fields(Choices)} - {"mask", "n_threads"}
    return Choices(**{name: _as_given(attributes[name]) for name in attributes if name in given})


def _as_given(value: Any) -> Any:
    return _plain(value.item() if isinstance(value, np.generic) else value)


def weights_of(realizations: Realizations, pixelization: Healpix) -> FloatArray:
    """Return the weights (2, n_pix) in the order of other pixels of the same n_side."""
    own = realizations.pixelization
    if own.n_side != pixelization.n_side:
        raise DataError(f"the map has n_side {pixelization.n_side}, the Monte Carlo {own.n_side}")
    if own.nest == pixelization.nest:
        return realizations.weights
    return realizations.weights[:, pixelization.reordered(np.arange(pixelization.n_pix))]
