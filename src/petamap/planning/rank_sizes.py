"""Sizes of the rank that has most, of one prediction of a plan, for the bounds of what it sends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.costs.forecast import Forecast
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import ReductionOptions
from petacomm.reduction import AUTO
from petacomm.reduction.tuner import TRUST_GUESS
from petamap.data.config import RunConfig
from petamap.data.observation import Observation
from petamap.mapmaking.distribution import Distribution
from petamap.mapmaking.map_outputs import MADE_APART, product_kinds
from petamap.mapmaking.slabs import is_partial
from petamap.planning.amplitude_sizes import AmplitudeForecast, stream_sizes
from petamap.planning.rank_samples import HeldSamples
from petamap.planning.rank_traffic import ExchangedRows, RankSizes
from petamap.planning.scanned_run import ScannedRun
from petamap.simulation.sky_costs import count_looked_for
from petamap.sky.stokes import Stokes

# Standard errors by which a bound is above an estimate from a sample.
_ERRORS = 3
# Pairs of a pixel and a holder that are looked at for chunks.
_PAIRS = 1 << 21
_SCALARS = frozenset({"hits", "rcond"})


@dataclass(frozen=True)
class SizeForecast:
    """Sizes of the ranks of a run with any distribution of its data.

    Attributes
    ----------
    config : RunConfig
    run : ScannedRun
    gathered_bytes : float
        What a rank gathers of pixels for the choice of the distribution.
    amplitudes : AmplitudeForecast, optional
        Of templates, if they are solved for.
    split : bool
        Whether the maps are those of the parts of a split.
    """

    config: RunConfig
    run: ScannedRun
    gathered_bytes: float = 0.0
    amplitudes: AmplitudeForecast | None = None
    split: bool = False

    def of(
        self, distribution: Distribution, forecast: Forecast, occupancy: Occupancy,
        held: Sequence[HeldSamples], n_flagged: float, seconds: Mapping[str, float],
    ) -> RankSizes:  # fmt: skip
        """Return the sizes of the rank that has most.

        Parameters
        ----------
        distribution : Distribution
        forecast : Forecast
        occupancy : Occupancy
            Of the pixels of the forecast.
        held : sequence of HeldSamples
        n_flagged : float
            Part of the samples that is flagged, or in pixels that are cut.
        seconds : mapping of str to float
            Time of one reduction, by algorithm.
        """
        n_stokes, layout = Stokes(self.config.map.stokes).n, self.run.layout
        n_gaps = max(one.in_margins + n_flagged * one.n for one in held)
        ends = _cut_ends(distribution, max(one.n_det for one in self.run.observations))
        reduction = self.config.comm.reduction
        found = RankSizes(
            size=forecast.size,
            n_nodes=-(-forecast.size // forecast.ranks_per_node),
            ranks_per_node=forecast.ranks_per_node,
            n_stokes=n_stokes,
            **pixel_fields(forecast, occupancy),
            n_pix=self.run.pixelization.n_pix,
            n_samples=float(max(one.n for one in held)),
            n_gaps=n_gaps,
            n_shared_gaps=min(n_gaps, 2.0 * layout.n_lag * ends),
            gap_partners=self._gap_partners(forecast.size, held, ends) if n_gaps else 0.0,
            n_kinds=self._n_kinds(),
            n_detectors=float(max(len(one.streams) for one in held)),
            gathered_bytes=self.gathered_bytes,
            product_columns=self._columns(n_stokes),
            partial=self.run.n_maps > 1 or is_partial(self.run.pixelization, round(forecast.n_global.value)),
            n_maps=self.run.n_maps,
            streams=stream_sizes(self.run, held, forecast.size),
            amplitudes=self.amplitudes.sizes(held, forecast.size) if self.amplitudes else None,
            binned_only=self.config.solver.binned_only,
            uniform_binning=self.config.products.binned_weights == "uniform",
            reductions=(reduction,) if reduction != AUTO else candidates(seconds),
            is_chosen=reduction == AUTO,
            gather_sift=self.config.comm.setup == "gather-sift",
            buffer_keys=reduction_options(self.config).buffer_keys,
            n_sources=len(self.config.sources),
            n_skies=count_looked_for(self.run.observations),
        )
        return found.with_cut_row() if self.config.solver.flags == "cut" else found

    def _gap_partners(self, size: int, held: Sequence[HeldSamples], ends: int) -> float:
        """Return the ranks with which a rank shares samples: before and after it, as far as halos reach."""
        shortest = min(one.n for one in held) / max(ends // 2, 1)
        reach = 1 + self.run.layout.n_lag // max(round(shortest) - 2 * self.run.layout.n_lag, 1)
        return float(min(size - 1, 2 * reach * (2 if ends > 2 else 1)))

    def _n_kinds(self) -> float:
        """Return the kinds of streams and modes that may have bands of their own.

        Each stream is one where the data tell its noise.
        """
        bands = self.run.bands
        modes = sum(len(lags) for lags in bands.mode_lags.values())
        if self.config.noise.kernel == "estimate":
            return float(len(self.run.layout.streams) + modes)
        return float(sum(len(lags) for lags in bands.lags.by_detector) + modes)

    def _columns(self, n_stokes: int) -> tuple[int, ...]:
        if self.split:
            return self._columns_of_parts(n_stokes)
        kinds = map_kinds(self.config, self.run.observations)
        return tuple(product_columns(kind, n_stokes) for kind in kinds)

    def _columns_of_parts(self, n_stokes: int) -> tuple[int, ...]:
        """Return the columns of a part's products; of differences, those of both, and where they are."""
        chosen, solved = self.config.products, not self.config.solver.binned_only
        maps = (n_stokes,) * (chosen.maps and solved) + (n_stokes,) * chosen.binned + (1,) * chosen.hits
        return (*maps, *((n_stokes, n_stokes, 1) if chosen.maps else ()))


