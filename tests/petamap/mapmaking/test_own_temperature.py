"""Leakage of the run's own temperature: factors and maps found in rounds, on any ranks."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import pytest
from mpi import check_same_on_ranks

from petacomm.base.errors import ConfigError
from petamap import parse_config, read_map, run
from petamap.data.config import open_sources
from petamap.mapmaking.own_temperature import needs_own_temperature, with_temperature
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map
from petamap.templates.known_signals import KnownSignal

CONFIG = """
[run]
name = "leaks"
[map]
n_side = 16
stokes = "{stokes}"
[solver]
tolerance = 1e-8
[[source]]
kind = "satellite"
n_det = 4
spacing = "4 deg"
sample_rate = "4 Hz"
duration = "4 h"
opening = "50 deg"
precession_period = "96 min"
precession_angle = "45 deg"
net = "100 uK s^0.5"
fknee = "20 mHz"
fmin = "1 mHz"
[[source]]
kind = "sky-map"
map = "sky.fits"
[[source]]
kind = "noise"
[[source]]
kind = "leakage"
rms = 0.01
{more}
"""


def write_sky(folder):
    """Write a map with far more temperature than noise."""
    rng = np.random.default_rng(3)
    values = np.array([[10e-3], [3e-4], [3e-4]]) * rng.standard_normal((3, 12 * 16**2))
    names, pixels = ("I", "Q", "U"), Healpix(16, nest=True)
    write_map(folder / "sky.fits", values, pixels, names=names, unit="K_CMB", run_id="made", frame="galactic")


@pytest.fixture
def folder(tmp_path):
    write_sky(tmp_path)
    return tmp_path


def config(folder, more="", stokes="IQU"):
    return parse_config(CONFIG.format(more=more, stokes=stokes), folder / "leaks.toml")


def made(folder, name, more):
    run(config(folder, more), out=folder / name)
    return read_map(folder / name / "leaks_map.fits").values


def test_the_map_is_that_with_the_temperature_known(folder):
    leaks = "simulate = 0.02"
    clean, raw = made(folder, "clean", "solve = false"), made(folder, "raw", f"{leaks}\nsolve = false")
    own, known = made(folder, "own", leaks), made(folder, "known", f'{leaks}\nmap = "sky.fits"')
    noise = np.nanstd(clean[1:] - known[1:])
    wrong = np.nanstd(raw[1:] - clean[1:])
    assert np.nanstd(own[1:] - clean[1:]) < 0.1 * wrong
    assert np.nanstd(own[1:] - known[1:]) < 0.1 * wrong and noise < 0.1 * wrong


def test_templates_are_open_until_there_is_a_temperature(folder):
    observations = open_sources(config(folder))
    assert needs_own_temperature(observations)
    assert not with_temperature(observations, None)[0].templates
    sky = observations[0].signals[0].sky
    (template,) = with_temperature(observations, sky)[0].templates
    assert isinstance(template, KnownSignal) and template.signal.sky is sky
    known = [dataclasses.replace(observations[0], templates=(template,))]
    assert not needs_own_temperature(known)
    assert with_temperature(known, None)[0].templates == (template,)


def test_maps_without_intensity_have_no_temperature(folder):
    with pytest.raises(ConfigError, match="has none"):
        run(config(folder, stokes="QU"), out=folder / "qu")


def bits_of(folder, name, comm):
    summary = run(config(folder, 'simulate = 0.02\nper = "run"'), out=folder / name, comm=comm)
    return {product.file: product.sha256 for product in summary.products}


def bits(comm):
    with tempfile.TemporaryDirectory() as own:
        folder = Path(comm.bcast(own))
        if comm.rank == 0:
            write_sky(folder)
        comm.barrier()
        return comm.allgather(bits_of(folder, "all", comm))[0]


def test_same_bits_on_any_ranks():
    check_same_on_ranks(bits, 3)
