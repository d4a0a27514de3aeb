from typing import Annotated, Literal, overload

import numpy
from numpy.typing import NDArray

INTERVAL_WORDS: int = 5

RUN_WORDS: int = 4

def cut_intervals(
    keys: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    groups: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    first_row: int,
    out: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")] | None,
) -> int: ...
def split_key(
    intervals: Annotated[
        NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    target: int,
) -> int: ...
def merge_runs(
    intervals: Annotated[
        NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    low: int,
    high: int,
    runs: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")] | None,
    entries: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")] | None,
) -> tuple[int, int]: ...

class RunTable:
    def __init__(
        self,
        lengths: Annotated[
            NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        counts: Annotated[
            NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        entries: Annotated[
            NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        first_entries: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> None: ...

RUNS_PER_BLOCK: int = 1024

def join_runs(
    lengths: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu")],
    counts: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order="C", device="cpu")],
    entries: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")],
) -> int: ...
@overload
def reduce_runs(
    runs: RunTable,
    rows: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    owned: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    in_slots: Annotated[
        NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ]
    | None,
    out_slots: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")] | None,
    operation: Literal["sum", "max", "min", "or"],
    flow: Literal["everywhere", "onto_owners", "from_owners", "onto_slots", "from_slots", "in_node_order"],
    n_threads: int,
) -> None: ...
@overload
def reduce_runs(
    runs: RunTable,
    rows: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    owned: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    in_slots: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ]
    | None,
    out_slots: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")] | None,
    operation: Literal["sum", "max", "min", "or"],
    flow: Literal["everywhere", "onto_owners", "from_owners", "onto_slots", "from_slots", "in_node_order"],
    n_threads: int,
) -> None: ...
@overload
def reduce_runs(
    runs: RunTable,
    rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")],
    owned: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    in_slots: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ]
    | None,
    out_slots: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")] | None,
    operation: Literal["sum", "max", "min", "or"],
    flow: Literal["everywhere", "onto_owners", "from_owners", "onto_slots", "from_slots", "in_node_order"],
    n_threads: int,
) -> None: ...
@overload
def reduce_runs(
    runs: RunTable,
    rows: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu")],
    owned: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    in_slots: Annotated[
        NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ]
    | None,
    out_slots: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order="C", device="cpu")] | None,
    operation: Literal["sum", "max", "min", "or"],
    flow: Literal["everywhere", "onto_owners", "from_owners", "onto_slots", "from_slots", "in_node_order"],
    n_threads: int,
) -> None: ...
@overload
def largest(
    values: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    n_threads: int,
) -> float: ...
@overload
def largest(
    values: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    n_threads: int,
) -> float: ...
@overload
def to_fixed(
    values: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    unit: float,
    words: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
@overload
def to_fixed(
    values: Annotated[
        NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    unit: float,
    words: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
@overload
def from_fixed(
    words: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    unit: float,
    values: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
@overload
def from_fixed(
    words: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    unit: float,
    values: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
