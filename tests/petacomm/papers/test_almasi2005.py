"""The tables of Almasi et al. 2005: tolerances, page and text."""

import dataclasses
import json

import pytest

from petacomm.papers.almasi2005 import figures as almasi_figures
from petacomm.papers.almasi2005 import tables as almasi
from petacomm.papers.almasi2005.benchmarks import BlueGeneBenchmarks, half_bandwidth_bytes
from petacomm.papers.almasi2005.figures import _ordered
from petacomm.papers.almasi2005.tables import (
    CALIBRATED,
    COMPARED,
    NOT_COVERED,
    PLATEAU,
    Almasi2005Results,
    published_almasi2005,
)
from petacomm.papers.almasi2005.text import almasi2005_json, almasi2005_table
from petacomm.report.almasi2005_page import write_almasi2005_page


@pytest.fixture(scope="module")
def bench():
    return BlueGeneBenchmarks()


def reached(factor):
    """Return simulated bandwidths that equal the printed numbers times a factor."""
    out = {}
    for shape, row in published_almasi2005()["table2"]["rows"].items():
        for n_bytes, value in zip(published_almasi2005()["table2"]["bytes"], row["values"], strict=False):
            out[shape, n_bytes] = factor * value
        out[shape, PLATEAU] = factor * row["best"] / 100 * row["peak"]
    return out


@pytest.fixture(scope="module")
def results(bench):
    cells = almasi._table2(bench, published_almasi2005()["table2"]["rows"], reached(1.0))
    cells += almasi._table4(bench, published_almasi2005()["table4"])
    cells.append(dataclasses.replace(cells[-1], row="made up", ours=99.0, inside=False, why="a reason"))
    order = _ordered("5", "a > b", [("8 B", {"a": 2.0, "b": 1.0})], "MB/s")
    return Almasi2005Results(
        "title", [almasi._explained(cell) for cell in cells], [order], almasi._constants(bench.model.machine),
        {"4x4x2": [(16.0, 237.0)]}, {"4x4x2": [(16.0, 237.0), (64.0, 619.0)]},
    )  # fmt: skip


def test_printed_numbers_are_inside_and_halves_of_them_are_not(bench):
    rows = published_almasi2005()["table2"]["rows"]
    for factor, inside in ((1.0, True), (0.5, False)):
        cells = almasi._table2(bench, rows, reached(factor))
        peaks = [cell for cell in cells if cell.column == "peak"]
        assert len(peaks) == 8 and all(cell.inside for cell in peaks)  # none is simulated
        others = [cell for cell in cells if cell.role == COMPARED and cell.column != "peak"]
        assert len(others) == 7 * 3 + 1 + 8 and all(cell.inside == inside for cell in others)
        assert sum(cell.role == CALIBRATED for cell in cells) == 2  # in the row 8x8x8


def test_all_latencies_of_table_4_are_inside(results):
    cells = {(cell.row, cell.column): cell for cell in results.cells if cell.table == 4 and not cell.why}
    assert len(cells) == 16
    assert cells["barrier", "MPICH2"].role == CALIBRATED
    assert [cell for cell in cells.values() if cell.role == COMPARED and not cell.inside] == []


def test_cells_outside_have_a_reason(bench):
    halves = published_almasi2005()["half"]
    best = {(row, column): 1.0 for row, columns in halves.items() for column in columns}
    ways = {of: (lambda n: 1e-3 + n / 1e6, "by hand", COMPARED) for of in best}
    cells = [
        almasi._explained(cell)
        for cell in almasi._halves(bench, {"broadcast": halves["broadcast"]}, ways, best)
    ]
    assert [round(1024 * cell.ours) for cell in cells] == pytest.approx([1000] * 3, rel=0.1)  # 1 ms at 1 MB/s
    assert all(cell.inside is False and cell.why for cell in cells)


def test_half_of_a_bandwidth_is_found_between_powers_of_two():
    assert half_bandwidth_bytes(lambda n: 1e-3 + n / 1e6, 1e6) == pytest.approx(1000, rel=0.03)
    assert half_bandwidth_bytes(lambda n: n / 1e6, 1e6) == 16


def test_doubles_on_the_tree_are_bounded_and_not_compared(bench):
    curves = almasi._bandwidths(bench)
    seconds, _, role = curves["allreduce of doubles", "tree"]
    assert role == NOT_COVERED and 8e6 / seconds(8 * 10**6) < 119.4e6  # published, on the torus


def test_interrupt_wires_take_longer_for_more_nodes(bench):
    times = [bench.closed("barrier", "interrupt", shape=shape) for shape in ("4x4x2", "8x8x8", "8x32x16")]
    assert times == sorted(times) and times[-1] < 1.5e-6  # of the full system


def test_consecutive_broadcasts_take_less_than_one_except_with_rendezvous(bench):
    assert bench.default_broadcast(256) < bench.mpich2("broadcast", 256) / 2
    assert bench.default_broadcast(1024) == bench.mpich2("broadcast", 1024)


def test_no_more_than_five_constants_are_calibrated(bench):
    constants = almasi._constants(bench.model.machine)
    assert len(constants) == 5 and all("Table" in source for _, _, source in constants)


def test_orders_of_the_source_hold(bench):
    for order in (almasi_figures._crossover(bench), almasi_figures._barriers(bench, ["4x4x2", "8x8x8"])):
        assert order.holds
    names = {name for _, values in almasi_figures._barriers(bench, ["8x8x8"]).points for name in values}
    assert names == {"GI", "tree", "torus", "MPICH2"}
    n = 1 << 21  # closed forms; the tables simulate longer vectors
    path = {integer: bench.closed("allreduce", "hamiltonian", n, integer) for integer in (True, False)}
    assert bench.tree("allreduce", n) < path[True] < bench.mpich2("allreduce", n)
    assert path[False] < bench.tree_doubles(n)
    assert [bench.default_broadcast(n) < bench.torus_broadcast(n) for n in (256, 512, 4096, 8192)] == [
        True, True, False, False,
    ]  # fmt: skip


def test_orders_fail_where_values_do():
    assert not _ordered("5", "a > b", [("8 B", {"a": 1.0, "b": 2.0})], "MB/s").holds
    assert _ordered("9", "a < b", [("8 B", {"a": 1.0, "b": 2.0})], "us").holds


def test_the_jobs_hold_all_short_messages_and_end():
    rows, sizes = published_almasi2005()["table2"]["rows"], published_almasi2005()["table2"]["bytes"]
    jobs = almasi._jobs(rows, sizes)
    assert {(shape, n) for shape in rows for n in almasi.SHORT_MESSAGES} <= set(jobs)
    assert sum(almasi._hops(shape, almasi._simulated_bytes(shape, n)) for shape, n in jobs) < 2.5e9  # minutes


def test_table_and_page_agree(results, tmp_path):
    text = almasi2005_table(results)
    compared = [cell for cell in results.cells if cell.role == COMPARED]
    inside = sum(bool(cell.inside) for cell in compared)
    assert text.splitlines()[-1] == results.summary
    assert results.summary.startswith(f"{inside} of {len(compared)} cells inside the tolerances, 3 more used")
    assert text.count("OUTSIDE") == len(compared) - inside > 0
    page = write_almasi2005_page(results, tmp_path / "folder" / "network.html").read_text(encoding="utf-8")
    assert results.summary in page and "https://" not in page
    assert json.loads(json.dumps(almasi2005_json(results)))["summary"] == results.summary
