"""Memory of templates: of the functions that are kept, and of the model that eliminates amplitudes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from petamap.data.template import TemplateTerm

# Bytes of an entry of a sparse matrix, and of a sample of a stream while its matrix is made: of the hat
# functions, and of each function that the sample has.
_ENTRY, _HATS, _FUNCTION = 12, 130, 40
# Bytes of a gap in the model: two hat functions, in the matrix of its stream and in that of all.
_GAP = 56
# Bytes of an entry of a matrix of amplitudes that is inverted, alone and with baselines eliminated, and that
# are taken beside while the last inverse is made: 504 amplitudes of 16 streams took 98 MB and 115 beside.
_DENSE, _DENSE_BESIDE = 24, 36
# Bytes of what an amplitude's function has in a pixel (28 with polarization), and beside it while those of
# all streams are summed.
_ENTRY_OF_PIXEL, _ENTRY_BESIDE = 30, 50
# As in `petamap.mapmaking.template_model`: amplitudes of a stream up to which matrices are dense, those of
# streams that share noise up to which they have one matrix, and knots about the samples of a function that it
# is coupled to.
_MOST_DENSE, _MOST_SHARED, _REACH = 512, 1024, 64

# Bytes a sample that slow modes may take while the preconditioner is made.
SLOW_BYTES = 2


@dataclass(frozen=True)
class StreamFunctions:
    """Functions of a stream's templates, in numbers.

    Attributes
    ----------
    n_samp : int
        Samples, margins included.
    n_amplitudes : int
    per_sample : float
        Functions that are not zero, a sample.
    n_cells : int
        Most cells of a term.
    own_bytes : int
        Of arrays that are kept for this stream alone.
    interval_bytes : int
        Of arrays that all detectors of the interval have in common.
    n_sharing : int
        Streams that have noise in common with it, itself counted; 0 if none has.
    """

    n_samp: int
    n_amplitudes: int
    per_sample: float
    n_cells: int
    own_bytes: int
    interval_bytes: int
    n_sharing: int = 0

    @staticmethod
    def of(terms: Sequence[tuple[TemplateTerm, bool]], n_samp: int, n_sharing: int = 0) -> StreamFunctions:
        """Return those of terms, each with whether it is the stream's own."""
        return StreamFunctions(
            n_samp,
            sum(term.n_amplitudes for term, _ in terms),
            sum(
                (1 if term.functions == "bins" else term.n_functions) * (1 + term.linear) for term, _ in terms
            ),
            max((len(term.edges) - 1 for term, _ in terms), default=1),
            sum(_array_bytes(term) for term, own in terms if own),
            sum(_array_bytes(term) for term, own in terms if not own),
            n_sharing,
        )


@dataclass(frozen=True)
class TemplateBytes:
    """Bytes of the model of templates.

    Attributes
    ----------
    kept, beside : int
        While it is there; and beside these at most, while it is made.
    """

    kept: int = 0
    beside: int = 0


def template_model_bytes(
    streams: Iterable[StreamFunctions], knots: float, n_gaps: int, visits: float = 0.0, n_pixels: float = 0.0
) -> TemplateBytes:
    """Return the bytes of the model that eliminates the amplitudes of streams (`TemplateModel`).

    Couplings of an amplitude reach the knots of its cell and those near it. Matrices of few amplitudes are
    dense; of many they have bands of those whose cells are near.

    Parameters
    ----------
    streams : iterable of StreamFunctions
    knots : float
        Knots a sample.
    n_gaps : int
        Of these streams.
    visits : float
        Visits of pixels a sample.
    n_pixels : float
        Pixels that a stream sees at most.
    """
    kept, beside, transient, n_seen = _GAP * n_gaps, 0, 0, 0.0
    for one in streams:
        n, n_knots = one.n_amplitudes, knots * one.n_samp + 2
        coupled = min(n_knots, n_knots / one.n_cells + _REACH)
        kept += int(2 * _ENTRY * n * coupled)
        near = min(n, n / one.n_cells * (_REACH * min(one.n_cells / n_knots, 1.0) + 1))
        kept += int(_ENTRY * n * near)
        if n <= _MOST_DENSE:
            kept, beside = kept + _DENSE * n * n, beside + _DENSE_BESIDE * n * n
        else:
            kept += int(4 * _ENTRY * n * near)
        if one.n_sharing * n <= _MOST_SHARED:  # a matrix of all of a group
            kept += _ENTRY * one.n_sharing * n * n
        transient = max(transient, int(one.n_samp * (_HATS + _FUNCTION * one.per_sample)))
        n_seen += min(one.per_sample * one.n_samp * visits, n * n_pixels)
    beside += max(transient, int(_ENTRY_BESIDE * n_seen))
    return TemplateBytes(kept + int(_ENTRY_OF_PIXEL * n_seen), beside)


def _array_bytes(term: TemplateTerm) -> int:
    arrays = (term.values, term.knots, term.turns, term.bins, term.edges)
    # a column that is not of pixels is kept once it was read
    read = term.read is not None and term.of_pixels is None
    kept = 8 * term.n * int(term.edges[-1] - term.edges[0]) if read else 0
    return kept + sum(array.nbytes for array in arrays if array is not None)
