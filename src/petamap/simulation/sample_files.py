"""Small files of simulated data, in the place of a user's own in configuration templates."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.files import write_text
from petamap.data.observation import DetectorNoise, Observation, read_signal
from petamap.data.source import SourceContext
from petamap.noise.model import InverseLags, OneOverF
from petamap.noise.psd import noise_psd
from petamap.noise.toeplitz import inverse_lags
from petamap.pointing.scan_strategies import Sweep
from petamap.simulation.noise import NoiseSource, NoiseSourceOptions
from petamap.simulation.sky_sources import SkySpectraOptions, SkySpectraSource
from petamap.simulation.virtual_scans import SatelliteOptions, SatelliteSource
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map

_RATE = 5.0
_N_LAG = 256
_NOISE = OneOverF(60e-6, 0.05, 0.0, -1.0)
_NAMES = ("path", "tod", "filters", "map")  # options that name the files of a source


def write_sample_files(kind: str, options: Mapping[str, object], folder: Path) -> list[Path]:
    """Write small files that a kind of source reads.

    Parameters
    ----------
    kind : str
        Kind of source.
    options : mapping
        Options of the source in the template, which name the files.
    folder : Path
        Folder of the configuration.

    Returns
    -------
    list of Path
        Files and folders that were written; none if the kind reads none.

    Raises
    ------
    ConfigError
        If one is there already; nothing is written then.
    """
    if kind not in _WRITERS:
        return []
    paths = {name: folder / str(options[name]) for name in _NAMES if name in options}
    for path in paths.values():
        if path.exists():
            raise ConfigError("exists already", where=str(path), mend="choose another folder, or remove it")
    _WRITERS[kind](**paths)
    return list(paths.values())


def _observation(**changes: float) -> Observation:
    """Return six hours of a satellite's four detectors, with the sky of Planck's best fit and noise."""
    context = SourceContext(Path())
    scan = SatelliteOptions(
        n_det=4, sample_rate=_RATE, duration=6 * 3600.0, opening=np.radians(50.0),
        precession_angle=np.radians(45.0), precession_period=5760.0, net=_NOISE.net, fknee=_NOISE.fknee,
        name="sample",
    )  # fmt: skip
    scan = dataclasses.replace(scan, **changes)  # type: ignore[arg-type]
    found = SatelliteSource(scan, context).extend([])
    found = _sky().extend(found)
    return NoiseSource(NoiseSourceOptions(), context).extend(found)[0]


def _sky() -> SkySpectraSource:
    options = SkySpectraOptions(n_side=64, fwhm=np.radians(2.0))
    return SkySpectraSource(options, SourceContext(Path()))


def _write_volume(path: Path) -> None:
    from petamap.data.formats.volume_write import write_volume

    write_volume(path, [_observation()], "float32")


def _write_toast(path: Path) -> None:
    from petamap.data.formats.toast_write import write_toast

    path.mkdir(parents=True)
    write_toast(path, [_observation()])


def _write_madmap1(tod: Path, filters: Path) -> None:
    from petamap.data.formats.madmap1_write import write_madmap1

    one = _observation()
    lags = InverseLags(inverse_lags(_NOISE, _RATE, _N_LAG))
    one = dataclasses.replace(one, noise=DetectorNoise((lags,) * one.n_det))
    filters.mkdir(parents=True)
    write_madmap1(tod, filters, [one], Healpix(16, nest=True))


def _write_table(path: Path) -> None:
    """Write six hours of four detectors that look along one line of sight, at 2 Hz."""
    one = _observation(sample_rate=2.0, spacing=0.0)
    assert one.pointing is not None
    vectors = one.pointing.directions(0, 0, one.n_samp)[0]
    lon = np.degrees(np.arctan2(vectors[:, 1], vectors[:, 0]))
    names, columns = ["time", "glon", "glat"], [np.degrees(np.arcsin(vectors[:, 2]))]
    columns = [np.arange(one.n_samp) / one.sample_rate, lon, *columns]
    for detector, name in enumerate(one.detectors):
        turns = one.pointing.directions(detector, 0, one.n_samp)[1] / 2**32
        names += [f"psi_{name}", f"signal_{name}"]
        columns += [180 * turns, read_signal(one, detector, 0, one.n_samp)]
    rows = zip(*columns, strict=True)
    lines = [",".join(names), *(",".join(f"{number:.9g}" for number in row) for row in rows)]
    write_text(path, "\n".join(lines) + "\n")


def _write_sky(map: Path) -> None:
    write_map(
        map,
        _sky().make(),
        Healpix(64),
        names=["I", "Q", "U"],
        unit="K_CMB",
        run_id="sample",
        frame="galactic",
    )


def _write_antenna_log(path: Path) -> None:
    """Write ten minutes of an antenna's log: rows of two degrees about azimuth 180, elevation 50."""
    sweep, rows = Sweep(2.0, 0.2, 0.4), 21
    seconds = np.arange(6000) / 10
    leg = sweep.leg_number(seconds)
    row = (rows - 1) - np.abs(np.mod(leg, 2 * (rows - 1)) - (rows - 1))
    azimuth = 180 + (sweep.position(seconds) - 1) / np.cos(np.radians(50))
    elevation = 49 + 0.1 * row
    turning = np.mod(seconds, sweep.leg + sweep.turn) >= sweep.leg
    lines = ["# time, source, commanded and measured direction, ..., kind of row"]
    for k, t in enumerate(seconds):
        at, where = time.gmtime(1767225600 + int(t)), f"{azimuth[k]:.6f} {elevation[k]:.6f}"
        clock = time.strftime("%Y%m%d%H%M", at) + f"{at.tm_sec + t % 1:04.1f}"
        columns = ["0 0", where, where, *["0"] * 7, where, "180 50", "TURN" if turning[k] else "SCAN"]
        lines.append(" ".join([clock, *columns]))
    write_text(path, "\n".join(lines) + "\n")


def _write_noise(path: Path) -> None:
    """Write spectra of the noise of four detectors, whose knees differ."""
    names = _observation().detectors
    frequencies = np.geomspace(1e-4, _RATE / 2, 60)
    knees = _NOISE.fknee * np.geomspace(0.5, 2.0, len(names))
    psd = [noise_psd(dataclasses.replace(_NOISE, fknee=knee), frequencies) for knee in knees.tolist()]
    rows = np.stack([frequencies, *psd], axis=1).tolist()
    lines = [",".join(["frequency", *(f"psd_{name}" for name in names)])]
    write_text(path, "\n".join(lines + [",".join(f"{value:.6g}" for value in row) for row in rows]) + "\n")


def _write_amplitudes(path: Path) -> None:
    """Write the offsets of the four detectors of an observation named satellite."""
    from petamap.data.formats.amplitudes import AmplitudeTable, write_amplitudes

    names = list(_observation().detectors)
    n, zeros = len(names), np.zeros(len(names), np.int64)
    values = 1e-6 * np.linspace(-1, 1, n)
    table = AmplitudeTable(
        ["satellite"] * n, names, ["offsets"] * n, zeros, zeros, values, np.ones(n, np.bool_)
    )
    write_amplitudes(path, table, "K_CMB", "sample")


_WRITERS: dict[str, Callable[..., None]] = {
    "volume": _write_volume,
    "toast": _write_toast,
    "table": _write_table,
    "noise-table": _write_noise,
    "solved-templates": _write_amplitudes,
    "madmap1": _write_madmap1,
    "sky-map": _write_sky,
    "recorded": _write_antenna_log,
}
