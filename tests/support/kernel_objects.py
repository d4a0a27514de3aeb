"""What the extension modules have, and right objects and arrays for their functions."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
MODULES = [
    f"{file.parent.name}.{file.stem}._{file.stem}" for file in sorted((ROOT / "bindings").glob("*/*.cpp"))
]

I8, I32, I64, U8, U16, U32 = np.int8, np.int32, np.int64, np.uint8, np.uint16, np.uint32


def modules() -> dict[str, ModuleType]:
    """Return all extension modules."""
    return {name: importlib.import_module(name) for name in MODULES}


def targets() -> Iterator[str]:
    """Iterate over the names of all functions, classes, methods and properties."""
    for name, module in modules().items():
        for key, value in vars(module).items():
            if isinstance(value, type):
                yield f"{name}.{key}"
                yield from (f"{name}.{key}.{one}" for one in vars(value) if not one.startswith("__"))
            elif callable(value):
                yield f"{name}.{key}"


def find(target: str) -> Any:
    """Return what a target names."""
    name = next(name for name in MODULES if target.startswith(f"{name}."))
    found: Any = importlib.import_module(name)
    *path, last = target.removeprefix(f"{name}.").split(".")
    for one in path:
        found = getattr(found, one)
    return vars(found)[last] if isinstance(found, type) else getattr(found, last)


def full(shape: Any, dtype: Any = float, value: float = 0) -> Any:
    """Return an array of one value."""
    return np.full(shape, value, dtype)


def numbers(*values: float, dtype: Any = I64) -> Any:
    """Return an array of values."""
    return np.array(values, dtype)


def of(module: str) -> Any:
    """Return a room's extension module."""
    return importlib.import_module(next(name for name in MODULES if name.endswith(f"._{module}")))


GRID = numbers(0, 4, dtype=float)  # HEALPix rings of 192 pixels
KERNEL_LAGS = np.array([[2.0, 0.5, 0.25], [1.0, 0.0, 0.0]])


def pointing(n: int = 200) -> tuple[Any, ...]:
    """Return compressed pointing of 3 detectors and n samples."""
    angles = np.linspace(0, 1, 6)
    knots = np.stack([0 * angles, np.sin(angles), 0 * angles, np.cos(angles)], axis=1)
    rest = np.tile([0.0, 0.0, 0.0, 1.0], (3, 1))
    return (
        knots, numbers(0, 0, n, 6).reshape(2, 2), np.array([[n / 5, 0.0, 1.0]]), rest, rest[:2].copy(),
        numbers(0, 1, 1), full(3, U32), 2, 0, 0, np.linspace(0, 3, 5), n / 4, 0.0, full(3, float, 1),
    )  # fmt: skip


def blocks(alike: bool = False) -> Any:
    """Return blocks of 200 samples of 2 streams, of one length on both sides or not."""
    if alike:
        return numbers(0, 102, 2, 98, 0, 0, 98, 102, 2, 98, 1, 1).reshape(2, 6)
    return numbers(0, 102, 0, 100, 0, 0, 98, 102, 2, 100, 1, 1).reshape(2, 6)


def pixels(n: int = 200, gaps: bool = True) -> Any:
    """Return local pixels 0 to 9, and gaps 0 and 1."""
    made = (np.arange(n) % 10).astype(I32)
    if gaps and n > 9:
        made[3:5] = ~numbers(0, 1, dtype=I32)
    return made


def run_lists() -> Any:
    starts, lengths = numbers(0, 3, 1, dtype=I32), numbers(2, 1, 3, dtype=U8)
    return of("redistribution").RunLists(starts, lengths, numbers(0, 2, 2, 3))


def run_table() -> Any:
    entries = numbers(0, 3, 6, 9, 10, dtype=U32)
    return of("reduction").RunTable(numbers(2, 1, dtype=U16), numbers(2, 3, dtype=U16), entries, numbers(0))


def run_table_of(n_keys: int, *entries: int) -> Any:
    lengths, counts = full(1, U16, n_keys), full(1, U16, len(entries))
    return of("reduction").RunTable(lengths, counts, numbers(*entries, dtype=U32), numbers(0))


