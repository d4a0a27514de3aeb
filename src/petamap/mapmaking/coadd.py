"""Coadded maps: means of the maps of runs, weighted by the inverse covariance of each pixel.

With W_i the inverse covariance of a pixel's Stokes parameters in run i, m = (sum W_i)^-1 sum W_i m_i. That is
the map of the data of all runs where their noise is white; where it is correlated, W_i are those of its white
part alone, and m is unbiased, but not of least variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import BoolArray, FloatArray
from petamap.data.product_file import read_product
from petamap.data.run_summary import Summary
from petamap.mapmaking.data_record import named, same_noise, shared_data
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization
from petamap.sky.sky_map import SkyMap


@dataclass(frozen=True)
class RunMap:
    """The map of a finished run, with the covariance of each pixel.

    Attributes
    ----------
    folder : Path
    summary : Summary
    sky : SkyMap
    covariance : float64 (n_pix, n_stokes, n_stokes)
        In the unit of the map squared.
    hits : float64 (n_pix,), optional
        None where the run has written none.
    """

    folder: Path
    summary: Summary
    sky: SkyMap
    covariance: FloatArray
    hits: FloatArray | None

    @property
    def known(self) -> BoolArray:
        """Pixels with a value, (n_pix,)."""
        return np.asarray(
            np.isfinite(self.sky.values).all(axis=0) & np.isfinite(self.covariance).all(axis=(1, 2))
        )


@dataclass(frozen=True)
class CoaddedMap:
    """A weighted mean of maps.

    Attributes
    ----------
    sky : SkyMap
        nan where no run has a value.
    covariance : float64 (n_pix, n_stokes, n_stokes)
        (sum W_i)^-1.
    hits : float64 (n_pix,), optional
        Sums; None where a run has written none.
    chi_squared : float
        sum (m_i - m)^T W_i (m_i - m): what the maps differ by.
    degrees_of_freedom : int
        Of it, if noise is white.
    """

    sky: SkyMap
    covariance: FloatArray
    hits: FloatArray | None
    chi_squared: float
    degrees_of_freedom: int

    @property
    def probability(self) -> float:
        """Probability of a larger chi-squared, if noise is white."""
        from scipy.stats import chi2

        return float(chi2.sf(self.chi_squared, self.degrees_of_freedom)) if self.degrees_of_freedom else 1.0


def read_run_map(folder: Path, nest: bool | None = None) -> RunMap:
    """Return the map of a finished run; that of HEALPix pixels in nested order or not, if asked for.

    Raises
    ------
    DataError
        If the run has written no map or no covariance.
    """
    summary = Summary.read(folder)
    files = {product.kind: product for product in summary.products}
    several = list(dict.fromkeys(one.of for one in summary.products if one.of and one.kind == "map"))
    if several:
        raise DataError(
            f"the run has maps of {', '.join(several)}, not one of all data", where=str(folder),
            mend="coadd runs without [[band]]; --joint makes maps of all their bands",
        )  # fmt: skip
    if "map" not in files:
        wanted = "products.maps = true" if summary.solver else "solver.binned_only = false"
        raise DataError("the run has written no map", where=str(folder), mend=f"run it with {wanted}")
    if "covariance" not in files:
        raise DataError(
            "the run has written no covariance, so that its map has no weights", where=str(folder),
            mend="run it with products.covariance = true",
        )  # fmt: skip
    maps = {
        kind: _reordered(read_product(folder, summary, files[kind]), nest)
        for kind in ("map", "covariance", "hits")
        if kind in files
    }
    hits = maps["hits"].values[0] if "hits" in maps else None
    sky, columns = maps["map"], maps["covariance"].values
    covariance = _as_matrices(columns, len(sky.values), str(folder / files["covariance"].file))
    return RunMap(folder, summary, sky, covariance, None if hits is None else np.nan_to_num(hits))


def _reordered(found: SkyMap, nest: bool | None) -> SkyMap:
    pixels = found.pixelization
    if nest is None or not isinstance(pixels, Healpix) or pixels.nest == nest:
        return found
    wanted = Healpix(pixels.n_side, nest=nest)
    values = found.values[:, wanted.reordered(np.arange(wanted.n_pix))]
    return replace(found, values=values, pixelization=wanted)


def _as_matrices(columns: FloatArray, n: int, where: str) -> FloatArray:
    """Return symmetric matrices of n Stokes parameters, (n_pix, n, n), of columns of upper triangles."""
    rows = np.triu_indices(n)
    if len(columns) != len(rows[0]):
        raise DataError(
            f"{len(columns)} columns, not the {len(rows[0])} of the map's covariance", where=where
        )
    matrices = np.empty((columns.shape[1], n, n))
    for column, i, j in zip(columns, *rows, strict=True):
        matrices[:, i, j] = matrices[:, j, i] = column
    return matrices


def coadd(folders: Sequence[Path]) -> tuple[CoaddedMap, list[Summary]]:
    """Return the weighted mean of the maps of finished runs, and their summaries. One process.

    Holds the sum and the map of one run at a time.

    Parameters
    ----------
    folders : sequence of Path
        The ``--out`` folders, two or more.

    Raises
    ------
    ConfigError
        If there are fewer than two, two are the same run, or certainly have samples in common.
    DataError
        If a run has no map or no covariance, or other pixels, Stokes parameters, unit or frame than the
        first.
    """
    if len(folders) < 2:
        raise ConfigError("one run is no sum", mend="name two or more")
    first = read_run_map(folders[0])
    values = np.where(first.known, first.sky.values, np.nan)
    covariance = np.where(first.known[:, None, None], first.covariance, np.nan)
    total = CoaddedMap(replace(first.sky, values=values), covariance, first.hits, 0.0, 0)
    summaries = [first.summary]
    nest = first.sky.pixelization.nest if isinstance(first.sky.pixelization, Healpix) else None
    for folder in folders[1:]:
        run = read_run_map(folder, nest)
        for other, summary in zip(folders, summaries, strict=False):
            _require_other_data(other, summary, folder, run.summary)
        _check_same(first, run)
        total = _added(total, run)
        summaries.append(run.summary)
    return total, summaries


def _require_other_data(first: Path, one: Summary, folder: Path, other: Summary) -> None:
    """Raise a ConfigError if two runs are the same, or certainly have samples in common.

    Configurations in two folders may say the same of data in these, which are not the same.
    """
    mend = "data count once: leave one away"
    same_map = _made(one) == _made(other)
    if one.run_id == other.run_id and (same_map or one.folder == other.folder):
        raise ConfigError(f"is the same run as {first}", where=str(folder), mend=mend)
    shared = shared_data(one, other)
    if same_map and (shared is not None or not (one.data and other.data)):
        raise ConfigError(f"has the map of {first}, to the bit", where=str(folder), mend=mend)
    if shared is not None and shared.twice:
        what = f"has {shared.twice:,} samples or more that {first} has, too, of {shared.describe()}"
        raise ConfigError(what, where=str(folder), mend=mend)


def _made(run: Summary) -> list[tuple[str, str]]:
    """Return what tells the map of a run, its weights and hits from all others."""
    kinds = ("map", "covariance", "hits")
    return sorted((one.kind, one.sha256) for one in run.products if one.kind in kinds)


def data_warnings(runs: Sequence[Summary]) -> list[str]:
    """Return warnings of samples or noise that two runs share, and of runs that do not tell."""
    found = []
    for one, other in combinations(runs, 2):
        both, shared = f"{one.name} and {other.name}", shared_data(one, other)
        if shared is not None:
            found.append(
                f"{both} both have {shared.describe()}, {shared.samples:,} samples of the same detectors and "
                "times: they count twice unless each is flagged in one of the runs"
            )
        elif same := same_noise(one, other):
            found.append(
                f"{both} draw the noise of {named(same)} by the same numbers: it is not independent, and "
                "the mean has more than its covariance says; give one another run.seed"
            )
    silent = [run.name for run in runs if not run.data]
    if silent:
        found.append(
            f"the summaries of {', '.join(silent)} do not tell which observations they have: samples that "
            "others have, too, would count twice"
        )
    return found


def _check_same(first: RunMap, run: RunMap) -> None:
    """Raise a DataError unless the maps can be added pixel by pixel."""
    skies = first.sky, run.sky
    for what, one, other in (
        ("pixels", *(_pixels_of(sky.pixelization) for sky in skies)),
        ("Stokes parameters", *("".join(sky.names) for sky in skies)),
        ("unit", *(", ".join(dict.fromkeys(sky.units)) for sky in skies)),
        ("frame", *(sky.frame for sky in skies)),
    ):
        if one != other:
            raise DataError(
                f"{what}: {other}, but {one} in {first.folder}", where=str(run.folder),
                mend="coadd maps that were made alike",
            )  # fmt: skip


def _pixels_of(pixels: Pixelization) -> object:
    """Return what equals that of other pixels if, and only if, they are the same."""
    if not isinstance(pixels, NumberedPixels):
        return pixels
    layout = pixels.layout
    return f"{pixels.n_pix} numbered pixels" + (f" of an image of {layout.shape}" if layout else "")


def _added(total: CoaddedMap, run: RunMap) -> CoaddedMap:
    """Return the mean with another map.

    The mean moves by (W + W_i)^-1 W_i d with d = m_i - m, and chi-squared grows by d^T (W^-1 + W_i^-1)^-1 d.
    """
    values, covariance = total.sky.values.copy(), total.covariance.copy()
    known, seen = run.known, np.isfinite(total.sky.values).all(axis=0)
    new, both = known & ~seen, known & seen
    values[:, new], covariance[new] = run.sky.values[:, new], run.covariance[new]
    difference = (run.sky.values[:, both] - values[:, both]).T[..., None]
    before, own = covariance[both], run.covariance[both]
    lost = np.linalg.solve(before + own, difference)  # (W^-1 + W_i^-1)^-1 d
    values[:, both] += (before @ lost)[..., 0].T
    covariance[both] = np.linalg.inv(np.linalg.inv(before) + np.linalg.inv(own))
    hits = None if total.hits is None or run.hits is None else total.hits + run.hits
    return CoaddedMap(
        replace(total.sky, values=values), covariance, hits,
        total.chi_squared + float((difference * lost).sum()),
        total.degrees_of_freedom + difference.size,
    )  # fmt: skip
