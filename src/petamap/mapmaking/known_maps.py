"""Known signals of the sky as maps: what the pixels of the preconditioner's model have of a template.

The column of such a template has, nearly, the value of a map K at the pixel of each sample. What its
functions have in common with the map of the run is then T^T W P = H^T B K, where B = F^T W P is that of the
baselines, and H says of which cell each knot is (`petamap.mapmaking.template_model`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator
from petacomm.reduction import OwnedRows
from petamap.data.template import TemplateTerm
from petamap.mapmaking.amplitudes import LocalPixels
from petamap.mapmaking.projection import Projection

# Bits of a sample's value and of its square's root, of which as many samples are summed as there may be.
_BITS, _SQUARE_BITS = 24, 12
# Share of the power of samples that the means of pixels have, for a signal to be taken as a map.
_OF_PIXELS = 0.95

# Columns of sums: values, samples, squares.
_VALUE, _COUNT, _SQUARE = range(3)


def known_maps(projection: Projection, rows: OwnedRows, comm: Communicator) -> dict[str, FloatArray]:
    """Return the map of each template that is a known signal of the sky, by its name. Collective.

    Parameters
    ----------
    projection : Projection
        Of the blocks of this rank, with templates.
    rows : OwnedRows
        Of the pixels of the map, of which each rank holds its local ones.
    comm : Communicator

    Returns
    -------
    dict of str to float64 (n_owned,)
        At the owners of pixels; the same names on all ranks.
    """
    own = _sky_terms(projection)
    found = comm.allgather(
        {name: max(term.divisor for term in terms.values()) for name, terms in own.items()}
    )
    largest = {name: max(one.get(name, 0.0) for one in found) for name in sorted(set().union(*found))}
    maps = {}
    for name, most in largest.items():
        sums = rows.scatter_rev(_pixel_sums(projection, own.get(name, {}), 1 / most))
        mean = sums[:, _VALUE] / np.maximum(sums[:, _COUNT], 1)
        squares = np.rint(mean**2 * sums[:, _COUNT] * 4.0 ** (_SQUARE_BITS - _BITS)).astype(np.int64)
        if comm.sum(int(squares.sum())) >= _OF_PIXELS * comm.sum(int(sums[:, _SQUARE].sum())):
            maps[name] = mean * (most / 2.0**_BITS)
    return maps


def _sky_terms(projection: Projection) -> dict[str, dict[int, TemplateTerm]]:
    """Return the known signals of the sky among the streams of this rank: by name, then stream."""
    assert projection.amplitudes is not None
    terms = projection.amplitudes.terms
    found: dict[str, dict[int, TemplateTerm]] = {}
    for stream in sorted({segment.stream for segment in projection.local.segments}):
        for template, term in zip(terms.templates(stream), terms.of(stream), strict=True):
            if term.of_sky:
                found.setdefault(template.name, {})[stream] = term
    return found


def _pixel_sums(projection: Projection, terms: Mapping[int, TemplateTerm], factor: float) -> Int64Array:
    """Return sums over the samples of local pixels, as integers, (n_local, 3); of a map, over one of each."""
    pixels = LocalPixels(projection.sky, projection.keys() % projection.sky.n_pix)
    sums = np.zeros((projection.n_local, 3), np.int64)
    for block in projection.local.blocks:
        segment = projection.local.segments[int(block[5])]
        term = terms.get(segment.stream)
        if term is None:
            continue
        values = pixels.values_of(term)
        if values is not None:
            sums[:] = _integers(values[0, :-1] * (term.divisor * factor))
            break
        stream = projection.layout.streams[segment.stream]
        begin = int(block[0] + block[2]) + segment.start - segment.offset - stream.start - stream.margin
        seen = projection.sample_pointing(block, inputs=False).pixels
        first, last = max(0, -begin), min(len(seen), int(term.edges[-1]) - begin)
        seen, samples = seen[first:last], term.columns(begin + first, begin + last)[0]
        good = seen >= 0
        numbers = _integers(samples[good] * (term.divisor * factor))
        for column, of_samples in enumerate(numbers.T):
            # exact: whole numbers, whose sums are below 2^53
            sums[:, column] += np.bincount(seen[good], of_samples, len(sums)).astype(np.int64)
    return sums


def _integers(values: FloatArray) -> Int64Array:
    """Return values, 1 and squares of samples of at most 1, (n, 3)."""
    roots = np.rint(values * 2.0**_SQUARE_BITS)
    columns = np.rint(values * 2.0**_BITS), np.ones(len(values)), roots * roots
    return np.stack(columns, axis=1).astype(np.int64)