def hardware() -> Any:
    return of("network").TorusHardware([3, 2, 2], [True, False, True])


def routes() -> Any:
    return of("network").Routes([3, 2], [True, False], numbers(*range(6), dtype=I32), 18)


def ring_table() -> Any:
    """Return the first links of routes around three vertices, each of which has a link to the next."""
    return np.array([[-1, 0, 0], [1, -1, 1], [2, 2, -1]], I32)


def ring_routes() -> Any:
    return of("network").Routes(ring_table(), numbers(1, 2, 0, dtype=I32), numbers(0, 2, dtype=I32), 3)


def switch_columns() -> list[Any]:
    """Return a node at each of three switches, which are linked both ways."""
    nodes, ring = [0, 1, 2], [3, 4, 5]
    tail, head = [*ring, *ring, *nodes, *ring], [4, 5, 3, 5, 3, 4, *ring, *nodes]
    columns = [numbers(*one, dtype=I32) for one in (tail, head, [1] * 12)]
    columns += [full(12, U8), full(12, U8), numbers(*range(6), dtype=I32), numbers(*ring, dtype=I32)]
    return [3, 6, *columns]


def switches() -> Any:
    return of("network").SwitchNetwork(*switch_columns())


def switch_hardware() -> Any:
    made = of("network").SwitchHardware(switches())
    made.ticks, made.hop_ticks, made.routing = [list(range(1, 10))], [5], "ugal"
    return made


def switches_without_middles() -> Any:
    return of("network").SwitchNetwork(*switch_columns()[:-1], full(0, I32))


def switch_hardware_with(**fields: Any) -> Any:
    made = switch_hardware()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def index() -> Any:
    made = of("mapmaking").PixelIndex(192)
    made.mark(numbers(3, 5, -1, 100, 191, dtype=I32))
    made.number()
    return made


def kernels() -> Any:
    return of("mapmaking").Kernels(KERNEL_LAGS, 64)


def term() -> tuple[Any, ...]:
    return (1, 3, 0, 400, numbers(0, 100, 400), False, full((1, 400), float, 0.5), None, None, None)


def all_terms() -> list[tuple[Any, ...]]:
    """Return terms of all functions, of 400 samples."""
    cells = numbers(0, 100, 400)
    knots, bins = numbers(0, 50, 399, dtype=I32), (np.arange(400) % 4).astype(I32)
    return [
        (0, 1, 0, 400, cells, True, None, None, None, None),
        term(),
        (2, 2, 1, 400, cells, False, None, full(400, U32, 5), None, None),
        (3, 4, 0, 400, cells, False, None, None, bins, None),
        (4, 2, 0, 400, cells, True, full((2, 400)), None, None, None),
        (4, 2, 0, 400, cells, False, full((2, 3)), None, None, knots),
        (5, 1, 0, 400, cells, False, full((1, 10)), None, None, None),
    ]


def all_templates() -> list[Any]:
    """Return the arguments of a table of terms of all functions in one stream, with 45 amplitudes."""
    return [all_terms(), numbers(0, 7, 0, 0).reshape(1, 4), numbers(0, 3, 9, 17, 25, 31, 35), 0.5, 0.25]


def template_table() -> Any:
    streams = numbers(0, 1, 0, 0, 0, 1, 1, 7).reshape(2, 4)
    return of("mapmaking").TemplateTable([term()], streams, numbers(0, 6), 0.5, 0.25)


def joint_table() -> Any:
    groups, members = numbers(0, 2, 0, 1, 0).reshape(1, 5), numbers(0, 1)
    return of("mapmaking").JointTable(groups, members, numbers(), full(2), full(2))


def part_table() -> Any:
    runs = numbers(0, 1, 50, -1, 0, 0).reshape(3, 2)
    return of("mapmaking").PartTable(numbers(0, 2, 3), runs, 2, 192)


def kept_arguments(alike: bool = False, pixel: int | None = None) -> list[Any]:
    seen = pixels() if pixel is None else full(200, I32, pixel)
    responses, turns = full((2, 2), float, 1), numbers(0, 0)
    return [blocks(alike), seen, full(200, U32, 7), full(200, np.float32, 1), responses, turns]


