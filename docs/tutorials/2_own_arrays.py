# %% [markdown]
# # Your own arrays
#
# You have time streams as NumPy arrays, and want a map: one call, without a file. Here two detectors see a
# polarized patch through 1/f noise; their angles are theta and phi, colatitude and longitude, and psi, all in
# radians and in the COSMO convention of healpy.

# %%
import numpy as np

import petamap

t = np.arange(200_000) / 10  # s
theta, phi = 1.5 + 5e-6 * t, 0.3 * np.sin(t / 3)  # of both detectors
psi = np.array([[0.0], [np.pi / 4]]) + 1e-3 * t  # of each
signal = 1e-3 * np.cos(2 * psi) + np.random.default_rng(1).normal(0, 2e-4, psi.shape)  # K_CMB
noise = petamap.OneOverF(net="60 uK s^0.5", fknee="50 mHz", fmin="1 mHz")
maps = petamap.make_map(signal, theta, phi, psi, noise=noise, sample_rate="10 Hz", n_side=64, progress=False)
maps

# %% [markdown]
# The maps are `SkyMap`s. They are nan where nothing was seen, and draw themselves.

# %%
_ = maps.sky.plot(projection="gnomonic")

# %% [markdown]
# `maps.covariance` says how well each pixel is known. The signal was Q = 1 mK everywhere: weighted by it, the
# mean of Q comes back.

# %%
q, weight = maps.sky["Q"].values[0], 1 / maps.covariance["QQ"].values[0]
good = np.isfinite(q)
mean = np.average(q[good], weights=weight[good])
error = 1 / np.sqrt(weight[good].sum())
assert abs(mean - 1e-3) < 5 * error
f"Q = ({1e3 * mean:.4f} +- {1e3 * error:.4f}) mK"

# %% [markdown]
# ## Flags, pixels, quaternions
#
# Flagged samples may hold anything. Pixel numbers may be given in the place of angles, with the
# pixelization that they are numbers of; so may quaternions, or a boresight with a focal plane.

# %%
flags = np.zeros(signal.shape, bool)
flags[0, 5000:6000] = True
spoilt = np.where(flags, np.nan, signal)
pixelization = petamap.Healpix(64, nest=True)
directions = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1)
pixels = np.empty(len(t), np.int32)
pixelization.pixels_of(directions, pixels)
same = petamap.make_map(
    spoilt, pixels=pixels, psi=psi, pixelization=pixelization, flags=flags, noise=noise,
    sample_rate="10 Hz", progress=False,
)  # fmt: skip
int(np.nansum(maps.hits.values) - np.nansum(same.hits.values))

# %% [markdown]
# ## To other packages

# %%
array = maps.sky.to_healpy()  # (3, 12 n_side^2), ring order, healpy.UNSEEN where nothing was seen
array.shape
