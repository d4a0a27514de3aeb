"""Detection in one stream: what is found of simulated glitches, and what of noise alone."""

from pathlib import Path

import numpy as np
import pytest

from petamap.data.observation import Observation, read_signal
from petamap.data.source import SourceContext
from petamap.glitches.detection import find_glitches, find_steps
from petamap.glitches.found import united_ranges
from petamap.noise.model import OneOverF
from petamap.simulation.glitches import CosmicRaysOptions, CosmicRaysSource, StepsOptions, StepsSource
from petamap.simulation.noise import SimulatedNoise, UniformNoise

RATE, N_SAMP = 20.0, 60_000
SIGMA = 60e-6 * np.sqrt(RATE)  # K, of white noise with a NET of 60 uK s^0.5
NOISES = {"white": OneOverF(60e-6, 0.0, 1e-3, -1.0), "1/f": OneOverF(60e-6, 0.5, 1e-3, -2.0)}


def noisy(model, n_det=1, seed=1):
    names = tuple(f"d{k}" for k in range(n_det))
    one = Observation("scan", 5, N_SAMP, RATE, names, intervals=((0, N_SAMP),))
    return one, SimulatedNoise(one, UniformNoise(model), seed, 0)


def stream(signal, detector=0):
    out = np.zeros(N_SAMP)
    signal.add_signal(detector, 0, N_SAMP, out)
    return out


def events(source, options, one):
    (extended,) = source(options, SourceContext(Path(), seed=3)).extend([one])
    return extended.signals[-1]


@pytest.mark.parametrize("kind", NOISES)
def test_noise_alone_has_no_glitches(kind):
    """2 million samples: at 6 deviations, white noise has 2e-9 glitches a sample, and fewer steps."""
    one, noise = noisy(NOISES[kind], 35)
    good = np.ones(N_SAMP, bool)
    for detector in range(one.n_det):
        data = stream(noise, detector)
        assert len(find_glitches(data, good, 2, 6.0)) == 0
        assert len(find_steps(data, good, 32, 6.0, 100)[0]) == 0
    assert len(find_glitches(data, good, 2, 3.0)) > 20  # 160 expected at 3 deviations


@pytest.mark.parametrize("kind", NOISES)
def test_glitches_are_found(kind):
    one, noise = noisy(NOISES[kind])
    hits = events(CosmicRaysSource, CosmicRaysOptions(every=10.0, amplitude=10 * SIGMA, decay=0.01), one)
    true, _ = hits.events.within(0, 0, N_SAMP)
    found = find_glitches(stream(noise) + stream(hits), np.ones(N_SAMP, bool), 2, 6.0)
    seen = [((found[:, 0] <= t + 2) & (found[:, 1] > t - 2)).any() for t in true]
    assert len(true) > 250 and np.mean(seen) > 0.99
    false = [not (np.abs(true - first) <= 4).any() for first in found[:, 0]]
    assert not any(false)


@pytest.mark.parametrize("kind", NOISES)
def test_steps_are_found_at_their_places(kind):
    """Steps of 6 deviations of a sample in white noise; with 1/f noise the means are noisier."""
    one, noise = noisy(NOISES[kind])
    height = (6 if kind == "white" else 15) * SIGMA
    steps = events(StepsSource, StepsOptions(every=60.0, height=height), one)
    true, _ = steps.events.within(0, 0, N_SAMP)
    inside = true[(true > 64) & (true < N_SAMP - 64)]
    alone = np.diff(np.concatenate([[-99], inside, [N_SAMP + 99]]))
    inside = inside[(alone[1:] > 64) & (alone[:-1] > 64)]
    found, significances = find_steps(stream(noise) + stream(steps), np.ones(N_SAMP, bool), 32, 6.0, 100)
    nearest = np.abs(found[:, None] - inside).min(axis=0)
    assert len(inside) > 30 and (nearest <= 4).all() and (significances > 6).all()
    assert (np.abs(true[:, None] - found).min(axis=0) <= 33).all()


def test_flagged_samples_and_long_gaps_are_left_out():
    data = np.random.default_rng(2).standard_normal(4096)
    good = np.ones(4096, bool)
    data[1000:1010] += 1e6
    good[1000:1010] = False
    assert len(find_glitches(np.where(good, data, 0.0), good, 2, 6.0)) == 0
    data[2000:] += 20.0
    assert find_steps(data, good, 32, 6.0, 100)[0].tolist() == [2000]
    good[2020:2300] = False  # beside it
    assert find_steps(data, good, 32, 6.0, 100)[0].tolist() == []
    good[1990:2300] = False
    assert find_steps(data, good, 32, 6.0, 100)[0].tolist() == []


def test_a_stream_without_noise_has_none():
    data = np.zeros(4096)
    data[100] = 1.0
    assert len(find_glitches(data, np.ones(4096, bool), 2, 6.0)) == 0
    assert len(find_steps(data, np.ones(4096, bool), 32, 6.0, 100)[0]) == 0


@pytest.mark.parametrize("kind", ["cosmic-rays", "steps"])
def test_simulated_glitches_do_not_depend_on_the_range(kind):
    one, _ = noisy(NOISES["white"], 2)
    if kind == "steps":
        signal = events(StepsSource, StepsOptions(every=30.0, height=1.0), one)
    else:
        signal = events(CosmicRaysSource, CosmicRaysOptions(every=5.0, amplitude=1.0, decay=0.2), one)
    whole = stream(signal)
    (one,) = [Observation("scan", 5, N_SAMP, RATE, ("d0", "d1"), signals=(signal,))]
    for start, stop in (0, 1), (777, 2501), (30_000, 30_001), (59_000, N_SAMP):
        assert np.array_equal(read_signal(one, 0, start, stop), whole[start:stop])
    assert not np.array_equal(stream(signal, 1), whole) and np.ptp(whole) >= 1


def test_ranges_are_united():
    ranges = np.array([[5, 9], [0, 2], [2, 4], [6, 7], [20, 30]])
    assert united_ranges(ranges).tolist() == [[0, 4], [5, 9], [20, 30]]
