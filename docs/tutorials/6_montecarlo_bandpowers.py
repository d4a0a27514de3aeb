# %% [markdown]
# # Monte Carlo to bandpowers
#
# What mask, filter and noise do to spectra is found by doing it to skies that are known: realizations
# through one system, and the bandpowers of the data beside them.

# %%
import petamap

config = petamap.parse_config("""
[run]
name = "mc"

[map]
n_side = 16
ordering = "ring"

[noise]
n_lag = 64

[spectra]
width = 4
pixel_window = false

[montecarlo]
realizations = 24

[[source]]
kind = "satellite"
duration = "6 h"
sample_rate = "2 Hz"
n_det = 2
opening = "50 deg"
spin_period = "4 min"
precession_angle = "40 deg"
precession_period = "60 min"

[[source]]
kind = "sky-spectra"
n_side = 16
fwhm = "8 deg"

[[source]]
kind = "noise"
net = "10 uK s^0.5"
fknee = "20 mHz"
""")
petamap.run(config, out="mc")

# %%
summary = petamap.run_montecarlo(config, out="mc/realizations")
summary.montecarlo.done

# %% [markdown]
# Bandpowers of the run, with what filter and noise do to them taken from the realizations, and errors that
# are their scatter:

# %%
from pathlib import Path

from petamap.montecarlo.calibrated_bandpowers import measure_calibrated
from petamap.spectra.run_maps import RunMaps

found = measure_calibrated(RunMaps(Path("mc")), Path("mc/realizations"))
found

# %%
import matplotlib.pyplot as plt

spectra = found.bandpowers
figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for panel, name in zip(axes, ("TT", "EE"), strict=True):
    row = spectra.names.index(name)
    panel.errorbar(
        spectra.binning.middle, spectra[name] * 1e12, spectra.errors[row] * 1e12, fmt="o", markersize=3
    )
    panel.set(title=name, xlabel="l", ylabel="D_l (µK²)")
