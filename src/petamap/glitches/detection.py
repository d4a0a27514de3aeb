"""Detection of glitches and steps in a piece of a stream, by short filters against their own deviation."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import BoolArray, FloatArray, Int64Array

_NORMAL_MEDIAN = 0.6745  # of |x| of a normal variable of deviation 1
_FEWEST = 64  # responses that a deviation is taken from
_FEWEST_STEPS = 16  # the same, in lengths of the filter: responses within one are correlated


def robust_deviation(values: FloatArray) -> float:
    """Return the standard deviation by the median of absolute values about zero, divided by 0.6745."""
    return float(np.median(np.abs(values))) / _NORMAL_MEDIAN


def find_glitches(data: FloatArray, good: BoolArray, lag: int, threshold: float) -> Int64Array:
    """Return ranges of samples in which a stream leaves its neighbours.

    A sample is part of a glitch if ``d_t - (d_(t-lag) + d_(t+lag)) / 2``, in which offsets and slopes cancel,
    is more than `threshold` times its deviation over all samples.

    Parameters
    ----------
    data : float64 (n,)
    good : bool (n,)
        Samples that may be used; a response with any other is not looked at.
    lag : int
        Samples.
    threshold : float
        In standard deviations.

    Returns
    -------
    int64 (n_glitches, 2)
        Ranges [start, stop), increasing, more than ``2 lag`` samples apart.
    """
    none = np.zeros((0, 2), np.int64)
    if len(data) <= 2 * lag:
        return none
    response = np.abs(data[lag:-lag] - (data[: -2 * lag] + data[2 * lag :]) / 2)
    valid = good[lag:-lag] & good[: -2 * lag] & good[2 * lag :]
    if np.count_nonzero(valid) < _FEWEST:
        return none
    limit = threshold * robust_deviation(response[valid])
    above = np.flatnonzero(valid & (response > limit)) + lag
    if limit == 0 or not len(above):  # without noise nothing can be told from the sky
        return none
    groups = np.split(above, np.flatnonzero(np.diff(above) > 2 * lag) + 1)
    return np.array([(group[0], group[-1] + 1) for group in groups], np.int64)


def find_steps(
    data: FloatArray, good: BoolArray, length: int, threshold: float, longest: int
) -> tuple[Int64Array, FloatArray]:
    """Return samples at which the level of a stream changes.

    The response is the mean of `length` good samples from one on, minus that of the `length` good ones
    before it: the filter that is matched to a step in white noise. Steps are the largest responses of more
    than `threshold` times the deviation, one within `length` good samples on either side.

    Parameters
    ----------
    data : float64 (n,)
    good : bool (n,)
    length : int
        Samples of either mean.
    threshold : float
        In standard deviations.
    longest : int
        Samples that both means may extend over: of longer gaps, either side is not compared.

    Returns
    -------
    int64 (n_steps,)
        First good sample of each new level, increasing.
    float64 (n_steps,)
        Response, in standard deviations.
    """
    kept = np.flatnonzero(good)
    if len(kept) < _FEWEST_STEPS * length:
        return np.zeros(0, np.int64), np.zeros(0)
    values = data[kept]
    sums = np.concatenate([[0.0], np.cumsum(values - np.median(values))])
    response = np.abs(sums[2 * length :] - 2 * sums[length:-length] + sums[: -2 * length]) / length
    near = kept[2 * length - 1 :] - kept[: len(kept) - 2 * length + 1] < longest
    typical = robust_deviation(response[near]) if near.any() else 0.0
    found = []
    while typical > 0 and response.max() > threshold * typical:
        place = int(response.argmax())
        if near[place]:  # a flank of what is across a gap would be misplaced
            found.append((int(kept[place + length]), float(response[place]) / typical))
        response[max(place - length, 0) : place + length + 1] = 0.0
    found.sort()
    return np.array([one[0] for one in found], np.int64), np.array([one[1] for one in found])