def map_kinds(config: RunConfig, observations: Sequence[Observation]) -> list[str]:
    """Return the kinds of products that are made of the maps of a run."""
    return [kind for kind in product_kinds(config, observations) if kind not in MADE_APART]


def product_columns(kind: str, n_stokes: int) -> int:
    """Return the columns of a product of a map."""
    if kind == "covariance":
        return n_stokes * (n_stokes + 1) // 2
    return 1 if kind in _SCALARS else n_stokes


def pixel_fields(forecast: Forecast, occupancy: Occupancy) -> dict[str, Any]:
    """Return the fields of `RankSizes` that tell of pixels held, owned and sent.

    Parameters
    ----------
    forecast : Forecast
    occupancy : Occupancy
        Of the pixels of the forecast.
    """
    n_keys = (1 + _ERRORS * forecast.most.error) * forecast.most.n_keys
    return {
        "n_keys": n_keys,
        "n_owned": _n_owned(forecast),
        "n_chunks": _margin(forecast, "owner") * n_keys * chunk_share(occupancy),
        "n_held": forecast.n_held,
        "n_global": forecast.n_global.value,
        "rows": {name: _sent_rows(forecast, name) for name in forecast.loads},
        "pair_rows": _margin(forecast, "pairwise") * forecast.rows["pairwise"].value,
    }


def candidates(seconds: Mapping[str, float]) -> tuple[str, ...]:
    """Return the algorithms that a run may choose, if ratios of predicted times are right within a factor.

    Parameters
    ----------
    seconds : mapping of str to float
        Predicted, by algorithm.
    """
    best = min(seconds.values())
    return tuple(name for name, one in seconds.items() if one <= TRUST_GUESS * best)


def reduction_options(config: RunConfig) -> ReductionOptions:
    """Return the options with which a run sums pixels."""
    row = 8 * Stokes(config.map.stokes).n
    return ReductionOptions(buffer_keys=max(1, int(config.comm.buffer) // row))


def chunk_share(occupancy: Occupancy) -> float:
    """Return chunks of 64 keys a key, of the mean rank: between 1/64 and 1.

    Parameters
    ----------
    occupancy : Occupancy
        Of some of its chunks, as many as 2 million pairs of a key and a holder.
    """
    n_pairs = len(occupancy.holders)
    if not n_pairs:
        return 1.0
    every = max(1, n_pairs // _PAIRS)
    chunks = occupancy.keys >> 6
    chosen = (np.cumsum(np.diff(chunks, prepend=-1) != 0) % every == 0).astype(np.bool_)
    if not chosen.any():
        return 1.0
    positions = np.flatnonzero(chosen).astype(np.int32)
    some = occupancy.select(positions)
    codes = (some.keys >> 6)[some.key_of] * occupancy.size + some.holders
    n_pairs = len(codes)
    return len(distinct(codes)) / n_pairs


def _n_owned(forecast: Forecast) -> float:
    """Return the pixels that the rank with most owns, at most."""
    mean, most = forecast.n_global.value / forecast.size, forecast.most
    if not most.error:
        return most.n_owned
    as_held = mean * max(1.0, forecast.n_keys / max(forecast.n_held, 1.0))
    return (1 + _ERRORS * most.error) * max(as_held, most.n_owned)


def _sent_rows(forecast: Forecast, name: str) -> tuple[ExchangedRows, ...]:
    """Return what is sent in each phase of an all-reduce at most."""
    margin, most = _margin(forecast, name), forecast.size - 1.0
    return tuple(
        ExchangedRows(min(most, _messages(forecast, name, phase.messages)), margin * rows)
        for phase, rows in zip(forecast.loads[name], forecast.most.rows[name], strict=True)
    )


def _margin(forecast: Forecast, name: str) -> float:
    """Return how much larger a bound is than an estimate of rows of an algorithm."""
    return 1 + _ERRORS * max(forecast.rows[name].relative, forecast.most.error)


def _messages(forecast: Forecast, name: str, messages: float) -> float:
    """Return messages of a phase with the errors of partners, whole; of a sample, any partner may get one."""
    partners = forecast.partners_most
    if forecast.most.error and name in ("owner", "pairwise"):
        messages = max(messages, partners.value)
    sampled = forecast.most.error or partners.error
    return math.ceil(messages * (1 + _ERRORS * partners.relative)) if sampled else messages


def _cut_ends(distribution: Distribution, n_det: int) -> int:
    """Return at how many ends of its streams a rank meets others in time."""
    if distribution.groups is None or distribution.groups >= n_det:
        return 2
    detectors = -(-n_det // distribution.groups)
    return 2 * detectors * (1 if distribution.groups == 1 else 2)
