"""Modes of the map that the data leave undetermined, since templates imitate them: found, and left at zero.

Offsets of all detectors imitate the mean of I: with w that mean and the offsets that undo it, A w = 0. The
normal equations have then no single solution; iterations give the mode any value, and what rounding puts into
it grows where a preconditioner takes it for a slow mode. The model of the two-level preconditioner tells
which modes may be such ones, A itself whether they are.

With w_i^T D w_j = 1 where i = j and 0 elsewhere, D = P^T W P, and Q = 1 - sum w w^T D, the preconditioner
Q M^-1 Q^T has no part in them: the map's is w^T D m = 0, a mean by weights over samples. Amplitudes with a
prior imitate nothing: the prior determines the mode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.exact import round_limbs
from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import FloatArray
from petacomm.mpi import Communicator
from petamap.mapmaking.linear_operators import Preconditioner, exact_dots
from petamap.mapmaking.normal_operator import NormalOperator
from petamap.mapmaking.preconditioning import PreconditionerInputs
from petamap.mapmaking.template_model import AmplitudePreconditioner
from petamap.mapmaking.two_level import TwoLevelPreconditioner
from petamap.mapmaking.vectors import Unknowns

# v^T S v of the model's matrix, relative to v^T D v, up to which a mode is looked at: what the model adds
# to templates' equations lets an undetermined one have 1e-6.
_LOOKED_AT = 1e-4
# The same of A up to which it is undetermined. That of the mean of I is 1e-12 with offsets, the square of
# what the model adds, where the least of all other modes is 6e-4 (the example atacama).
_UNDETERMINED = 1e-10
# Directions that others hold already, relative to the largest.
_SAME = 1e-6
# Part of the square of a constant that undetermined modes hold, if it is one of them.
_WHOLE = 0.999
OTHER = "another mode"


@dataclass(frozen=True)
class UndeterminedMode:
    """A mode w of which A w = 0.

    Attributes
    ----------
    vector : Unknowns
        w, one column.
    weighted : Unknowns
        D w on pixels, without rows of gaps.
    """

    vector: Unknowns
    weighted: Unknowns


class DeterminedPreconditioner(Preconditioner):
    """Q M^-1 Q^T: a preconditioner that leaves undetermined modes at zero (module docstring). Collective.

    Parameters
    ----------
    inner : Preconditioner
    modes : sequence of UndeterminedMode
        Of which the squares w^T D w are 1, orthogonal.
    undetermined : tuple of str
        What they are.
    comm : Communicator
    n_threads : int
    """

    def __init__(
        self,
        inner: Preconditioner,
        modes: Sequence[UndeterminedMode],
        undetermined: tuple[str, ...],
        comm: Communicator,
        n_threads: int,
    ) -> None:
        self.inner, self._modes, self._comm, self._n_threads = inner, modes, comm, n_threads
        self.description, self.undetermined = inner.description, undetermined

    @property
    def coarse_error(self) -> FloatArray | None:
        """That of the inner preconditioner."""
        return self.inner.coarse_error

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return Q M^-1 Q^T times vectors side by side. Collective."""
        left = vectors.copy()
        for mode in self._modes:
            amounts = self._dots(mode.vector, left)
            _subtract(amounts, mode.weighted, _on_pixels(left))
        out = self.inner.apply(left)
        for mode in self._modes:
            amounts = self._dots(mode.weighted, _on_pixels(out))
            _subtract(amounts, mode.vector, out)
        return out

    def _dots(self, one: Unknowns, vectors: Unknowns) -> FloatArray:
        """Return the dot products of one vector with others side by side, (width,)."""
        columns = (vectors.columns([number]) for number in range(vectors.width))
        return np.array([_dot(one, column, self._comm, self._n_threads) for column in columns])


def leave_undetermined(preconditioner: Preconditioner, inputs: PreconditionerInputs) -> Preconditioner:
    """Return the preconditioner without the modes of the map that templates imitate. Collective.

    They are looked for where a model of the noise has the templates: with two levels.
    """
    two_level = (
        preconditioner.local if isinstance(preconditioner, AmplitudePreconditioner) else preconditioner
    )
    if not inputs.projection.amplitudes or not isinstance(two_level, TwoLevelPreconditioner):
        return preconditioner
    if two_level.blocks is not None:  # the model's pixels are coarser
        return preconditioner
    means = _means(two_level, inputs)
    found = _Candidates(two_level, inputs)
    for one in [*means.values(), *two_level.inverse.slow_maps(_LOOKED_AT)]:
        found.add(one)
    modes = found.undetermined()
    if not modes:
        return preconditioner
    names = [name for name, one in means.items() if found.share(one, modes) > _WHOLE]
    names += [OTHER] * (len(modes) - len(names))
    return DeterminedPreconditioner(
        preconditioner, modes, tuple(names), inputs.comm, inputs.projection.n_threads
    )


