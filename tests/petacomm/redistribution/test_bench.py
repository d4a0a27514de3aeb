"""Benchmarks and their cost model: fits reproduce costs, all methods are correct, errors are reported."""

import json

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.cli.main import main
from petacomm.mpi import SerialCommunicator
from petacomm.mpi.autotuner import tuning_environment
from petacomm.redistribution import HALO_METHODS, METHODS, ArrayLayout, DatatypeError, Redistribution
from petacomm.redistribution.bench import bench, benchmark_json, benchmark_table, even_grid
from petacomm.redistribution.exchange_cost import ExchangeCosts, ExchangeWork, copy_work
from petacomm.topology import load_machine


def test_the_fit_reproduces_costs():
    rng = np.random.default_rng(1)
    true = ExchangeWork(2e-6, 1e-10, 3e-9, 5e-11, 2e-8, 1e-10, 4e-6)
    works = [ExchangeWork(*rng.uniform(1, 100, 7) * [1, 1e4, 1e2, 1e4, 1e2, 1e4, 1]) for _ in range(40)]
    seconds = [ExchangeCosts(true).predict(work) for work in works]
    found = ExchangeCosts.fit(works, seconds)
    np.testing.assert_allclose([found.predict(work) for work in works], seconds, rtol=1e-9)
    assert found.seconds.messages == pytest.approx(2e-6) and "2 us a message" in found.describe()
    assert found.packing_share(ExchangeWork(copied_bytes=8)) == pytest.approx(1)
    assert found.packing_share(ExchangeWork(messages=3)) == 0 == found.packing_share(ExchangeWork())
    half = ExchangeWork(messages=1, copied_bytes=2e-6 / 5e-11)
    assert found.packing_share(half) == pytest.approx(0.5)


def test_a_machine_has_the_costs_of_its_file():
    machine = load_machine("jaguar")
    costs = ExchangeCosts.from_machine(machine)
    work = ExchangeWork(messages=3, wire_bytes=1.6e6, copied_blocks=10, copied_bytes=1e6)
    packing = 10 * machine.row_time + 2e6 / machine.core_memory_bandwidth
    assert costs.predict(work) == pytest.approx(3 * 8.26e-6 + 1e-3 + packing)
    assert costs.packing_share(work) == pytest.approx(packing / costs.predict(work))
    typed = ExchangeWork(typed_blocks=10, typed_bytes=1e6)
    assert costs.predict(typed) == pytest.approx(packing - 1e6 / machine.core_memory_bandwidth)


def test_blocks_are_contiguous_memory():
    whole = np.zeros((6, 8, 4))
    assert copy_work([whole]) == ExchangeWork(copied_blocks=1, copied_bytes=1536)
    assert copy_work([whole[:, :3]]).copied_blocks == 6
    assert copy_work([whole[:, :, :2]]).copied_blocks == 48
    assert copy_work([whole.transpose(2, 1, 0)]).copied_blocks == 192
    assert copy_work([whole[:0]]) == ExchangeWork()


def counts(comm):
    """The work that methods report, where it is known."""
    n, p = 12, comm.size
    part = n * n // p * 8
    plans = {
        method: Redistribution(comm, ArrayLayout((n, n), (p, 1)), ArrayLayout((n, n), (1, p)), method=method)
        for method in METHODS
    }
    source = np.ones((n // p, n))
    target = plans["packed"].run(source)
    for plan in plans.values():
        plan.run(source, target)
    own = part // p
    packed, both, shared = (plans[method].work() for method in ("packed", "both-types", "shared"))
    assert (packed.messages, packed.wire_bytes) == (p - 1, part - own) == (both.messages, both.wire_bytes)
    assert packed.copied_bytes == 2 * (part - own) + 2 * own and packed.typed_bytes == 0
    assert both.copied_bytes == 2 * own and both.typed_bytes == 2 * (part - own)
    assert (shared.messages, shared.copied_bytes) == (0, 3 * part)


def test_methods_count_their_work():
    run_ranks(counts, 3)


def benches(comm):
    found = bench(comm, "transpose", (8, 12), "float32", turns=1)
    assert {row.method for row in found.rows} == {*METHODS, "shared, direct"} and len(found.rows) == 6 * 7
    halo = bench(comm, "halo", (4, 2, 2), turns=1)
    assert {row.method for row in halo.rows} == set(HALO_METHODS)
    for row in [*found.rows, *halo.rows]:
        assert row.correct and row.seconds > 0 and row.modelled >= 0 and 0 <= row.packing <= 1
    where = tuning_environment(comm)
    text = benchmark_table(found, where)
    assert "NO" not in text and text.count("yes") == 42 and "model: " in text
    assert json.loads(benchmark_json(halo, where))["rows"][0]["case"] == "2x2x2 a rank"
    for words, message in [
        (("pixels",), "nothing known"), (("transpose", (4,)), "two axes"),
        (("halo", (3, 4)), "even"), (("transpose", (4, 4), "complx"), "no dtype"),
    ]:  # fmt: skip
        with pytest.raises(DatatypeError, match=message):
            bench(comm, *words)


def test_a_benchmark_has_all_methods():
    run_ranks(benches, 2)


def test_the_command(capsys):
    assert main(["datatypes", "bench", "--shape", "6x4", "--turns", "1"]) == 0
    out = capsys.readouterr().out
    assert "one rank on" in out and "send-type" in out
    for words, message in [
        (["datatypes"], "nothing to do"), (["datatypes", "benhc"], "did you mean 'bench'"),
        (["datatypes", "bench", "halo", "more"], "unknown argument 'more'"),
        (["datatypes", "bench", "--shape", "8x"], "numbers with x between"),
        (["datatypes", "bench", "--shape", "8x²"], "numbers with x between"),
        (["datatypes", "bench", "--turns", "0"], "1 or more"),
        (["datatypes", "bench", "--dtype", "object"], "without objects"),
    ]:  # fmt: skip
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code
        assert code == 2 and message in capsys.readouterr().err, words


@pytest.mark.parametrize(
    ("n", "axes", "grid"), [(1, 2, (1, 1)), (8, 4, (2, 2, 2, 1)), (12, 3, (3, 2, 2)), (7, 2, (7, 1))]
)
def test_even_grids(n, axes, grid):
    assert even_grid(n, axes) == grid


def test_one_process():
    assert all(row.correct for row in bench(SerialCommunicator(), "halo", (2, 2), turns=1).rows)
