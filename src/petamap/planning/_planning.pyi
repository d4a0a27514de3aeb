from typing import Annotated

import numpy
from numpy.typing import NDArray

def cover_pixels(
    arguments: tuple[object, ...],
    grid: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    shift: int,
    chosen: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    sparse_arguments: tuple[object, ...],
    scan_grid: Annotated[
        NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    near: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    stride: int,
    ranges: Annotated[
        NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    seen: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
    counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    alike: bool,
    summed: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None = None,
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")] | None = None,
    n_stokes: int = 1,
    scale: float = 1.0,
) -> int: ...
def count_holders(
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ranks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    begins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ends: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def fill_holders(
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ranks: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    begins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ends: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
    holders: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
