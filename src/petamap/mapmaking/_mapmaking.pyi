from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray

class PixelIndex:
    def __init__(self, n_pix: int) -> None: ...
    @property
    def n_local(self) -> int: ...
    def mark(
        self,
        pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ) -> None: ...
    def remove(self, pixel: int) -> None: ...
    def number(self) -> None: ...
    def keys(
        self, out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")]
    ) -> None: ...

class Kernels:
    def __init__(
        self,
        lags: Annotated[
            NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        transform: int,
    ) -> None: ...
    @property
    def n(self) -> int: ...

class TemplateTable:
    def __init__(
        self,
        terms: Sequence[
            tuple[
                int,
                int,
                int,
                int,
                Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
                bool,
                Annotated[
                    NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
                ]
                | None,
                Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)]
                | None,
                Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
                | None,
                Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
                | None,
            ]
        ],
        streams: Annotated[
            NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        scale: float,
        sum_scale: float,
    ) -> None: ...

class JointTable:
    def __init__(
        self,
        groups: Annotated[
            NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        members: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        alone: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        forward: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        backward: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> None: ...

class PartTable:
    def __init__(
        self,
        firsts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        runs: Annotated[
            NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        n_parts: int,
        n_pix: int,
    ) -> None: ...
    def number(
        self,
        segment: int,
        start: int,
        pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
    ) -> None: ...

class PsiTable:
    def __init__(
        self,
        rows: Sequence[
            Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)]
        ],
        streams: Annotated[
            NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
    ) -> None: ...

class KeptTable:
    def __init__(
        self,
        blocks: Annotated[
            NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
        angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        gains: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
        | None,
        responses: Annotated[
            NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        turns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        psi: PsiTable | None = None,
        partners: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ]
        | None = None,
    ) -> None: ...
    @property
    def n_pairs(self) -> int: ...

class ExpandedTable:
    def __init__(
        self,
        blocks: Annotated[
            NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        pointings: Sequence[tuple[object, ...]],
        grid: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        index: PixelIndex,
        streams: Annotated[
            NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        responses: Annotated[
            NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        gap_bits: Annotated[
            NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)
        ]
        | None,
        first_slots: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        gap_length: int,
        parts: PartTable | None = None,
        partners: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ]
        | None = None,
    ) -> None: ...
    @property
    def n_pairs(self) -> int: ...
    def expand(
        self,
        number: int,
        pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
        angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu")] | None,
    ) -> None: ...

@overload
def sum_weights(
    samples: KeptTable,
    n_stokes: int,
    weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    scale: float,
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None), order="C", device="cpu")],
) -> None: ...
@overload
def sum_weights(
    samples: ExpandedTable,
    n_stokes: int,
    weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    scale: float,
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None), order="C", device="cpu")],
) -> None: ...
@overload
def apply(
    samples: KeptTable,
    kernels: Kernels,
    map: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    gaps: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    scales: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None, None), order="C", device="cpu")],
    gap_sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None), order="C", device="cpu")],
    templates: TemplateTable | None = None,
    joint: JointTable | None = None,
    n_threads: int | None = None,
) -> None: ...
@overload
def apply(
    samples: ExpandedTable,
    kernels: Kernels,
    map: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    gaps: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    scales: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None, None), order="C", device="cpu")],
    gap_sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None), order="C", device="cpu")],
    templates: TemplateTable | None = None,
    joint: JointTable | None = None,
    n_threads: int | None = None,
) -> None: ...
def filter_block(
    block: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    kernels: Kernels,
    input: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    time: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
) -> None: ...
def add_weights(
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    gains: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    intensity: float,
    efficiency: float,
    n_stokes: int,
    weight: float,
    scale: float,
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
) -> None: ...
def add_binned(
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    intensity: float,
    efficiency: float,
    n_stokes: int,
    signal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    weight: float,
    weight_scale: float,
    signal_scale: float,
    low_bits: int,
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
) -> float: ...
def add_signals(
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    gains: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    intensity: float,
    efficiency: float,
    filtered: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    data: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    weight: float,
    scale: float,
    low_bits: int,
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None, None), order="C", device="cpu")],
    gap_sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None), order="C", device="cpu")],
    largest: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...

LEVEL_CHUNK: int = 32

