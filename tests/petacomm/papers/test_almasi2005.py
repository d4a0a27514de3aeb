"""The tables of Almasi et al. 2005: tolerances, page and text."""

import dataclasses
import json

import pytest

from petacomm.base.progress import SilentProgress
from petacomm.papers.almasi2005 import figures as almasi_figures
from petacomm.papers.almasi2005 import tables as almasi
from petacomm.papers.almasi2005.all_to_all import (
    PLATEAU,
    SHORT_MESSAGES,
    AllToAllRow,
    approximate_hops,
    count_nodes,
    list_jobs,
    simulate_rows,
)
from petacomm.papers.almasi2005.benchmarks import BlueGeneBenchmarks, half_bandwidth_bytes
from petacomm.papers.almasi2005.figures import _ordered
from petacomm.papers.almasi2005.roles import BOUND, CALIBRATED, FROM_PUBLISHED, PREDICTED, RESTATED
from petacomm.papers.almasi2005.tables import Almasi2005Results, published_almasi2005
from petacomm.papers.almasi2005.text import almasi2005_json, almasi2005_table
from petacomm.report.almasi2005_page import write_almasi2005_page


@pytest.fixture(scope="module")
def bench():
    return BlueGeneBenchmarks()


def reached(factor):
    """Return simulated bandwidths that equal the printed numbers times a factor."""
    table, out = published_almasi2005()["table2"], {}
    for shape, row in table["rows"].items():
        n = count_nodes(shape)
        each = n * (n - 1) / factor / 1e6
        seconds = {size: each * size / mbs for size, mbs in zip(table["bytes"], row["values"], strict=False)}
        best = row["best"] / 100 * row["peak"]
        out[shape] = AllToAllRow(n, seconds, row["long"], each * row["long"] / best, lambda n_bytes: 0.0)
    return out


@pytest.fixture(scope="module")
def results(bench):
    cells = almasi._table2(bench, published_almasi2005()["table2"]["rows"], reached(1.0))
    cells += almasi._table4(bench, published_almasi2005()["table4"])
    cells.append(dataclasses.replace(cells[-1], row="made up", ours=99.0, inside=False, why="a reason"))
    order = _ordered("5", "a > b", [("8 B", {"a": 2.0, "b": 1.0})], "MB/s")
    return Almasi2005Results(
        "title", [almasi._explained(cell) for cell in cells], [order], almasi._constants(bench.model.machine),
        [("a policy", "one of two", "Table 2")],
        {"4x4x2": [(16.0, 237.0)]}, {"4x4x2": [(16.0, 237.0), (64.0, 619.0)]},
    )  # fmt: skip


def test_all_63_bandwidths_of_table_2_are_scored_and_nothing_twice(bench):
    rows = published_almasi2005()["table2"]["rows"]
    for factor, inside in ((1.0, True), (0.5, False)):
        cells = almasi._table2(bench, rows, reached(factor))
        bandwidths = [cell for cell in cells if cell.column.endswith(" B")]
        assert len(bandwidths) == 63
        assert [cell.column for cell in bandwidths if cell.role == CALIBRATED] == ["64 B", "256 B"]
        predicted = [cell for cell in cells if cell.role == PREDICTED]
        assert len(predicted) == 61 and all(cell.inside == inside for cell in predicted)
        # The peaks are the source's formula, and a best part of them is one of the bandwidths.
        assert {c.role for c in cells if c.column == "peak"} == {FROM_PUBLISHED}
        assert {(c.role, c.inside) for c in cells if c.column == "best"} == {(RESTATED, inside)}


def test_long_messages_continue_at_the_rate_of_a_slice(bench):
    row = published_almasi2005()["table2"]["rows"]["4x4x2"]
    ((_, found),) = simulate_rows(bench, {"4x4x2": row}, [256, 1024, 4096, 16384], SilentProgress()).items()
    assert found.longest_before(16384) == 16384 and found.aggregate(PLATEAU) > found.aggregate(16384)
    cut = dataclasses.replace(found, seconds={256: found.seconds[256], 1024: found.seconds[1024]})
    assert cut.longest_before(4096) == 1024
    for n_bytes in (4096, 16384):  # as if simulated whole
        assert cut.aggregate(n_bytes) == pytest.approx(found.aggregate(n_bytes), rel=0.03)


