from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

def philox4x32(
    counters: Annotated[
        NDArray[numpy.uint32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    key: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order="C", device="cpu")],
) -> None: ...

GROUP: int = 64

FACTOR: int = 4

TAPS: int = 8

def gaussians(
    words: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    group: int,
    out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def add_noise(
    filters: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    interpolation: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    words: Annotated[
        NDArray[numpy.uint32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    start: int,
    scale: float,
    out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def add_skies(
    values: Sequence[
        Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)]
    ],
    pixels: Annotated[
        NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    weights: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ]
    | None,
    angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    gains: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    intensity: float,
    efficiency: float,
    outs: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")]],
    n_threads: int,
) -> None: ...
def add_point_sources(
    sources: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    amplitudes: Annotated[
        NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    sigmas: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    directions: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    gains: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
