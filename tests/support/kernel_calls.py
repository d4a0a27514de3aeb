"""Right arguments of all functions, classes, methods and properties of the extension modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from kernel_objects import (
    GRID,
    I8,
    I32,
    I64,
    KERNEL_LAGS,
    U8,
    U16,
    U32,
    all_templates,
    block_arguments,
    block_matrix,
    divided_arguments,
    expanded_arguments,
    expanded_pair,
    expanded_table,
    full,
    hardware,
    index,
    joint_table,
    kept_arguments,
    kept_table,
    kernels,
    numbers,
    of,
    pair_arguments,
    pair_table,
    part_table,
    pixels,
    pointing,
    psi_arguments,
    psi_table,
    reading_table,
    ring_routes,
    ring_table,
    routes,
    run_lists,
    run_table,
    run_table_of,
    switch_columns,
    switch_hardware,
    switches,
    targets,
    template_table,
    term,
    visit_arguments,
    visit_lists,
)


def _redistribution() -> dict[str, Callable[[], list[Any]]]:
    return {
        "RunLists": lambda: [numbers(0, 3, 1, dtype=I32), numbers(2, 1, 3, dtype=U8), numbers(0, 2, 2, 3)],
        "cut_lists 2": lambda: [numbers(0, 1, 5, dtype=I32), numbers(0, 1, 3), None, None, full(3, I64)],
        "cut_lists": lambda: [
            numbers(0, 1, 5, 6, 2, dtype=I32), numbers(0, 3, 5), full(4, I32), full(4, U8), full(3, I64),
        ],
        "move_rows": lambda: [full((4, 3)), run_lists(), full((6, 3)), None, 6, 2],
        "move_rows 2": lambda: [full((6, 1), U8), None, full((4, 1), U8), run_lists(), 6, 3],
        "move_rows 3": lambda: [full((4, 4)), run_lists(), full((4, 4)), run_lists(), 6, 1],
        "combine_lists": lambda: [full((6, 3)), run_lists(), 1, full(4, U8), "sum", full((4, 3)), 2],
        "hop_sites": lambda: [
            full((4, 2, 18)), full((4, 2), I32, 4), full((5, 6)), numbers(3, 0, dtype=I32), full((4, 6)), 2,
        ],
    }  # fmt: skip


def _reduction() -> dict[str, Callable[[], list[Any]]]:
    intervals = [[3, 4, 0, 0, 0], [9, 1, 4, 4, 1], [4, 9, 5, 0, 2]]
    lists = lambda: [np.array(intervals, I64), numbers(0, 2, 3)]  # noqa: E731
    groups = numbers(0, 0, 1, -1, 0, dtype=I32)
    entries = numbers(0, 3, 6, 9, 10, dtype=U32)
    return {
        "RunTable": lambda: [numbers(2, 1, dtype=U16), numbers(2, 3, dtype=U16), entries, numbers(0)],
        "cut_intervals": lambda: [numbers(3, 4, 6, 7, 9), groups, 5, full((3, 5), I64)],
        "split_key": lambda: [*lists(), 7],
        "merge_runs": lambda: [*lists(), 0, 50, full((8, 4), I64), full(12, U32)],
        "join_runs": lambda: [full(3, U16, 2), full(3, U16, 1), numbers(0, 2, 7, dtype=U32)],
        "reduce_runs 2": lambda: [
            run_table_of(2, 0, 4), full((6, 1)), None, None, None, "max", "everywhere", 1,
        ],
        "reduce_runs 3": lambda: [
            run_table_of(9, 18, 0, 9, 27), full((18, 40), np.float32), full(18, U8, 1),
            full((18, 40), np.float32), None, "sum", "in_node_order", 1,
        ],
        "reduce_runs": lambda: [
            run_table(), full((9, 3)), full(9, U8), full((2, 3)), full((2, 3)), "sum", "everywhere", 2,
        ],
        "largest": lambda: [full((4, 3)), 2],
        "to_fixed": lambda: [full((4, 3)), 0.5, full((4, 3), I64), 2],
        "from_fixed": lambda: [full((4, 3), I64), 0.5, full((4, 3)), 2],
    }  # fmt: skip


def _sharing() -> dict[str, Callable[[], list[Any]]]:
    keys = lambda: numbers(3, 5, 64, 300)  # noqa: E731
    chunks = lambda: numbers(0, 40, 1, 1, 4, 2**44).reshape(3, 2)  # noqa: E731
    return {
        "count_chunks": lambda: [keys()],
        "chunk_keys": lambda: [keys(), full((3, 2), I64)],
        "key_offsets": lambda: [chunks(), full(4, I64)],
        "unchunk_keys": lambda: [chunks(), full(4, I64)],
        "unite_chunks": lambda: [chunks(), full(3, I32), full((3, 2), I64)],
        "places_of_keys": lambda: [chunks(), numbers(0, 1, 2, dtype=I32), chunks(), full(4, I32)],
        "counting_order": lambda: [numbers(1, 0, 2, 1, dtype=I32), 3, full(4, I32), full(4, I64)],
        "expand_groups": lambda: [numbers(1, 0, dtype=I32), numbers(0, 2, 5), full(5, I32)],
        "find_sorted": lambda: [keys(), numbers(5, 6), full(2, I32), 2],
        "mark_holders": lambda: [numbers(0, 2, 1, dtype=I32), numbers(0, 1, 3), full((3, 1), I64)],
        "count_holders": lambda: [numbers(0, 2, 1, dtype=I32), full((3, 1), I64, 5), full(4, I64)],
        "list_holders": lambda: [
            numbers(0, 1, 0, dtype=I32), full((3, 1), I64, 3), numbers(0, 2, 3), numbers(1, 0, dtype=I32),
            numbers(0, 1, dtype=I32), numbers(4, 5, 6, dtype=I32), numbers(0, 4, 6), full(6, I32),
        ],
        "choose_owners": lambda: [
            numbers(3, 900), numbers(0, 2, 3), numbers(0, 1, 2, dtype=I32), full(3, I32, 7), full(2, I32),
        ],
        "tally_owners": lambda: [
            numbers(0, 2, 3), numbers(0, 1, 2, dtype=I32), numbers(1, 2, dtype=I32), full((3, 4), I64),
        ],
        "pack": lambda: [full((5, 3)), numbers(4, 0, dtype=I32), full((2, 3)), 2],
        "unpack": lambda: [full((2, 3)), numbers(4, 0, dtype=I32), full((5, 3)), 2],
    }  # fmt: skip


def _network() -> dict[str, Callable[[], list[Any]]]:
    finish = lambda: [full(12, I64), full(72, I64), full(72, I64)]  # noqa: E731
    pairs = lambda: [numbers(0, 5, 2, dtype=I32), numbers(4, 1, 2, dtype=I32)]  # noqa: E731
    return {
        "TorusHardware": lambda: [[3, 2, 2], [True, False, True]],
        "simulate_all_to_all": lambda: [
            hardware(), np.arange(12, dtype=I32), 300, full((12, 12), I64, 300), 2, 1, *finish(),
        ],
        "simulate_all_to_all 2": lambda: [
            hardware(), np.arange(12, dtype=I32), 300, None, 2, 1, *finish(),
        ],
        "simulate_messages 2": lambda: [
            hardware(), numbers(0, 4, dtype=I32), numbers(8, 2, dtype=I32), numbers(500, 300),
            full(2, U8, 5), numbers(0, -1, dtype=I8), full(2, I32, 3), numbers(0, 0, 1), full(1, I32),
            300, 1, *finish(),
        ],
        "simulate_messages": lambda: [
            hardware(), numbers(0, 4, 9, dtype=I32), numbers(4, 9, 0, dtype=I32), numbers(0, 300, 900),
            full(3, U8), full(3, I8, -1), full(3, I32, 1), numbers(0, 0, 1, 2), numbers(0, 1, dtype=I32), 300,
            1, *finish(),
        ],
        "Routes": lambda: [[3, 2], [True, False], numbers(*range(6), dtype=I32), 18],
        "Routes 2": lambda: [[3, 2], [0, 1], [False, True], numbers(5, 0, 3, dtype=I32), 14],
        "Routes 3": lambda: [[3], [3], numbers(2, 0, dtype=I32), 18],
        "Routes 4": lambda: [ring_table(), numbers(1, 2, 0, dtype=I32), numbers(0, 2, dtype=I32), 3],
        "Routes.add_detour_loads": lambda: [
            ring_routes(), numbers(1, 2, 0, dtype=I32), *[numbers(0, 1, 2, dtype=I32)] * 2,
            numbers(0, 1, dtype=I32), numbers(1, 0, dtype=I32), full(2), full(3),
        ],
        "SwitchNetwork": lambda: switch_columns(),
        "SwitchNetwork.n_channels": lambda: [switches(), True],
        "SwitchHardware": lambda: [switches()],
        "simulate_all_to_all 3": lambda: [
            switch_hardware(), np.arange(3, dtype=I32), 300, None, 2, 1, *[full(n, I64) for n in (3, 12, 12)],
        ],
        "simulate_messages 3": lambda: [
            switch_hardware(), numbers(0, 2, dtype=I32), numbers(1, 0, dtype=I32), numbers(500, 300),
            full(2, U8), full(2, I8, -1), full(2, I32, 1), numbers(0, 0, 1), full(1, I32), 300, 1,
            *[full(n, I64) for n in (3, 12, 12)],
        ],
        "Routes.add_loads": lambda: [routes(), *pairs(), full(3), full(18)],
        "Routes.count_hops": lambda: [routes(), *pairs(), full(3, I32)],
    }  # fmt: skip


def _mapping() -> dict[str, Callable[[], list[Any]]]:
    graph = lambda: [  # noqa: E731
        routes(), numbers(0, 1, 3, 4), numbers(1, 0, 2, 1, dtype=I32), full(4, float, 1), full(4, float, 2),
    ]  # fmt: skip
    order = lambda: numbers(5, 4, 3, 2, 1, 0, dtype=I32)  # noqa: E731
    rows = lambda: np.array([[0, 0, 3], [3, 1, 4], [6, 3, 6], [0, 0, 3], [3, 1, 4]], I32)  # noqa: E731
    return {
        "place_greedily": lambda: [*graph(), order(), 1, full(3, I32)],
        "place_by_bisection": lambda: [*graph(), rows(), order(), 1, 3, full(3, I32)],
        "refine": lambda: [
            *graph(), full(18, float, 1), 1, [(3, 40, 0.5)], 1, numbers(0, 2, 5, dtype=I32),
        ],
    }  # fmt: skip


def _small() -> dict[str, dict[str, Callable[[], list[Any]]]]:
    """Return the right calls of rooms that have few."""
    none: Callable[[], list[Any]] = list
    vectors = lambda: np.tile([0.0, 0.6, 0.8], (7, 1))  # noqa: E731
    at = lambda: numbers(0, 17, 191)  # noqa: E731
    return {
        "base": {
            "built_sets": none,
            "processor_sets": none,
            "end_threads": none,
            "add_exactly": lambda: [full(5, float, 1), full(of("base").N_LIMBS, I64)],
        },
        "mpi": {
            "barrier_arrive": lambda: [full(2, I32), 1],
            "barrier_wait": lambda: [full(2, I32), 0, 10, 0.01],
        },
        "noise": {
            "Convolver": lambda: [128],
            "Convolver.spectrum": lambda: [of("noise").Convolver(128), full(5), full(128)],
            "Convolver.convolve": lambda: [of("noise").Convolver(128), full(128), full(128), full(128)],
            "prediction_error": lambda: [full(5), full(5)],
        },
        "spectra": {"coupling": lambda: [full((4, 9)), full(13, float, 1), 2, 7, full((5, 7, 7)), 2]},
        "sky": {
            "pixels_of": lambda: [GRID, vectors(), full(7, I32), 2],
            "pixels_of_components": lambda: [GRID, full(7, float, 1), full(7), full(7), full(7, I32)],
            "healpix_directions": lambda: [GRID, at(), full((3, 3)), 2],
            "healpix_reordered": lambda: [GRID, at(), full(3, I64), 2],
            "healpix_interpolation": lambda: [GRID, vectors(), full((7, 4), I32), full((7, 4)), 2],
        },
        "pointing": {
            "expand": lambda: [pointing(), GRID, 1, 20, full(90, I32), full(90, U32)],
            "directions": lambda: [pointing(), 1, 20, full((90, 3)), full(90, U32)],
            "quaternions": lambda: [pointing(), 1, 20, full((90, 4))],
            "unit": lambda: [full((5, 4), float, 1), full((5, 4))],
            "response_angles": lambda: [full(5), full(5, U32)],
            "attitudes": lambda: [full(5), full(5), full(5), full((5, 4))],
        },
        "planning": {
            "cover_pixels": lambda: [
                pointing(), GRID, 2, full(48, I32), pointing(50), GRID, full(192, U8, 1), 4,
                numbers(0, 0, 90, 2, 50, 200).reshape(2, 3), full(240, I32), full(2, I64), False,
            ],
            "count_holders": lambda: [
                full(20, I32, 3), full(3, I64), full(3, I64), full(3, I64, 9), full(5, I64),
            ],
            "fill_holders": lambda: [
                full(20, I32, 3), full(3, I64), full(3, I64), full(3, I64, 9), full(5, I64), full(7, I32),
            ],
        },
        "simulation": {
            "philox4x32": lambda: [full((5, 4), U32), full(2, U32), full((5, 4), U32)],
            "gaussians": lambda: [full(4, U32), 3, full(128)],
            "add_noise": lambda: [full((3, 5)), full((8, 4)), full((3, 4), U32), 1000, 1.0, full(90), 2],
            "add_skies": lambda: [
                [full((10, 3)), full((12, 3))], pixels(20)[:, None].copy(), None, full(20, U32),
                full(20, np.float32), 1.0, 1.0, [full(20), full(20)], 2,
            ],
            "add_point_sources": lambda: [
                full((2, 3)), full(2), full(2, float, 1), full((9, 3)), full(9, np.float32), full(9), 2,
            ],
        },
    }  # fmt: skip


def _mapmaking() -> dict[str, Callable[[], list[Any]]]:
    m = of("mapmaking")
    samples = lambda n=20: [pixels(n), full(n, U32), full(n, np.float32, 1), 1.0, 1.0]  # noqa: E731

    def maps(width: int = 2, n_stokes: int = 3) -> list[Any]:
        shape = (200, n_stokes, width)
        sums = full((2, *shape), I64), full((2, 8, width), I64)
        return [kernels(), full(shape), full((8, width)), full(width, float, 1), *sums]

    block = lambda: numbers(0, 102, 0, 100, 0, 0)  # noqa: E731
    rows = lambda *shape: full(shape or (7, 3, 2))  # noqa: E731
    limbs = lambda: full((2, of("base").N_LIMBS), I64)  # noqa: E731
    return {
        "PixelIndex": lambda: [192],
        "PixelIndex.n_local": lambda: [index()],
        "PixelIndex.mark": lambda: [index(), numbers(0, 191, -1, dtype=I32)],
        "PixelIndex.remove": lambda: [index(), 5],
        "PixelIndex.number": lambda: [index()],
        "PixelIndex.keys": lambda: [index(), full(4, I64)],
        "Kernels": lambda: [KERNEL_LAGS, 64],
        "TemplateTable 2": all_templates,
        "TemplateTable": lambda: [
            [term()], numbers(0, 1, 0, 0, 0, 1, 1, 7).reshape(2, 4), numbers(0, 6), 0.5, 0.25,
        ],
        "JointTable": lambda: [
            numbers(0, 2, 0, 1, 0).reshape(1, 5), numbers(0, 1), numbers(), full(2), full(2),
        ],
        "PartTable": lambda: [numbers(0, 2, 3), numbers(0, 1, 50, -1, 0, 0).reshape(3, 2), 2, 192],
        "PartTable.number": lambda: [part_table(), 0, 40, pixels(20)],
        "KeptTable": kept_arguments,
        "KeptTable 2": lambda: [*kept_arguments(), psi_table()],
        "KeptTable 3": lambda: [*pair_arguments(), None, numbers(1, 0)],
        "KeptTable.n_pairs": lambda: [pair_table()],
        "PsiTable": psi_arguments,
        "ExpandedTable": expanded_arguments,
        "ExpandedTable 2": divided_arguments,
        "ExpandedTable 3": lambda: [*expanded_pair(), numbers(1, 0)],
        "ExpandedTable.n_pairs": lambda: [m.ExpandedTable(*expanded_pair(), numbers(1, 0))],
        "ExpandedTable.expand": lambda: [expanded_table(), 0, full(102, I32), full(102, U32)],
        "VisitLists": visit_arguments,
        "BlockMatrix": block_arguments,
        "apply": lambda: [kept_table(), *maps(), template_table_of_gaps(), None],
        "apply 2": lambda: [expanded_table(), *maps(1), template_table_of_gaps(), None],
        "apply 5": lambda: [m.ExpandedTable(*divided_arguments()), *maps(2, 1)],
        "apply 6": lambda: [reading_table(), *maps(1), None, None],
        "apply 7": lambda: [pair_table(), *maps(1), None, None],
        "apply 9": lambda: [kept_table(), *maps(1), None, None, 3],
        "apply 8": lambda: [m.ExpandedTable(*expanded_pair(), numbers(1, 0)), *maps(1), None, None],
        "apply 3": lambda: [kept_table(True), *maps(8, 1), None, joint_table()],
        "apply 4": lambda: [expanded_table(True), *maps(4, 2), None, joint_table()],
        "filter_block": lambda: [block(), kernels(), full((2, 102)), full((2, 100))],
        "add_weights": lambda: [*samples(), 3, 1.0, 8.0, full((10, 7), I64)],
        "sum_weights": lambda: [kept_table(), 3, full(2), 8.0, full((2, 200, 7), I64)],
        "sum_weights 2": lambda: [expanded_table(), 2, full(2), 8.0, full((2, 200, 4), I64)],
        "sum_weights 3": lambda: [
            m.ExpandedTable(*divided_arguments()), 1, full(2), 8.0, full((1, 400, 2), I64),
        ],
        "sum_weights 5": lambda: [reading_table(), 3, full(2), 8.0, full((2, 200, 7), I64)],
        "sum_weights 4": lambda: [kept_table(), 0, full(2), 8.0, full((2, 200, 1), I64)],
        "add_binned": lambda: [
            pixels(20), full(20, U32), 1.0, 1.0, 3, full(20), 1.0, 8.0, 8.0, 20, full((10, 13), I64),
        ],
        "add_signals": lambda: [
            *samples(), full((2, 20)), full((2, 20)), 1.0, 8.0, 20, full((10, 3, 4, 2), I64),
            full((2, 2, 2), I64), full(2),
        ],
        "zero_gaps": lambda: [pixels(20), 0.5, full((2, 20))],
        "chunk_means": lambda: [full(70), pixels(70), full(2), full(2, U8)],
        "level_steps": lambda: [full(640), pixels(640), 10.0, 6],
        "add_template_signals 2": lambda: [
            m.TemplateTable(*all_templates()), block(), pixels(102), full((1, 100)), 8.0, 20,
            full((45, 2, 1), I64),
        ],
        "add_template_signals": lambda: [
            template_table(), block(), pixels(102), full((2, 100)), 8.0, 20, full((12, 2, 2), I64),
        ],
        "scan_templates 2": lambda: [
            m.TemplateTable(*all_templates()), block(), pixels(102), full(45), 0, full(102),
        ],
        "scan_templates": lambda: [template_table(), block(), pixels(102), full(12), 30, full(60)],
        "settle_words": lambda: [full((2, 7, 3, 4, 2), I64), 0.5, 20, full((2, 7, 3, 2)), 2],
        "scan": lambda: [*samples(), full((10, 3)), full(2), full(20)],
        "localize": lambda: [index(), full(20, U8), pixels(20)],
        "count_slots": lambda: [full(16, U8, 3), 64, 64, full(2, I64)],
        "find_slots": lambda: [full(16, U8, 3), 64, 64, 128, 5, full(8, I64)],
        "first_slots": lambda: [full(16, U8, 3), 1, 64, numbers(0, 16, 32), numbers(0, 70), full(2, I64)],
        "count_gaps": lambda: [full(16, U8, 3), numbers(0, 70), numbers(9, 128), full(2, I64)],
        "number_gaps": lambda: [64, 100, 3, pixels(20)],
        "renumber": lambda: [np.arange(10, dtype=I32), pixels(20)],
        "clear": lambda: [full((2, 3, 4), I64), 2],
        "fold": lambda: [full((3, 7, 3, 2), I64), full((7, 3, 2), I64), 2],
        "settle": lambda: [rows(), rows(), full(2), limbs(), 2, full((3, 7, 3, 2), I64)],
        "advance": lambda: [full(2), rows(), full((7, 6)), rows(), limbs(), 2],
        "subtract": lambda: [full(2), rows(), rows(), 2],
        "dots": lambda: [rows(), rows(), limbs(), 2],
        "turn": lambda: [full(2), full(2), rows(), rows(), rows(), full(2), 2],
        "largest_sizes": lambda: [full((7, 2)), full(2), 2],
        "precondition": lambda: [full((7, 6)), rows(), rows(), 2],
        "space_products": lambda: [rows(7, 3, 8), rows(), full(8), full(2), 20, full((2, 2, 8), I64), 2],
        "space_add": lambda: [rows(7, 3, 8), full((2, 8)), rows(), full(2), 2],
        "add_hashes": lambda: [numbers(*range(7)), full((7, 3)), 1, full(2, np.uint64), 2],
        "invert": lambda: [3, 0.1, full((7, 6), float, 1), full(7), 2],
        "count_visits": lambda: [pixels(20), full(10, I32, 6), 5, 8, full(7, U8), full(2, U8)],
        "compress": lambda: [
            *samples(), 3, np.arange(10, dtype=I32), full(2, I32), 5, 8, False, 1.0, full((18, 5), I32),
            full((2, 3), I32), full((4, 2), I64), full((4, 3)),
        ],
        "write_responses": lambda: [*samples(), full((20, 3))],
        "merge": lambda: [visit_lists(), full(4, I32), full((5, 5), I32), full(6, I64)],
        "add_to_baselines": lambda: [visit_lists(), full((4, 3, 2)), full((5, 2)), 2],
        "add_from_baselines": lambda: [
            visit_lists(), full((5, 2)), full(2, float, 1), full((2, 4, 3, 2), I64),
        ],
        "add_to_gaps": lambda: [visit_lists(1), full((5, 2)), full((4, 1, 2)), 2],
        "multiply": lambda: [block_matrix(), full((3, 2)), full((4, 2)), 2],
        "multiply_transposed": lambda: [block_matrix(), full((4, 2)), full((3, 2)), 2],
        "multiply_bands": lambda: [
            numbers(0, 3, 5), full((2, 1 + m.BASELINE_BAND)), full((5, 2)), full((5, 2)), 2,
        ],
        "factorize_baselines": lambda: [
            numbers(0, 3, 5), full((2, 1 + m.BASELINE_BAND), float, 0.1), full(5, float, 1), full(5),
            full((5, 1 + m.BASELINE_BAND)),
        ],
        "solve_baselines": lambda: [
            numbers(0, 3, 5), full((5, 1 + m.BASELINE_BAND), float, 0.1), full((5, 2)), full(2), 2,
        ],
    }  # fmt: skip


def template_table_of_gaps() -> Any:
    """Return templates of which the rows come after 2 gaps, of both streams of the blocks."""
    streams = numbers(0, 1, 0, 0, 0, 1, 0, 7).reshape(2, 4)
    return of("mapmaking").TemplateTable([term()], streams, numbers(2), 0.5, 0.25)


def right_calls() -> dict[str, list[Callable[[], list[Any]]]]:
    """Return for each target functions that make right arguments, the object first of those of methods."""
    rooms = {
        "redistribution": _redistribution(), "reduction": _reduction(), "sharing": _sharing(),
        "network": _network(), "mapping": _mapping(), "mapmaking": _mapmaking(), **_small(),
    }  # fmt: skip
    calls: dict[str, list[Callable[[], list[Any]]]] = {}
    for room, own in rooms.items():
        for name, make in own.items():  # a number after the name is of further ones
            calls.setdefault(f"{of(room).__name__}.{name.split()[0]}", []).append(make)
    makers: dict[str, Callable[[], Any]] = {
        "Convolver": lambda: of("noise").Convolver(128), "TorusHardware": hardware, "Kernels": kernels,
        "SwitchHardware": switch_hardware, "SwitchNetwork": switches,
    }  # fmt: skip
    for target in targets():  # properties
        *_, owner, _ = target.split(".")
        if target not in calls and owner in makers:
            calls[target] = [lambda made=makers[owner]: [made()]]
    return calls