def pair_arguments() -> list[Any]:
    """Return the arguments of a table of two detectors that look at the same places."""
    blocks, seen, angles, _, responses, turns = kept_arguments(True)
    return [blocks, seen[np.arange(200) % 98], angles, None, responses, turns]


def pair_table() -> Any:
    return of("mapmaking").KeptTable(*pair_arguments(), None, numbers(1, 0))


def psi_arguments() -> list[Any]:
    streams = numbers(0, 0, 0, 0, 0, 200, 0, 2, 0, 0, 10, 200).reshape(2, 6)
    return [[full(200, float, 0.1), full(200, float, 0.2)], streams]


def psi_table() -> Any:
    return of("mapmaking").PsiTable(*psi_arguments())


def kept_table(alike: bool = False) -> Any:
    return of("mapmaking").KeptTable(*kept_arguments(alike))


def reading_table() -> Any:
    made = kept_arguments()
    return of("mapmaking").KeptTable(*made[:2], None, *made[3:], psi_table())


def expanded_arguments(alike: bool = False) -> list[Any]:
    streams = numbers(0, 0, 0, 0, 0, 200, 0, 2, 0, 0, 10, 200).reshape(2, 6)
    found, bits = of("mapmaking").PixelIndex(192), full(32, U8)
    found.mark(np.arange(192, dtype=I32))
    found.number()
    bits[0] = 0b11000
    responses, slots = full((2, 2), float, 1), numbers(0, 2)
    return [blocks(alike), [pointing()], GRID, found, streams, responses, bits, slots, 1, None]


def expanded_pair() -> list[Any]:
    """Return the arguments of a table of two detectors over the same times."""
    made = expanded_arguments(True)
    made[4] = numbers(0, 1, 0, 0, 0, 200, 0, 2, -98, 0, 0, 200).reshape(2, 6)
    return made


def divided_arguments() -> list[Any]:
    """Return the arguments of a table of samples in parts."""
    made = expanded_arguments()
    made[3] = of("mapmaking").PixelIndex(384)
    made[3].mark(np.arange(100, 300, dtype=I32))
    made[3].number()
    return [*made[:-2], 0, part_table()]


def expanded_table(alike: bool = False) -> Any:
    return of("mapmaking").ExpandedTable(*expanded_arguments(alike))


def visit_arguments(n_stokes: int = 3) -> list[Any]:
    table = full((5, 2 + n_stokes), I32)
    table[:, 0] = 0, 1, 1, 3, 2
    return [numbers(0, 3, 5), numbers(0, 2, 4, 4, 5, 5), table, n_stokes]


def visit_lists(n_stokes: int = 3) -> Any:
    return of("mapmaking").VisitLists(*visit_arguments(n_stokes))


def block_arguments() -> list[Any]:
    """Return a matrix of 4 rows and 3 columns in two blocks."""
    return [
        numbers(0, 2, 4),
        numbers(0, 1, 3),
        numbers(0, 1, 1, 3, 4),
        numbers(0, 0, 1, 1, dtype=I32),
        full(4),
    ]


def block_matrix() -> Any:
    return of("mapmaking").BlockMatrix(*block_arguments())


