# %% [markdown]
# # TOAST's data in memory
#
# A workflow of TOAST 3 holds its observations in `toast.Data`. `petamap.interop.toast.MapMaker` is an
# operator like TOAST's own: it reads signal, flags, noise model, focal plane, boresight and half-wave plate
# where they are, and puts maps into `data`. No file is written and no sample copied.
#
# Here TOAST simulates a scan of a satellite, to have something to map; in your workflow `data` is there
# already.

# %%
import os
from datetime import datetime, timezone

os.environ.setdefault("TOAST_LOGLEVEL", "ERROR")

import healpy
import numpy as np
import toast
import toast.ops
from astropy import units as u
from toast.instrument_sim import fake_hexagon_focalplane
from toast.schedule_sim_satellite import create_satellite_schedule

plane = fake_hexagon_focalplane(
    n_pix=7, width=6 * u.degree, sample_rate=5 * u.Hz, psd_net=60e-6 * u.K * np.sqrt(1 * u.second),
    psd_fmin=1e-3 * u.Hz, psd_fknee=0.1 * u.Hz, psd_alpha=1.0,
)  # fmt: skip
schedule = create_satellite_schedule(
    prefix="", mission_start=datetime(2026, 1, 1, tzinfo=timezone.utc), observation_time=60 * u.minute,
    num_observations=6, prec_period=50 * u.minute, spin_period=2 * u.minute,
)  # fmt: skip
telescope = toast.Telescope("satellite", focalplane=plane, site=toast.SpaceSite("L2"))
data = toast.Data(toast.Comm())
toast.ops.SimSatellite(telescope=telescope, schedule=schedule).apply(data)
toast.ops.DefaultNoiseModel(noise_model="noise_model").apply(data)
toast.ops.SimNoise(noise_model="noise_model").apply(data)

# %% [markdown]
# The sky is a map of healpy in K, which TOAST scans into the signal.

# %%
n_side = 32
spectrum = np.concatenate([[0, 0], 1e-9 / np.arange(2.0, 3 * n_side) ** 2])
np.random.seed(1)  # noqa: NPY002 - healpy draws of it
sky = healpy.synfast([spectrum, spectrum / 10, spectrum / 10, 0 * spectrum], n_side, new=True, fwhm=0.05)
healpy.write_map("sky.fits", sky, nest=False, column_units="K", dtype=np.float64, overwrite=True)
look = toast.ops.PointingDetectorSimple()
toast.ops.ScanHealpixMap(
    name="scan", file="sky.fits",
    pixel_pointing=toast.ops.PixelsHealpix(detector_pointing=look, nside=n_side),
    stokes_weights=toast.ops.StokesWeights(detector_pointing=look, mode="IQU"),
).apply(data)  # fmt: skip
data.obs[0].detdata

# %% [markdown]
# ## The map
#
# Traits are named as those of TOAST's operators (`det_data`, `shared_flag_mask`, `view`, ...).

# %%
from petamap.interop.toast import MapMaker

mapper = MapMaker(name="ml", nside=n_side)
mapper.apply(data)
data["ml_map"]

# %% [markdown]
# `data` has the map, hits and covariance as TOAST's `PixelData`, for the operators that come next.
# `mapper.maps` are all products of petamap, which draw themselves.

# %%
mapper.maps

# %%
_ = mapper.maps.sky.plot(title="Maximum likelihood")

# %%
_ = mapper.maps.binned.plot(title="Binned")

# %% [markdown]
# ## Is it right?
#
# The sky went in, and noise with a knee at 0.1 Hz. What the map has beside the sky is as large as its
# covariance says.

# %%
import petamap

difference = mapper.maps.sky - petamap.SkyMap.from_healpy(sky, unit="K", frame="equatorial").reordered()
q = difference["Q"].values[0] / np.sqrt(mapper.maps.covariance["QQ"].values[0])
well = mapper.maps.rcond.values[0] > 0.1
spread = float(np.std(q[well]))
assert 0.9 < spread < 1.3, spread
f"Q - sky: {spread:.2f} of the white noise that the covariance has, in {int(well.sum())} pixels"

# %% [markdown]
# Options of petamap's own go by their names in [the list](../docs/petamap/options.md): templates, splits,
# more products.

# %%
halves = MapMaker(name="halves", nside=n_side, options={"split": [{"name": "halves", "by": "time"}]})
halves.apply(data)
sorted(halves.maps)

# %% [markdown]
# Data that TOAST has dealt to several processes are mapped from [a volume](3_toast_volume.md) that it writes.
# [Coming from TOAST](../docs/petamap/peers.md#from-toast) says what corresponds to what.
