"""Intervals of a run whose streams are alike: detector by detector, of the same noise, rate and length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.data.observation import Observation, same_in_intervals
from petamap.mapmaking.noise_kernels import ModelOf, declared_model
from petamap.mapmaking.stream_table import StreamTable
from petamap.noise.band import rounded_length


@dataclass(frozen=True)
class IntervalClasses:
    """Classes of alike intervals of a run.

    Attributes
    ----------
    class_of : int64 (n_row,)
        Of each row of a `StreamTable`.
    rows : int64 (n_class,)
        The first row of each class.
    lengths : int64 (n_class,)
        Samples of their intervals, rounded.
    """

    class_of: Int64Array
    rows: Int64Array
    lengths: Int64Array


def interval_classes(
    observations: Sequence[Observation], streams: StreamTable, model_of: ModelOf = declared_model
) -> IntervalClasses:
    """Return the classes of the intervals of a run.

    Noise that is not the declared one, or may differ by interval, makes a class of each interval.
    """
    groups = _noise_groups(observations)
    same = [model_of is declared_model and same_in_intervals(one) for one in observations]
    recorded, places = np.unique(streams.stop - streams.start - 2 * streams.margin, return_inverse=True)
    lengths = np.array([rounded_length(n) for n in recorded.tolist()], np.int64)[places]
    alone = ~np.array(same, np.bool_)[streams.observation]
    own = np.where(alone, np.arange(streams.n_rows), -1)
    keys = np.stack([np.array(groups, np.int64)[streams.observation], lengths, own], axis=1)
    _, rows, class_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    # numbered in the order of their first rows
    order = np.argsort(rows)
    numbers = np.empty(len(rows), np.int64)
    numbers[order] = np.arange(len(rows))
    return IntervalClasses(numbers[class_of.reshape(-1)], rows[order], lengths[rows[order]])


def _noise_groups(observations: Sequence[Observation]) -> list[int]:
    """Return numbers that are equal for observations whose detectors have the same noise and rate.

    Noise of many detectors takes long to be compared, and is mostly one object.
    """
    known: dict[tuple[object, ...], int] = {}
    # with the objects, since the next one may be made where one that is gone was
    of_objects: dict[tuple[int, int, float], tuple[object, int]] = {}
    groups = []
    for one in observations:
        noise, rest = one.noise, (one.n_det, one.sample_rate)
        key = id(noise), *rest
        if key not in of_objects:
            of_objects[key] = noise, known.setdefault((_comparable(noise), *rest), len(known))
        groups.append(of_objects[key][1])
    return groups


def _comparable(noise: object) -> object:
    """Return what is equal for detectors with the same noise."""
    try:
        hash(noise)
    except TypeError:  # it holds arrays
        return id(noise)
    return noise
