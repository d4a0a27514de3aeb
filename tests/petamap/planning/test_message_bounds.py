"""What ranks send in each phase of a run is bounded by its plan, and not by far more than they send."""

import dataclasses
import os
import tempfile

import pytest
from cases import cases
from mpi import run_ranks

from petacomm.reduction import ALGORITHMS
from petacomm.topology import load_machine
from petamap.data.config.reader import parse_config
from petamap.mapmaking.run import run
from petamap.planning.auxiliary_systems import unbounded_parts
from petamap.planning.message_bounds import MessageBounds
from petamap.planning.message_table import bounds_table, phase_bounds
from petamap.planning.phase_bounds import bound_phases
from petamap.planning.plan import plan
from petamap.planning.plan_table import plan_table
from petamap.planning.rank_traffic import AmplitudeSizes, ExchangedRows, RankSizes, Sent, StreamSizes

NIGHT = """
[map]
n_side = 64
[noise]
n_lag = 256
[comm]
reduction = "{reduction}"
distribution = "{distribution}"
[[source]]
kind = "satellite"
n_det = 4
sample_rate = "20 Hz"
duration = "6 h"
interval = "1 h"
year = "1 day"
precession_period = "6 h"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "50 mHz"
fmin = "1 mHz"
[solver]
preconditioner = "{preconditioner}"
"""
# Bounds are at most so many times what is sent, where they are more than agreements on errors and sizes.
LOOSE, FEW_BYTES, FEW_MESSAGES = 3, 8192, 24
# Phases of which the bounds are those of the highest degree, and of all samples that may move.
OF_THE_MODEL = ("preconditioner", "iterations")
# In which nodes exchange what their ranks have.
BETWEEN_NODES = {"hybrid", "hierarchical"}
# Of any reduction that may be chosen, and of any keys that nodes may share; and of flagged samples, each of
# which may lie apart from others, while they lie in runs.
LOOSER_PLANS = {"auto", *BETWEEN_NODES}


# Beside those of the run itself: what `NIGHT` is extended by.
MORE = {
    "": "",
    "bands": """
[[band]]
name = "a"
detectors = ["0000*"]
[[band]]
name = "b"
detectors = ["0001*"]
""",
    "halves": """
[[split]]
name = "halves"
by = "time"
n_parts = 2
""",
    "detectors": """
[[split]]
name = "pairs"
by = "detector"
""",
    "flags": """
[[source]]
kind = "cuts"
gap_every = "1 h"
gap_length = "10 min"
[[source]]
kind = "cuts"
end = "3 h"
""",
    "baselines": """
[[source]]
kind = "baselines"
length = "5 min"
""",
    "shared": """
[[source]]
kind = "offsets"
per = "run"
[[source]]
kind = "baselines"
length = "10 min"
""",
}


def counts(cost):
    return Sent(cost.messages.max, cost.collectives.max, cost.bytes.max)


def night(distribution="auto", preconditioner="block-diagonal", reduction="owner", more=""):
    """Return the text of a run."""
    text = NIGHT.format(distribution=distribution, preconditioner=preconditioner, reduction=reduction)
    return text + MORE[more]


