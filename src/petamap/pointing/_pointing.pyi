from typing import Annotated

import numpy
from numpy.typing import NDArray

def expand(
    arguments: tuple[object, ...],
    grid: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    detector: int,
    start: int,
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
    angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")] | None,
) -> None: ...
def directions(
    arguments: tuple[object, ...],
    detector: int,
    start: int,
    vectors: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def quaternions(
    arguments: tuple[object, ...],
    detector: int,
    start: int,
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
) -> None: ...
def unit(
    quaternions: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
) -> None: ...
def attitudes(
    theta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    phi: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    psi: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
) -> None: ...
def response_angles(
    psi: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
