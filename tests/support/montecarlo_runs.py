"""Small Monte Carlos: configurations, and the content of their files."""

from pathlib import Path

import h5py
import numpy as np

from petamap.data.config import parse_config
from petamap.montecarlo.run import run_montecarlo

TINY = """
[run]
name = "tiny"
[map]
n_side = 4
ordering = "ring"
[noise]
n_lag = 64
[solver]
tolerance = 1e-6
rcond_min = 1e-6
[resources]
threads = 1
[spectra]
width = 3
[[source]]
kind = "satellite"
duration = "12 h"
sample_rate = "0.5 Hz"
spin_period = "10 min"
opening = "60 deg"
precession_angle = "40 deg"
precession_period = "3 h"
[[source]]
kind = "sky-spectra"
n_side = 8
fwhm = "10 deg"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "50 mHz"
"""


def configured(*settings, text=TINY):
    """Return the configuration with settings ``key=value``."""
    return parse_config(text, Path("made.toml"), settings)


def made(out, *settings, comm=None, text=TINY, **more):
    """Make realizations and return the summary."""
    return run_montecarlo(configured(*settings, text=text), out=out, comm=comm, **more)


def arrays(out, name="tiny"):
    """Return all arrays of a file by name."""
    found = {}
    with h5py.File(out / f"{name}_mc.h5") as file:
        file.visititems(
            lambda key, item: found.update({key: item[...]}) if isinstance(item, h5py.Dataset) else None
        )
    return found


def same(one, other):
    """Return whether two arrays are bitwise equal."""
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
