"""Sizes of what a run makes beside its maps: rounds that estimate noise, filter-and-bin maps, and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from petamap.data.config import RunConfig
from petamap.data.observation import Observation
from petamap.data.source import is_plug_in
from petamap.mapmaking.demodulated_map import demodulated_streams
from petamap.mapmaking.own_temperature import MOST_ROUNDS, needs_own_temperature
from petamap.mapmaking.preconditioning import has_templates
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.welch import most_bins
from petamap.planning.rank_samples import SampleDistribution, distribute_streams
from petamap.planning.rank_traffic import AuxiliarySystems, ModelPixels, RankSizes
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
        """Return whole streams, or intervals, dealt to ranks, if by these the noise is estimated."""
        noise = self.config.noise
        if noise.kernel != "estimate":
            return None
        return distribute_streams(self.run.layout, size, intervals=bool(noise.n_modes))

    @cached_property
    def filtered_run(self) -> ScannedRun:
        """The run as its filter has it: white noise, and nothing unknown at the ends of intervals."""
        layout = self.run.layout
        if layout.n_lag == layout.margin == 0:
            return self.run
        return replace(self.run, layout=TimeLayout(self.run.observations, 0))

    @cached_property
    def demodulated_run(self) -> ScannedRun:
        """The run of demodulated streams, of white noise."""
        streams, _ = demodulated_streams(self.run.observations, self.config.demodulation)
        return replace(self.run, observations=streams, layout=TimeLayout(streams, 0))

    def white_runs(self) -> tuple[ScannedRun | None, ScannedRun | None]:
        """Return the runs of systems of white noise, as far as they are made: filter, demodulated streams."""
        demodulates = self.config.products.demodulated
        return (
            self.filtered_run if _filters(self.config) else None,
            self.demodulated_run if demodulates else None,
        )

    def of(
        self, whole: RankSizes | None, filtered: RankSizes | None, streams: RankSizes | None
    ) -> AuxiliarySystems:
        """Return what is made, with the sizes of its systems.

        Parameters
        ----------
        whole, filtered, streams : RankSizes or None
            Of whole streams, of the system of the filter, and of that of demodulated streams.
        """
        chosen, stokes = self.config.products, Stokes(self.config.map.stokes)
        if filtered is not None:
            filtered = _white(filtered, (stokes.n,) * chosen.filtered)
        if streams is not None:
            streams = _white(streams, (stokes.n,))
        return AuxiliarySystems(
            whole=whole and replace(whole, binned_only=False, modelled=_own_pixels(whole)),
            noise_rounds=self.config.noise.max_rounds if whole else 0,
            spectrum_bytes=self._spectrum_bytes,
            temperature_rounds=MOST_ROUNDS if needs_own_temperature(self.run.observations) else 0,
            filtered=filtered,
            filtered_maps=int(chosen.filtered),
            has_matrix=chosen.observation_matrix,
            has_covariance=chosen.pixel_covariance,
            has_sky=chosen.sky,
            n_waves=self._n_waves(stokes) if chosen.modes_taken else 0,
            demodulated=streams,
            n_compared=sum(file is not None for file in (chosen.compare, chosen.compare_binned)),
        )

    @property
    def _spectrum_bytes(self) -> float:
        """Bytes of frequencies, powers and errors of a stream, with its part of what detectors share.

        An interval has as much of each mode, whose amplitudes have two numbers of a detector.
        """
        longest = max(stop - start for one in self.run.observations for start, stop in one.intervals)
        each, n_modes = 3 * 8 * most_bins(longest) + _ENTRY_BYTES, self.config.noise.n_modes
        fewest = min(one.n_det for one in self.run.observations)
        shared = 8 * (n_modes + 1) + (n_modes * each + _ENTRY_BYTES) / fewest
        return each + (shared if n_modes else 0.0)

    def _n_waves(self, stokes: Stokes) -> int:
        """Return the octaves of scales of the full sky, by those of intensity and of polarization."""
        octaves = math.floor(math.log2(math.pi / math.sqrt(self.run.pixelization.pixel_area))) + 1
        return max(octaves, 1) * (("I" in stokes.value) + (stokes is not Stokes.I))


def _own_pixels(whole: RankSizes) -> ModelPixels:
    """Return the pixels of a model of whole streams on the ranks that have these."""
    return ModelPixels(whole.n_keys, whole.n_chunks, whole.to_owners, whole.to_ghosts)


def _white(sizes: RankSizes, columns: tuple[int, ...]) -> RankSizes:
    """Return the sizes of a system of white noise, whose flagged samples are cut."""
    return replace(
        sizes, n_gaps=0.0, n_shared_gaps=0.0, gap_partners=0.0, binned_only=False, uniform_binning=False,
        product_columns=columns,
    ).with_cut_row()  # fmt: skip


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
    estimated = config.noise.kernel == "estimate"
    asked = {
        "templates": thinned and has_templates(observations),
        "bands": thinned and bool(config.bands),
        "splits": thinned and bool(config.splits),
        "maps of components": thinned and bool(config.components),
        "the search for glitches": config.glitches.find != "none",
        "the estimate of the noise": thinned and estimated,
        "the filter": thinned and _filters(config),
        "the map of demodulated streams": thinned and config.products.demodulated,
        "sources of plug-ins": any(is_plug_in(one.kind) for one in config.sources),
    }
    return tuple(name for name, present in asked.items() if present)
