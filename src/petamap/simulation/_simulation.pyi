from collections.abc import Sequence

from petamap.base.typing import Float32Array, FloatArray, Int32Array, UInt32Array

GROUP: int
FACTOR: int
TAPS: int

def gaussians(words: UInt32Array, group: int, out: FloatArray) -> None: ...
def add_noise(
    filters: FloatArray,
    interpolation: FloatArray,
    words: UInt32Array,
    start: int,
    scale: float,
    out: FloatArray,
    n_threads: int,
) -> None: ...
def add_skies(
    values: Sequence[FloatArray],
    pixels: Int32Array,
    weights: FloatArray | None,
    angles: UInt32Array | None,
    gains: Float32Array | None,
    efficiency: float,
    outs: Sequence[FloatArray],
    n_threads: int,
) -> None: ...
def add_point_sources(
    sources: FloatArray,
    amplitudes: FloatArray,
    sigmas: FloatArray,
    directions: FloatArray,
    gains: Float32Array | None,
    out: FloatArray,
    n_threads: int,
) -> None: ...
