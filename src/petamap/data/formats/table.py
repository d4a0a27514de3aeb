"""Tables of time streams, text or FITS: a row for each sample, columns of time, pointing, signal and flags.

Columns are named by the options. ``*`` in a name stands for the name of a detector: ``signal = "signal_*"``
finds the detectors, and ``flags = "flags_*"`` their flags; names without it are of columns that all detectors
share.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from petacomm.base.errors import DataError
from petacomm.base.units import parse_utc
from petamap.data.detector_noise import focalplane_noise
from petamap.data.formats.lazy import LazyPointing
from petamap.data.formats.table_columns import TableFile, TableLayout, find_layouts
from petamap.data.formats.table_file import FITS_SUFFIXES, TEXT_SUFFIXES, open_table
from petamap.data.formats.table_options import (
    HORIZONTAL,
    TableOptions,
    check_combination,
    given_pixelization,
)
from petamap.data.formats.table_pointing import AngleConvention, detectors_of, read_pointing, table_angles
from petamap.data.formats.table_response import TablePixels, TableResponses
from petamap.data.formats.table_rows import TableRows, split_rows
from petamap.data.formats.table_samples import TableSamples
from petamap.data.observation import DetectorNoise, Observation
from petamap.data.recorded_azimuth import RecordedAzimuth
from petamap.data.selection import select_observations
from petamap.data.source import SourceContext
from petamap.pointing.focalplane import load_focalplane
from petamap.pointing.frames import OFFSET
from petamap.pointing.protocol import Pointing
from petamap.pointing.recorded import RecordedPixels
from petamap.pointing.recorded_response import RecordedResponse
from petamap.sky.numbered import NumberedPixels

# columns of longitude and latitude
_ANGLES = {
    "equatorial": ("ra", "dec"),
    "galactic": ("glon", "glat"),
    "ecliptic": ("elon", "elat"),
    HORIZONTAL: ("az", "el"),
    OFFSET: ("lon", "lat"),
    "colatitude": ("phi", "theta"),
}
_COLUMNS = (
    "time", "signal", "flags", "gain", "weight", "pixel", "response_i", "response_q", "response_u",
)  # fmt: skip


class TableSource:
    """Source of the observations of tables."""

    options: ClassVar[type] = TableOptions

    def __init__(self, options: TableOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._path = context.folder / options.path
        check_combination(options, context.places)
        self._pixelization = given_pixelization(options, context)
        named = options.focalplane
        self._plane = context.read(load_focalplane, named, context.folder) if named else None

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
        tables = self._context.once_a_node([partial(self._observations, path) for path in self._paths()])
        new = [one for of_table in tables for one in of_table]
        chosen = select_observations(
            new, self._context, observations=options.observations, detectors=options.detectors
        )
        return [*observations, *chosen]

    def _paths(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path]
        kinds = (*FITS_SUFFIXES, *TEXT_SUFFIXES)
        paths = sorted(path for path in self._path.glob("[!.]*") if path.suffix.lower() in kinds)
        if not paths:
            what = f"no {', '.join((*TEXT_SUFFIXES, *FITS_SUFFIXES))} files here"
            raise DataError(what, where=str(self._path), mend="name a table, or a folder of tables")
        return paths

    def _observations(self, path: Path) -> list[Observation]:
        options = self._options
        table = open_table(path, options.format, options.table, options.delimiter)
        names = self._plane.names if self._plane and not self._options.signal else ()
        layouts = find_layouts(table, self._names(), self._context.places, names)
        columns = table.read_columns(list(dict.fromkeys(c for one in layouts for c in one.columns())))
        start = parse_utc(options.start) if options.start else 0.0
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
        names = {key: getattr(options, key) for key in _COLUMNS}
        if options.pixel:
            return {**names, "psi": self._psi(), "lon": "", "lat": ""}
        return {**names, "psi": self._psi(), "lon": options.lon or lon, "lat": options.lat or lat}

    def _psi(self) -> str:
        """Return the column of polarization angles; none where responses to Q and U are given."""
        return "" if self._options.response_q else self._options.psi

    def _observation(self, name: str, rows: TableRows, layout: TableLayout) -> Observation:
        options = self._options
        name = f"{name}-{layout.detectors[0]}" if layout.of_detector else name
        samples = TableSamples(rows, layout, options.mask)
        return Observation(
            name=name,
            uid=zlib.crc32(name.encode()),
            n_samp=rows.n_samp,
            sample_rate=rows.sample_rate,
            detectors=layout.detectors,
            start_time=rows.start_time,
            intervals=((0, rows.n_samp),),
            pointing=self._pointing(rows, layout, samples),
            frame=self._frame(),
            azimuth=self._azimuth(rows, layout),
            signals=(samples,) if layout.signal else (),
            flags=(samples,) if layout.flags or layout.weight else (),
            noise=samples if layout.weight else self._noise(layout),
            unit=self._unit(rows.table, layout),
            meta={"file": str(rows.path)},
        )

    def _frame(self) -> str | None:
        if isinstance(self._pixelization, NumberedPixels):
            return None
        return "equatorial" if self._options.frame == HORIZONTAL else self._options.frame

    def _azimuth(self, rows: TableRows, layout: TableLayout) -> RecordedAzimuth | None:
        if self._options.frame != HORIZONTAL:
            return None
        return RecordedAzimuth(
            partial(table_angles, rows, layout.lon, self._options.angle_unit),
            partial(rows.place, name=layout.lon),
        )

    def _pointing(self, rows: TableRows, layout: TableLayout, samples: TableSamples) -> Pointing:
        convention, n_det = self._convention(), len(layout.detectors)
        own = TableResponses(rows, layout, convention, samples)
        gains = own.gains if own.has_gains else None
        angles = own.angles if own.has_angles else None
        if self._pixelization is not None:
            read = TablePixels(rows, layout, self._pixelization).read
            return RecordedPixels(
                read, self._pixelization, n_det=n_det, n_samp=rows.n_samp, gains=gains, angles=angles,
                efficiencies=own.efficiency,
            )  # fmt: skip
        sight = LazyPointing(
            rows.n_samp, n_det, partial(read_pointing, rows, layout, convention, self._plane)
        )
        if gains is None and angles is None:
            return sight
        return RecordedResponse(sight, gains, angles, own.efficiency)

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
