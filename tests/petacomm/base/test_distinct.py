import numpy as np
import pytest

from petacomm.base.distinct import distinct


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_distinct_values_equal_numpy_unique(kind, n):
    values = np.random.default_rng(n).integers(-300, 300, n).astype(kind)
    expected = np.unique(values)
    found = distinct(values)
    assert found.dtype == kind and np.array_equal(found, expected)
