"""Detectors that look at the same places, sample by sample, of which plans look at the first alone."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.data.observation import Observation
from petamap.pointing.compressed import CompressedPointing


def first_alike(observation: Observation, *, with_flags: bool = True) -> Int64Array:
    """Return the first detector that has the pixels and flags of each one: int64 (n_det,).

    Parameters
    ----------
    observation : Observation
    with_flags : bool
        Whether flags count, which each detector has of its own.
    """
    pointing = observation.pointing
    if not isinstance(pointing, CompressedPointing) or (with_flags and observation.flags):
        return np.arange(observation.n_det)
    _, firsts, numbers = np.unique(pointing.sight_of, return_index=True, return_inverse=True)
    return np.asarray(firsts[numbers], np.int64)
