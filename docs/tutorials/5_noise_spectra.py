# %% [markdown]
# # Noise spectra
#
# The spectrum of correlated noise, as a model, as it is estimated from samples with gaps, and as map-making
# uses it.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petamap

model = petamap.OneOverF(net=60e-6, fknee=0.1, alpha=-1.5, fmin=1e-3)
frequency = np.geomspace(1e-3, 10, 400)
model

# %% [markdown]
# Samples of it come from a source of kind `noise`, in any range:

# %%
from petamap.data.config import open_sources

config = petamap.parse_config("""
[run]
name = "noise"

[map]
n_side = 16

[[source]]
kind = "satellite"
duration = "3 h"
sample_rate = "20 Hz"

[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "100 mHz"
alpha = -1.5
fmin = "1 mHz"
""")
(observation,) = open_sources(config)
samples = np.zeros(observation.n_samp)
observation.signals[0].add_signal(0, 0, observation.n_samp, samples)

# %% [markdown]
# A tenth of the samples is lost in gaps of five seconds; the estimate fills them, and corrects for that.

# %%
good = np.arange(len(samples)) % 1000 >= 100
found = petamap.estimate_psd(samples, good, observation.sample_rate)
figure, axes = plt.subplots(figsize=(6, 4))
axes.loglog(found.frequencies[1:], found.values[1:], ".", markersize=3, label="estimated")
axes.loglog(frequency, petamap.noise_psd(model, frequency), label="model")
axes.set(xlabel="Hz", ylabel="K² / Hz", title="One-sided spectrum of the noise")
_ = axes.legend()
