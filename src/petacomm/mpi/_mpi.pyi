from typing import Annotated

import numpy
from numpy.typing import NDArray

def barrier_arrive(
    words: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")], n: int
) -> int: ...
def barrier_wait(
    words: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
    ticket: int,
    n_polls: int,
    seconds: float,
) -> bool: ...
