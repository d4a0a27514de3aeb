"""Noise of detectors from files: spectra, lags of the inverse, 1/f noise by interval, or MADmap's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from petacomm.base.errors import ConfigError, DataError, printable
from petacomm.base.name_patterns import choose_names
from petacomm.base.options import option
from petacomm.base.typing import FloatArray
from petamap.data.formats.csv_table import DELIMITERS
from petamap.data.formats.interval_noise_table import PARAMETERS, NoiseByInterval, read_interval_noise
from petamap.data.formats.madmap1_filters import NoiseFilter, read_noise_filters
from petamap.data.formats.table_columns import TableFile, find_column
from petamap.data.formats.table_file import open_table
from petamap.data.observation import DetectorNoise, Noise, Observation
from petamap.data.selection import observations_option
from petamap.data.source import SourceContext
from petamap.noise.model import InverseLags, NoiseModel, TabulatedPsd
from petamap.noise.psd import check_noise_model
from petamap.noise.toeplitz import toeplitz_spectrum

_ROUNDING = 1e-9  # of the largest value of a spectrum, that written numbers may lack
_FINE = 16  # points of the spectrum a lag


@dataclass(frozen=True)
class NoiseTableOptions:
    """Noise of detectors from a file: spectra, lags of the inverse covariance, or 1/f noise by interval."""

    path: str = option(
        path=True,
        help="a text or FITS table; or MADmap's inverse-noise files, a folder, .tar, .tar.gz or .tar.xz",
    )
    observations: tuple[str, ...] = observations_option()
    format: str = option("auto", choices=("auto", "text", "fits", "madmap1"), help="auto: as the name says")
    table: str = option("", help="FITS: name of the extension; empty: the first table")
    delimiter: str = option(
        "auto", choices=("auto", *DELIMITERS), help="text: between columns; auto: as in the line of names"
    )
    psd: str = option(
        "", help="column of the one-sided PSD, unit of the signal squared a Hz; psd_* for one a detector"
    )
    frequency: str = option("frequency", help="column of its frequencies, Hz")
    lags: str = option(
        "", help="column of the inverse noise at lags 0, 1, ...; lags_* for one a detector; instead of psd"
    )
    net: str = option(
        "", help="column of the white noise of intervals, a row each, K s^0.5; net_* for one a detector"
    )
    fknee: str = option("", help="with net: column of the knee, Hz; or fknee_*; without it noise is white")
    fmin: str = option("", help="with net: column of the frequency below which noise is flat, Hz; or fmin_*")
    alpha: str = option("", help="with net: column of the slope at low frequency, or alpha_*; without it -1")
    scale: float = option(1.0, help="factor on the PSD; the inverse noise is divided by it")


class NoiseTableSource:
    """Source of noise models that stand in a file; they replace those of the sources before."""

    options: ClassVar[type] = NoiseTableOptions

    def __init__(self, options: NoiseTableOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._path = context.folder / options.path
        self._places = context.places
        if not options.scale > 0:
            raise ConfigError(f"scale is {options.scale:g}, not positive", where=self._places.get("scale"))
        given = [key for key in ("psd", "lags", "net") if getattr(options, key)]
        if self._format() != "madmap1" and len(given) != 1:
            fault = f"{given[0]} is given beside {given[1]}" if given else "no column tells the noise"
            raise ConfigError(fault, where=self._places.get("path"), mend='give psd, lags or net = "..."')
        for key in PARAMETERS:
            if getattr(options, key) and "net" not in given:
                raise ConfigError(f"{key} without net", where=self._places.get(key), mend="give both")

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with the noise of the file.

        Raises
        ------
        DataError
            If the file cannot be read, lacks a column, or holds no noise: a PSD that is not positive, or
            lags whose spectrum is negative.
        ConfigError
            If a name fits no observation, or the file has no column of a detector.
        """
        chosen = choose_names(
            self._options.observations, (one.name for one in observations), "observation",
            where=self._places.get("observations"),
        )  # fmt: skip
        given = [one for one in observations if one.name in chosen]
        read: Callable[[Sequence[Observation]], Sequence[Noise]] = self._from_table
        if self._options.net:
            read = self._from_intervals
        if self._format() == "madmap1":
            read = self._from_filters
        (found,) = self._context.once_a_node([partial(read, given)])
        noises: dict[str, Noise] = dict(zip((one.name for one in given), found, strict=True))
        return [
            dataclasses.replace(one, noise=noises[one.name]) if one.name in chosen else one
            for one in observations
        ]

    def _format(self) -> str:
        """Return what the file is: "madmap1", or a table."""
        if self._options.format != "auto":
            return self._options.format
        archive = self._path.name.lower().endswith((".tar", ".tar.gz", ".tgz", ".tar.xz"))
        return "madmap1" if archive or self._path.is_dir() else "table"

    def _open(self) -> TableFile:
        options = self._options
        return open_table(self._path, options.format, options.table, options.delimiter)

    def _from_intervals(self, observations: Sequence[Observation]) -> list[NoiseByInterval]:
        options = self._options
        patterns = {key: getattr(options, key) for key in PARAMETERS if getattr(options, key)}
        return read_interval_noise(self._open(), observations, patterns, options.scale, self._places)

    def _from_table(self, observations: Sequence[Observation]) -> list[DetectorNoise]:
        options, table = self._options, self._open()
        key = "psd" if options.psd else "lags"
        pattern = getattr(options, key)
        names = sorted({name for one in observations for name in one.detectors} if "*" in pattern else {""})
        columns = {name: find_column(table, key, pattern, name, self._places) for name in names}
        other = []
        if options.psd:
            other = [find_column(table, "frequency", options.frequency, "", self._places)]
        values = table.read_columns(list(dict.fromkeys([*other, *columns.values()])))
        floats = {name: one.astype(np.float64) for name, one in values.items()}
        models: dict[str, NoiseModel] = {}
        for name, column in columns.items():
            where = f"{self._path}, column {printable(column)}"
            frequencies = floats[other[0]] if other else None
            models[name] = _model(frequencies, floats[column], float(options.scale), where)
        return [
            DetectorNoise(tuple(models[name if "*" in pattern else ""] for name in one.detectors))
            for one in observations
        ]

    def _from_filters(self, observations: Sequence[Observation]) -> list[DetectorNoise]:
        """Return the noise of MADmap's files: one for each detector of each observation, in their order.

        Where there are as many as one observation has detectors, all observations have them.
        """
        files = read_noise_filters(self._path)
        counts = [one.n_det for one in observations]
        if len(files) == sum(counts):
            ends = np.cumsum(counts).tolist()
            parts = [files[end - n : end] for n, end in zip(counts, ends, strict=True)]
            for one, part in zip(observations, parts, strict=True):
                _check_lengths(one, part)
        elif set(counts) == {len(files)}:
            parts = [files] * len(counts)
        else:
            what = (
                f"{len(files)} inverse-noise files for {sum(counts)} detectors of {len(counts)} observations"
            )
            raise DataError(what, where=str(self._path), mend="one a detector, or one a detector of each")
        return [DetectorNoise(tuple(self._scaled(file) for file in part)) for part in parts]

    def _scaled(self, file: NoiseFilter) -> InverseLags:
        return InverseLags(file.noise.lags / float(self._options.scale))


