from typing import Annotated, overload

import numpy
from numpy.typing import NDArray

class Convolver:
    @overload
    def __init__(self, n: int) -> None: ...
    @overload
    def __init__(self, n: int, lanes: int) -> None: ...
    @property
    def n(self) -> int: ...
    def spectrum(
        self,
        lags: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    ) -> None: ...
    def convolve(
        self,
        a: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        b: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
        spectrum: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> None: ...

def prediction_error(
    covariance: Annotated[
        NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    filter: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
) -> float: ...
