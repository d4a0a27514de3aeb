"""What users give to public functions: what is no array, number or text is told by name."""

import numpy as np
import pytest

from petacomm.base.arguments import (
    numeric_array,
    real_array,
    require_arrays,
    require_integer,
    require_real,
    require_text,
    whole_array,
    whole_numbers,
)
from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import require_possible


@pytest.mark.parametrize("values", [1j, [None], ["a"], [[1], [1, 2]], np.zeros(2, "M8[s]"), None, {}])
def test_what_is_no_array_of_real_numbers(values):
    with pytest.raises(DataError, match="values: is"):
        numeric_array(values, "values")


def test_units_and_masks_are_not_dropped():
    units = pytest.importorskip("astropy.units")
    with pytest.raises(DataError, match="values: is in 'uK'"):
        real_array([1, 2] * units.uK, "values")
    with pytest.raises(DataError, match="values: has masked values"):
        real_array(np.ma.masked_array([1.0, 2.0], [False, True]), "values")
    assert real_array([1, 2] * units.dimensionless_unscaled, "values").tolist() == [1, 2]
    assert real_array(np.ma.masked_array([1.0, 2.0], False), "values").tolist() == [1, 2]


def test_arrays_of_numbers():
    array = np.zeros((2, 3))
    assert real_array(array, "values", 2) is array
    assert real_array([[1, 2]], "values").dtype == np.float64
    assert numeric_array(np.zeros(2, ">f4"), "values").dtype == np.dtype(">f4")
    with pytest.raises(DataError, match=r"values: has the shape \(2, 3\), not 1 axes"):
        real_array(array, "values", 1)


@pytest.mark.parametrize("values", [[1.5], np.inf, 2**70, [2**63], [None], [[1], [1, 2]], 1j, "x", True])
def test_what_are_no_whole_numbers(values):
    with pytest.raises(ConfigError, match="ranks: must be whole numbers"):
        whole_array(values, "ranks")


def test_whole_numbers():
    assert whole_array([1, 2], "ranks").dtype == np.int64
    assert whole_array([], "ranks").tolist() == []
    assert whole_numbers([np.int32(3), 4], "shape") == (3, 4)
    for values in ([3.0], None, 5, ["3"]):
        with pytest.raises(ConfigError, match="shape: must be whole numbers"):
            whole_numbers(values, "shape")


def test_integers_within_bounds():
    assert require_integer(np.int64(7), "n", 0) == 7
    for value in (7.0, "7", None):
        with pytest.raises(ConfigError, match="n: must be a whole number"):
            require_integer(value, "n", 0)
    for value in (-1, 2**70):
        with pytest.raises(ConfigError, match=r"n: .* is not between 0 and"):
            require_integer(value, "n", 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 4.0, 1j, "1", b"1", None, 10**400, np.zeros(2)])
def test_what_is_no_number_within_bounds(value):
    with pytest.raises(ConfigError, match="width: must be a number from 0 to 3"):
        require_real(value, "width", 0, 3)
    assert require_real(np.float32(3), "width", 0, 3) == 3.0


def test_text_and_arrays():
    assert require_text("K", "unit") == "K"
    with pytest.raises(ConfigError, match="unit: must be text, not float"):
        require_text(1.0, "unit")
    require_arrays(array=np.zeros(1))
    with pytest.raises(DataError, match="out: must be an array of NumPy, not list"):
        require_arrays(array=np.zeros(1), out=[1])


def test_a_path_that_no_system_has(tmp_path):
    from petacomm.base.errors import ResourceError

    for path in (tmp_path, tmp_path / "missing" / "maps"):
        require_possible(path)
    with pytest.raises(ResourceError, match="File name too long"):
        require_possible(tmp_path / ("x" * 5000))
