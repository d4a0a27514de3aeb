# %% [markdown]
# # Ground data with templates
#
# A telescope on the ground sees its own surroundings: a signal that depends on azimuth alone, many times
# the CMB. It is solved for with the map, as a template, rather than filtered out before.

# %%
import petamap

TEXT = """
[run]
name = "NAME"

[map]
pixelization = "flat"
resolution = "20 arcmin"
stokes = "I"
frame = "equatorial"

[products]
sky = true

[[source]]
kind = "ground"
name = "field"
n_det = 8
spacing = "1.2 deg"
net = "60 uK s^0.5"
fknee = "20 mHz"
sample_rate = "10 Hz"
duration = "60 min"
n_observations = 4
azimuth_min = "172 deg"
azimuth_max = "188 deg"

[[source]]
kind = "sky-spectra"
n_side = 256
fwhm = "30 arcmin"

[[source]]
kind = "azimuth-synchronous"
order = 8
simulate = "500 uK"
SOLVE

[[source]]
kind = "noise"
"""
for name, solve in (("solved", ""), ("ignored", "solve = false")):
    summary = petamap.run(petamap.parse_config(TEXT.replace("NAME", name).replace("SOLVE", solve)), out=name)
    print(summary)

# %% [markdown]
# What is left of the pickup, beside the noise, where it is solved for and where it is not:

# %%
for name in ("ignored", "solved"):
    sky_map = petamap.read_map(f"{name}/{name}_map.fits")
    truth = petamap.read_map(f"{name}/{name}_sky.fits")
    (sky_map - truth).plot(limits=(-3e-4, 3e-4), title=f"Error of the map, pickup {name}")

# %% [markdown]
# [Templates](../docs/petamap/templates.md) has the others: offsets, baselines, polynomials, the plate,
# gains, leakage.
