"""What is made beside the maps of a run sends no more than its plan says, and not far less."""

import dataclasses
import os
import tempfile

import pytest
from cases import cases
from mpi import run_ranks

from petacomm.topology import load_machine
from petamap.data.config.reader import parse_config
from petamap.mapmaking.run import run
from petamap.planning.auxiliary_systems import unbounded_parts
from petamap.planning.phase_bounds import bound_phases
from petamap.planning.plan import plan
from petamap.planning.rank_traffic import Sent

# As many iterations in each solution: none reaches the tolerance, but where templates alone are fitted.
SCAN = """
[map]
n_side = {n_side}
[noise]
n_lag = 128
{noise}
[comm]
reduction = "{reduction}"
[solver]
tolerance = 1e-12
max_iterations = 16
preconditioner = "block-diagonal"
[products]
{products}
[[source]]
kind = "satellite"
n_det = 4
sample_rate = "10 Hz"
duration = "6 h"
interval = "1 h"
year = "1 day"
precession_period = "6 h"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "50 mHz"
fmin = "1 mHz"
[[source]]
kind = "sky-spectra"
"""
OFFSETS = """
[[source]]
kind = "offsets"
"""
LEAKAGE = """
[[source]]
kind = "leakage"
rms = 0.01
"""
# What is set, and the sources beside.
AUXILIARY = {
    "noise": ({"noise": 'kernel = "estimate"\nmax_rounds = 3\ntolerance = 0.0'}, ""),
    "noise and offsets": ({"noise": 'kernel = "estimate"\nmax_rounds = 2\ntolerance = 0.0'}, OFFSETS),
    "temperature": ({}, LEAKAGE),
    "filter": ({"products": "filtered = true\nmodes_taken = true"}, OFFSETS),
    "matrix": ({"products": "observation_matrix = true", "n_side": 4}, OFFSETS),
    "covariance": ({"products": "pixel_covariance = true", "n_side": 4}, ""),
    "sky": ({"products": 'sky = true\nbinned_weights = "uniform"'}, ""),
}
# Bounds are at most so many times what is sent, where they are more than agreements on errors and sizes;
# templates alone are fitted in fewer iterations.
LOOSE, LOOSE_FIT, FEW_BYTES = 3, 8, 32_768
FITTED = {"filter and bin", "modes taken"}


def text_of(name: str, reduction: str = "owner") -> str:
    """Return the configuration of a case."""
    changes, more = AUXILIARY[name]
    return SCAN.format(**{"n_side": 64, "noise": "", "products": "", "reduction": reduction} | changes) + more


def planned_bounds(config, summary, size, per_node):
    """Return the bounds of a run, and those of the reduction and the rounds that it had."""
    machine = dataclasses.replace(
        load_machine("one-node"), nodes=64, sockets_per_node=1, cores_per_socket=per_node
    )
    planned = plan(config, size, machine, threads=[1], n_threads=1, progress=False)
    assert planned.unbounded == ()
    (one,) = [
        p for p in planned.predictions if p.distribution.description == summary.environment.distribution
    ]
    iterations = summary.solver.iterations
    calls = {phase.name: phase.calls for phase in summary.phases}
    auxiliary = one.sizes.auxiliary._replace(temperature_rounds=calls.get("own temperature", 0))
    near = dataclasses.replace(one.sizes, auxiliary=auxiliary, reductions=(summary.environment.reduction,))
    return bound_phases(one.sizes, iterations), bound_phases(near, iterations)


def check_case(comm):
    """Run the case that the test names, and check on rank 0 what each phase sent."""
    name, reduction = os.environ["CASE"].split(",")
    per_node = int(os.environ.get("PETAMAP_RANKS_PER_NODE", comm.size))
    config = parse_config(text_of(name, reduction))
    out = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
    summary = run(config, out=out, comm=comm, progress=False)
    if comm.rank:
        return
    bounds, near = planned_bounds(config, summary, comm.size, per_node)
    assert {phase.name for phase in summary.phases} <= set(bounds)
    for phase in summary.phases:
        sent = Sent(phase.messages.max, phase.collectives.max, phase.bytes.max)
        most, tight = bounds[phase.name], near[phase.name]
        told = f"{name}, {reduction}, {comm.size} ranks, {phase.name}: {sent} of {most}, near {tight}"
        assert all(number <= bound for number, bound in zip(sent, most, strict=True)), told
        if reduction == "hierarchical" and phase.name == "reduction plan":
            continue  # of any keys that nodes may share
        loose = LOOSE_FIT if phase.name in FITTED else LOOSE
        assert tight.bytes <= max(loose * sent.bytes, FEW_BYTES), told


