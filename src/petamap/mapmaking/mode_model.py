"""Common modes in the model of the noise of the two-level preconditioner.

Streams of detectors that share noise have baselines of the covariance C_0 / W_d, of one shape; the amplitude
of a mode, which has their noise too, has E (`petamap.noise.common_modes`). The inverse covariance of all of
their baselines is then ``diag(W_d C_0^-1) - A^T Delta A`` with ``Delta = C_0^-1 - E^-1``. Beside the data,
with T_d = W_d C_0^-1 + F^T W_d F of each stream,

    X = T^-1 + T^-1 A^T (Delta^-1 - A T^-1 A^T)^-1 A T^-1.

For A T^-1 A^T stands here the inverse of the mean T' = C_0^-1 + sum_d B_d^2 F^T W_d F, which is no larger,
since inverses are convex: X is no larger than the true one, so that the model's matrix of the map stays
positive. It is the same where gaps are those of all detectors. Bands are then all that is solved for:

    (Delta^-1 - T'^-1)^-1 = Delta + Delta (E^-1 + sum_d B_d^2 F^T W_d F)^-1 Delta.

Templates, of amplitudes a with baselines c a (`petamap.mapmaking.template_model`), widen the covariance of
the baselines of each stream: T^-1 has them marginalized, and A sees baselines without c a. A T^-1 A^T is
larger by A c G^-1 c^T A^T then, of few columns (`TemplateModel.eliminate_from_modes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import FloatArray
from petacomm.mpi import Communicator
from petamap.mapmaking.band_factor import factorize_baselines
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.visits import RankVisits, StreamNoises
from petamap.noise.baselines import BaselineNoise
from petamap.noise.toeplitz import autoregressive_lags, toeplitz_spectrum

_GRID = 1 << 12  # frequencies from 0 to half a cycle per knot


@dataclass(frozen=True)
class ModelledGroup:
    """Streams of an interval that share noise.

    Attributes
    ----------
    streams : slice
        Among those that the rank models.
    forward, backward : float64 (n_det, n_modes)
        A^T and B.
    inverse_priors : float64 (n_modes, 9)
        Lags of E^-1.
    shape : float64 (9,)
        Lags of C_0^-1.
    """

    streams: slice
    forward: FloatArray
    backward: FloatArray
    inverse_priors: FloatArray
    shape: FloatArray


def modelled_groups(
    projection: Projection,
    noise: InverseNoise,
    modes: Sequence[BaselineNoise],
    noises: StreamNoises,
    comm: Communicator,
) -> list[ModelledGroup]:
    """Return the groups of the streams that a rank models. Collective.

    Parameters
    ----------
    projection : Projection
    noise : InverseNoise
        Of this rank's blocks.
    modes : sequence of BaselineNoise
        Of each mode of `noise`: knots as far apart as those of the detectors.
    noises : StreamNoises
    comm : Communicator
    """
    own: dict[int, tuple[FloatArray, FloatArray]] = {}
    for group in noise.joint.groups:
        segment = projection.local.segments[int(noise.blocks[group.members[0], 5])]
        priors = np.array([modes[kernel].inverse_prior for kernel in group.kernels])
        own[segment.stream] = np.sign(group.forward) * np.sqrt(group.forward * group.backward), priors
    found = {stream: one for part in comm.allgather(own) for stream, one in part.items()}
    numbers = {int(stream): number for number, stream in enumerate(noises.streams)}
    groups = []
    for stream, (basis, priors) in sorted(found.items()):
        if stream in numbers:
            streams = slice(numbers[stream], numbers[stream] + len(basis))
            scales = np.sqrt(noises.weights[streams, None])  # the weights of the model
            priors, shape = _ordered(noises, streams, priors)
            groups.append(ModelledGroup(streams, basis * scales, basis / scales, priors, shape))
    return groups


def _ordered(noises: StreamNoises, streams: slice, priors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lags of E^-1 of modes, and of C_0^-1; E is no smaller than C_0."""
    spectra = [
        weight / toeplitz_spectrum(lags, _GRID)
        for weight, lags in zip(noises.weights[streams], noises.inverse_priors[streams], strict=True)
    ]
    mean = np.mean(spectra, axis=0)
    n = priors.shape[1]
    totals = [np.maximum(1 / toeplitz_spectrum(prior, _GRID), mean) for prior in priors]
    lags = [autoregressive_lags(np.fft.irfft(one)[:n]) for one in (mean, *totals)]
    return np.array(lags[1:]), lags[0]