def check_run(comm, distribution, preconditioner="block-diagonal", reduction="owner", more="", sample=None):
    """Run, and check on rank 0 what each phase sent."""
    per_node = int(os.environ.get("PETAMAP_RANKS_PER_NODE", comm.size))
    config = parse_config(night(distribution, preconditioner, reduction, more))
    out = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
    summary = run(config, out=out, comm=comm, progress=False)
    if comm.rank:
        return
    machine = dataclasses.replace(
        load_machine("one-node"), nodes=64, sockets_per_node=1, cores_per_socket=per_node
    )
    looked_at = float(sample) if sample else None
    quick = {"threads": [1], "n_threads": 1, "progress": False}
    planned = plan(config, comm.size, machine, sample=looked_at, **quick)
    assert planned.fraction == pytest.approx(looked_at or 1, rel=0.1)
    (one,) = [
        p for p in planned.predictions if p.distribution.description == summary.environment.distribution
    ]
    assert one.forecast.size == comm.size and planned.unbounded == ()
    solvers = [summary.solver, *(split.solver for split in summary.splits)]
    iterations = max(solver.iterations for solver in solvers)
    bounds = bound_phases(one.sizes, iterations)
    # timing tells which one "auto" takes: only bounds of that one are near what it sends
    taken = dataclasses.replace(one.sizes, reductions=(summary.environment.reduction,))
    near = bound_phases(taken, iterations)
    # neighbours in time, or the nodes that have them, may share no unknown samples after all
    partners = one.sizes.gap_partners
    if summary.environment.reduction in BETWEEN_NODES:
        partners = max(partners, min(one.sizes.n_nodes - 1, per_node * partners))
    few = FEW_MESSAGES + 2 * partners * (iterations + 2)
    assert {phase.name for phase in summary.phases} <= set(bounds)
    for phase in summary.phases:
        sent, most, tight = counts(phase), bounds[phase.name], near[phase.name]
        told = f"{distribution}, {reduction}, {per_node} ranks a node, {phase.name}: {sent} of {most}"
        assert all(number <= bound for number, bound in zip(sent, most, strict=True)), told
        if preconditioner == "two-level" and phase.name in OF_THE_MODEL:
            continue
        if sample:  # with the errors of a part of the sky
            continue
        if comm.size == 2:  # which may share no pixel of a band or part
            continue
        looser = {reduction, summary.environment.reduction} & LOOSER_PLANS or more == "flags"
        if looser and phase.name == "reduction plan":
            continue
        told = f"{told}, near {tight}"
        assert all(number <= bound for number, bound in zip(sent, tight, strict=True)), told
        assert tight.bytes <= max(LOOSE * sent.bytes, FEW_BYTES), told
        assert tight.messages <= max(LOOSE * sent.messages, few), told


def check_case(comm):
    """Check the run that the test names."""
    check_run(comm, *os.environ["CASE"].split())


def all_distributions(comm):
    for distribution in ("streams", "time-major", "mixed", "detector-major"):
        for reduction in ("auto", *ALGORITHMS):
            check_run(comm, distribution, reduction=reduction)


def check_on_ranks(monkeypatch, case, per_node=8):
    monkeypatch.setenv("CASE", case)
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", str(per_node))
    run_ranks(check_case, 8)


@pytest.mark.parametrize(
    "case",
    cases(
        "auto block-diagonal owner", "streams block-diagonal auto",
        long=["auto two-level pairwise", "auto two-level owner", "streams block-diagonal owner"],
    ),
)  # fmt: skip
def test_eight_ranks_send_no_more_than_planned(monkeypatch, case):
    check_on_ranks(monkeypatch, case)


@pytest.mark.parametrize(
    "case",
    cases(
        "streams block-diagonal hybrid",
        long=[
            "time-major block-diagonal owner", "streams block-diagonal dense",
            "streams block-diagonal hierarchical", "streams block-diagonal butterfly",
        ],
    ),
)  # fmt: skip
def test_ranks_of_nodes_send_no_more_than_planned(monkeypatch, case):
    check_on_ranks(monkeypatch, case, per_node=4)


BLOCKS, LEVELS = "block-diagonal", "two-level"
PARTS, TEMPLATES = ("bands", "halves", "detectors"), ("baselines", "shared")


@pytest.mark.parametrize(
    ("more", "n_ranks", "preconditioner"),
    cases(
        ("halves", 3, BLOCKS), ("baselines", 3, BLOCKS),
        long=[
            ("bands", 3, BLOCKS), ("flags", 3, BLOCKS),
            *((more, n, BLOCKS) for more in (*PARTS, *TEMPLATES, "flags") for n in (2, 8)),
            *((more, n, LEVELS) for more in TEMPLATES for n in (2, 3, 8)),
            ("bands", 5, BLOCKS), ("halves", 5, BLOCKS), ("baselines", 5, BLOCKS), ("baselines", 5, LEVELS),
            ("shared", 3, BLOCKS),
        ],
    ),
)  # fmt: skip
def test_parts_templates_and_flags_send_no_more_than_planned(monkeypatch, more, n_ranks, preconditioner):
    monkeypatch.setenv("CASE", f"auto {preconditioner} owner {more}")
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", str(n_ranks))
    run_ranks(check_case, n_ranks, timeout=600)