# Of each class, instances that are not what a right call takes.
OTHERS: dict[str, list[Callable[[], Any]]] = {
    "RunLists": [
        lambda: of("redistribution").RunLists(full(1, I32, 2**31 - 1), full(1, U8, 255), numbers(0, 1)),
        lambda: of("redistribution").RunLists(numbers(4, 2, dtype=I32), full(2, U8, 2), numbers(0, 2)),
        lambda: of("redistribution").RunLists(full(0, I32), full(0, U8), numbers(0)),
    ],
    "RunTable": [
        lambda: run_table_of(3, 9, 0),
        lambda: run_table_of(3, 2**32 - 1),
        lambda: run_table_of(65535, 0),
        lambda: run_table_of(1, 0, 3, 9),
    ],
    "SwitchNetwork": [
        lambda: of("network").SwitchNetwork(
            1, 2, *[numbers(*one, dtype=I32) for one in ((0, 1), (1, 0), (1, 1))], full(2, U8, 1),
            full(2, U8, 255), full(2, I32), full(0, I32),
        ),
    ],
    "SwitchHardware": [
        lambda: of("network").SwitchHardware(switches()),
        lambda: of("network").SwitchHardware(switches_without_middles()),
        lambda: switch_hardware_with(channel=1),
        lambda: switch_hardware_with(ticks=[]),
        lambda: switch_hardware_with(ticks=[[1]]),
        lambda: switch_hardware_with(message_gap=[1]),
        lambda: switch_hardware_with(message_gap=list(range(1, 10))),
        lambda: switch_hardware_with(payload=2**24),
        lambda: switch_hardware_with(routing="valiant"),
    ],
    "TorusHardware": [
        lambda: of("network").TorusHardware([], []),
        lambda: of("network").TorusHardware([254] * 6, [True] * 6),
    ],
    "Routes": [
        lambda: of("network").Routes([2], [False], full(1, I32), 2),
        lambda: of("network").Routes([3], [3], numbers(2, 0, dtype=I32), 18),
        lambda: of("network").Routes([3, 2], [0, 1], [False, True], numbers(5, 0, 3, dtype=I32), 14),
        ring_routes,
    ],
    "PixelIndex": [
        lambda: of("mapmaking").PixelIndex(0),
        lambda: of("mapmaking").PixelIndex(10),
        lambda: of("mapmaking").PixelIndex(192),
    ],
    "Kernels": [
        lambda: of("mapmaking").Kernels(KERNEL_LAGS[:, :1].copy(), 64),
        lambda: of("mapmaking").Kernels(KERNEL_LAGS[:1], 128),
        lambda: of("mapmaking").Kernels(full((0, 3)), 64),
    ],
    "TemplateTable": [
        lambda: of("mapmaking").TemplateTable([], numbers().reshape(0, 4), numbers(), 1, 1),
        lambda: of("mapmaking").TemplateTable(
            [term()], numbers(0, 1, 0, 2**53).reshape(1, 4), numbers(2**40), 1, 1
        ),
    ],
    "JointTable": [
        lambda: of("mapmaking").JointTable(
            numbers(0, 1, 0, 1, 2**62).reshape(1, 5), numbers(2**62), numbers(-1), full(1), full(1)
        ),
    ],
    "PartTable": [lambda: of("mapmaking").PartTable(numbers(0), numbers().reshape(0, 2), 1, 1)],
    "KeptTable": [
        expanded_table,
        reading_table,
        lambda: of("mapmaking").KeptTable(*kept_arguments(pixel=2**31 - 1)),
        lambda: of("mapmaking").KeptTable(*kept_arguments(pixel=-(2**31))),
        lambda: of("mapmaking").KeptTable(*kept_arguments()[:5], numbers(0, 1)),
        lambda: of("mapmaking").KeptTable(*kept_arguments(), psi_table()),
    ],
    "PsiTable": [
        lambda: of("mapmaking").PsiTable([], numbers().reshape(0, 6)),
        lambda: of("mapmaking").PsiTable(
            [full(3, float)], numbers(0, 0, 2**53, -(2**53), 0, 3).reshape(1, 6)
        ),
    ],
    "ExpandedTable": [
        kept_table,
        lambda: of("mapmaking").ExpandedTable(*expanded_arguments()[:6], None, numbers(0, 0), 0),
    ],
    "VisitLists": [lambda: visit_lists(1), lambda: visit_lists(2)],
    "BlockMatrix": [
        lambda: of("mapmaking").BlockMatrix(numbers(0), numbers(0), numbers(0), full(0, I32), full(0)),
        lambda: of("mapmaking").BlockMatrix(
            numbers(0, 1), numbers(0, 2**40), numbers(0, 1), full(1, I32, 2**31 - 1), full(1)
        ),
    ],
    "Convolver": [lambda: of("noise").Convolver(64), lambda: of("noise").Convolver(256, 2)],
}  # fmt: skip
