from typing import Annotated

import numpy
from numpy.typing import NDArray

def glimpse(
    arguments: tuple[object, ...],
    grid: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    shift: int,
    chosen: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    skimmed: tuple[object, ...],
    skim_grid: Annotated[
        NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    near: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    stride: int,
    stretches: Annotated[
        NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    seen: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
    counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