@pytest.mark.parametrize(
    ("distribution", "sample"),
    cases(("streams", 0.05), long=[("time-major", 0.05), ("streams", 0.3), ("mixed", 0.3)]),
)
def test_bounds_of_a_part_of_the_sky_hold(monkeypatch, distribution, sample):
    monkeypatch.setenv("CASE", f"{distribution} block-diagonal owner baselines {sample}")
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", "8")
    run_ranks(check_case, 8, timeout=300)


@pytest.mark.long
@pytest.mark.parametrize("per_node", [16, 4])
def test_sixteen_ranks_send_no_more_than_planned(monkeypatch, per_node):
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", str(per_node))
    run_ranks(all_distributions, 16, timeout=1500)


ROWS = {
    "owner": (ExchangedRows(9000, 9e4), ExchangedRows(9000, 9e4)),
    "pairwise": (ExchangedRows(16_383, 2e6),),
    "hierarchical": (ExchangedRows(1, 5e4), ExchangedRows(1, 5e4), ExchangedRows()),
}


def sizes(**changes):
    made = RankSizes(
        size=16_384, n_nodes=128, ranks_per_node=128, n_stokes=3, n_keys=1e5, n_owned=3e3, n_chunks=3e3,
        n_held=1e5, n_global=5e7, n_pix=50_331_648, rows=ROWS, pair_rows=2e6, n_samples=4e6, n_gaps=0,
        n_shared_gaps=0, gap_partners=0, n_kinds=12, n_detectors=12, gathered_bytes=0,
        product_columns=(3, 1), partial=False,
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def test_an_iteration_sends_its_rows_and_two_dot_products():
    bounds = MessageBounds(sizes())
    more = bounds.iterations(11).plus(bounds.iterations(10).times(-1))
    assert more.messages == 18_000
    assert more.bytes == 2 * 9e4 * 24 + 2 * 480 + 2 * 48
    assert bounds.phases(10)["dot products"] == Sent(0, 22, 22 * 480)


def test_all_reduces_alone_send_once_an_iteration():
    bounds = MessageBounds(sizes(), "pairwise")
    more = bounds.iterations(11).plus(bounds.iterations(10).times(-1))
    assert more.messages == 16_383
    assert more.bytes == 2e6 * 24 + 2 * 480 + 2 * 48


def test_a_split_has_its_own_system_and_one_of_all_its_parts():
    alone, split = sizes(), sizes(splits=(sizes(n_maps=2, product_columns=(3,)),))
    without, found = bound_phases(alone, 10), bound_phases(split, 10)
    more = found["iterations"].plus(without["iterations"].times(-1))
    assert more == without["iterations"].plus(bound_phases(alone, 11)["iterations"])
    assert found["distribution"] == without["distribution"]
    assert found["products"].bytes > without["products"].bytes
    assert found["reduction plan"].bytes > 2.9 * without["reduction plan"].bytes


def test_templates_are_sent_to_where_streams_are_modelled():
    of_streams = StreamSizes(n_held=24, n_modelled=12, partners=4)
    own = AmplitudeSizes(n_held=100, n_modelled=60, n_sent=30, partners=2, most_holders=2, n_all=1e6)
    bounds = MessageBounds(sizes(streams=of_streams, amplitudes=own))
    more = bounds.iterations(11).plus(bounds.iterations(10).times(-1))
    pixels = MessageBounds(sizes()).iterations(11).plus(MessageBounds(sizes()).iterations(10).times(-1))
    # to owners and back, and to where they are modelled and back, each of which is two calls
    assert more.bytes - pixels.bytes == 2 * 8 * 30 + 2 * 8 * (100 + 60 + 2 * 30) + 8 * 48
    assert more.messages - pixels.messages == 2 * 2 + 4 * (4 + 2 * 2)
    assert bounds.products().bytes > MessageBounds(sizes()).products().bytes + 16 * 100
    assert bounds.preconditioner().bytes > MessageBounds(sizes()).preconditioner().bytes


def test_dense_reductions_are_collectives():
    bounds = MessageBounds(sizes(buffer_keys=1_000_000), "dense")
    more = bounds.iterations(11).plus(bounds.iterations(10).times(-1))
    assert more.messages == 0 and more.collectives == 2 * 50 + 2 + 2
    assert more.bytes == 24 * (5e7 + 3e3) + 2 * 480 + 2 * 48


def test_what_may_be_chosen_is_bounded_by_all_of_it():
    chosen = bound_phases(sizes(reductions=("owner", "hierarchical"), is_chosen=True), 10)
    for name in "owner", "hierarchical":
        alone = bound_phases(sizes(reductions=(name,)), 10)
        assert all(a <= b for phase, sent in alone.items() for a, b in zip(sent, chosen[phase], strict=True))
    assert chosen["iterations"] == bound_phases(sizes(), 10)["iterations"]
    assert chosen["reduction plan"].bytes > bound_phases(sizes(), 10)["reduction plan"].bytes


def test_one_rank_sends_nothing_and_a_binned_map_has_no_iterations():
    assert set(MessageBounds(sizes(size=1, n_nodes=1)).phases(10).values()) == {Sent()}
    binned = MessageBounds(sizes(binned_only=True)).phases(0)
    assert "iterations" not in binned and binned["data"].bytes < MessageBounds(sizes()).data().bytes


def test_collectives_are_trees():
    assert Sent(5, 2, 0).tree_messages(16_384) == 5 + 2 * 2 * 14
    assert Sent(5, 2, 0).tree_messages(1) == 0


def test_plans_that_nodes_have_no_room_for_are_marked():
    config = parse_config(night(preconditioner="auto"))
    quick = {"threads": [1], "n_threads": 1, "progress": False}
    unknown = plan(config, 8, load_machine("one-node"), **quick)
    assert unknown.machine.node_memory == 0 and all(map(unknown.fits, unknown.predictions))
    assert "!" not in plan_table(unknown)
    needed = sorted({one.node_memory for one in unknown.predictions})
    machine = dataclasses.replace(unknown.machine, node_memory=(needed[0] + needed[1]) / 2)
    narrow = plan(config, 8, machine, **quick)
    assert narrow.fits(narrow.best) and narrow.best.node_memory == needed[0] < needed[-1]
    assert plan_table(narrow).count("MB!") == sum(not narrow.fits(one) for one in narrow.predictions)
    assert "! the ranks of a node need more than its" in plan_table(narrow)
    assert plan(config, 8, dataclasses.replace(machine, node_memory=1.0), **quick).best.node_memory > 1


def test_what_is_not_bounded_is_told(tmp_path):
    text = night(preconditioner="auto", more="baselines") + '[glitches]\nfind = "glitches"\n'
    planned = plan(parse_config(text), 8, load_machine("one-node"), threads=[1], n_threads=1, progress=False)
    assert planned.unbounded == ("the search for glitches",)
    assert "beside it what the search for glitches send" in bounds_table(planned)[-1]
    told = unbounded_parts(planned_config := parse_config(night(more="halves")), (), thinned=True)
    assert "splits" in told and unbounded_parts(planned_config, ()) == ()
    alone = plan(parse_config(text), 1, load_machine("one-node"), n_threads=1, progress=False)
    assert not bounds_table(alone) and "sent by a rank" not in plan_table(alone)
    assert phase_bounds(planned, planned.best)["iterations"].bytes > 0
