"""The tables of Almasi et al. 2005: what counts as inside, and what the page and the table say."""

import json

import pytest

from petamap.comm.network import almasi
from petamap.comm.network.almasi import CALIBRATED, COMPARED, NOT_COVERED, Retelling, published
from petamap.comm.network.almasi_bench import Bench
from petamap.comm.network.almasi_figures import _ordered
from petamap.comm.network.almasi_table import as_json, table
from petamap.report.network import write_network


@pytest.fixture(scope="module")
def bench():
    return Bench()


def reached(factor):
    """Return what simulations would reach if they gave the printed numbers times a factor."""
    out = {}
    for shape, row in published()["table2"]["rows"].items():
        for n_bytes, value in zip(published()["table2"]["bytes"], row["values"], strict=False):
            out[shape, n_bytes] = factor * value
        if "long" in row:
            out[shape, row["long"]] = factor * row["best"] / 100 * row["peak"]
    return out


@pytest.fixture(scope="module")
def found(bench):
    cells = almasi._table2(bench, published()["table2"]["rows"], reached(1.0))
    cells += almasi._table4(bench, published()["table4"])
    order = _ordered("5", "a > b", [("8 B", {"a": 2.0, "b": 1.0})], "MB/s")
    return Retelling(
        "title", [almasi._explained(cell) for cell in cells], [order], almasi._constants(bench.scene.machine),
        {"4x4x2": [(16.0, 237.0)]}, {"4x4x2": [(16.0, 237.0), (64.0, 619.0)]},
    )  # fmt: skip


def test_printed_numbers_are_inside_and_halves_of_them_are_not(bench):
    rows = published()["table2"]["rows"]
    for factor, inside in ((1.0, True), (0.5, False)):
        cells = almasi._table2(bench, rows, reached(factor))
        peaks = [cell for cell in cells if cell.column == "peak"]
        assert len(peaks) == 8 and all(cell.inside for cell in peaks)  # nothing of them is simulated
        others = [cell for cell in cells if cell.role == COMPARED and cell.column != "peak"]
        assert len(others) == 7 * 3 + 6 and all(cell.inside == inside for cell in others)
        assert sum(cell.role == CALIBRATED for cell in cells) == 3  # of the row 8x8x8
        assert sum(cell.role == NOT_COVERED for cell in cells) == 2  # no long messages on 2048 nodes and more


def test_latencies_are_computed_and_failures_say_why(found):
    cells = {(cell.row, cell.column): cell for cell in found.cells if cell.table == 4}
    assert len(cells) == 16
    assert cells["barrier", "torus"].inside and cells["broadcast, 16 B", "tree"].inside
    assert cells["barrier", "MPICH2"].role == CALIBRATED
    assert cells["barrier", "GI"].inside is False and "65,536 nodes" in cells["barrier", "GI"].why
    assert all(cell.why for cell in cells.values() if cell.inside is False)


def test_no_more_than_five_constants_are_calibrated(bench):
    constants = almasi._constants(bench.scene.machine)
    assert len(constants) == 5 and all("Table" in source for _, _, source in constants)


def test_orders_fail_where_values_do():
    assert not _ordered("5", "a > b", [("8 B", {"a": 1.0, "b": 2.0})], "MB/s").holds
    assert _ordered("9", "a < b", [("8 B", {"a": 1.0, "b": 2.0})], "us").holds


def test_the_jobs_hold_all_short_messages_and_end():
    rows, sizes = published()["table2"]["rows"], published()["table2"]["bytes"]
    jobs = almasi._jobs(rows, sizes)
    assert {(shape, n) for shape in rows for n in almasi.SHORT} <= set(jobs)
    assert sum(almasi._hops(*job) for job in jobs) < 2e9  # some minutes


def test_table_and_page_say_the_same(found, tmp_path):
    text = table(found)
    compared = [cell for cell in found.cells if cell.role == COMPARED]
    inside = sum(bool(cell.inside) for cell in compared)
    assert text.splitlines()[-1] == found.summary
    assert found.summary.startswith(f"{inside} of {len(compared)} cells inside the tolerances, 4 more used")
    assert text.count("OUTSIDE") == len(compared) - inside > 0
    page = write_network(found, tmp_path / "folder" / "network.html").read_text(encoding="utf-8")
    assert found.summary in page and "https://" not in page
    assert json.loads(json.dumps(as_json(found)))["summary"] == found.summary
