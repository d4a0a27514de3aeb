"""Files whose headers, tables and maps each node reads once: opens are counted, contents compared."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import struct
import sys
from collections import Counter
from pathlib import Path
from unittest import mock

import h5py
import numpy as np
import pytest
from astropy.io import fits
from cases import cases
from made_observations import White, flags_of, observation, signal_of
from mpi import run_ranks

from petacomm.base.errors import DataError
from petamap.data.config import open_signal_parts, open_sources, parse_config
from petamap.data.formats.volume_write import write_volume
from petamap.noise.model import InverseLags, OneOverF
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map

TOAST = Path(__file__).parent / "toast_3.0.6"
SCAN = '[[source]]\nkind = "satellite"\nduration = "10 min"\nsample_rate = "5 Hz"\n'

# What sources read, by the files that `write_files` makes.
SOURCES = {
    "volumes": '[[source]]\nkind = "volume"\npath = "volumes"\n',
    "toast": '[[source]]\nkind = "toast"\npath = "toast"\n',
    "madmap": '[[source]]\nkind = "madmap1"\ntod = "tod"\nfilters = "filters"\n',
    "packed": '[[source]]\nkind = "madmap1"\ntod = "tod.gz"\nfilters = "filters"\n',
    "texts": '[[source]]\nkind = "table"\npath = "texts"\nsignal = "signal_*"\npsi = ""\n',
    "fits": '[[source]]\nkind = "table"\npath = "table.fits"\npsi = ""\nflags = "flags"\n',
    "pixels": '[[source]]\nkind = "table"\npath = "pixels.csv"\npixel = "pixel"\npixels = "ring"\n'
    'n_side = 4\nresponse_i = "i"\nresponse_q = "q"\nresponse_u = "u"\n',
    "noise": SCAN + '[[source]]\nkind = "noise-table"\npath = "noise.csv"\npsd = "psd"\n',
    "sky": SCAN + '[[source]]\nkind = "sky-map"\nmap = "sky.fits"\n'
    '[[source]]\nkind = "leakage"\nmap = "sky.fits"\nrms = 0.1\n',
    "psd": SCAN + '[[source]]\nkind = "noise"\npsd = "psd.txt"\n',
    "spectra": SCAN + '[[source]]\nkind = "sky-spectra"\nspectra = "spectra.txt"\nn_side = 4\n',
    "plane": SCAN + 'focalplane = "plane.toml"\n'
    '[[source]]\nkind = "time-constants"\ntable = "taus.txt"\n',
}  # fmt: skip


def write_files(folder: Path) -> None:
    """Write the files of all sources."""
    folder.joinpath("volumes").mkdir()
    for number in range(4):
        noise = [OneOverF(1.0, 0.1), InverseLags(np.array([2.0, -0.5])), White()][number % 3]
        made = [observation(f"{number}-{k}", noise=noise if number % 3 == 2 else None) for k in range(2)]
        write_volume(folder / "volumes" / f"{number}.h5", made)
    folder.joinpath("toast").mkdir()
    for number in range(2):
        with h5py.File(shutil.copy(TOAST / "observation.h5", folder / f"toast/{number}.h5"), "r+") as file:
            file.attrs["observation_name"], file.attrs["observation_uid"] = f"toast-{number}", number
    write_stream(folder)
    folder.joinpath("texts").mkdir()
    for number in range(3):
        write_text(folder / "texts" / f"{number}.csv", number)
    write_fits(folder / "table.fits")
    rows = [f"{k / 5:.1f},{k % 192},1,{np.cos(k):.9f},{np.sin(k):.9f},{k}" for k in range(200)]
    folder.joinpath("pixels.csv").write_text("\n".join(["time,pixel,i,q,u,signal", *rows]) + "\n")
    folder.joinpath("noise.csv").write_text("frequency,psd\n0.001,2\n0.1,1\n3,1\n")
    folder.joinpath("psd.txt").write_text("0.001 2\n0.1 1\n3 1\n")
    sky = np.random.default_rng(3).normal(size=(3, 192))
    write_map(folder / "sky.fits", sky, Healpix(4), names="IQU", unit="K_CMB", run_id="a", frame="galactic")
    lines = [f"{ell} 1 0.1 0.01 0.1" for ell in range(2, 20)]
    folder.joinpath("spectra.txt").write_text("\n".join(["# L TT EE BB TE", *lines]) + "\n")
    folder.joinpath("plane.toml").write_text('[[detector]]\nname = "A"\n[[detector]]\nname = "B"\n')
    folder.joinpath("taus.txt").write_text("A 0.2\nB 0.3\n")


def write_stream(folder: Path) -> None:
    tod = struct.pack(">4q", 0, 39, 1, 7)
    tod += b"".join(struct.pack(">dfi", k / 4, 1.0, k % 7) for k in range(40))
    folder.joinpath("tod").write_bytes(tod)
    folder.joinpath("tod.gz").write_bytes(gzip.compress(tod))
    folder.joinpath("filters").mkdir()
    for k in range(4):
        content = struct.pack(">3q3d", 10 * k, 10 * k + 9, 2, 4.0 + k % 2, -1.0, 0.5)
        folder.joinpath("filters", f"inv.{k}").write_bytes(content)


def write_text(path: Path, number: int) -> None:
    rows = [f"{1e9 + number * 1e4 + k / 5:.1f},{10 + k / 50},{number},{k},{-k}" for k in range(50)]
    path.write_text("\n".join(["time,ra,dec,signal_A,signal_B", *rows]) + "\n")


def write_fits(path: Path) -> None:
    n = 100
    columns = [
        fits.Column("time", "D", array=1e9 + np.arange(n) / 5),
        fits.Column("ra", "D", array=10 + np.arange(n) / 50, unit="deg"),
        fits.Column("dec", "D", array=np.zeros(n), unit="deg"),
        fits.Column("signal", "E", array=np.arange(n) / 8),
        fits.Column("flags", "J", array=np.arange(n) % 2, null=-1),
    ]
    fits.BinTableHDU.from_columns(columns).writeto(path)


_opened: Counter[str] = Counter()
_counting = False


def _count(event: str, arguments: tuple) -> None:
    if _counting and event == "open" and isinstance(arguments[0], str | os.PathLike):
        _opened[os.fspath(arguments[0])] += 1


sys.addaudithook(_count)  # for good: there is no removal


@contextlib.contextmanager
def counted_opens(folder: Path):
    """Count the files of a folder that this process opens, in Python or by HDF5."""
    global _counting
    _opened.clear()
    found: Counter[str] = Counter()
    hdf5: Counter[str] = Counter()
    opened = h5py.File

    def file(path, *arguments, **options):
        hdf5[os.fspath(path)] += 1
        return opened(path, *arguments, **options)

    with mock.patch.object(h5py, "File", file):
        _counting = True
        try:
            yield found
        finally:
            _counting = False
    for path, count in (_opened | hdf5).items():
        if Path(path).is_relative_to(folder) and not Path(path).is_dir():
            found[path] += min(count, 1)


def contents(observations) -> list:
    """Return what observations hold: facts, samples, pointing, noise and azimuths."""
    found = []
    for one in observations:
        samples = [(signal_of(one, k).tobytes(), flags_of(one, k).tobytes()) for k in range(one.n_det)]
        pixels, angles = np.empty(one.n_samp, np.int32), np.empty(one.n_samp, np.uint32)
        seen = []
        for detector in range(one.n_det):
            grid = getattr(one.pointing, "pixelization", Healpix(4, nest=True))
            one.pointing.expand(grid, detector, 0, one.n_samp, pixels, angles)
            seen.append((pixels.tobytes(), angles.tobytes(), one.pointing.efficiency(detector)))
        noise = [noise_of(one, detector) for detector in range(one.n_det)] if one.noise else []
        azimuths = one.azimuth.azimuths(0, one.n_samp).tobytes() if one.azimuth else b""
        facts = (one.name, one.uid, one.n_samp, one.sample_rate, one.detectors, one.start_time, one.unit)
        found.append((facts, one.intervals, one.frame, samples, seen, noise, azimuths))
    return found


def noise_of(one, detector) -> tuple:
    model = one.noise.noise_model(detector, 0)
    return type(model).__name__, *(np.asarray(value).tobytes() for value in vars(model).values())


def check_once(comm):
    folder = Path(os.environ["ONCE_A_NODE"])
    for name, text in SOURCES.items():
        config = parse_config(f'[run]\nname = "a"\n[map]\nn_side = 4\n{text}', folder / "run.toml")
        with counted_opens(folder) as opened:
            observations, parts = open_signal_parts(config, comm=comm)
            for random in parts.random_sources:  # of a realization, on this rank alone
                random.signals(random.source(comm.rank + 1))
        of_node = sum(comm.node().allgather(opened), Counter())
        assert of_node and set(of_node.values()) == {1}, f"{name}: {of_node}"
        expected = contents(open_sources(config))
        assert contents(observations) == expected, name
        comm.barrier()


def check_damage(comm):
    folder = Path(os.environ["ONCE_A_NODE"])
    config = parse_config(f'[run]\nname = "a"\n[map]\nn_side = 4\n{SOURCES["volumes"]}', folder / "run.toml")
    with pytest.raises(DataError, match=r"1\.h5"):  # the first of two, wherever they are read
        open_sources(config, comm=comm)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


@pytest.mark.parametrize(("n_ranks", "per_node"), cases((1, ""), (3, ""), (5, "2"), long=[(2, ""), (3, "2")]))
def test_each_node_opens_a_file_once(n_ranks, per_node, files, monkeypatch):
    monkeypatch.setenv("ONCE_A_NODE", str(files))
    if per_node:
        monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", per_node)
    run_ranks(check_once, n_ranks)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_all_ranks_tell_of_the_first_damaged_file(n_ranks, tmp_path, monkeypatch):
    monkeypatch.setenv("ONCE_A_NODE", str(tmp_path))
    write_files(tmp_path)
    for number in (1, 3):
        tmp_path.joinpath(f"volumes/{number}.h5").write_bytes(b"no volume")
    run_ranks(check_damage, n_ranks)
