from typing import Annotated

import numpy
from numpy.typing import NDArray

def built_sets() -> list[str]: ...
def processor_sets() -> list[str]: ...
def end_threads() -> None: ...

N_LIMBS: int = 60

NOT_FINITE: int = 281474976710656

LIMB_BITS: int = 32

LOWEST_BIT: int = -992

def add_exactly(
    values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    limbs: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