def test_what_follows_from_the_source_is_not_called_predicted(bench):
    roles = {of: role for of, (_, _, role) in almasi._bandwidths(bench).items()}
    trees = {row: role for (row, column), role in roles.items() if column == "tree"}
    assert trees == {
        "allreduce of integers": FROM_PUBLISHED,  # the 337 MB/s of section 2.1
        "broadcast": FROM_PUBLISHED,
        "allreduce of doubles": BOUND,
    }
    cells = almasi._table3(bench, {"alltoall, a node": {"torus": 151.6}}, {}, reached(1.0)["8x8x8"])
    assert [(cell.role, cell.inside) for cell in cells] == [(RESTATED, True)]  # of Table 2


def test_choices_made_by_looking_at_cells_are_listed(results):
    choices = published_almasi2005()["choice"]
    assert len(choices) == 10 and all("Table" in choice["cells"] for choice in choices)
    assert "5 calibrated constants and 1 choices made by looking" in results.summary
    assert "a policy: one of two (Table 2)" in almasi2005_table(results)


def test_all_latencies_of_table_4_are_inside(results):
    cells = {(cell.row, cell.column): cell for cell in results.cells if cell.table == 4 and not cell.why}
    assert len(cells) == 16
    assert cells["barrier", "MPICH2"].role == CALIBRATED
    assert [cell for cell in cells.values() if cell.role == PREDICTED and not cell.inside] == []


def test_cells_outside_have_a_reason(bench):
    halves = published_almasi2005()["half"]
    best = {(row, column): 1.0 for row, columns in halves.items() for column in columns}
    ways = {of: (lambda n: 1e-3 + n / 1e6, "by hand", PREDICTED) for of in best}
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
    assert role == BOUND and 8e6 / seconds(8 * 10**6) < 119.4e6  # published, on the torus


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


def test_orders_of_calibrated_numbers_are_not_counted(results):
    order = results.orderings[0]
    assert order.role == PREDICTED and "1 of 1 predicted orders hold" in results.summary
    more = [order, dataclasses.replace(order, role=CALIBRATED), dataclasses.replace(order, holds=False)]
    other = dataclasses.replace(results, orderings=more)
    assert "1 of 2 predicted orders hold" in other.summary
    assert "holds (calibrated, not counted)" in almasi2005_table(other)


def test_orders_fail_where_values_do():
    assert not _ordered("5", "a > b", [("8 B", {"a": 1.0, "b": 2.0})], "MB/s").holds
    assert _ordered("9", "a < b", [("8 B", {"a": 1.0, "b": 2.0})], "us").holds


def test_the_jobs_hold_all_short_messages_and_end():
    rows, sizes = published_almasi2005()["table2"]["rows"], published_almasi2005()["table2"]["bytes"]
    jobs = list_jobs(rows, sizes)
    assert {(shape, n) for shape in rows for n in SHORT_MESSAGES} <= set(jobs)
    assert sum(approximate_hops(shape, n or rows[shape]["long"]) for shape, n in jobs) < 2.5e9  # minutes


def test_table_and_page_agree(results, tmp_path):
    text = almasi2005_table(results)
    compared = [cell for cell in results.cells if cell.role == PREDICTED]
    inside = sum(bool(cell.inside) for cell in compared)
    assert text.splitlines()[-1] == results.summary
    assert results.summary.startswith(f"{inside} of {len(compared)} predicted cells inside the tolerances")
    assert text.count("predicted, OUTSIDE") == len(compared) - inside > 0
    assert text.count(FROM_PUBLISHED) > 8
    page = write_almasi2005_page(results, tmp_path / "folder" / "network.html").read_text(encoding="utf-8")
    assert results.summary in page and "https://" not in page
    assert json.loads(json.dumps(almasi2005_json(results)))["summary"] == results.summary
