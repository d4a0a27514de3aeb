"""Memory of the ranks of a planned run: maps, gaps, templates, preconditioner, splits, filter and bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from petacomm.costs.forecast import Forecast
from petacomm.reduction import ALGORITHMS
from petamap.data.config import RunConfig
from petamap.data.observation import are_made
from petamap.mapmaking.memory import (
    SIMULATION_BYTES,
    MemoryPlan,
    Sizes,
    component_bytes,
    gives_pointing_back,
    map_bytes,
    simulates,
    split_bytes,
)
from petamap.mapmaking.noise_estimate import RIGHT_HAND_SIDES, stream_bytes, streams_at_once
from petamap.mapmaking.own_temperature import with_temperature
from petamap.mapmaking.preconditioning import bytes_a_gap, has_templates
from petamap.mapmaking.slabs import is_partial
from petamap.mapmaking.split_parts import split_parts
from petamap.mapmaking.stream_terms import StreamTerms
from petamap.mapmaking.template_memory import SLOW_BYTES, StreamFunctions, TemplateBytes, template_model_bytes
from petamap.noise.baselines import LONGEST_STEP
from petamap.planning.preconditioner_forecast import PreconditionerForecast
from petamap.planning.rank_samples import HeldSamples
from petamap.planning.scanned_run import ScannedRun
from petamap.pointing.compressed import CompressedPointing
from petamap.simulation.sky import Sky
from petamap.simulation.sky_costs import SkyCosts
from petamap.sky.healpix import Healpix
from petamap.sky.stokes import Stokes

# Memory of a process with its libraries, of SciPy's matrices for templates, and of MPI's beside; measured.
_PROCESS_BYTES, _SPARSE_BYTES, _MPI_BYTES = 68 << 20, 20 << 20, 28 << 20
# Bytes of the work space of a thread, for each point of a transform.
_WORK_BYTES = 64
# Streams whose templates are looked at: those of others are alike.
_N_STREAMS = 8
# Samples whose bits are a page of memory.
_PAGE_SAMPLES = 8 * 4096


@dataclass(frozen=True)
class MemoryForecast:
    """Memory of the ranks of a run.

    Attributes
    ----------
    config : RunConfig
    run : ScannedRun
    preconditioner : PreconditionerForecast
    n_rhs : int
        Right-hand sides that are solved for side by side.
    flagged : float
        Part of the samples that is flagged, or in pixels that are cut.
    skies : tuple of SkyCosts
        Those that signals see.
    """

    config: RunConfig
    run: ScannedRun
    preconditioner: PreconditionerForecast
    n_rhs: int = 1
    flagged: float = 0.0
    skies: tuple[SkyCosts, ...] = ()

    def of(self, forecast: Forecast, threads: int, ranks: Sequence[HeldSamples]) -> tuple[int, int]:
        """Return the largest bytes of a rank with pointing recomputed, and with pointing kept.

        Where pointing cannot be recomputed, both are those with pointing kept.

        Parameters
        ----------
        forecast : Forecast
            Of pixels and rows.
        threads : int
        ranks : sequence of HeldSamples
            What each rank holds.
        """
        found = [self._of_rank(forecast, threads, one) for one in self._unlike(ranks)]
        kept = max(total for _, total in found)
        can_expand = all(isinstance(o.pointing, CompressedPointing) for o in self.run.observations)
        return (max(total for total, _ in found) if can_expand else kept), kept

    def _unlike(self, ranks: Sequence[HeldSamples]) -> Sequence[HeldSamples]:
        """Return the ranks without those of which the memory is that of another: there may be 100,000."""
        if self.functions.n_streams:
            return ranks
        return list({(one.n, one.in_margins): one for one in ranks}.values())

    def _of_rank(self, forecast: Forecast, threads: int, held: HeldSamples) -> tuple[int, int]:
        layout, config = self.run.layout, self.config
        n_amplitudes, functions = self.functions.held(held)
        n_flagged = round(self.flagged * held.n)
        sizes = self._sizes(forecast, threads, held.in_margins + n_flagged + n_amplitudes)
        template = self._template_bytes(forecast, layout.margin)
        # the model of two levels has gaps of whole streams
        margins = 2 * layout.margin * len(layout.streams) // forecast.size
        two_level = self.preconditioner.bytes_a_sample(forecast.size) * held.n
        if self.preconditioner.knots:
            two_level += bytes_a_gap(forecast.size) * (margins + n_flagged)
        slow = SLOW_BYTES * held.n if template.kept and self.preconditioner.knots else 0
        maps, writing = map_bytes(sizes)
        bands = self._bands_bytes(sizes)
        plan = MemoryPlan(
            keep=False, base=self._base(forecast) + functions + self._estimate_bytes(threads),
            samples=_gap_bits(held, n_flagged, layout.margin), n_samp=held.n,
            maps=maps + bands, writing=writing + bands,
            preconditioner=int(two_level) + template.kept, filters=self._filters(threads),
            beside=max(template.beside + slow, self._bytes_to_make_skies(forecast)),
        )  # fmt: skip
        more = sum(split_bytes(plan, n) for n in self._n_parts) + self._filter_and_bin(sizes, template)
        a_sample = 4 + 4 * (config.map.stokes != "I") + 4 * self._has_gains + 2 * 4 * len(self._n_parts)
        pointing = held.n * a_sample
        back = pointing if gives_pointing_back(config) else 0
        kept = replace(plan, samples=plan.samples + pointing, given_back=back)
        return plan.total + more, kept.total + more

    def _base(self, forecast: Forecast) -> int:
        """Return the bytes of a process, its pixel index, and its part of the skies that a node holds.

        The index has a bit a pixel, and a count for 64 pixels.
        """
        n_pix = self.run.pixelization.n_pix
        libraries = _PROCESS_BYTES + SIMULATION_BYTES * self._simulates + _MPI_BYTES * (forecast.size > 1)
        libraries += _SPARSE_BYTES * self._has_templates
        skies = sum(one.n_bytes for one in self.skies) // _ranks_on_node(forecast)
        return libraries + n_pix // 8 + n_pix // 16 + skies

    def _bytes_to_make_skies(self, forecast: Forecast) -> int:
        """Return what a rank takes beside it while a sky is made: there are no vectors yet."""
        return max((one.bytes_to_make(_ranks_on_node(forecast)) for one in self.skies), default=0)

    @property
    def _estimates(self) -> bool:
        """Whether the noise is estimated, in rounds that take more than the map itself."""
        return self.config.noise.kernel == "estimate"

    def _estimate_bytes(self, threads: int) -> int:
        """Return the bytes of the streams that an estimate of the noise simulates and measures."""
        if not self._estimates:
            return 0
        observations = self.run.observations
        n_simulated, n_modes = streams_at_once(observations, threads), self.config.noise.n_modes
        return stream_bytes(observations, n_simulated, threads, n_modes)

    def _sizes(self, forecast: Forecast, threads: int, n_gaps: int) -> Sizes:
        n_owned = forecast.n_global.value / forecast.size
        n_rhs = max(self.n_rhs, RIGHT_HAND_SIDES) if self._estimates else self.n_rhs
        sizes = Sizes(
            n_pix=self.run.pixelization.n_pix,
            n_stokes=Stokes(self.config.map.stokes).n,
            n_held=round(forecast.n_keys),
            n_owned=round(n_owned),
            n_gaps=n_gaps,
            n_ranks=forecast.size,
            n_threads=threads,
            n_rhs=n_rhs,
            partial=not self.run.parts and is_partial(self.run.pixelization, round(forecast.n_global.value)),
            made=n_rhs == 1 and are_made([[one.signals for one in self.run.observations]]),
            filtered=self.run.layout.n_lag > 0,
        )
        name = self.config.comm.reduction
        if name not in ALGORITHMS or not ALGORITHMS[name].allreduce_only:
            return sizes
        rows = round(forecast.rows[name].value)
        return replace(sizes, n_ghosts=round(forecast.n_keys - n_owned), n_sent=rows)

    @cached_property
    def functions(self) -> SampledFunctions:
        """Functions of the templates of some streams, which stand for all."""
        return SampledFunctions(self.run)

    def _template_bytes(self, forecast: Forecast, margin: int) -> TemplateBytes:
        """Return the bytes of the model of templates: of whole streams, dealt to the ranks."""
        knots, visits = self.preconditioner.knots, self.preconditioner.visits
        return self._model_bytes(forecast.size, margin, knots, visits + knots, forecast.n_keys)

    def _model_bytes(
        self, size: int, margin: int, knots: float, visits: float = 0.0, n_pixels: float = 0.0
    ) -> TemplateBytes:
        """Return the bytes of a model of templates with so many knots and visits a sample."""
        if not self._has_templates or self._destripes:
            return TemplateBytes()
        n_streams = -(-len(self.run.layout.streams) // size)
        streams = [self.functions.of(number) for number in range(n_streams)]
        return template_model_bytes(streams, knots, 2 * margin * n_streams, visits, n_pixels)

    @cached_property
    def _has_gains(self) -> bool:
        return any(one.pointing is not None and one.pointing.has_gains for one in self.run.observations)

    @cached_property
    def _has_templates(self) -> bool:
        return has_templates(self.run.observations)

    @cached_property
    def _simulates(self) -> bool:
        """Whether signals are simulated."""
        return simulates(self.run.observations)

    @cached_property
    def _destripes(self) -> bool:
        """Whether the amplitudes are the baselines of the model, which then is exact."""
        return self.run.layout.n_lag == 0 and all(
            [template.name for template in one.templates] == ["baselines"] for one in self.run.observations
        )

    def _bands_bytes(self, sizes: Sizes) -> int:
        """Return what maps of bands and components take beside the pixels that are foreseen.

        Where these are those of one map, all bands are in each.
        """
        n_bands, n_components = len(self.config.bands), len(self.config.components)
        if not n_bands:
            return 0
        each = 1 if self.run.parts else n_bands
        more = replace(sizes, n_held=each * sizes.n_held, n_owned=each * sizes.n_owned)
        index = (n_bands - 1) * (sizes.n_pix // 8 + sizes.n_pix // 16)
        components = component_bytes(more.n_owned, more.n_owned // n_bands, n_components, sizes.n_stokes)
        return index + max(map_bytes(more)) - max(map_bytes(sizes)) + components

    def _filters(self, threads: int) -> int:
        """Return the bytes of threads that filter: of streams that share noise too (`JointNoise.n_bytes`)."""
        return (_WORK_BYTES + 16 * self._most_joint) * self.run.layout.transform * threads

    @cached_property
    def _most_joint(self) -> int:
        joint = (o.n_det + 2 * len(o.common_noise) for o in self.run.observations if o.common_noise)
        return max(joint, default=0)

    @cached_property
    def _n_parts(self) -> list[int]:
        return [split_parts(one, self.run.observations).n for one in self.config.splits]

    def _filter_and_bin(self, sizes: Sizes, template: TemplateBytes) -> int:
        """Return the bytes of the system of a filter-and-bin map, beside that of the run."""
        chosen = self.config.products
        if not (chosen.filtered or chosen.observation_matrix or chosen.modes_taken):
            return 0
        own = self._model_bytes(sizes.n_ranks, 0, 1 / LONGEST_STEP)
        return own.kept + max(own.beside - template.beside, 0)


class SampledFunctions:
    """Functions of the templates of some of the streams of a run, evenly chosen; others are like the nearest.

    Parameters
    ----------
    run : ScannedRun
    """

    def __init__(self, run: ScannedRun) -> None:
        self._run, n = run, len(run.layout.streams)
        self._some: list[StreamFunctions] = []
        if has_templates(run.observations):
            terms = StreamTerms(with_temperature(run.observations, assumed_sky(run)), run.layout)
            chosen = np.unique(np.linspace(0, n - 1, min(n, _N_STREAMS)).round().astype(np.int64))
            self._some = [terms.functions(stream) for stream in chosen.tolist()]

    @property
    def n_streams(self) -> int:
        """Streams that were looked at; none where there are no templates."""
        return len(self._some)

    def of(self, stream: int) -> StreamFunctions:
        """Return the functions of a stream, about."""
        if not self._some:
            return StreamFunctions(0, 0, 0.0, 1, 0, 0)
        nearest = round(stream / max(len(self._run.layout.streams) - 1, 1) * (len(self._some) - 1))
        return self._some[min(nearest, len(self._some) - 1)]

    def held(self, held: HeldSamples) -> tuple[int, int]:
        """Return the amplitudes of the streams of a rank, and the bytes of the functions that it keeps."""
        if not self._some:
            return 0, 0
        streams = held.streams.tolist()
        intervals = dict(zip(self._run.layout.streams.rows(held.streams).tolist(), streams, strict=True))
        own = sum(self.of(stream).own_bytes for stream in streams)
        shared = sum(self.of(stream).interval_bytes for stream in intervals.values())
        n_amplitudes = sum(self.of(stream).n_amplitudes for stream in streams)
        return round(held.weight * n_amplitudes), round(held.weight * own) + shared


def assumed_sky(run: ScannedRun) -> Sky:
    """Return a sky in the place of the run's own map, on which no size depends."""
    expands = all(isinstance(one.pointing, CompressedPointing) for one in run.observations)
    pixels = Healpix(1) if expands else run.pixelization
    return Sky(pixels, lambda: np.ones((1, pixels.n_pix)))


def _ranks_on_node(forecast: Forecast) -> int:
    return min(forecast.size, forecast.ranks_per_node)


def _gap_bits(held: HeldSamples, n_flagged: int, margin: int) -> int:
    """Return the bytes of the bits of gaps, at most: pages of memory that have none take none."""
    in_margins = -(-held.in_margins // max(margin, 1)) * (margin // _PAGE_SAMPLES + 2)
    return min(held.n // 8, (n_flagged + in_margins) * (_PAGE_SAMPLES // 8))
