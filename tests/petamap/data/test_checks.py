"""Tests of the checks of samples and observations: errors and warnings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_observations import observation

from petacomm.base.errors import DataError
from petamap.data.checks import (
    check_observations,
    check_sampling,
    check_signal,
    check_times,
    noise_model_warnings,
    unused_warnings,
)
from petamap.data.source import SourceContext
from petamap.noise.model import OneOverF
from petamap.simulation.noise import NoiseSource, NoiseSourceOptions, UniformNoise


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite(value):
    obs = replace(observation(), meta={"file": "dir/a.h5"})
    signal = np.zeros(10)
    check_signal(obs, 1, 100, signal)
    signal[[3, 5]] = value
    with pytest.raises(DataError, match=r"not finite") as caught:
        check_signal(obs, 1, 100, signal)
    where = "dir/a.h5, observation first, detector D1, sample 103"
    others = "the first of 2 not finite up to sample 109"
    assert str(caught.value) == f"{where}: is {value}, {others} (flag such samples)"
    signal[3] = 0
    with pytest.raises(DataError, match=rf"detector D1, sample 105: is {value} \(flag"):
        check_signal(obs, 1, 100, signal)


def test_times_must_increase():
    assert check_times([1, 2, 4], "f").tolist() == [1, 2, 4]
    with pytest.raises(DataError, match=r"f, sample 2: times do not increase: 2.0 s is followed by 2.0 s"):
        check_times([1, 2, 2], "f")
    with pytest.raises(DataError, match="f, sample 1: 1 times are not finite"):
        check_times([1, np.nan, 2], "f")


def test_valid_observations_have_no_warnings():
    assert check_observations([observation("a"), observation("b", n_samp=200)]) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samp": 0}, "has 0 samples"),
        ({"detectors": ()}, "of 0 detectors"),
        ({"detectors": ("x", "y", "x")}, "two detectors of observation first are called x"),
        ({"intervals": ((0, 20), (10, 30))}, r"interval 1, \[10, 30\), overlaps"),
        ({"intervals": ((0, 301),)}, r"interval 0, \[0, 301\), overlaps"),
        ({"intervals": ((-1, 3),)}, "interval 0"),
        ({"sample_rate": float("nan")}, "sample rate of nan"),
        ({"n_samp": 299, "intervals": ()}, "299 samples of 3 detectors, its pointing 300 of 3"),
    ],
)
def test_inconsistent_observations(change, message):
    with pytest.raises(DataError, match=message):
        check_observations([replace(observation(), **change)])


def test_observations_with_equal_names_or_uids():
    with pytest.raises(DataError, match="two observations are called first"):
        check_observations([observation(), observation(n_samp=200)])
    with pytest.raises(DataError, match="two observations have the uid"):
        check_observations([observation("a"), observation("b")])
    with pytest.raises(DataError, match="no observations"):
        check_observations([])


def test_warnings():
    obs = replace(observation(n_samp=1, n_det=1, spacing=1.0), intervals=((0, 0), (0, 1)))
    warnings = check_observations([obs])
    assert (
        len(warnings) == 2
        and "interval 0 at sample 0 is empty" in warnings[0]
        and "one sample" in warnings[1]
    )
    (warning,) = check_observations([replace(observation(), intervals=())])
    assert "none of its samples is used" in warning


def test_warnings_about_flagged_detectors():
    obs = observation(n_det=8)
    assert unused_warnings([obs], {}) == []
    (warning,) = unused_warnings([obs], {0: [1, 2]})
    assert "no sample of detector D1, D2 makes the map" in warning
    (warning,) = unused_warnings([obs], {0: range(1, 8)})
    assert "D1, D2, D3, D4, D5 and 2 more" in warning
    assert "any detector" in unused_warnings([obs], {0: range(8)})[0]


def test_warning_about_noise_of_another_model():
    obs = replace(observation(), signals=(), noise=UniformNoise(OneOverF(2e-5, 0.0, 0.0, -1.0)))
    (of_model,) = NoiseSource(NoiseSourceOptions(), SourceContext(Path())).extend([obs])
    assert of_model.signals and noise_model_warnings([obs, of_model]) == []
    (own,) = NoiseSource(NoiseSourceOptions(net=1e-5), SourceContext(Path())).extend([obs])
    (warning,) = noise_model_warnings([of_model, own])
    assert "map-making weighs by another" in warning and warning.startswith("observation")
    (alone,) = NoiseSource(NoiseSourceOptions(net=1e-5), SourceContext(Path())).extend(
        [replace(obs, noise=None)]
    )
    assert noise_model_warnings([alone]) == []


@pytest.mark.parametrize(
    "scales, words", [((3.0,), "with a scale"), ((-1.0,), ""), ((1.0, 1.0), "by several")]
)
def test_warning_about_more_noise_than_its_model_says(scales, words):
    noisy = replace(observation(), signals=(), noise=UniformNoise(OneOverF(2e-5, 0.0, 0.0, -1.0)))
    for scale in scales:
        (noisy,) = NoiseSource(NoiseSourceOptions(scale=scale), SourceContext(Path())).extend([noisy])
    warnings = noise_model_warnings([noisy, noisy])
    assert len(warnings) == bool(words) and all(f"noise is drawn {words}" in one for one in warnings)


def test_times_are_those_of_the_sample_rate():
    times = 1e9 + np.arange(100) / 10.0
    whole = [(0, 100)]
    check_sampling(times, 10.05, whole, "times", "mend")
    check_sampling(times[:1], 10.0, [(0, 1)], "times", "mend")
    with pytest.raises(DataError, match="times: times are those of 10 Hz, and the sample rate is 20 Hz"):
        check_sampling(times, 20.0, whole, "times", "mend")
    times[40:] += 7.0
    check_sampling(times, 10.0, [(0, 40), (40, 100)], "times", "mend")
    with pytest.raises(DataError, match=r"times, sample 39: times leap by 7.1 s .*mend"):
        check_sampling(times, 10.0, whole, "times", "mend")


def test_observations_with_the_same_flagged_detectors_share_a_warning():
    observations = [replace(observation(n_det=2), name=f"o{number}") for number in range(8)]
    shared, other = unused_warnings(observations, {**{n: [1] for n in range(6)}, 6: [0]})
    assert shared.startswith("observation o0, observation o1") and "o4 and 1 more: " in shared
    assert other.startswith("observation o6: no sample of detector D0")


def test_observations_in_different_units():
    observations = [
        replace(observation(), name=f"o{number}", uid=number, unit=unit)
        for number, unit in enumerate(("K_CMB", "K_CMB", "Jy/beam"))
    ]
    with pytest.raises(DataError, match=r"observation o2: is in Jy/beam, but observation o0 is in K_CMB"):
        check_observations(observations)