LONG = [
    *((name, 3, "owner", 3) for name in ("noise and offsets", "matrix", "covariance", "sky")),
    *((name, 8, "owner", 8) for name in AUXILIARY),
    *((name, 8, "hierarchical", 4) for name in ("noise", "temperature", "filter", "covariance")),
    *((name, 8, "pairwise", 4) for name in ("noise and offsets", "temperature", "matrix", "sky")),
    *((name, 16, "owner", per_node) for name in ("noise", "temperature", "filter") for per_node in (16, 4)),
]


@pytest.mark.parametrize(
    ("name", "n_ranks", "reduction", "per_node"),
    cases(*((name, 3, "owner", 3) for name in ("noise", "temperature", "filter")), long=LONG),
)
def test_auxiliary_systems_send_no_more_than_planned(monkeypatch, name, n_ranks, reduction, per_node):
    monkeypatch.setenv("CASE", f"{name},{reduction}")
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", str(per_node))
    run_ranks(check_case, n_ranks, timeout=1500)


def planned(text, ranks=8):
    return plan(parse_config(text), ranks, load_machine("one-node"), threads=[1], n_threads=1, progress=False)


def test_a_plan_has_the_phases_of_what_is_made_beside():
    bounds = {}
    for name in AUXILIARY:
        made = planned(text_of(name))
        assert made.unbounded == ()
        bounds[name] = bound_phases(made.best.sizes, 10)
    alone = bounds["sky"]
    assert bounds["noise"].keys() - alone.keys() == {"noise estimate"}
    assert bounds["temperature"].keys() - alone.keys() == {"own temperature"}
    assert bounds["filter"].keys() - alone.keys() == {"filter and bin", "modes taken"}
    assert bounds["covariance"].keys() - alone.keys() == {"pixel covariance"}
    order = list(bounds["noise"])
    assert order.index("noise kernels") < order.index("noise estimate") < order.index("pointing")


def test_rounds_set_up_a_system_each():
    sizes = planned(text_of("noise")).best.sizes
    few, more = (
        bound_phases(dataclasses.replace(sizes, auxiliary=sizes.auxiliary._replace(noise_rounds=n)), 10)
        for n in (2, 5)
    )
    for name in "pointing", "reduction plan", "weights", "noise estimate":
        assert more[name].bytes > 1.5 * few[name].bytes
    assert more["iterations"] == few["iterations"]


def test_ranks_that_measure_noise_have_whole_streams():
    sizes = planned(text_of("noise"), ranks=5).best.sizes  # 24 streams
    assert sizes.auxiliary.whole.streams.n_held == 5
    assert planned(text_of("temperature"), ranks=5).best.sizes.auxiliary.whole is None


def test_cut_samples_have_a_row_on_all_ranks_beside_templates():
    for flags, text in (("cut", text_of("temperature")), ("exact", text_of("filter"))):
        sizes = planned(text.replace("[solver]", f'[solver]\nflags = "{flags}"')).best.sizes
        cut = sizes if flags == "cut" else sizes.auxiliary.filtered
        assert cut.n_shared_gaps >= 1 and cut.gap_partners == 7
    assert planned(text_of("sky")).best.sizes.with_cut_row().gap_partners < 7


def test_one_rank_sends_nothing():
    made = planned(text_of("filter"), ranks=1)
    assert set(bound_phases(made.best.sizes, 10).values()) == {Sent()}


@pytest.mark.parametrize(
    ("changes", "thinned", "told"),
    [
        ({"noise": 'kernel = "estimate"'}, False, ()),
        (
            {"noise": 'kernel = "estimate"\nn_modes = 1'},
            False,
            ("the estimate of noise that detectors share",),
        ),
        ({"noise": 'kernel = "estimate"'}, True, ("the estimate of the noise",)),
        ({"products": "modes_taken = true"}, False, ()),
        ({"products": "modes_taken = true"}, True, ("the filter",)),
        ({"products": "demodulated = true"}, False, ("the map of demodulated streams",)),
        ({"products": "pixel_covariance = true"}, True, ()),
    ],
)
def test_what_has_no_bound_is_told(changes, thinned, told):
    settings = {"n_side": 4, "noise": "", "products": "", "reduction": "owner"} | changes
    assert unbounded_parts(parse_config(SCAN.format(**settings)), (), thinned=thinned) == told
