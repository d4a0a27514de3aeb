"""Kernels of templates against sparse matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import petamap.mapmaking._mapmaking as _mapmaking
from petamap.data.template import FUNCTIONS, TemplateTerm
from petamap.mapmaking.amplitudes import LocalPixels, _arguments
from petamap.sky.numbered import NumberedPixels

N = 1000
PIXELS = LocalPixels(NumberedPixels(9), np.array([1, 3, 4, 6, 8]))


def made_term(functions, n, edges, linear, seed=1):
    rng = np.random.default_rng(seed)
    values = {"legendre": rng.uniform(-1, 1, (1, N)), "columns": rng.normal(size=(n, N))}.get(functions)
    turns = rng.integers(0, 2**32, N, dtype=np.uint32) if functions == "fourier" else None
    bins = rng.integers(0, n, N).astype(np.int32) if functions == "bins" else None
    edges = np.asarray(edges, np.int64)
    return TemplateTerm(functions, n, edges, linear, first=2, values=values, turns=turns, bins=bins)


def made_smooth(n, edges, linear, n_knots):
    """Make columns that are linear between values of some samples."""
    rng, edges = np.random.default_rng(n_knots), np.asarray(edges, np.int64)
    end = int(edges[-1])
    knots = np.unique(np.concatenate([[0, end - 1], rng.integers(0, end, n_knots)])).astype(np.int32)
    if len(knots) < 2:
        return made_term("columns", n, edges, linear)
    return TemplateTerm("columns", n, edges, linear, values=rng.normal(size=(n, len(knots))), knots=knots)


drawn = st.integers(1, 5), st.lists(st.integers(0, N), min_size=2, max_size=6, unique=True).map(sorted)
terms = st.one_of(
    st.builds(made_term, st.sampled_from(FUNCTIONS), *drawn, st.booleans(), st.integers(0, 10)).map(
        lambda t: made_term(t.functions, 1 if t.functions == "constant" else t.n, t.edges, t.linear)
    ),
    st.builds(made_smooth, *drawn, st.booleans(), st.sampled_from([0, 1, 8, 200])),
)


@given(st.lists(terms, min_size=1, max_size=3), st.integers(0, 900))
def test_kernels_are_a_matrix_and_its_transpose(own, first):
    rng = np.random.default_rng(3)
    scale, shift, n_in, n_left, n_out = 1 / 128, first - 40, 300, 20, 250
    n_rows = sum(term.n_amplitudes for term in own)
    rows = 5 + np.cumsum([0, *(term.n_amplitudes for term in own)])[:-1]
    table = _mapmaking.TemplateTable(
        [_arguments(term, PIXELS) for term in own], np.array([[0, len(own), 0, shift]]), rows, scale, 0.25
    )
    block = np.array([64, n_in, n_left, n_out, 0, 0])
    pixels = rng.integers(-2, 5, n_in).astype(np.int32)
    begin = 64 + shift  # sample of the interval that is the first input
    matrix = np.zeros((n_in, n_rows))
    inside = slice(max(0, -begin), min(n_in, N - begin))
    if inside.start < inside.stop:
        whole = np.hstack([term.matrix(begin + inside.start, begin + inside.stop).toarray() for term in own])
        matrix[inside] = whole * scale
    matrix[pixels < 0] = 0
    amplitudes = rng.normal(size=n_rows + 5)
    time = np.zeros(n_in)
    _mapmaking.scan_templates(table, block, pixels, amplitudes, 0, time)
    np.testing.assert_allclose(time, matrix @ amplitudes[5:], rtol=0, atol=1e-12)
    filtered = rng.normal(size=(2, n_out))
    sums = np.zeros((n_rows + 5, 2, 2), np.int64)
    _mapmaking.add_template_signals(table, block, pixels, filtered, 2.0**40, 20, sums)
    values = (sums[:, 0] + sums[:, 1] / 2.0**20) / 2.0**38
    assert not sums[:5].any()
    expected = matrix[n_left : n_left + n_out].T @ filtered.T
    np.testing.assert_allclose(values[5:], expected, rtol=0, atol=1e-11)


def test_a_known_map_is_the_column_of_what_samples_look_at():
    rng = np.random.default_rng(5)
    known, n, edges = rng.normal(size=9), 300, np.array([0, 130, 300])
    pixels = rng.integers(-2, 5, n).astype(np.int32)
    column = known[[1, 3, 4, 6, 8]][np.maximum(pixels, 0)]
    terms = (
        TemplateTerm("columns", 1, edges, values=column[None] / 4),
        TemplateTerm("columns", 1, edges, of_pixels=lambda _, numbers: known[numbers], divisor=4.0),
    )
    found = []
    for term in terms:
        table = _mapmaking.TemplateTable(
            [_arguments(term, PIXELS)], np.array([[0, 1, 0, 0]]), np.zeros(1, np.int64), 0.5, 1.0
        )
        time, block = np.zeros(n), np.array([0, n, 0, n, 0, 0])
        _mapmaking.scan_templates(table, block, pixels, np.array([2.0, -3.0]), 0, time)
        sums = np.zeros((2, 2, 1), np.int64)
        _mapmaking.add_template_signals(table, block, pixels, time[None].copy(), 2.0**40, 20, sums)
        found.append((time, sums))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert np.abs(found[0][0]).max() > 0.1
    few = LocalPixels(NumberedPixels(9), np.array([1]))
    short = _mapmaking.TemplateTable(
        [_arguments(terms[1], few)], np.array([[0, 1, 0, 0]]), np.zeros(1, np.int64), 0.5, 1.0
    )
    with pytest.raises(ValueError, match="a value a pixel"):
        _mapmaking.scan_templates(short, block, pixels, np.zeros(2), 0, time)


def test_wrong_terms_are_refused():
    streams, rows = np.array([[0, 1, 0, 0]]), np.zeros(1, np.int64)
    good = _arguments(made_term("bins", 3, [0, N], False), PIXELS)
    with pytest.raises(ValueError, match="bins"):
        _mapmaking.TemplateTable([(*good[:-2], good[-2] + 3, None)], streams, rows, 1.0, 1.0)
    with pytest.raises(ValueError, match="cells"):
        _mapmaking.TemplateTable([(*good[:4], np.array([0, N + 1]), *good[5:])], streams, rows, 1.0, 1.0)
    smooth = _arguments(made_smooth(3, [0, N], False, 4), PIXELS)
    with pytest.raises(ValueError, match="a column"):
        _mapmaking.TemplateTable([(*smooth[:-1], smooth[-1][1:])], streams, rows, 1.0, 1.0)
    for place, knot in (0, 1), (2, smooth[-1][1]), (-1, N):
        knots = smooth[-1].copy()
        knots[place] = knot
        with pytest.raises(ValueError, match="increasing knots"):
            _mapmaking.TemplateTable([(*smooth[:-1], knots)], streams, rows, 1.0, 1.0)