def with_shapes(noises: StreamNoises, groups: Sequence[ModelledGroup]) -> StreamNoises:
    """Return the noises where streams that share noise have covariances of one shape."""
    priors = noises.inverse_priors.copy()
    for group in groups:
        priors[group.streams] = noises.weights[group.streams, None] * group.shape
    return replace(noises, inverse_priors=priors)


class ModeModel:
    """Common modes of the streams that a rank models.

    Parameters
    ----------
    visits : RankVisits
        Of the streams, with the noises of `with_shapes`.
    groups : sequence of ModelledGroup
    n_threads : int, optional
    """

    def __init__(self, visits: RankVisits, groups: Sequence[ModelledGroup], n_threads: int = 1) -> None:
        self._groups, knots, products = groups, visits.knots, visits.band_products()
        self._n_threads = n_threads
        self._ends = [(int(knots[g.streams.start]), int(knots[g.streams.stop])) for g in groups]
        none = np.zeros((0, _mapmaking.BASELINE_BAND + 1))
        lengths, priors, differences, bands = [0], [none], [none], [np.zeros((2, 0))]
        for group, (begin, end) in zip(groups, self._ends, strict=True):
            of_streams = products[:, begin:end].reshape(2, len(group.forward), -1)
            for column in group.backward.T:
                bands.append(np.einsum("d,xdk->xk", column**2, of_streams))
                lengths.append(of_streams.shape[2])
            priors.append(group.inverse_priors)
            differences.append(group.shape - group.inverse_priors)
        self._differences = np.concatenate(differences)
        self._knots = np.cumsum(lengths).astype(np.int64)
        self._factor = factorize_baselines(
            self._knots, np.concatenate(priors), *np.concatenate(bands, axis=1)
        )

    def __bool__(self) -> bool:
        return bool(self._groups)

    @property
    def streams(self) -> list[slice]:
        """The streams of each group."""
        return [group.streams for group in self._groups]

    def answer(self, knots: FloatArray) -> FloatArray:
        """Return A^T (Delta^-1 - T'^-1)^-1 A of baselines, (n_knots, width)."""
        sums = np.zeros((int(self._knots[-1]), knots.shape[1]))
        for group, streams, rows in self._parts(knots, sums):
            for row, column in zip(rows, group.forward.T, strict=True):
                row += np.einsum("d,dkw->kw", column, streams)
        sums = self._times_differences(sums)
        answers = sums.copy()
        largest = np.zeros(knots.shape[1])
        _mapmaking.solve_baselines(self._knots, self._factor, answers, largest, self._n_threads)
        answers = self._times_differences(answers)
        answers += sums
        back = np.zeros_like(knots)
        for group, streams, rows in self._parts(back, answers):
            for row, column in zip(rows, group.forward.T, strict=True):
                streams += column[:, None, None] * row
        return back

    def _times_differences(self, values: FloatArray) -> FloatArray:
        """Return Delta of values of modes, (n, width)."""
        out = np.empty_like(values)
        _mapmaking.multiply_bands(self._knots, self._differences, values, out, self._n_threads)
        return out

    def _parts(
        self, knots: FloatArray, modes: FloatArray
    ) -> Iterator[tuple[ModelledGroup, FloatArray, list[FloatArray]]]:
        """Iterate over groups, with knots of their streams, (n_det, n, width), and of modes, (n, width)."""
        mode = 0
        for group, (begin, end) in zip(self._groups, self._ends, strict=True):
            n_det, n_modes = group.forward.shape
            rows = [modes[slice(*self._knots[k : k + 2])] for k in range(mode, mode + n_modes)]
            yield group, knots[begin:end].reshape(n_det, -1, knots.shape[1]), rows
            mode += n_modes