def _check_lengths(observation: Observation, files: Iterable[NoiseFilter]) -> None:
    for name, file in zip(observation.detectors, files, strict=True):
        if file.n_samp != observation.n_samp:
            what = f"is of {file.n_samp} samples, observation {observation.name} has {observation.n_samp}"
            raise DataError(what, where=f"{file.where}, detector {name}", mend="choose its observations")


def _model(frequencies: FloatArray | None, values: FloatArray, scale: float, where: str) -> NoiseModel:
    """Return the noise model of a column.

    Raises
    ------
    DataError
        If it is none.
    """
    if frequencies is not None:
        table = TabulatedPsd(frequencies, values * scale)
        check_noise_model(table, where)
        return table
    lags = InverseLags(values[: max(1, np.max(np.flatnonzero(values), initial=0) + 1)] / scale)
    check_noise_model(lags, where)
    spectrum = toeplitz_spectrum(lags.lags, _FINE * len(lags.lags))
    if spectrum.min() < -_ROUNDING * spectrum.max():
        at = int(spectrum.argmin()) / (2 * (len(spectrum) - 1))
        raise DataError(
            f"its lags have a negative spectrum, {spectrum.min():.3g} at {at:.3g} cycles a sample",
            where=where, mend="inverse noise is positive at all frequencies: give more lags, or taper them",
        )  # fmt: skip
    return lags
