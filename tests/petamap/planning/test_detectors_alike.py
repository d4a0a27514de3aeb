"""Detectors on one line of sight: what ranks have of one without the other."""

import dataclasses

import numpy as np
import pytest
from made_observations import observation

from petamap.mapmaking.distribution import possible_distributions
from petamap.mapmaking.time_layout import TimeLayout
from petamap.planning.detectors_alike import first_alike, unpaired_samples
from petamap.planning.rank_samples import distribute_samples
from petamap.pointing import quaternion
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.healpix import Healpix


def night(number, sights, n_samp=3000, intervals=((0, 1000), (1100, 3000))):
    """Return an observation whose detectors look along the lines of sight given, turned about them."""
    made = observation(f"night-{number}", n_samp=n_samp, n_det=len(sights), plate=None)
    offsets, psi = 0.01 * np.array(sights), 0.3 * np.arange(len(sights))
    away, turned = (
        np.stack(
            [np.sin(angle / 2) * (axis == 0), 0 * angle, np.sin(angle / 2) * (axis == 2), np.cos(angle / 2)],
            1,
        )
        for axis, angle in ((0, offsets), (2, psi))
    )
    detectors = quaternion.multiply(away, turned)
    pointing = CompressedPointing(made.pointing.boresight, detectors)
    return dataclasses.replace(made, uid=number, intervals=intervals, pointing=pointing)


def count_unpaired(samples, layout, observations, threads):
    """Count sample by sample."""
    seen = {}
    for rank, stream, begin, end in zip(
        samples.ranks, samples.streams, samples.begin, samples.end, strict=True
    ):
        one = layout.streams[int(stream)]
        sight = observations[one.observation].pointing.sight_of
        if np.count_nonzero(sight == sight[one.detector]) > 1:
            start = layout.streams.key(int(stream))
            for sample in range(int(begin) - start, int(end) - start):
                key = rank // threads, one.observation, one.interval, sight[one.detector], sample
                seen[key] = seen.get(key, 0) + 1
    unpaired = np.zeros(samples.size, np.int64)
    for (rank, *_), n in seen.items():
        unpaired[rank] += n % 2
    return int(unpaired.max())


@pytest.mark.parametrize("sights", [(0, 0, 1, 1), (0, 1, 0, 1, 2), (0, 0, 0, 3, 3, 4, 5, 5), (0, 1, 2)])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_unpaired_samples_are_those_that_are_counted_one_by_one(sights, size):
    observations = [night(1, sights), night(2, sights[::-1], intervals=((5, 2000),))]
    layout = TimeLayout(observations, 16)
    for distribution in possible_distributions(len(sights)):
        samples = distribute_samples(layout, distribution.groups, size)
        for threads in (1, 2):
            expected = count_unpaired(samples, layout, observations, threads)
            assert unpaired_samples(samples, layout, observations, threads) == expected


def test_a_rank_with_all_detectors_parts_none():
    observations = [night(1, (0, 0, 1, 1), intervals=((0, 1500), (1500, 3000)))]
    layout = TimeLayout(observations, 16)
    by_name = {one.name: one.groups for one in possible_distributions(4)}
    found = {
        name: unpaired_samples(distribute_samples(layout, groups, 4), layout, observations)
        for name, groups in by_name.items()
    }
    assert found["time-major"] == 0
    assert found["detector-major"] == 3000


def test_recorded_pixels_are_looked_up_for_each_detector():
    made = night(1, (0, 0))
    pixels = RecordedPixels(np.zeros((2, 3000), np.int32), Healpix(8, nest=True))
    recorded = dataclasses.replace(made, pointing=pixels)
    layout = TimeLayout([recorded], 16)
    samples = distribute_samples(layout, 2, 2)
    assert unpaired_samples(samples, layout, [recorded]) == 0
    assert unpaired_samples(samples, layout, [made]) == 2900
    assert first_alike(recorded).tolist() == [0, 1]
    assert first_alike(dataclasses.replace(made, flags=())).tolist() == [0, 0]
