"""Exact sums against math.fsum, in any order of the terms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from petacomm.base.exact import add_exactly, exact_sum, round_limbs, round_sums, split_limbs, zero_limbs

terms = st.lists(st.floats(-1e250, 1e250).filter(lambda x: x == 0 or abs(x) > 1e-280), max_size=50)


@given(terms)
def test_equals_fsum(values):
    assert exact_sum(np.array(values, dtype=float)) == math.fsum(values)


@given(terms, st.integers(0, 50), st.randoms(use_true_random=False))
def test_any_split_and_order(values, cut, random):
    whole = zero_limbs()
    add_exactly(np.array(values, dtype=float), whole)
    random.shuffle(values)
    parts = zero_limbs(), zero_limbs()
    for part, piece in zip(parts, (values[:cut], values[cut:]), strict=True):
        add_exactly(np.array(piece, dtype=float), part)
    assert round_limbs(parts[0] + parts[1]) == round_limbs(whole)


def test_long_sum_with_cancellation():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(100_003) * 10.0 ** rng.integers(-20, 20, 100_003)
    values = np.concatenate([values, -values[:-1]])
    assert exact_sum(values) == values[100_002]


def test_bits_far_below_the_largest_count():
    # one chunk: 51 bits below the largest are cut first, then 51 more, then what is left
    values = [2.0**800, 1.0, 2.0**-49, 3.0**30 * 2.0**-140, -(2.0**-900), 2.0**-985, 2.0**-992]
    for sign in (1, -1):
        assert exact_sum(np.array([*values, -sign * 2.0**800])) == math.fsum([*values, -sign * 2.0**800])
        assert exact_sum(np.array(values[3:]) * sign) == math.fsum(values[3:]) * sign
    low = np.array([2.0**-900, 2.0**-985, 2.0**-992])  # words of the lowest limbs
    assert exact_sum(low) == math.fsum(low)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_errors(bad):
    with pytest.raises(ValueError, match="finite"):
        exact_sum(np.array([1.0, bad]))


@given(terms)
def test_limbs_add_up_to_exact_sums(values):
    array = np.array(values, dtype=float)
    lowest, limbs = split_limbs(array)
    bottom = int(lowest[lowest >= 0].min(initial=59))
    total = np.zeros((1, 62 - bottom), np.int64)
    for place, three in zip(lowest - bottom, limbs, strict=True):
        total[0, max(place, 0) : max(place, 0) + 3] += three
    assert round_sums(total, np.array([bottom]))[0] == exact_sum(array) == math.fsum(values)


def test_ties_are_rounded_to_even_and_lower_bits_decide():
    for terms in (
        [1.0, 2.0**-53],
        [1.0 + 2.0**-52, 2.0**-53],
        [1.0, 2.0**-53, 2.0**-200],
        [-1.0, -(2.0**-53)],
    ):
        lowest, limbs = split_limbs(np.array(terms))
        bottom = lowest.min()
        total = np.zeros((1, int(lowest.max() - bottom) + 3), np.int64)
        for place, three in zip(lowest - bottom, limbs, strict=True):
            total[0, place : place + 3] += three
        assert round_sums(total, np.array([bottom]))[0] == math.fsum(terms)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 2.0**900])
def test_splitting_values_out_of_range_is_an_error(bad):
    with pytest.raises(ValueError, match="finite"):
        split_limbs(np.array([1.0, bad]))
