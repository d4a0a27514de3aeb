"""One's own arrays to maps in memory: two detectors that see a polarized sky through 1/f noise."""

import numpy as np

import petamap

t = np.arange(200_000) / 10  # s
theta, phi = 1.5 + 5e-6 * t, 0.3 * np.sin(t / 3)  # colatitude and longitude of both detectors, radians
psi = np.array([[0.0], [np.pi / 4]]) + 1e-3 * t  # polarization angle of each
signal = 1e-3 * np.cos(2 * psi) + np.random.default_rng(1).normal(0, 2e-4, psi.shape)  # K_CMB
noise = petamap.OneOverF(net="60 uK s^0.5", fknee="50 mHz", fmin="1 mHz")
maps = petamap.make_map(signal, theta, phi, psi, noise=noise, sample_rate="10 Hz", n_side=64)
print(maps)  # maps.sky, maps.hits, maps.covariance, maps.binned, maps.summary
maps.sky.plot()  # a matplotlib figure: shown by a notebook, in a script by plt.show()
