"""Set-up of preconditioners with a model of the noise, of baselines, or of the amplitudes of templates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import FloatArray, Int64Array
from petamap.mapmaking.baseline_amplitudes import BaselineAmplitudes, destriping_noises
from petamap.mapmaking.baseline_model import BaselineModel
from petamap.mapmaking.linear_operators import Preconditioner
from petamap.mapmaking.mode_model import ModeModel, modelled_groups, with_shapes
from petamap.mapmaking.preconditioning import PreconditionerInputs, PreconditionerPlan, are_many
from petamap.mapmaking.stream_terms import SelectedTerms, StreamTerms, is_common
from petamap.mapmaking.template_model import LEAST_ADDED, AmplitudePreconditioner, TemplateModel
from petamap.mapmaking.transfer import NuisanceTransfer, PixelTransfer
from petamap.mapmaking.two_level import ModelInverse, TwoLevelPreconditioner, slow_steps
from petamap.mapmaking.visits import gather_visits, stream_noises
from petamap.noise.baselines import fit_baselines
from petamap.sky.parents import parent_pixels

# Most pixels of the coarse map: its matrix is made by as many products with that of the model, side by side
# in eights, and each rank holds it.
_MOST_COARSE = 64


@dataclass(frozen=True)
class ModelInputs:
    """Parts of the system that preconditioners with a model are made of."""

    inputs: PreconditionerInputs

    def with_templates(self, local: Preconditioner) -> Preconditioner:
        """Return a preconditioner of pixels and gaps with that of the amplitudes of templates. Collective."""
        projection = self.inputs.projection
        assert projection.amplitudes
        none, terms = np.zeros(0, np.int64), projection.amplitudes.terms
        templates: TemplateModel | BaselineAmplitudes
        noises = destriping_noises(projection, self.inputs.noise, terms, self.inputs.comm)
        if noises is not None:
            templates = BaselineAmplitudes(terms, stream_noises(projection, noises, self.inputs.comm), none)
        else:
            fitted = [fit_baselines(lags) for lags in self.inputs.noise.lags]
            noises = [fitted[kernel] for kernel in self.inputs.noise.kernel_of]
            templates = TemplateModel(
                terms, stream_noises(projection, noises, self.inputs.comm), none, self.inputs.comm,
                by_stream=are_many(terms), n_threads=projection.n_threads,
            )  # fmt: skip
        transfer = self._nuisance(none, templates, solve_gaps=False)
        return AmplitudePreconditioner(local, self.inputs.shared, transfer, templates.blocks())

    def _nuisance(
        self, gap_keys: Int64Array, templates: TemplateModel | BaselineAmplitudes | None, *, solve_gaps: bool
    ) -> NuisanceTransfer:
        """Return the transfer of unknowns beside the map, of which the model has gaps and templates."""
        projection, held = self.inputs.projection, np.zeros(0, np.int64)
        if projection.gaps.length:
            held = projection.gaps.keys(projection.n_threads)
        if amplitudes := projection.amplitudes:
            placeholder = np.zeros(0 if projection.gaps.length else 1, np.int64)
            held = np.concatenate([placeholder, held, amplitudes.keys])
        return NuisanceTransfer(
            self.inputs.comm, self.inputs.shared.gaps.select_owned(held), projection.layout.streams.n_keys,
            gap_keys, templates.keys if templates else np.zeros(0, np.int64),
            templates.shares if templates else np.zeros(0), solve_gaps=solve_gaps,
            scale=amplitudes.scale if amplitudes else 1.0, n_threads=projection.n_threads,
        )  # fmt: skip

    def two_level(self, plan: PreconditionerPlan) -> Preconditioner:
        """Return the inverse of a model of the noise."""
        projection, statistics, level = self.inputs.projection, self.inputs.statistics, plan.level
        gap_keys = (
            projection.gaps.keys(projection.n_threads) if projection.gaps.length else np.zeros(0, np.int64)
        )
        alive = ~statistics.unsolved
        weight = self.inputs.comm.max(float(self.inputs.noise.weights.max(initial=0)))
        own_keys = parent_pixels(projection.pixelization, self.inputs.keys[alive], level)
        n_samples = self.inputs.comm.sum(projection.local.n_out)
        for least in LEAST_ADDED:
            model = self._model(plan, gap_keys, own_keys, weight, least)
            has_templates = isinstance(model.templates, TemplateModel)
            transfer = PixelTransfer(model.pixels, model.rows, alive, statistics.hits, level == 0)
            n_unknowns = model.n_stokes * self.inputs.comm.sum(len(model.pixels.keys))
            inverse = ModelInverse(
                model, transfer.restrict(self._weights()[:, :, None])[:, :, 0],
                self._coarse(model.pixels.keys, level), weight * n_samples,
                slow_steps(n_samples, n_unknowns) if has_templates else 0,
            )  # fmt: skip
            if inverse.is_positive or not has_templates:
                break
        nuisance = None
        if self.inputs.comm.max(len(gap_keys)) or model.templates:
            nuisance = self._nuisance(model.gap_keys, model.templates, solve_gaps=projection.gaps.length > 0)
        two_level = TwoLevelPreconditioner(
            self.inputs.shared, transfer, nuisance, inverse, statistics.covariance if level else None
        )
        return self._with_common(two_level, plan)

    def _with_common(self, local: Preconditioner, plan: PreconditionerPlan) -> Preconditioner:
        """Return a preconditioner with that of amplitudes that streams share beside it, if they are many."""
        projection, amplitudes = self.inputs.projection, self.inputs.projection.amplitudes
        if not amplitudes or not plan.common_beside:
            return local
        none, noises = np.zeros(0, np.int64), stream_noises(projection, plan.noises, self.inputs.comm)
        terms = SelectedTerms(amplitudes.terms, is_common)
        templates = TemplateModel(
            terms, noises, none, self.inputs.comm, by_stream=True, n_threads=projection.n_threads
        )
        transfer = self._nuisance(none, templates, solve_gaps=False)
        return AmplitudePreconditioner(local, self.inputs.shared, transfer, templates.blocks())

    def _model(
        self,
        plan: PreconditionerPlan,
        gap_keys: Int64Array,
        own_keys: Int64Array,
        weight: float,
        least: float,
    ) -> BaselineModel:
        """Return the model of whole streams, whose samples have at most a weight."""
        projection = self.inputs.projection
        local_keys = parent_pixels(projection.pixelization, projection.keys(), plan.level)
        amplitudes = projection.amplitudes
        own: StreamTerms | SelectedTerms | None = None
        if amplitudes and not plan.destripes:
            own = amplitudes.terms
            if plan.common_beside:
                own = SelectedTerms(own, lambda template: not is_common(template))
        visits = gather_visits(
            projection, plan.noises, gap_keys, local_keys, self.inputs.comm,
            marginalize=projection.gaps.length > 0, terms=own,
        )  # fmt: skip
        groups = modelled_groups(projection, self.inputs.noise, plan.modes, visits.noises, self.inputs.comm)
        visits = replace(visits, noises=with_shapes(visits.noises, groups))
        # no pixel of the model has more samples, and no gap more than 64
        samples = max(self.inputs.statistics.hits_max << (2 * plan.level), 64)
        gaps = visits.gaps.keys
        templates: TemplateModel | BaselineAmplitudes | None = None
        if own:
            templates = TemplateModel(
                own, visits.noises, gaps, self.inputs.comm,
                by_stream=plan.common_beside, least=least, n_threads=projection.n_threads,
            )  # fmt: skip
        elif amplitudes:
            templates = BaselineAmplitudes(amplitudes.terms, visits.noises, gaps)
        return BaselineModel(
            self.inputs.comm, visits, own_keys, weight * samples,
            templates=templates, modes=ModeModel(visits, groups, projection.n_threads),
            n_threads=projection.n_threads,
        )  # fmt: skip

    def _weights(self) -> FloatArray:
        """Return D of the map's pixels, (n_owned, triangle); zero where a pixel is not solved for.

        The white noise of the model has the weights of samples alone (`BaselineNoise`).
        """
        matrices = self.inputs.statistics.covariance.copy()
        rcond = np.zeros(len(matrices))
        _mapmaking.invert(
            self.inputs.projection.stokes.n, 0.0, matrices, rcond, self.inputs.projection.n_threads
        )
        return matrices

    def _coarse(self, keys: Int64Array, level: int) -> Int64Array:
        """Return the coarse pixel of each of the model's pixels that this rank owns."""
        n, up = self.inputs.comm.sum(len(keys)), 0
        while n >> (2 * up) > _MOST_COARSE:
            up += 1
        return parent_pixels(self.inputs.projection.pixelization, keys, level + up, start=level)
