from petamap.base.typing import FloatArray, UInt32Array

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
