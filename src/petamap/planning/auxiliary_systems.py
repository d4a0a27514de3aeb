"""Sizes of what a run makes beside its maps: rounds that estimate noise, filter-and-bin maps, and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from petamap.data.config import RunConfig
from petamap.data.observation import Observation
from petamap.mapmaking.distribution import Distribution
from petamap.mapmaking.own_temperature import MOST_ROUNDS, needs_own_temperature
from petamap.mapmaking.preconditioning import has_templates
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.welch import most_bins
from petamap.planning.rank_samples import SampleDistribution, distribute_samples, distribute_streams
from petamap.planning.rank_traffic import AuxiliarySystems, RankSizes
from petamap.planning.scanned_run import ScannedRun
from petamap.sky.stokes import Stokes

# Bytes of the noise of a stream beside its tables, as it is sent.
_ENTRY_BYTES = 512


@dataclass(frozen=True)
class AuxiliaryForecast:
    """What a run makes beside its maps, and of which samples.

    Attributes
    ----------
    config : RunConfig
    run : ScannedRun
    """

    config: RunConfig
    run: ScannedRun

    def whole_streams(self, size: int) -> SampleDistribution | None:
        """Return whole streams dealt to ranks, if by these the noise is estimated."""
        return distribute_streams(self.run.layout, size) if _estimates(self.config) else None

    @cached_property
    def filtered_run(self) -> ScannedRun:
        """The run as its filter has it: white noise, and nothing unknown at the ends of intervals."""
        layout = self.run.layout
        if layout.n_lag == layout.margin == 0:
            return self.run
        return replace(self.run, layout=TimeLayout(self.run.observations, 0))

    def filtered_samples(
        self, distributions: Sequence[Distribution], size: int
    ) -> list[SampleDistribution] | None:
        """Return the samples of a filter in distributions, None without one."""
        if not _filters(self.config):
            return None
        return [distribute_samples(self.filtered_run.layout, one.groups, size) for one in distributions]

    def of(self, whole: RankSizes | None, filtered: RankSizes | None) -> AuxiliarySystems:
        """Return what is made, with the sizes of its systems.

        Parameters
        ----------
        whole, filtered : RankSizes or None
            Of whole streams, and of the system of the filter.
        """
        chosen, stokes = self.config.products, Stokes(self.config.map.stokes)
        if filtered is not None:
            columns = (stokes.n,) * chosen.filtered
            filtered = replace(
                filtered, n_gaps=0.0, n_shared_gaps=0.0, gap_partners=0.0, binned_only=False,
                uniform_binning=False, product_columns=columns,
            ).with_cut_row()  # fmt: skip
        return AuxiliarySystems(
            whole=whole and replace(whole, binned_only=False),
            noise_rounds=self.config.noise.max_rounds if whole else 0,
            spectrum_bytes=self._spectrum_bytes,
            temperature_rounds=MOST_ROUNDS if needs_own_temperature(self.run.observations) else 0,
            filtered=filtered,
            filtered_maps=int(chosen.filtered),
            has_matrix=chosen.observation_matrix,
            has_covariance=chosen.pixel_covariance,
            has_sky=chosen.sky,
            n_waves=self._n_waves(stokes) if chosen.modes_taken else 0,
            n_compared=sum(file is not None for file in (chosen.compare, chosen.compare_binned)),
        )

    @property
    def _spectrum_bytes(self) -> float:
        """Bytes of frequencies, powers and errors of a stream."""
        longest = max(stop - start for one in self.run.observations for start, stop in one.intervals)
        return 3 * 8 * most_bins(longest) + _ENTRY_BYTES

    def _n_waves(self, stokes: Stokes) -> int:
        """Return the octaves of scales of the full sky, by those of intensity and of polarization."""
        octaves = math.floor(math.log2(math.pi / math.sqrt(self.run.pixelization.pixel_area))) + 1
        return max(octaves, 1) * (("I" in stokes.value) + (stokes is not Stokes.I))


def _estimates(config: RunConfig) -> bool:
    """Return whether noise is estimated by whole streams."""
    return config.noise.kernel == "estimate" and not config.noise.n_modes


def _filters(config: RunConfig) -> bool:
    """Return whether a filter is fitted, for a map or for what tells of it."""
    chosen = config.products
    return chosen.filtered or chosen.observation_matrix or chosen.modes_taken


def unbounded_parts(
    config: RunConfig, observations: Sequence[Observation], *, thinned: bool = False
) -> tuple[str, ...]:
    """Return what of a run sends more than the bounds say, by name.

    Parameters
    ----------
    config : RunConfig
    observations : sequence of Observation
    thinned : bool
        Whether the scan was thinned out, of which parts, amplitudes and auxiliary systems are not looked at.
    """
    simulated = all(
        type(one.pointing).__module__.startswith(("petamap.pointing.", "petamap.simulation."))
        for one in observations
    )
    estimated = config.noise.kernel == "estimate"
    asked = {
        "templates": thinned and has_templates(observations),
        "bands": thinned and bool(config.bands),
        "splits": thinned and bool(config.splits),
        "maps of components": bool(config.components),
        "the search for glitches": config.glitches.find != "none",
        "the estimate of the noise": thinned and estimated,
        "the estimate of noise that detectors share": not thinned and estimated and not _estimates(config),
        "the filter": thinned and _filters(config),
        "the map of demodulated streams": config.products.demodulated,
        "tables of files": not simulated,
    }
    return tuple(name for name, present in asked.items() if present)
