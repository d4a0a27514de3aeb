# %% [markdown]
# # A first map
#
# A satellite scans the sky for twelve hours; its detectors see a CMB and correlated noise. All of it is
# simulated as map-making asks for it, so nothing is on disk but the maps.

# %%
import petamap

config = petamap.parse_config("""
[run]
name = "first"

[map]
n_side = 16
frame = "galactic"

[products]
sky = true                      # what was simulated, binned: to compare with

[[source]]
kind = "satellite"
duration = "12 h"
sample_rate = "5 Hz"
n_det = 4
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
alpha = -2.0
fmin = "1 mHz"
""")
config

# %% [markdown]
# The run returns its summary, and writes map files, `summary.json` and, by `write_report`, a page.

# %%
summary = petamap.run(config, out="first")
summary

# %% [markdown]
# The map is a `SkyMap`: it says what it is, and draws itself.

# %%
sky_map = petamap.read_map("first/first_map.fits")
figure, axes = sky_map.plot(title="Maximum-likelihood map")

# %% [markdown]
# Maps of the same pixels are subtracted; units are kept and checked. Binned without noise weights, the same
# data show the stripes that the solution does not have.

# %%
truth = petamap.read_map("first/first_sky.fits")
binned = petamap.read_map("first/first_binned.fits")
solved_error = (sky_map - truth)["Q"].to_unit("uK_CMB")
binned_error = (binned - truth)["Q"].to_unit("uK_CMB")
limit = (-30, 30)
_ = solved_error.plot(limits=limit, title="Error of Q, maximum likelihood")
_ = binned_error.plot(limits=limit, title="Error of Q, binned")

# %%
import numpy as np

rms = {
    name: float(np.nanstd(one.values)) for name, one in (("solved", solved_error), ("binned", binned_error))
}
assert rms["solved"] < rms["binned"]
rms
