"""Values of parametrized tests, of which some take long."""

from collections.abc import Iterable
from typing import Any

import pytest


def cases(*quick: Any, long: Iterable[Any] = ()) -> list[Any]:
    """Return values for `pytest.mark.parametrize`; those of `long` are tried by ``make test-long`` alone."""
    rows = [one if isinstance(one, tuple) else (one,) for one in long]
    return [*quick, *(pytest.param(*row, marks=pytest.mark.long) for row in rows)]
