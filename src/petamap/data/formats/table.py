"""Tables of time streams, text or FITS: a row for each sample, columns of time, pointing, signal and flags.

Columns are named by the options. ``*`` in a name stands for the name of a detector: ``signal = "signal_*"``
finds the detectors, and ``flags = "flags_*"`` their flags; names without it are of columns that all detectors
share.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.options import option
from petacomm.base.units import parse_utc
from petamap.data.detector_noise import focalplane_noise
from petamap.data.formats.csv_table import DELIMITERS, CsvTable
from petamap.data.formats.fits_table import FitsTable
from petamap.data.formats.lazy import LazyPointing
from petamap.data.formats.table_columns import TableFile, TableLayout, find_layouts
from petamap.data.formats.table_pointing import AngleConvention, detectors_of, read_pointing
from petamap.data.formats.table_rows import TableRows, split_rows
from petamap.data.formats.table_samples import TableSamples
from petamap.data.observation import DetectorNoise, Observation
from petamap.data.selection import detectors_option, observations_option, select_observations
from petamap.data.source import SourceContext
from petamap.pointing.focalplane import load_focalplane
from petamap.pointing.frames import FRAMES, OFFSET

HORIZONTAL = "horizontal"
# columns of longitude and latitude
_ANGLES = {
    "equatorial": ("ra", "dec"),
    "galactic": ("glon", "glat"),
    "ecliptic": ("elon", "elat"),
    HORIZONTAL: ("az", "el"),
    OFFSET: ("lon", "lat"),
    "colatitude": ("phi", "theta"),
}
_FITS = (".fits", ".fit")
_TEXT = (".csv", ".txt", ".tsv", ".dat")


@dataclass(frozen=True)
class TableOptions:
    """Text (CSV) and FITS tables with a row for each sample."""

    path: str = option(path=True, help="a table, or a folder with one for each observation")
    observations: tuple[str, ...] = observations_option()
    detectors: tuple[str, ...] = detectors_option()
    format: str = option("auto", choices=("auto", "text", "fits"), help="auto: fits where the suffix says so")
    table: str = option("", help="FITS: name of the extension; empty: the first table")
    delimiter: str = option(
        "auto", choices=("auto", *DELIMITERS), help="text: between columns; auto: as in the line of names"
    )
    time: str = option("time", help="column of times; empty: none, then give sample_rate")
    time_format: str = option(
        "unix", choices=("unix", "mjd", "jd"), help="seconds since 1970, or since start; or days, UTC"
    )
    start: str = option("", help="UTC from which seconds count, as 2026-01-01T00:00:00; empty: 1970")
    sample_rate: float = option(0.0, dimension="frequency", minimum=0.0, help="0: that of the times")
    frame: str = option(
        "equatorial",
        choices=(*FRAMES, HORIZONTAL, OFFSET),
        help="coordinates of the pointing; horizontal: azimuth and elevation, turned to equatorial",
    )
    lon: str = option(
        "", help="column of longitudes; default: ra, glon, elon, az or lon by the frame, phi with colatitude"
    )
    lat: str = option(
        "",
        help="column of latitudes; default: dec, glat, elat, el or lat by the frame, theta with colatitude",
    )
    psi: str = option("psi", help="column of polarization angles; empty: unpolarized")
    colatitude: bool = option(False, help="latitudes count from the pole: theta of HEALPix")
    angle_unit: str = option(
        "",
        choices=("", "deg", "rad", "arcmin", "arcsec"),
        help="of all angles; empty: as FITS says, else deg",
    )
    polarization: str = option(
        "COSMO", choices=("COSMO", "IAU"), help="psi counts from south to east, or (IAU) from north to east"
    )
    thin: float = option(
        0.0, dimension="angle", minimum=0, help="thin the pointing out to this accuracy; 0 keeps all samples"
    )
    site_latitude: float | None = option(None, dimension="angle", help="of the site, where horizontal")
    site_longitude: float | None = option(None, dimension="angle", help="of the site, east positive")
    focalplane: str = option(
        "", help="places and noise of detectors about the pointing: planck-lfi, a .toml or RIMO .fits file"
    )
    signal: str = option("signal", help="column of the signal, signal_* for several; empty: none")
    flags: str = option("flags", help="column of flags, not 0 where bad; the default may be missing")
    mask: int = option(0, minimum=0, maximum=2**31 - 1, help="bits of the flags that say bad; 0: all")
    gain: str = option("", help="column of gains, by which the signal is divided; empty: none")
    weight: str = option(
        "", help="column of weights, 1 / variance of white noise, 0 where bad; empty: no noise is known"
    )
    unit: str = option("", help="of the signal; empty: as FITS says, else K_CMB")


class TableSource:
    """Source of the observations of tables."""

    options: ClassVar[type] = TableOptions

    def __init__(self, options: TableOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._path = context.folder / options.path
        if options.frame == HORIZONTAL and None in (options.site_latitude, options.site_longitude):
            raise ConfigError(
                "azimuth and elevation need a site",
                where=context.places.get("frame"),
                mend='give site_latitude and site_longitude, as "-22.96 deg"',
            )
        named = options.focalplane
        self._plane = load_focalplane(named, context.folder) if named else None

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Append an observation for each table and each range of its rows between gaps in time.

        Where detectors have pointing of their own, each is an observation of its own.

        Text tables are read whole, FITS tables but for their times on demand.

        Raises
        ------
        DataError
            If a file is no table, lacks a column, or its times do not increase.
        ConfigError
            If a column that the configuration names is missing, or a name fits no observation or detector.
        """
        options = self._options
        new = [one for path in self._paths() for one in self._observations(path)]
        chosen = select_observations(
            new, self._context, observations=options.observations, detectors=options.detectors
        )
        return [*observations, *chosen]

    def _paths(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path]
        paths = sorted(path for path in self._path.iterdir() if path.suffix.lower() in (*_FITS, *_TEXT))
        if not paths:
            what = f"no {', '.join((*_TEXT, *_FITS))} files here"
            raise DataError(what, where=str(self._path), mend="name a table, or a folder of tables")
        return paths

    def _open(self, path: Path) -> CsvTable | FitsTable:
        options = self._options
        if not path.is_file():
            raise DataError("is no regular file", where=str(path), mend="name a table on disk")
        is_fits = path.suffix.lower() in _FITS if options.format == "auto" else options.format == "fits"
        return FitsTable(path, options.table) if is_fits else CsvTable(path, options.delimiter)

    def _observations(self, path: Path) -> list[Observation]:
        table = self._open(path)
        names = self._plane.names if self._plane and not self._options.signal else ()
        layouts = find_layouts(table, self._names(), self._context.places, names)
        columns = table.read_columns(list(dict.fromkeys(c for one in layouts for c in one.columns())))
        options, start = self._options, parse_utc(self._options.start) if self._options.start else 0.0
        pieces = split_rows(
            table,
            columns,
            layouts[0].time,
            sample_rate=options.sample_rate,
            start=start,
            time_format=options.time_format,
        )
        number = "-{:04d}" if len(pieces) > 1 else ""
        return [
            self._observation(path.stem + number.format(k), rows, layout)
            for k, rows in enumerate(pieces)
            for layout in layouts
        ]

    def _names(self) -> dict[str, str]:
        """Return the names of the columns by option."""
        options = self._options
        lon, lat = _ANGLES["colatitude" if options.colatitude else options.frame]
        names = {key: getattr(options, key) for key in ("time", "psi", "signal", "flags", "gain", "weight")}
        return {**names, "lon": options.lon or lon, "lat": options.lat or lat}

    def _observation(self, name: str, rows: TableRows, layout: TableLayout) -> Observation:
        options = self._options
        name = f"{name}-{layout.detectors[0]}" if layout.of_detector else name
        samples = TableSamples(rows, layout, options.mask)
        load = partial(read_pointing, rows, layout, self._convention(), self._plane)
        return Observation(
            name=name,
            uid=zlib.crc32(name.encode()),
            n_samp=rows.n_samp,
            sample_rate=rows.sample_rate,
            detectors=layout.detectors,
            start_time=rows.start_time,
            intervals=((0, rows.n_samp),),
            pointing=LazyPointing(rows.n_samp, len(layout.detectors), load),
            frame="equatorial" if options.frame == HORIZONTAL else options.frame,
            signals=(samples,) if layout.signal else (),
            flags=(samples,) if layout.flags or layout.weight else (),
            noise=samples if layout.weight else self._noise(layout),
            unit=self._unit(rows.table, layout),
            meta={"file": str(rows.path)},
        )

    def _convention(self) -> AngleConvention:
        options = self._options
        site = None
        if options.frame == HORIZONTAL:
            assert options.site_latitude is not None and options.site_longitude is not None
            site = (options.site_latitude, options.site_longitude)
        iau = options.polarization == "IAU"
        return AngleConvention(options.angle_unit, options.colatitude, iau, site, options.thin)

    def _noise(self, layout: TableLayout) -> DetectorNoise | None:
        return focalplane_noise(detectors_of(self._plane, layout.detectors)) if self._plane else None

    def _unit(self, table: TableFile, layout: TableLayout) -> str:
        """Return the unit of the signal: as the configuration says, else as the file does, else K_CMB."""
        found = sorted({table.unit(name) for name in layout.signal})
        if self._options.unit or not layout.signal:
            return self._options.unit or "K_CMB"
        if len(found) > 1:
            raise DataError(f"signals are in {' and '.join(found)}", where=str(table.path), mend="say unit")
        return "K_CMB" if found[0] in ("", "K") else found[0]
