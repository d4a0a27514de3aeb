"""What is made beside the maps of a run sends no more than its plan says, and not far less."""

import dataclasses
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks

from petacomm.costs.occupancy import Occupancy
from petacomm.topology import load_machine
from petamap.data.config import open_sources
from petamap.data.config.reader import parse_config
from petamap.data.formats.madmap1_write import write_madmap1
from petamap.data.formats.toast_write import write_toast
from petamap.data.formats.volume_write import write_volume
from petamap.data.observation import DetectorNoise
from petamap.mapmaking.distribution import STREAMS
from petamap.mapmaking.run import run
from petamap.noise.model import InverseLags
from petamap.planning import planner
from petamap.planning.auxiliary_systems import unbounded_parts
from petamap.planning.component_sizes import owners_of_bands
from petamap.planning.model_sizes import model_pixels
from petamap.planning.phase_bounds import bound_phases
from petamap.planning.plan import plan
from petamap.planning.rank_traffic import Sent
from petamap.sky.healpix import Healpix

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
preconditioner = "{preconditioner}"
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
{scan}
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
BANDS = """
[[band]]
name = "a"
detectors = ["0000*"]
[[band]]
name = "b"
detectors = ["0001*"]
"""
COMPONENTS = f"""{BANDS}
[[component]]
name = "cmb"
spectrum = "cmb"
[[component]]
name = "dust"
spectrum = "factors"
factors = [1.0, 3.0]
"""
COMMON = """
[[source]]
kind = "common-mode"
net = "20 uK s^0.5"
fknee = "100 mHz"
fmin = "5 mHz"
"""
MODES = 'kernel = "estimate"\nn_modes = 1\nmax_rounds = 3\ntolerance = 0.0'
PLATE = {"scan": 'hwp_frequency = "1 Hz"', "products": "demodulated = true"}
# What is set, and the sources beside.
AUXILIARY = {
    "noise": ({"noise": 'kernel = "estimate"\nmax_rounds = 3\ntolerance = 0.0'}, ""),
    "noise and offsets": ({"noise": 'kernel = "estimate"\nmax_rounds = 2\ntolerance = 0.0'}, OFFSETS),
    "temperature": ({}, LEAKAGE),
    "filter": ({"products": "filtered = true\nmodes_taken = true"}, OFFSETS),
    "matrix": ({"products": "observation_matrix = true", "n_side": 4}, OFFSETS),
    "covariance": ({"products": "pixel_covariance = true", "n_side": 4}, ""),
    "sky": ({"products": 'sky = true\nbinned_weights = "uniform"'}, ""),
    "plate": (PLATE, ""),
    "plate and offsets": (PLATE, OFFSETS),
    "common noise": ({}, COMMON),
    "modes": ({"noise": MODES}, COMMON),
    "modes and offsets": ({"noise": MODES}, COMMON + OFFSETS),
    "components": ({"products": 'sky = true\nbinned_weights = "uniform"'}, COMPONENTS),
    "components and offsets": ({}, COMPONENTS + OFFSETS),
    "components by levels": ({"preconditioner": "two-level"}, COMPONENTS),
}
# Sources in the place of those of `SCAN`; files are what `write_files` writes.
SOURCES = {
    "field": """
[[source]]
kind = "raster"
n_det = 4
sample_rate = "10 Hz"
duration = "1 h"
n_observations = 3
width = "5 deg"
height = "5 deg"
row_spacing = "10 arcmin"
frame = "galactic"
[[source]]
kind = "sky-spectra"
n_side = 256
l_max = 64
[[source]]
kind = "noise"
net = "60 uK s^0.5"
""",
    "volume": """
[[source]]
kind = "volume"
path = "scan.h5"
""",
    "toast": """
[[source]]
kind = "toast"
path = "toast"
intervals = "stationary"
""",
    "madmap": """
[[source]]
kind = "madmap1"
tod = "tod"
filters = "filters"
healpix = "nested"
frame = "galactic"
""",
    "table": """
[[source]]
kind = "table"
path = "scan.csv"
frame = "galactic"
signal = "signal_*"
[[source]]
kind = "noise-table"
path = "noise.csv"
psd = "psd"
""",
}
# Bounds are at most so many times what is sent, where they are more than agreements on errors and sizes;
# templates alone are fitted in fewer iterations.
LOOSE, LOOSE_FIT, FEW_BYTES = 3, 8, 32_768
FITTED = {"filter and bin", "modes taken", "demodulation"}
# Phases of which the bounds are those of the highest degree of a polynomial.
OF_THE_MODEL = ("preconditioner", "iterations")


