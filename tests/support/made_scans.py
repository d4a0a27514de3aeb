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
