"""Noise that detectors share: amplitudes of common modes, and what is left of each detector.

The noise of detector d is ``n_d(t) + sum_j C_dj k_j(t)``, each n_d and k_j stationary. With W the weights of
the detectors' white noise and U an orthonormal basis of W^1/2 C, the amplitudes are ``z = U^T W^1/2 x``, the
weighted least squares of an instant; and (Woodbury) where all spectra of detectors have one shape, D = S / W,

    N^-1 = W^1/2 [(1 - U U^T) S^-1 + U (S + U^T W^1/2 C K C^T W^1/2 U)^-1 U^T] W^1/2.

Detectors of other shapes keep their own D^-1 in the first part, N^-1 = (1 - B A)^T D^-1 (1 - B A) + A^T Q A
with A = U^T W^1/2, B = W^-1/2 U and Q the inverse noise of z: positive whatever the spectra, and of the band
of each kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.noise.model import NoiseModel, TabulatedPsd
from petamap.noise.toeplitz import sampled_psd, white_lags

# The table of the noise of an amplitude: frequencies a decade, and decades below Nyquist.
_PER_DECADE, _DECADES = 50, 8
# Modes of which the weight is less than this of the largest are others again.
_SAME = 1e-10


@dataclass(frozen=True, eq=False)
class CommonNoise:
    """Noise that detectors share.

    Attributes
    ----------
    couplings : float64 (n_det,)
        Its factor in the signal of each detector.
    model : NoiseModel
        Spectrum of the shared stream.
    interval : int, optional
        The stationary interval of an observation that has it; by default all have.
    """

    couplings: FloatArray
    model: NoiseModel
    interval: int | None = None


@dataclass(frozen=True, eq=False)
class ModeAmplitudes:
    """Amplitudes of common modes at an instant: z = A x; B z is their part in the signals.

    Attributes
    ----------
    forward, backward : float64 (n_det, n_modes)
        A^T, 1/K, and B, K: A B = 1.
    models : tuple of TabulatedPsd
        Noise of each amplitude: of the detectors and of the modes; its white part is 1 a sample.
    """

    forward: FloatArray
    backward: FloatArray
    models: tuple[TabulatedPsd, ...]

    @property
    def n(self) -> int:
        """Number of modes."""
        return len(self.models)


def mode_amplitudes(
    models: Sequence[NoiseModel], shared: Sequence[CommonNoise], sample_rate: float, where: str | None = None
) -> ModeAmplitudes:
    """Return the amplitudes of the modes of detectors.

    Several modes are turned so that their amplitudes have no noise in common over the mean of all octaves;
    what they still have in common at single frequencies is left out.

    Parameters
    ----------
    models : sequence of NoiseModel
        Noise of each detector alone.
    shared : sequence of CommonNoise
    sample_rate : float
        Hz.
    where : str, optional
        Observation, for errors.

    Raises
    ------
    DataError
        If a coupling is not finite, or a mode has none.
    """
    couplings = np.stack([one.couplings for one in shared], axis=1)
    if not np.isfinite(couplings).all():
        raise DataError("a coupling to common noise is not finite", where=where)
    if np.any(np.all(couplings == 0, axis=0)):
        raise DataError("common noise has no coupling to any detector", where=where)
    weights = np.array([white_lags(model, sample_rate, where)[0] for model in models])
    frequencies = sample_rate / 2 * np.logspace(-_DECADES, 0, _PER_DECADE * _DECADES + 1)
    spectra = [sampled_psd(one.model, frequencies, sample_rate) for one in shared]
    scaled = np.sqrt(weights)[:, None] * couplings
    basis = orthonormal_modes(scaled, np.array([spectrum.mean() for spectrum in spectra]))
    own = np.stack([sampled_psd(model, frequencies, sample_rate) for model in models])
    tables = []
    for column in basis.T:
        values = np.einsum("d,df->f", column**2 * weights, own)
        for number, spectrum in enumerate(spectra):
            values += np.einsum("d,d", column, scaled[:, number]) ** 2 * spectrum
        tables.append(TabulatedPsd(frequencies, values))
    scales = np.sqrt(weights)[:, None]
    return ModeAmplitudes(basis * scales, basis / scales, tuple(tables))


def orthonormal_modes(scaled: FloatArray, powers: FloatArray) -> FloatArray:
    """Return U, an orthonormal basis of W^1/2 C in which modes of given powers are uncorrelated.

    Parameters
    ----------
    scaled : float64 (n_det, n)
        W^1/2 C.
    powers : float64 (n,)
        Of each mode.

    Returns
    -------
    float64 (n_det, n_modes)
        The largest first; fewer than n where columns are the same.
    """
    columns = scaled * np.sqrt(powers)
    values, vectors = np.linalg.eigh(np.einsum("di,dj->ij", columns, columns))
    kept = values > _SAME * values[-1]
    basis = np.einsum("di,ij->dj", columns, vectors[:, kept]) / np.sqrt(values[kept])
    return np.ascontiguousarray(basis[:, ::-1])
