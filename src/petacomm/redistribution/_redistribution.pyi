from typing import Annotated, Literal, overload

import numpy
from numpy.typing import NDArray

class RunLists:
    def __init__(
        self,
        starts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        lengths: Annotated[
            NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        bounds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...

def cut_lists(
    positions: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    starts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")] | None,
    lengths: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu")] | None,
    bounds: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> int: ...
@overload
def move_rows(
    source: Annotated[
        NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    source_rows: RunLists | None,
    target: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    target_rows: RunLists | None,
    n: int,
    n_threads: int,
) -> None: ...
@overload
def move_rows(
    source: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    source_rows: RunLists | None,
    target: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    target_rows: RunLists | None,
    n: int,
    n_threads: int,
) -> None: ...
@overload
def move_rows(
    source: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    source_rows: RunLists | None,
    target: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")],
    target_rows: RunLists | None,
    n: int,
    n_threads: int,
) -> None: ...
@overload
def move_rows(
    source: Annotated[
        NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    source_rows: RunLists | None,
    target: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu")],
    target_rows: RunLists | None,
    n: int,
    n_threads: int,
) -> None: ...
@overload
def combine_lists(
    received: Annotated[
        NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    lists: RunLists,
    own_list: int,
    own: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    operation: Literal["sum", "max", "min", "or"],
    values: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
@overload
def combine_lists(
    received: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    lists: RunLists,
    own_list: int,
    own: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    operation: Literal["sum", "max", "min", "or"],
    values: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
@overload
def combine_lists(
    received: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    lists: RunLists,
    own_list: int,
    own: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    operation: Literal["sum", "max", "min", "or"],
    values: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
@overload
def combine_lists(
    received: Annotated[
        NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    lists: RunLists,
    own_list: int,
    own: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)] | None,
    operation: Literal["sum", "max", "min", "or"],
    values: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def hop_sites(
    links: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    neighbours: Annotated[
        NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    field: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    sites: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