SETTINGS = {
    "n_side": 64, "noise": "", "products": "", "reduction": "owner", "preconditioner": "block-diagonal",
    "scan": "",
}  # fmt: skip


def text_of(name: str, reduction: str = "owner") -> str:
    """Return the configuration of a case."""
    changes, more = AUXILIARY.get(name, ({}, ""))
    if name in SOURCES:
        made = SCAN.format(**SETTINGS | {"reduction": reduction})
        return made[: made.index("[[source]]")] + SOURCES[name]
    return SCAN.format(**SETTINGS | {"reduction": reduction} | changes) + more


def write_files(folder: Path) -> None:
    """Write the observation of `SCAN` in all formats."""
    (one,) = open_sources(parse_config(text_of("sky")))
    write_volume(folder / "scan.h5", [one])
    write_toast(folder / "toast", [one])
    white = DetectorNoise((InverseLags(np.array([4.0, -1.0, 0.5])),) * one.n_det)
    bare = dataclasses.replace(one, noise=white, flags=())
    write_madmap1(folder / "tod", folder / "filters", [bare], Healpix(64, nest=True), stokes="IQU")
    rows = np.arange(0, one.n_samp, 10)
    x, y, z = one.pointing.directions(0, 0, one.n_samp)[0][rows].T
    lon, lat = np.degrees(np.arctan2(y, x)), np.degrees(np.arcsin(z))
    columns = [
        rows / one.sample_rate,
        lon,
        lat,
        rows % 360,
        *np.random.default_rng(1).normal(size=(2, len(rows))),
    ]
    np.savetxt(
        folder / "scan.csv", np.column_stack(columns), "%.6f", ",", comments="",
        header="time,glon,glat,psi,signal_a,signal_b",
    )  # fmt: skip
    noise = [f"{f},{1e-9 * (1 + 0.01 / f)}" for f in (0.001, 0.01, 0.1, 0.5)]
    (folder / "noise.csv").write_text("\n".join(["frequency,psd", *noise]))


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
    out = Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else ""))
    if name in SOURCES and comm.rank == 0:
        write_files(out)
    comm.barrier()
    config = parse_config(text_of(name, reduction), out / "run.toml")
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
        if phase.name == "reduction plan" and reduction == "hierarchical":
            continue  # of any keys that nodes may share
        if name == "field" and phase.name != "pointing":
            continue  # of few pixels, beside which unknown samples count that neighbours need not share
        if "levels" in name and phase.name in OF_THE_MODEL:
            continue
        loose = LOOSE_FIT if phase.name in FITTED else LOOSE
        assert tight.bytes <= max(loose * sent.bytes, FEW_BYTES), told


QUICK = ("filter", "components", "modes", "volume")
LONG = [
    *((name, 3, "owner", 3) for name in (*AUXILIARY, *SOURCES) if name not in QUICK),
    *((name, 8, "owner", 8) for name in (*AUXILIARY, *SOURCES)),
    *((name, 8, "hierarchical", 4) for name in ("noise", "temperature", "filter", "covariance")),
    *((name, 8, "hierarchical", 4) for name in ("components", "plate", "modes", "toast", "field")),
    *((name, 8, "pairwise", 4) for name in ("noise and offsets", "temperature", "matrix", "sky")),
    *((name, 8, "pairwise", 4) for name in ("components and offsets", "plate and offsets", "volume")),
    *((name, 16, "owner", per_node) for name in ("noise", "temperature", "filter") for per_node in (16, 4)),
]


@pytest.mark.parametrize(
    ("name", "n_ranks", "reduction", "per_node"),
    cases(*((name, 3, "owner", 3) for name in QUICK), long=LONG),
)
def test_auxiliary_systems_send_no_more_than_planned(monkeypatch, name, n_ranks, reduction, per_node):
    monkeypatch.setenv("CASE", f"{name},{reduction}")
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", str(per_node))
    run_ranks(check_case, n_ranks, timeout=1500)