def _means(two_level: TwoLevelPreconditioner, inputs: PreconditionerInputs) -> dict[str, FloatArray]:
    """Return the means of each map's Stokes parameters, (n, n_stokes) on pixels of the model, by name."""
    keys = two_level.inverse.model.pixels.keys
    found, stokes = {}, inputs.projection.stokes.value
    for part, name in enumerate(inputs.map_names):
        for number, letter in enumerate(stokes):
            one = np.zeros((len(keys), len(stokes)))
            one[keys // inputs.projection.sky.n_pix == part, number] = 1.0
            found[f"mean of {letter} of {name}" if name else f"mean of {letter}"] = one
    return found


class _Candidates:
    """Maps that may be undetermined, orthonormal in D, with what imitates them. Collective."""

    def __init__(self, two_level: TwoLevelPreconditioner, inputs: PreconditionerInputs) -> None:
        self._two_level, self._inputs, self._comm = two_level, inputs, inputs.comm
        self._n_threads = inputs.projection.n_threads
        self._vectors: list[Unknowns] = []
        self._weighted: list[Unknowns] = []

    def add(self, pixels: FloatArray) -> None:
        """Add a map, (n, n_stokes) on pixels of the model, if it may be undetermined and is a new one."""
        one = np.ascontiguousarray(pixels[..., None])
        if not self._two_level.inverse.values_of(one)[0] < _LOOKED_AT:
            return
        vector, weighted = self._two_level.lift(one), self._two_level.weigh(one)
        _without_priors(vector, self._inputs)
        square = self._dot(_on_pixels(vector), weighted)
        for other, weights in zip(self._vectors, self._weighted, strict=True):
            amount = np.array([self._dot(weights, _on_pixels(vector))])
            _subtract(amount, other, vector)
            _subtract(amount, weights, weighted)
        left = self._dot(_on_pixels(vector), weighted)
        if left > _SAME * square:
            for each in (vector, weighted):
                for part in each:
                    part /= math.sqrt(left)
            self._vectors.append(vector)
            self._weighted.append(weighted)

    def undetermined(self) -> list[UndeterminedMode]:
        """Return the modes that A itself does not see."""
        n, inputs = len(self._vectors), self._inputs
        if n == 0:
            return []
        values = np.zeros((n, n))
        operator = NormalOperator(inputs.projection, inputs.noise, inputs.shared, inputs.statistics.hits_max)
        for i, one in enumerate(self._vectors):
            image = operator.apply(one)
            for j, other in enumerate(self._vectors[: i + 1]):
                values[i, j] = values[j, i] = self._dot(other, image)
        with single_blas_thread():
            found, axes = np.linalg.eigh(values)
        return [
            UndeterminedMode(_combined(self._vectors, axis), _combined(self._weighted, axis))
            for axis in axes.T[found < _UNDETERMINED]
        ]

    def share(self, pixels: FloatArray, modes: Sequence[UndeterminedMode]) -> float:
        """Return the part of the square of a map, (n, n_stokes), that modes hold."""
        one = np.ascontiguousarray(pixels[..., None])
        weighted = self._two_level.weigh(one)
        values = Unknowns(self._two_level.transfer.prolong(one), np.zeros((0, 1, 1)))
        square = self._dot(values, weighted)
        held = sum(self._dot(_on_pixels(mode.vector), weighted) ** 2 for mode in modes)
        return held / square if square > 0 else 0.0  # a part may have no pixel that is solved for

    def _dot(self, one: Unknowns, other: Unknowns) -> float:
        return _dot(one, other, self._comm, self._n_threads)


def _without_priors(vectors: Unknowns, inputs: PreconditionerInputs) -> None:
    """Set amplitudes of which something is known beforehand to zero."""
    projection, gaps = inputs.projection, inputs.shared.gaps
    assert projection.amplitudes
    known = np.zeros(projection.n_nuisance, np.int64)
    known[projection.gaps.n :] = projection.amplitudes.has_prior()
    vectors.gaps[gaps.select_owned(known) > 0] = 0.0
    if len(vectors.gap_ghosts):
        vectors.gap_ghosts[gaps.select_ghosts(known) > 0] = 0.0


def _dot(one: Unknowns, other: Unknowns, comm: Communicator, n_threads: int) -> float:
    return float(round_limbs(comm.allreduce(exact_dots(one, other, n_threads))[0]))


def _combined(vectors: Sequence[Unknowns], amounts: FloatArray) -> Unknowns:
    """Return a combination of vectors, one column each."""
    out = vectors[0].zeros_like()
    for one, amount in zip(vectors, amounts, strict=True):
        _subtract(np.array([-amount]), one, out)
    return out


def _subtract(amounts: FloatArray, one: Unknowns, vectors: Unknowns) -> None:
    """Subtract amounts, (width,), times one vector from vectors side by side, in place."""
    for part, values in zip(vectors, one, strict=True):
        part -= values * amounts


def _on_pixels(vectors: Unknowns) -> Unknowns:
    """Return the pixels of vectors, which they share, without rows of gaps."""
    none = np.zeros((0, 1, vectors.width))
    return Unknowns(vectors.pixels, none, vectors.pixel_ghosts, none)