def zero_gaps(
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    unit: float,
    signals: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
) -> bool: ...
def chunk_means(
    signal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    means: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    valid: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def level_steps(
    signal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    times: float,
    fewest: int,
) -> list[int]: ...
def add_template_signals(
    templates: TemplateTable,
    block: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    filtered: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    scale: float,
    low_bits: int,
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None), order="C", device="cpu")],
) -> None: ...
def scan_templates(
    templates: TemplateTable,
    block: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    amplitudes: Annotated[
        NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    begin: int,
    time: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def settle_words(
    words: Annotated[
        NDArray[numpy.int64],
        dict(shape=(None, None, None, None, None), order="C", device="cpu", writable=False),
    ],
    unit: float,
    low_bits: int,
    values: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def scan(
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    gains: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    intensity: float,
    efficiency: float,
    map: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)],
    gaps: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    time: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def localize(
    index: PixelIndex,
    flags: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def number_gaps(
    gap_length: int,
    position: int,
    base: int,
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def renumber(
    table: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def count_slots(
    bits: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    length: int,
    chunk: int,
    counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def find_slots(
    bits: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    length: int,
    begin: int,
    end: int,
    shift: int,
    out: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def first_slots(
    bits: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    length: int,
    chunk: int,
    before: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    slots: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def count_gaps(
    bits: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu", writable=False)],
    begins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    ends: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def clear(
    values: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def fold(
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None, None), order="C", device="cpu")],
    out: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def settle(
    p: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    q: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")],
    steps: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    limbs: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
    copies: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None, None), order="C", device="cpu")]
    | None = None,
) -> None: ...
def advance(
    alphas: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    q: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")],
    inverse: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    r: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")],
    limbs: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def subtract(
    alphas: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    q: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    r: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def dots(
    a: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    b: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    limbs: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def turn(
    alphas: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    betas: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    z: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    x: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")],
    p: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")],
    largest: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def largest_sizes(
    values: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    largest: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def precondition(
    inverse: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    input: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def space_products(
    vectors: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    given: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    space_scales: Annotated[
        NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
    ],
    scales: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    low_bits: int,
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def space_add(
    vectors: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    amounts: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    to: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")],
    largest: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def add_hashes(
    keys: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    values: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    kind: int,
    sums: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def invert(
    n_stokes: int,
    rcond_min: float,
    matrices: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    rcond: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None: ...

BASELINE_BAND: int = 8

def count_visits(
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    pixel_rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    first: int,
    step: int,
    seen_rows: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu")],
    seen_slots: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", device="cpu")],
) -> tuple[int, int]: ...
def compress(
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    gains: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    intensity: float,
    efficiency: float,
    n_stokes: int,
    pixel_rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    gap_rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    first: int,
    step: int,
    constant: bool,
    weight: float,
    visits: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu")],
    gaps: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu")],
    counts: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order="C", device="cpu")],
    products: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
) -> None: ...
def write_responses(
    pixels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    angles: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    gains: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)]
    | None,
    intensity: float,
    efficiency: float,
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
) -> None: ...

class VisitLists:
    def __init__(
        self,
        knots: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        firsts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        visits: Annotated[
            NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu", writable=False)
        ],
        n_stokes: int,
    ) -> None: ...

def merge(
    visits: VisitLists,
    groups: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)],
    out: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order="C", device="cpu")],
    out_firsts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu")],
) -> None: ...
def add_to_baselines(
    visits: VisitLists,
    given: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu", writable=False)
    ],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def add_from_baselines(
    visits: VisitLists,
    given: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    scales: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    sums: Annotated[NDArray[numpy.int64], dict(shape=(None, None, None, None), order="C", device="cpu")],
) -> None: ...
def add_to_gaps(
    visits: VisitLists,
    given: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    gaps: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def factorize_baselines(
    knots: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    priors: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    diagonal: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    beside: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    factor: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
) -> int: ...
def multiply_bands(
    knots: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    lags: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    given: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def solve_baselines(
    knots: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
    factor: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    values: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    largest: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu")],
    n_threads: int,
) -> None: ...

class BlockMatrix:
    def __init__(
        self,
        first_rows: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        first_columns: Annotated[
            NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        firsts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", device="cpu", writable=False)],
        columns: Annotated[
            NDArray[numpy.int32], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
        values: Annotated[
            NDArray[numpy.float64], dict(shape=(None,), order="C", device="cpu", writable=False)
        ],
    ) -> None: ...

def multiply(
    matrix: BlockMatrix,
    given: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
def multiply_transposed(
    matrix: BlockMatrix,
    given: Annotated[
        NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu", writable=False)
    ],
    out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order="C", device="cpu")],
    n_threads: int,
) -> None: ...
