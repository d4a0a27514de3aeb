"""Configurations of scans whose pixel coverage is quick to compute."""

from pathlib import Path

from petamap.data.config.reader import parse_config

SATELLITE = """
[map]
n_side = {n_side}
[noise]
n_lag = 64
ends = "{ends}"
[[source]]
kind = "satellite"
n_det = 4
sample_rate = "{rate} Hz"
duration = "{hours} h"
n_observations = 3
interval = "1 h"
year = "{hours} h"
precession_period = "{half} h"
net = "100 uK s^0.5"
"""

CUTS = """
[[source]]
kind = "cuts"
gap_every = "1 min"
gap_length = "5 s"
"""


def satellite(n_side=32, rate=8, hours=6, ends="zero", more=""):
    """Return a satellite scan that covers the sky within hours."""
    text = SATELLITE.format(n_side=n_side, rate=rate, hours=hours, half=hours / 2, ends=ends)
    return parse_config(text + more, Path("satellite.toml"))


GROUND = """
[map]
pixelization = "flat"
resolution = "20 arcmin"
frame = "equatorial"
[noise]
n_lag = {n_lag}
[[source]]
kind = "ground"
n_det = 2
spacing = "1 deg"
net = "300 uK s^0.5"
fknee = "{fknee}"
fmin = "5 mHz"
alpha = {alpha}
sample_rate = "20 Hz"
duration = "{duration}"
n_observations = {n_observations}
azimuth_min = "160 deg"
azimuth_max = "180 deg"
elevation = "50 deg"
[[source]]
kind = "noise"
"""


def ground(n_lag=256, duration="10 min", n_observations=1, fknee="1 Hz", alpha=-2.5, change=None, more=""):
    """Return a scan in azimuth, by default under steep noise; `change` replaces one text by another."""
    text = GROUND.format(
        n_lag=n_lag, duration=duration, n_observations=n_observations, fknee=fknee, alpha=alpha
    )
    return parse_config(text.replace(*(change or ("", ""))) + more, Path("ground.toml"))
