"""Skies of PySM 3 (Thorne et al. 2017, MNRAS 469, 2821; Zonca et al. 2021), integrated over bandpasses.

PySM has its templates from the network, from astropy's cache, or from the folder in PYSM_LOCAL_DATA.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from petacomm.base.errors import ConfigError, DataError, ResourceError, require_known
from petacomm.base.files import require_file
from petacomm.base.options import option
from petacomm.base.typing import FloatArray
from petamap.data.observation import Observation
from petamap.data.source import SourceContext
from petamap.simulation.sky import Sky, with_sky
from petamap.sky.healpix import Healpix
from petamap.sky.sky_map import SkyMap

_N_TOP_HAT = 11  # frequencies of a band that is given by its width


@dataclass(frozen=True)
class PysmOptions:
    """Foregrounds and CMB of PySM 3 in a band: I, Q, U in K_CMB."""

    models: tuple[str, ...] = option(help='presets of PySM, as ["d1", "s1", "c1"]')
    frequency: float | None = option(
        None, dimension="frequency", minimum=1e6, maximum=1e13, help="of the band's middle"
    )
    bandwidth: float = option(
        0.0, dimension="frequency", minimum=0.0, help="full width of a flat band; 0: a single frequency"
    )
    bandpass: str | None = option(
        None, path=True, help="text of two columns instead of these: GHz, transmission in power (Jy/sr)"
    )
    n_side: int = option(256, minimum=1, maximum=8192, help="HEALPix resolution of the sky")
    fwhm: float = option(0.0, dimension="angle", minimum=0.0, help="of a Gaussian beam")
    interpolation: str = option(
        "nearest", choices=("nearest", "bilinear"), help="value of the pixel, or between four"
    )
    scale: float = option(1.0, help="factor on the sky")
    detectors: tuple[str, ...] = option(
        (), help="that see it: names, patterns, beginnings of names; default: all"
    )


class PysmSource:
    """Source of the signal of a sky of PySM, which is common to all observations."""

    options: ClassVar[type] = PysmOptions

    def __init__(self, options: PysmOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._pysm = _pysm3()
        for model in options.models:
            require_known("PySM has no model", model, self._pysm.sky.PRESET_MODELS)
        self._band = self._bandpass()

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with the signal of the sky added; the sky is computed at first use.

        Raises
        ------
        ConfigError
            If an observation has no pointing, is not in K_CMB, or not in galactic coordinates.
        """
        for one in observations:
            if one.unit != "K_CMB":
                raise ConfigError(f"PySM gives K_CMB, {one.name} is in '{one.unit}'")
            if one.frame not in (None, "galactic"):
                raise ConfigError(
                    f"PySM's skies are galactic, the pointing of {one.name} is {one.frame}",
                    mend="write the sky to a file in that frame, and take it by sky-map",
                )
        sky = Sky(Healpix(self._options.n_side), self.make)
        return with_sky(observations, sky, self._options, self._context)

    def make(self) -> FloatArray:
        """Return I, Q, U of the sky in ring ordering, K_CMB, float64 (3, n_pix).

        Raises
        ------
        ResourceError
            If a template is not there and cannot be fetched.
        """
        from astropy import units

        options, (frequencies, weights) = self._options, self._band
        try:
            sky = self._pysm.Sky(
                nside=options.n_side, preset_strings=list(options.models), output_unit=units.Unit("K_CMB")
            )
        except OSError as error:  # URLError is one
            raise ResourceError(
                f"a template of {', '.join(options.models)} is not there and cannot be fetched: {error}",
                where="PySM",
                mend="put PySM's data into a folder and name it by PYSM_LOCAL_DATA",
            ) from error
        values = sky.get_emission(frequencies * units.GHz, weights).value
        found = SkyMap.from_healpy(np.asarray(values, np.float64) * options.scale, unit="K_CMB")
        return (found.smooth(options.fwhm, n_threads=1) if options.fwhm else found).values

    def _bandpass(self) -> tuple[FloatArray, FloatArray]:
        """Return frequencies in GHz and the weights of power at them."""
        options = self._options
        if (options.frequency is None) == (options.bandpass is None):
            raise ConfigError(
                "a band is given by its frequency or by its bandpass",
                where=self._context.place("frequency"), mend='write frequency = "70 GHz"',
            )  # fmt: skip
        if options.bandpass is not None:
            return self._context.read(read_bandpass, str(self._context.folder / options.bandpass))
        middle, half = (options.frequency or 0.0) / 1e9, options.bandwidth / 2e9
        if half >= middle:
            raise ConfigError(f"a band of {2 * half:g} GHz around {middle:g} GHz goes below 0")
        n = _N_TOP_HAT if half else 1
        return np.linspace(middle - half, middle + half, n), np.ones(n)


def read_bandpass(path: str) -> tuple[FloatArray, FloatArray]:
    """Return the frequencies in GHz, increasing, and the transmissions of a text file of two columns.

    Raises
    ------
    DataError
        If the file is missing, or its numbers are no bandpass.
    """
    try:
        columns = np.loadtxt(require_file(path), ndmin=2, dtype=np.float64)
    except (OSError, ValueError) as error:
        raise DataError(f"no text of two columns: {error}", where=path) from error
    if columns.shape[1] != 2 or len(columns) < 2:
        raise DataError(
            f"{columns.shape[1]} columns of {len(columns)} rows, not GHz and transmission", where=path
        )
    frequencies, weights = np.ascontiguousarray(columns.T)
    finite = np.isfinite(columns).all()
    rises = finite and frequencies[0] > 0 and (np.diff(frequencies) > 0).all()
    if not rises or (weights < 0).any() or not weights.any():
        raise DataError("frequencies must increase and transmissions be 0 or more, and not all 0", where=path)
    return frequencies, weights


def _pysm3() -> Any:
    try:
        import pysm3
    except ImportError as error:
        raise ResourceError("skies of PySM need pysm3", mend="pip install 'petamap[pysm]'") from error
    return pysm3
