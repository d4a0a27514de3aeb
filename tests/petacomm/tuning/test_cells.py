"""Cells, and the sizes to which what was measured is applied."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from petacomm.tuning.cells import Cell, size_bands, sizes_measured


@given(st.lists(st.integers(1, 1 << 22).map(lambda n: 8 * n), min_size=1, max_size=9, unique=True))
def test_bands_meet_and_each_has_its_size(sizes):
    bands = size_bands([0, *sizes])
    assert bands.pop(0) == (0, 0)
    ordered = [bands[size] for size in sorted(sizes)]
    assert ordered[0][0] == 1 and all(a[1] + 1 == b[0] for a, b in pairwise(ordered))
    assert all(begin <= size <= end for size, (begin, end) in bands.items())


def test_sizes_are_those_of_a_collective_and_its_communicators():
    measured = [Cell("bcast", 64, 4), Cell("bcast", 8, 4), Cell("bcast", 512, 8), Cell("reduce", 4096, 4)]
    assert sizes_measured(measured, "bcast", 4) == [8, 64] and sizes_measured(measured, "barrier", 4) == []
