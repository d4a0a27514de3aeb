"""Visits of pixels that plans count."""

import numpy as np
import pytest
from made_scans import CUTS, ground, satellite

from petamap.planning.pixel_visits import visits_a_sample
from petamap.planning.scanned_run import ScannedRun


def visits_of_all(run):
    """Return the visits a sample of all streams, sample by sample."""
    n_visits = n_used = 0
    for observation in run.observations:
        n = observation.n_samp
        for detector in range(observation.n_det):
            pixels, flags = np.empty(n, np.int32), np.zeros(n, np.uint8)
            observation.pointing.expand(run.pixelization, detector, 0, n, pixels, None)
            for source in observation.flags:
                source.or_flags(detector, 0, n, flags)
            used = pixels[flags == 0]
            n_visits += 1 + np.count_nonzero(used[1:] != used[:-1])
            n_used += len(used)
    return n_visits / n_used


@pytest.mark.parametrize("more", ["", CUTS])
def test_a_visit_is_consecutive_samples_in_one_pixel(more):
    run = ScannedRun.open(ground(more=more))
    assert visits_a_sample(run) == pytest.approx(visits_of_all(run), rel=0.02)


def test_observations_of_which_no_sample_is_used_have_one_a_sample():
    cut = "[[source]]\nkind = 'cuts'\nbegin = '0 s'\nend = '30 days'\n"
    assert visits_a_sample(ScannedRun.open(satellite(more=cut))) == 1
