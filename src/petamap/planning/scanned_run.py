"""What a run scans: its observations, their time layout and the pixels of its map, without its signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from petamap.data.config import NoiseOptions, RunConfig, open_sources
from petamap.data.observation import Observation
from petamap.data.parts import Parts
from petamap.mapmaking.bands import StreamBands, planned_bands
from petamap.mapmaking.frequency_bands import band_parts, require_consistent_bands
from petamap.mapmaking.intervals import free_ends
from petamap.mapmaking.target import prepare_observations, target_pixelization
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.common_modes import CommonNoise
from petamap.noise.model import InverseLags
from petamap.planning.sky_regions import COARSE_SAMPLES, SkySample, coarse_hit_counts, draw_sky_sample
from petamap.sky.part_pixels import PartPixels
from petamap.sky.pixelization import Pixelization


@dataclass(frozen=True)
class ScannedRun:
    """What a run scans, as in the map-maker.

    Attributes
    ----------
    observations : sequence of Observation
    layout : TimeLayout
    pixelization : Pixelization
        Of each of its maps.
    bands : StreamBands
        Bands of the inverse noise.
    parts : Parts, optional
        Frequency bands that have a map each, or parts of a split. Pixel p of map k has the key k n_pix + p.
    """

    observations: Sequence[Observation]
    layout: TimeLayout
    pixelization: Pixelization
    bands: StreamBands
    parts: Parts | None = None

    @property
    def n_maps(self) -> int:
        """Number of maps that have pixels of their own."""
        return self.parts.n if self.parts else 1

    @staticmethod
    def open(config: RunConfig) -> ScannedRun:
        """Open the sources of a run."""
        require_consistent_bands(config)
        observations = _with_modes(config.noise, prepare_observations(config, open_sources(config)))
        return ScannedRun.of(config, observations, target_pixelization(config.map, observations))

    @staticmethod
    def of(config: RunConfig, observations: Sequence[Observation], pixelization: Pixelization) -> ScannedRun:
        """Return the run of observations that are prepared for map-making."""
        bands = planned_bands(config, observations)
        n_lag = bands.n_lag
        solver = config.solver
        free = free_ends(config.noise.ends, observations, n_lag) and solver.flags != "cut"
        free &= not solver.binned_only
        layout = TimeLayout(observations, n_lag, n_lag if free else 0)
        parts = band_parts(config.bands, observations) if config.bands else None
        if parts:
            PartPixels(pixelization, parts.n)  # refuses too many
        return ScannedRun(observations, layout, pixelization, bands, parts)

    def sky_sample(self, fraction: float, seed: int, n_samples: int = COARSE_SAMPLES) -> SkySample:
        """Return a random sample of a fraction of the sky, with more regions where hits are many.

        Hits are counted in about `n_samples` samples.
        """
        hits = coarse_hit_counts(self.observations, self.pixelization, n_samples)
        return draw_sky_sample(self.pixelization, fraction, seed, hits)


def _with_modes(noise: NoiseOptions, observations: Sequence[Observation]) -> Sequence[Observation]:
    """Return observations whose detectors share as much noise as will be found, of a spectrum not known."""
    n_modes = noise.n_modes if noise.kernel == "estimate" else 0
    return [
        replace(one, common_noise=(CommonNoise(np.ones(one.n_det), InverseLags(np.ones(1))),) * n_modes)
        if n_modes
        else one
        for one in observations
    ]
