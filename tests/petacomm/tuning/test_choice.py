"""Choices on made timings: real gains are found, and none is made of noise alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from petacomm.tuning.choice import (
    best_algorithms,
    geometric_mean,
    median_bounds,
    select_algorithm,
)


def made_times(rng, factors, rounds=30, spread=0.5):
    """Return times with the long tail that other load gives them."""
    return {name: list(f * np.exp(spread * rng.standard_normal(rounds))) for name, f in factors.items()}


def test_a_real_gain_is_chosen():
    times = made_times(np.random.default_rng(1), {"default": 1.0, "ring": 0.5, "tree": 0.8})
    choice = select_algorithm([times])
    assert choice.name == "ring" and choice.low > 1.03 and choice.low <= choice.gain <= choice.high
    assert choice.gain == pytest.approx(2.0, rel=0.4)


def test_noise_alone_makes_no_choice():
    """Equal algorithms are told apart in fewer than 5 % of cells."""
    rng = np.random.default_rng(2)
    names = dict.fromkeys(["default", "a", "b", "c", "d"], 1.0)
    chosen = sum(select_algorithm([made_times(rng, names)]).name != "default" for _ in range(400))
    assert chosen <= 0.05 * 400  # of an expected 2.5 % at most: only one side of each interval is a gain


def test_slower_and_hardly_timed_algorithms_are_never_chosen():
    rng = np.random.default_rng(3)
    assert select_algorithm([made_times(rng, {"default": 1.0, "slow": 1.5})]).name == "default"
    few = {"default": [1.0] * 30, "fast": [0.1] * 4}  # 4 rounds cannot show anything with 95 %
    assert select_algorithm([few]).name == "default"


def test_what_is_slower_in_one_job_is_not_chosen():
    """As where a virtual machine gets other cores: by all rounds together, "ring" gains most."""
    rng = np.random.default_rng(5)
    jobs = [made_times(rng, {"default": 1.0, "ring": 0.6, "tree": 0.8}) for _ in range(5)]
    assert select_algorithm(jobs).name == "ring"
    jobs.append(made_times(rng, {"default": 1.0, "ring": 1.25, "tree": 0.8}))
    assert select_algorithm(jobs).name == "tree"
    assert select_algorithm([*jobs, {"default": [1.0] * 9, "ring": [0.5] * 9}]).name == "default"
    assert select_algorithm([]).name == "default"


def test_those_that_seem_best_are_timed_again():
    rng = np.random.default_rng(6)
    times = made_times(rng, {"default": 1.0, "a": 0.9, "b": 0.5, "c": 0.7, "slow": 1.3}, spread=0.05)
    assert best_algorithms(times, 2) == ["b", "c"] and best_algorithms(times, 9) == ["b", "c", "a"]
    assert best_algorithms({"default": [1.0], "never": []}, 3) == []


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=40), st.floats(0.001, 0.2))
def test_bounds_enclose_the_median(values, error):
    low, high = median_bounds(values, error)
    assert low <= np.median(values) <= high


def test_bounds_miss_the_median_as_seldom_as_they_say():
    rng = np.random.default_rng(4)
    missed = 0
    for _ in range(1000):
        low, high = median_bounds(rng.exponential(size=20), 0.05)
        missed += not low <= np.log(2) <= high
    assert missed <= 50 + 4 * np.sqrt(50)  # four standard deviations of a binomial


def test_means_of_gains_are_geometric():
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0) and geometric_mean([]) == 1.0
