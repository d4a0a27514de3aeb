# %% [markdown]
# # A TOAST volume
#
# petamap reads the HDF5 volumes that TOAST 3 writes. Here it writes one itself, of a simulated scan, to
# have something to read.

# %%
from pathlib import Path

import petamap
from petamap.data.config import open_sources
from petamap.data.formats.toast_write import write_toast

scan = petamap.parse_config("""
[run]
name = "scan"

[map]
n_side = 16
frame = "equatorial"

[[source]]
kind = "satellite"
frame = "equatorial"
duration = "6 h"
sample_rate = "5 Hz"
n_det = 4
n_observations = 2
opening = "50 deg"
spin_period = "2 min"
precession_angle = "40 deg"
precession_period = "40 min"

[[source]]
kind = "sky-spectra"
n_side = 16
fwhm = "3 deg"

[[source]]
kind = "noise"
net = "20 uK s^0.5"
fknee = "100 mHz"
fmin = "1 mHz"
""")
observations = open_sources(scan)
write_toast(Path("volume"), observations)
sorted(path.name for path in Path("volume").iterdir())

# %%
observations[0]

# %% [markdown]
# A source of kind `toast` is the volume; what its headers say of detectors, pointing, noise and units is
# taken from there.

# %%
config = petamap.parse_config("""
[run]
name = "from-toast"

[map]
n_side = 16
frame = "equatorial"

[[source]]
kind = "toast"
path = "volume"
""")
summary = petamap.run(config, out="maps")
summary

# %%
figure, axes = petamap.read_map("maps/from-toast_map.fits").plot(title="From a TOAST volume")

# %% [markdown]
# [Coming from TOAST](../docs/petamap/peers.md#from-toast) says what corresponds to what, and
# [sources](../docs/petamap/sources.md) what else is read.
