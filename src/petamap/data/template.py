"""Interface of templates: contributions to the time stream that are solved for with the map."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int32Array, Int64Array, UInt32Array
from petamap.noise.autoregressive import AutoregressiveProcess
from petamap.noise.model import NoiseModel
from petamap.noise.offsets import offsets_process
from petamap.sky.pixelization import Pixelization

if TYPE_CHECKING:
    from petamap.data.observation import Observation

FUNCTIONS = ("constant", "legendre", "fourier", "bins", "columns")


# Values of samples that look at pixels of a pixelization, or None where they are not the pixels' own.
OfPixels = Callable[[Pixelization, Int64Array], FloatArray | None]


@dataclass(frozen=True)
class IndependentPrior:
    """Amplitudes that are drawn independently of each other, about zero (an `AmplitudePrior`).

    Attributes
    ----------
    rms : float
        Standard deviation, in the unit of the signal, from 1e-60 to 1e60: variances and their inverses are
        finite.

    Raises
    ------
    ConfigError
        If it is beyond.
    """

    rms: float
    of_noise = False

    def __post_init__(self) -> None:
        if not 1e-60 <= self.rms <= 1e60:
            raise ConfigError(f"template amplitudes with an rms of {self.rms:g}", mend="from 1e-60 to 1e60")

    def process(
        self, term: TemplateTerm, model: NoiseModel | None, sample_rate: float, order: int
    ) -> AutoregressiveProcess:
        """Return independent values."""
        return AutoregressiveProcess(np.ones(1), self.rms**2)


@dataclass(frozen=True)
class NoisePrior:
    """Constants of cells that are the means of correlated noise, the rest of which is white.

    An `AmplitudePrior`: destriping with a prior, as in Madam (`petamap.noise.offsets`).
    """

    of_noise = True

    def process(
        self, term: TemplateTerm, model: NoiseModel | None, sample_rate: float, order: int
    ) -> AutoregressiveProcess:
        """Return offsets of the noise in cells of the mean length."""
        assert model is not None
        n = len(term.edges) - 1
        length = max(1, round(float(term.edges[-1] - term.edges[0]) / n))
        return offsets_process(model, sample_rate, length, n, order)


@dataclass(frozen=True)
class Sharing:
    """Streams that have the amplitudes of a template in common.

    Attributes
    ----------
    time : str
        "interval": each stationary interval has its own; "observation": all of an observation have the same;
        "run": all of a run.
    detectors : bool
        Whether all detectors have the same; else those of one name, where time is "run".
    """

    time: str = "interval"
    detectors: bool = False

    def key(self, observation: Observation, detector: int, interval: int) -> Hashable:
        """Return what is equal for streams with the same amplitudes."""
        where = {"interval": (observation.uid, interval), "observation": (observation.uid,), "run": ()}
        return where[self.time], None if self.detectors else observation.detectors[detector]


class AmplitudePrior(Protocol):
    """What is known of amplitudes beforehand: the covariance of consecutive sets of each function."""

    @property
    def of_noise(self) -> bool:
        """Whether it follows from the model of the noise, which is then white in map-making."""

    def process(
        self, term: TemplateTerm, model: NoiseModel | None, sample_rate: float, order: int
    ) -> AutoregressiveProcess:
        """Return the process that the amplitudes of each function are, of no more values than sets.

        Parameters
        ----------
        term : TemplateTerm
        model : NoiseModel, optional
            Of the detector in the interval, where the prior follows from it.
        sample_rate : float
            Hz.
        order : int
            Values that may predict the next one.
        """


@dataclass(frozen=True, eq=False)
class TemplateTerm:
    """Functions of the samples of a stationary interval, each with an amplitude of its own in each cell.

    A cell is a range of samples between consecutive edges; where no cell is, the functions are zero. The
    contribution to sample t in cell c is the sum over k of ``f_k(t) a[c, k]``.

    Attributes
    ----------
    functions : str
        constant: 1. legendre: P_first to P_(first + n - 1) of `values`. fourier: cos and sin of the
        harmonics `first` to ``first + n - 1`` of `turns`. bins: 1 where `bins` is k. columns: row k of
        `values`.
    n : int
        Polynomials, harmonics, bins or columns.
    edges : int64 (n_cells + 1,)
        Samples since the start of the interval, increasing.
    linear : bool
        Amplitudes are those at the edges, and linear in time between them: ``n_cells + 1`` of each function.
    first : int
        First polynomial or harmonic.
    values : float64 (1 or n, n_samp), optional
        Argument of the polynomials, -1 to 1; or the columns.
    knots : int32 (n_knots,), optional
        Samples, from the first to the last of the interval, that the `values` of columns are of; columns are
        linear between them.
    turns : uint32 (n_samp,), optional
        Angle of the first harmonic, in units of 2 pi / 2^32.
    bins : int32 (n_samp,), optional
    prior : AmplitudePrior, optional
        Without one, amplitudes may be of any size.
    divisor : float
        What the functions are divided by to be 1 at most; the table has amplitudes of those that are not.
    read : callable, optional
        ``read(start, stop)`` returns columns of samples [start, stop) of the interval, float64
        (n, stop - start), in the place of `values`: none are kept that nobody asks for.
    of_pixels : callable, optional
        ``of_pixels(pixelization, pixels)`` returns the only column, times the divisor, of samples that look
        at some pixels, float64 (n_pixels,), or None where it is not the same for all samples of a pixel.
    """

    functions: str
    n: int
    edges: Int64Array
    linear: bool = False
    first: int = 1
    values: FloatArray | None = field(default=None, repr=False)
    turns: UInt32Array | None = field(default=None, repr=False)
    bins: Int32Array | None = field(default=None, repr=False)
    prior: AmplitudePrior | None = None
    divisor: float = 1.0
    read: Callable[[int, int], FloatArray] | None = field(default=None, repr=False)
    of_pixels: OfPixels | None = field(default=None, repr=False)
    knots: Int32Array | None = field(default=None, repr=False)

    @property
    def n_functions(self) -> int:
        """Number of functions."""
        return 2 * self.n if self.functions == "fourier" else self.n

    @property
    def n_sets(self) -> int:
        """Number of sets of amplitudes: of cells, or of edges if amplitudes are linear in time."""
        return len(self.edges) - (not self.linear)

    @property
    def n_amplitudes(self) -> int:
        """Number of amplitudes; that of set c and function k is number ``c * n_functions + k``."""
        return self.n_sets * self.n_functions

    def matrix(self, start: int, stop: int) -> Any:
        """Return the functions of samples [start, stop), sparse (stop - start, n_amplitudes)."""
        from scipy import sparse

        rows = np.arange(max(start, int(self.edges[0])), min(stop, int(self.edges[-1])))
        cells = np.searchsorted(self.edges, rows, side="right") - 1
        functions, numbers = self._functions(rows)
        columns = cells[:, None] * self.n_functions + numbers
        lengths = np.diff(self.edges)[cells]
        after = ((rows - self.edges[cells]) / lengths)[:, None] if self.linear else 0.0
        shape = (stop - start, self.n_amplitudes + self.n_functions)
        places = np.repeat(rows - start, columns.shape[1])

        def part(weights: FloatArray | float, shift: int) -> Any:
            values = (functions * weights).ravel()
            return sparse.csr_matrix((values, (places, (columns + shift).ravel())), shape)

        whole = part(1.0 - after, 0)
        if self.linear:
            whole = whole + part(after, self.n_functions)
        return whole[:, : self.n_amplitudes]

    def _functions(self, rows: Int64Array) -> tuple[FloatArray, Int64Array]:
        """Return values of functions at samples, (n, n_present), and their numbers."""
        numbers = np.arange(self.n_functions)[None]
        if self.functions == "bins":
            assert self.bins is not None
            return np.ones((len(rows), 1)), self.bins[rows, None].astype(np.int64)
        if self.functions == "fourier":
            assert self.turns is not None
            harmonics = np.arange(self.first, self.first + self.n, dtype=np.uint32)
            turns = self.turns[rows, None] * harmonics
            angles = 2 * np.pi * turns.astype(np.float64) / 2.0**32
            both = np.stack([np.cos(angles), np.sin(angles)], axis=2)
            return both.reshape(len(rows), 2 * self.n), numbers
        if self.functions == "constant":
            return np.ones((len(rows), 1)), numbers
        if self.functions == "columns":
            some = len(rows) > 0
            columns = self.columns(int(rows[0]) if some else 0, int(rows[-1]) + 1 if some else 0)
            return np.ascontiguousarray(columns.T), numbers
        assert self.values is not None
        order = self.first + self.n - 1
        return np.polynomial.legendre.legvander(self.values[0, rows], order)[:, self.first :], numbers

    def columns(self, start: int, stop: int) -> FloatArray:
        """Return the columns of samples [start, stop) of the interval, (n, stop - start)."""
        if self.read is not None:
            return self.read(start, stop)
        assert self.values is not None
        if self.knots is None:
            return self.values[:, start:stop]
        samples = np.arange(start, stop)
        return np.stack([np.interp(samples, self.knots, column) for column in self.values])

    @property
    def longest(self) -> int:
        """Samples of the longest cell; of two, where amplitudes are linear in time."""
        return int(np.diff(self.edges).max(initial=0)) * (2 if self.linear else 1)


class Template(Protocol):
    """Contribution to the time streams of an observation, with unknown amplitudes.

    Each detector in each stationary interval has amplitudes of its own, unless the template has an attribute
    `sharing` that says otherwise. All have them, unless it has a method ``concerns(detector, start, stop)``
    that says of a detector whether it has any in the interval [start, stop). Functions are those of all
    detectors, unless it is a `DetectorTemplate`. Amplitudes have the unit of the signal, but for a template
    with an attribute `has_unit` that is False: factors.
    """

    @property
    def name(self) -> str:
        """What it is, for products and messages."""

    def term(self, observation: Observation, start: int, stop: int) -> TemplateTerm:
        """Return the functions of the samples [start, stop), a stationary interval of the observation.

        Raises
        ------
        ConfigError, DataError
            If the observation lacks what they are functions of.
        """


@runtime_checkable
class DetectorTemplate(Template, Protocol):
    """Template whose functions are each detector's own; `term` has their cells and number alone."""

    def detector_term(self, observation: Observation, detector: int, start: int, stop: int) -> TemplateTerm:
        """Return the functions of a detector in the samples [start, stop), a stationary interval."""
