"""Sky maps in memory: what is done with them, shown of them, and exchanged with healpy and pixell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from petacomm.base.arguments import numeric_array
from petacomm.base.errors import DataError, did_you_mean, require_known
from petacomm.base.threads import available_threads
from petacomm.base.typing import BoolArray, FloatArray
from petacomm.base.units import as_number
from petamap.sky.map_arithmetic import combine_maps, combine_with_numbers, keep_pixels
from petamap.sky.map_columns import checked_columns, map_as_array_error, requested_columns
from petamap.sky.map_conventions import FRAME_LETTERS, iau_to_cosmo_signs
from petamap.sky.map_degrading import degrade_map, degrading_factor
from petamap.sky.map_display import map_html, map_text
from petamap.sky.map_exchange import (
    check_convention,
    column_names,
    enmap_columns,
    enmap_of,
    healpy_columns,
    healpy_values,
)
from petamap.sky.map_figure import plot_map
from petamap.sky.map_parts import partial_map, reordered_map, whole_map
from petamap.sky.map_smoothing import smooth_map
from petamap.sky.map_units import convert_unit, to_kelvin
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes


@dataclass(frozen=True, eq=False, repr=False)
class SkyMap:
    """Map in memory: one or more columns of values on pixels.

    Maps of the same pixels are added, subtracted, multiplied and divided, and so are a map and a number,
    or an array of a number per pixel or column; units are kept and checked. ``sky_map["Q", "U"]`` are
    columns.

    Parameters
    ----------
    values : float64 array, shape (n_columns, n_pix)
        nan where a pixel was not observed.
    pixelization : Pixelization
        Pixelization of the columns: `PartialHealpix`, if they have some pixels of the sky alone.
    names : tuple of str
        Names of the columns: ``("I", "Q", "U")``, or the names in the file.
    units : tuple of str
        Units of the columns: ``K_CMB`` or ``K_CMB^2`` if the file has kelvin with any prefix, else as in the
        file; empty if unknown.
    frame : str or None
        equatorial, galactic or ecliptic; None if unknown.
    polarization : str or None
        ``COSMO`` if a column depends on the convention (IAU is converted when reading), else None.
    warnings : tuple of str
        Assumptions made because the file does not give the information.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> sky = petamap.Healpix(1)
    >>> values = np.zeros((3, sky.n_pix))
    >>> sky_map = petamap.SkyMap(values, sky, ("I", "Q", "U"), ("K_CMB",) * 3, frame="galactic")
    >>> sky_map
    SkyMap(I, Q, U in K_CMB, galactic, Healpix(n_side=1, nest=False), 12 of 12 pixels observed)
    >>> (sky_map - sky_map).unit, (sky_map / sky_map).unit, (sky_map["Q"] * 2).names
    ('K_CMB', '', ('Q',))
    """

    values: FloatArray
    pixelization: Pixelization
    names: tuple[str, ...]
    units: tuple[str, ...]
    frame: str | None = None
    polarization: str | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values = numeric_array(self.values, "values", 2)
        names, units = checked_columns(values, self.pixelization, self.names, self.units, self.frame)
        self.__dict__.update(values=values, names=names, units=units)

    @property
    def stokes(self) -> Stokes | None:
        """Stokes parameters of the columns; None if the columns are not Stokes parameters."""
        return Stokes.of_names(self.names)

    @property
    def unit(self) -> str:
        """Unit of all columns.

        Raises
        ------
        DataError
            If the columns have different units.
        """
        if len(set(self.units)) > 1:
            raise DataError(f"the columns have different units: {', '.join(self.units)}")
        return self.units[0]

    @property
    def observed(self) -> BoolArray:
        """Whether each pixel has a value in all columns, bool (n_pix,)."""
        return np.asarray(np.isfinite(self.values).all(axis=0))

    def __getitem__(self, names: str | tuple[str, ...]) -> SkyMap:
        wanted = requested_columns(names)
        for name in wanted:
            if name not in self.names:
                raise DataError(f"no column '{name}'", mend=did_you_mean(str(name), list(self.names)))
        rows = [self.names.index(name) for name in wanted]
        units = tuple(self.units[row] for row in rows)
        return replace(self, values=self.values[rows], names=wanted, units=units)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise map_as_array_error(self.pixelization)

    __array_ufunc__ = None  # numpy leaves number * map to the map

    def _combined(self, symbol: str, other: Any, swapped: bool = False) -> SkyMap:
        if isinstance(other, SkyMap):
            return combine_maps(self, symbol, other)
        if not isinstance(other, int | float | np.number | np.ndarray):
            return NotImplemented  # type: ignore[no-any-return]
        return combine_with_numbers(self, symbol, other, swapped)

    def __add__(self, other: Any) -> SkyMap:
        return self._combined("+", other)

    def __radd__(self, other: Any) -> SkyMap:
        return self._combined("+", other, swapped=True)

    def __sub__(self, other: Any) -> SkyMap:
        return self._combined("-", other)

    def __rsub__(self, other: Any) -> SkyMap:
        return self._combined("-", other, swapped=True)

    def __mul__(self, other: Any) -> SkyMap:
        return self._combined("*", other)

    def __rmul__(self, other: Any) -> SkyMap:
        return self._combined("*", other, swapped=True)

    def __truediv__(self, other: Any) -> SkyMap:
        return self._combined("/", other)

    def __rtruediv__(self, other: Any) -> SkyMap:
        return self._combined("/", other, swapped=True)

    def __neg__(self) -> SkyMap:
        return replace(self, values=-self.values)

    def masked(self, keep: SkyMap | BoolArray | FloatArray) -> SkyMap:
        """Return the map with nan wherever a mask does not keep pixels.

        Parameters
        ----------
        keep : SkyMap of one column, or array (n_pix,)
            Pixels are kept where it is True, or above 0, as in masks of WMAP and Planck. To multiply with an
            apodized mask, write ``sky_map * mask``.

        Returns
        -------
        SkyMap

        Raises
        ------
        DataError
            If the mask is on other pixels.
        """
        return replace(self, values=np.where(keep_pixels(self, keep), self.values, np.nan))

    def to_unit(self, unit: str, frequency: str | float | None = None) -> SkyMap:
        """Return the map in another unit: K_CMB, K_RJ or Jy/sr, with any prefix.

        Conversion between these three is that of small differences about the CMB's 2.7255 K at one frequency;
        it is never done without one.

        Parameters
        ----------
        unit : str
            As ``uK_CMB``, ``K_RJ`` or ``MJy/sr``; ``uK_CMB^2`` for covariances.
        frequency : str or float, optional
            As ``"70 GHz"``, a quantity, or Hz. That of a wide band is its effective one, for the spectrum of
            the source.

        Returns
        -------
        SkyMap

        Raises
        ------
        ConfigError
            If the unit is not known, or a frequency is needed and not given.
        DataError
            If the map's own unit cannot be converted.
        """
        hertz = None if frequency is None else as_number(frequency, "frequency")
        found = [convert_unit(one, unit, hertz) for one in self.units]
        factors = np.array([factor for factor, _ in found])
        return replace(self, values=self.values * factors[:, None], units=tuple(name for _, name in found))

    def smooth(self, fwhm: str | float, n_threads: int | None = None) -> SkyMap:
        """Return the map smoothed by a Gaussian beam: S(w m) / S(w), w being 1 where the map is observed.

        HEALPix and CAR maps are smoothed by spherical harmonics (ducc0), Q and U with spin 2; flat patches in
        their plane, which holds for some degrees. Pixels that were not observed stay so, and count nothing,
        nor does what is beside a patch.

        Parameters
        ----------
        fwhm : str or float
            Full width at half maximum, as ``"1 deg"``, a quantity, or radians.
        n_threads : int, optional
            No bit depends on it.

        Returns
        -------
        SkyMap

        Raises
        ------
        ConfigError
            If the width is not between 0 and pi, or pixels have no place on the sky.
        """
        return smooth_map(self, as_number(fwhm, "angle"), n_threads or available_threads())

    def degrade(
        self,
        n_side: int | None = None,
        *,
        factor: int | None = None,
        weights: SkyMap | FloatArray | None = None,
    ) -> SkyMap:
        """Return a map of larger pixels: means of the observed pixels in each, by weights if there are any.

        Q and U are averaged as they are, as healpy's ``ud_grade`` does: north differs among the pixels near a
        pole.

        Parameters
        ----------
        n_side : int, optional
            Of the result, for HEALPix.
        factor : int, optional
            By which the side of a pixel grows, for any pixels.
        weights : SkyMap or array, optional
            Hits, or an inverse variance per pixel, or per pixel and column.

        Returns
        -------
        SkyMap

        Raises
        ------
        ConfigError
            If pixels do not fit into larger ones, or neither or both of `n_side` and `factor` are given.
        DataError
            If a weight is negative, or on other pixels.
        """
        return degrade_map(self, degrading_factor(self.pixelization, n_side, factor), weights)

    def whole(self) -> SkyMap:
        """Return a map of a part of HEALPix with all pixels of the sky, nan elsewhere; others as they are.

        Returns
        -------
        SkyMap
        """
        return whole_map(self)

    def partial(self) -> SkyMap:
        """Return a HEALPix map on `PartialHealpix`: with the pixels alone that have a value in some column.

        Returns
        -------
        SkyMap

        Raises
        ------
        ConfigError
            If it is no HEALPix map, or no pixel has a value.
        """
        return partial_map(self)

    def reordered(self) -> SkyMap:
        """Return a HEALPix map in the other order: nested for ring, ring for nested.

        Returns
        -------
        SkyMap

        Raises
        ------
        ConfigError
            If it is no HEALPix map.
        """
        return reordered_map(self)

    def plot(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        projection: str | None = None,
        limits: tuple[float, float] | None = None,
        title: str | None = None,
    ) -> tuple[Any, tuple[Any, ...]]:
        """Draw the map by matplotlib: a panel with a colour bar for each column. East is left.

        Parameters
        ----------
        columns : str or sequence of str, optional
            Names of columns; all by default.
        projection : str, optional
            ``mollweide``, ``gnomonic`` (what is observed, of less than 100 degrees) or ``image`` (CAR and
            flat patches as they are). By default the narrowest that shows all.
        limits : (float, float), optional
            Range of colours in the map's unit; by default the middle 98 % of the values, about 0 if they
            have both signs.
        title : str, optional
            Above the panels.

        Returns
        -------
        figure : matplotlib.figure.Figure
        axes : tuple of matplotlib.axes.Axes
            One a column.

        Raises
        ------
        ResourceError
            If matplotlib is not installed.
        ConfigError
            If the projection cannot show the map.
        """
        wanted = (columns,) if isinstance(columns, str) else tuple(columns or self.names)
        return plot_map(self[wanted], projection, limits, title)

    def to_healpy(self, nest: bool = False) -> FloatArray:
        """Return the values as healpy has them, UNSEEN (-1.6375e30) where not observed; U is COSMO's.

        Parameters
        ----------
        nest : bool
            Nested instead of ring order.

        Returns
        -------
        float64 (n_pix,) or (n_columns, n_pix)
            One-dimensional if there is one column.

        Raises
        ------
        ConfigError
            If it is no HEALPix map.
        """
        return healpy_values(self, nest)

    @classmethod
    def from_healpy(
        cls,
        maps: Any,
        *,
        nest: bool = False,
        names: Sequence[str] | None = None,
        unit: str = "",
        frame: str | None = None,
        polarization: str = "COSMO",
    ) -> SkyMap:
        """Return maps of healpy as a map; UNSEEN, nan and masked values are not observed.

        Parameters
        ----------
        maps : array (n_pix,) or (n_columns, n_pix), or a sequence of arrays
        nest : bool
            Whether they are in nested order.
        names : sequence of str, optional
            Of the columns; by default I, or Q and U, or I, Q and U, by their number.
        unit : str
            Of all columns; kelvin with any prefix become K_CMB, as in files.
        frame : str, optional
            equatorial, galactic or ecliptic.
        polarization : str
            Convention of the maps: ``COSMO``, as healpy has it, or ``IAU``.

        Returns
        -------
        SkyMap

        Raises
        ------
        DataError
            If the array is no HEALPix map.
        ConfigError
            If an argument has an unknown value.
        """
        values, pixelization = healpy_columns(maps, nest)
        return cls._of_columns(values, pixelization, names, unit, frame, polarization)

    def to_enmap(self, polarization: str = "COSMO", unobserved: float = 0.0) -> Any:
        """Return a CAR or flat map as pixell's ``enmap.ndmap``, (n_columns, rows, columns).

        Parameters
        ----------
        polarization : str
            Convention of the result: ``COSMO``, which pixell takes maps in memory to be in, or ``IAU``, which
            files of ACT and Simons Observatory have: U has the other sign.
        unobserved : float
            Value where the map is not observed; pixell's own maps have 0 there.

        Returns
        -------
        pixell.enmap.ndmap

        Raises
        ------
        ConfigError
            If the map is no image.
        ResourceError
            If pixell is not installed.
        """
        check_convention(polarization)
        signs = iau_to_cosmo_signs(self.names) if polarization == "IAU" else np.ones(len(self.names))
        return enmap_of(self, unobserved, signs)

    @classmethod
    def from_enmap(
        cls,
        maps: Any,
        *,
        names: Sequence[str] | None = None,
        unit: str = "",
        frame: str | None = "equatorial",
        polarization: str = "COSMO",
        unobserved: float | None = 0.0,
    ) -> SkyMap:
        """Return a map of pixell's as a map.

        Parameters
        ----------
        maps : pixell.enmap.ndmap
            CAR or TAN, of two or three dimensions.
        names : sequence of str, optional
        unit : str
        frame : str, optional
            As of `from_healpy`.
        polarization : str
            Convention of the map: ``COSMO``, or ``IAU``, as files of ACT and Simons Observatory have it.
        unobserved : float, optional
            Pixels that have this value in all columns are not observed; None: all are.

        Returns
        -------
        SkyMap

        Raises
        ------
        DataError
            If it is no map of pixell, or of another projection.
        """
        values, pixelization = enmap_columns(maps, unobserved)
        return cls._of_columns(values, pixelization, names, unit, frame, polarization)

    @classmethod
    def _of_columns(
        cls,
        values: FloatArray,
        pixelization: Pixelization,
        names: Sequence[str] | None,
        unit: str,
        frame: str | None,
        polarization: str,
    ) -> SkyMap:
        """Return columns as a map in K_CMB and COSMO."""
        check_convention(polarization)
        if frame is not None:
            require_known("unknown frame", frame, FRAME_LETTERS)
        called = column_names(names, len(values))
        factor, kelvin = to_kelvin(unit)
        signs = iau_to_cosmo_signs(called)
        scaled = values * factor * (signs[:, None] if polarization == "IAU" else 1.0)
        convention = "COSMO" if (signs < 0).any() else None
        return cls(scaled, pixelization, called, (kelvin,) * len(called), frame, convention)

    def __repr__(self) -> str:
        return map_text(self)

    def _repr_html_(self) -> str:
        return map_html(self)