def check_thinned_choice(comm):
    """Check what the choice of the distribution sent with a plan that looked at no sample for it."""
    config = parse_config(text_of("sky"))
    out = Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else ""))
    summary = run(config, out=out, comm=comm, progress=False)
    if comm.rank:
        return
    planner.MAX_SAMPLES = 0
    made = plan(config, comm.size, load_machine("one-node"), threads=[1], n_threads=1, progress=False)
    assert made.thinning is not None and made.unbounded == ()
    (chosen,) = [phase for phase in summary.phases if phase.name == "distribution"]
    sent = Sent(chosen.messages.max, chosen.collectives.max, chosen.bytes.max)
    most = bound_phases(made.best.sizes, 1)["distribution"]
    assert all(number <= bound for number, bound in zip(sent, most, strict=True)), f"{sent} of {most}"
    assert sent.bytes > FEW_BYTES / 4


@pytest.mark.parametrize("n_ranks", cases(3, long=[8]))
def test_choices_of_thinned_scans_send_no_more_than_planned(n_ranks):
    run_ranks(check_thinned_choice, n_ranks)


def test_components_have_the_rows_of_owners_in_bands():
    keys = [np.array([0, 1]), np.array([1, 10, 11]), np.array([11, 12])]
    bands = Occupancy.from_rank_keys(keys)
    found = owners_of_bands(bands, 10)
    assert list(found.keys) == [0, 1, 2] and len(found.holders) <= len(bands.keys)
    for pixel, first, last in zip(found.keys, found.offsets[:-1], found.offsets[1:], strict=True):
        owners = bands.owner[bands.keys % 10 == pixel]
        assert list(found.holders[first:last]) == sorted(set(owners.tolist()))


def test_components_of_a_part_of_the_sky_are_bounded_by_all_pixels_of_bands():
    config = parse_config(text_of("components"))
    how = {"threads": [1], "n_threads": 1, "progress": False, "distributions": [STREAMS]}
    exact, sampled = (plan(config, 8, load_machine("one-node"), sample=one, **how) for one in (1.0, 0.5))
    near, most = (bound_phases(made.best.sizes, 10) for made in (exact, sampled))
    assert sampled.best.sizes.components.rows.to_owners.rows == sampled.best.sizes.n_owned
    for name in "weights", "iterations", "data":
        assert near[name].bytes < most[name].bytes < 4 * near[name].bytes


def test_a_model_has_the_pixels_that_ranks_own_and_those_of_their_streams():
    run_of = Occupancy.from_rank_keys([np.arange(64), np.arange(64, 128)])
    streams = Occupancy.from_rank_keys([np.arange(64, 128), np.arange(64)])
    pixels = model_pixels(run_of, streams, 2)
    assert pixels.n_keys == 128 and pixels.to_owners.rows + pixels.to_ghosts.rows >= 128
    same = model_pixels(run_of, run_of, 2)
    assert same.n_keys == 64 and same.to_owners.rows == 0


def planned(text, ranks=8):
    return plan(parse_config(text), ranks, load_machine("one-node"), threads=[1], n_threads=1, progress=False)


def test_a_plan_has_the_phases_of_what_is_made_beside():
    bounds = {}
    for name in ("sky", "noise", "temperature", "filter", "covariance"):
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
        ({"noise": 'kernel = "estimate"\nn_modes = 1'}, False, ()),
        ({"noise": 'kernel = "estimate"'}, True, ("the estimate of the noise",)),
        ({"products": "modes_taken = true"}, False, ()),
        ({"products": "modes_taken = true"}, True, ("the filter",)),
        ({"products": "demodulated = true"}, False, ()),
        ({"products": "demodulated = true"}, True, ("the map of demodulated streams",)),
        ({"products": "pixel_covariance = true"}, True, ()),
        ({"noise": "\n[[band]]\nname = 'a'\ndetectors = ['0000*']"}, True, ("bands",)),
    ],
)
def test_what_has_no_bound_is_told(changes, thinned, told):
    settings = SETTINGS | {"n_side": 4} | changes
    assert unbounded_parts(parse_config(SCAN.format(**settings)), (), thinned=thinned) == told
