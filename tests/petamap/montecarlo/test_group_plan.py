"""Predictions of a Monte Carlo: what its parts scale with, and memory beside that of a real one."""

import dataclasses
import json
import sys

import numpy as np
import pytest
from commands import run_command
from montecarlo_runs import TINY, configured

from petacomm.base.errors import ConfigError
from petacomm.topology import load_machine
from petamap.cli.main import main
from petamap.data.run_summary import Summary
from petamap.montecarlo.group_plan import (
    GroupPlan,
    bytes_beside,
    fastest,
    largest_batch,
    plan_montecarlo,
    rank_memory,
)
from petamap.simulation.sky_costs import SkyCosts
from petamap.sky.submaps import Submaps

MACHINE = load_machine("jaguar")


def planned(*settings, cores=4, machine=MACHINE):
    return plan_montecarlo(configured("source.0.duration=2 day", *settings), cores, machine)


def test_each_number_of_groups_is_predicted():
    plans = planned("montecarlo.realizations=1000")
    assert [(one.groups, one.ranks, one.each) for one in plans] == [(1, 4, 1000), (2, 2, 500), (4, 1, 250)]
    for one in plans:
        parts = one.reading, one.iterating, one.reducing, one.skies, one.spectra
        assert one.realization == pytest.approx(sum(parts)) and min(one.reading, one.iterating) > 0
        assert one.seconds == pytest.approx(one.set_up + one.each * one.realization)
    assert plans[0].reducing > 0 and plans[-1].reducing == plans[-1].sums == 0
    assert fastest(plans) is min(plans, key=lambda one: one.seconds)
    assert fastest(plans, limit=0) is None


def test_parts_scale_with_what_they_are_made_of():
    (one,), (double,) = (
        planned("montecarlo.groups=4", f"source.0.sample_rate={rate} Hz", "noise.n_lag=8") for rate in (1, 2)
    )
    assert double.reading == pytest.approx(2 * one.reading)
    assert double.iterating == pytest.approx(2 * one.iterating)
    assert (double.skies, double.spectra) == (one.skies, one.spectra)
    (alone,), (large,) = (
        planned("montecarlo.groups=4", *more)
        for more in (["montecarlo.parts=noise"], ["map.n_side=8", "source.1.n_side=16"])
    )
    assert alone.reading == pytest.approx(0.5 * planned("montecarlo.groups=4")[0].reading)
    assert large.skies == pytest.approx(8 * planned("montecarlo.groups=4")[0].skies)


def test_no_iterations_where_maps_are_only_binned():
    (one,) = planned("montecarlo.groups=1", "solver.binned_only=true")
    assert one.iterating == one.reducing == 0


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ([], True),  # a rank's part of a node
        (["resources.memory=2 GB"], True),
        (["resources.memory=20 MB"], False),
        (["resources.pointing=keep"], True),
        (["resources.pointing=recompute", "resources.memory=2 GB"], False),
    ],
)
def test_pointing_is_kept_where_there_is_room(settings, kept):
    assert planned("montecarlo.groups=1", *settings)[0].kept == kept


@pytest.mark.parametrize("node_memory", [0.0, 12 * 20e6])
def test_pointing_is_not_kept_where_nodes_have_no_room_or_none_that_is_known(node_memory):
    machine = dataclasses.replace(MACHINE, node_memory=node_memory)
    assert not planned("montecarlo.groups=1", machine=machine)[0].kept
    assert rank_memory(configured(), machine) == node_memory / 12
    assert rank_memory(configured("resources.memory=2 GB"), machine) == 2e9


def test_memory_grows_with_what_is_mapped_at_once():
    config, n_pix = configured("map.n_side=64"), 12 * 512**2
    drawn, fixed = SkyCosts.of(n_pix, l_max=1024), SkyCosts.of(n_pix)
    small, large = (bytes_beside(config, [drawn, fixed], 3, 12 * 64**2, 1, 4, 4, batch) for batch in (1, 8))
    assert large - small == 7 * 3 * 8 * n_pix / 4
    part = SkyCosts.of(n_pix, Submaps(np.arange(n_pix // 8) < n_pix // 80, 8), 1024)
    held = [bytes_beside(config, [part], 3, 12 * 64**2, 1, 4, 4, batch) for batch in (1, 8)]
    assert 10 * (held[1] - held[0]) == pytest.approx(large - small, rel=1e-3)
    assert largest_batch(config, 1) == 4 and largest_batch(configured("montecarlo.batch=3"), 1) == 3
    assert largest_batch(configured("montecarlo.realizations=2"), 2) == 1


def test_spectra_are_made_on_all_ranks_where_whole_maps_have_no_room():
    ways = ["montecarlo.groups=1", "map.n_side=256", "source.1.n_side=8"]
    (whole,) = planned(*ways)
    assert not whole.distributed
    limit = f"resources.memory={int(whole.memory) - 1} B"
    (dealt,) = planned(*ways, limit)
    one = 8 * 12 * 256**2
    # Fourier coefficients and a_lm, as large as 8 maps of a component, of which each of 4 ranks has a quarter
    assert dealt.distributed and 5 * one < whole.memory - dealt.memory < 7 * one
    assert planned(*ways, "resources.memory=10 GB")[0].distributed is False
    (alone,) = planned(*ways[1:], "montecarlo.groups=4", limit)
    assert alone.ranks == 1 and not alone.distributed
    for kept in ("montecarlo.maps=true", "montecarlo.fixed=add"):  # whole in the file alone
        assert planned(*ways, limit, kept)[0].distributed
    (mask,) = planned(*ways, limit, f"spectra.mask={__file__}")
    assert mask.memory == dealt.memory + one


def test_predicted_memory_is_that_of_the_run(tmp_path):
    file = tmp_path / "tiny.toml"
    file.write_text(TINY, encoding="utf-8")
    settings = [
        "map.n_side=128",
        "source.0.duration=1 day",
        "source.0.sample_rate=5 Hz",
        "source.1.n_side=128",
    ]
    config = configured(*settings, "resources.pointing=keep", "montecarlo.groups=1")
    (one,) = plan_montecarlo(config, 1, load_machine("one-node"))
    words = ["mc", file, "--realizations", "1", "--out", tmp_path / "out", "-q", *settings]
    run_command([sys.executable, "-m", "petamap.cli.main", *words], check=True)
    told = Summary.read(tmp_path / "out").memory
    assert 0.75 * told.peak_bytes < one.memory < 1.35 * told.peak_bytes
    assert 0.75 * told.peak_bytes < told.predicted_bytes < 1.35 * told.peak_bytes


def test_what_cannot_be_planned():
    with pytest.raises(ConfigError, match="spectra need HEALPix"):
        planned("map.pixelization=car", "map.resolution=1 deg")
    with pytest.raises(ConfigError, match="blocks of data for 4096 ranks"):
        planned("montecarlo.groups=1", cores=4096)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["spectra.l_max=12"], "l_max 12 is beyond the reach of n_side 4"),
        (["spectra.width=20"], "no bin of 20 multipoles"),
        (["map.stokes=I", "spectra.purify=B"], "no B that could be pure"),
        (["montecarlo.fixed=add", "montecarlo.parts=sky"], "sky alone"),
        (["montecarlo.estimator=filter-and-bin"], "no template that would be filtered"),
    ],
)
def test_what_a_monte_carlo_refuses_is_not_priced(settings, words):
    with pytest.raises(ConfigError, match=words):
        planned(*settings)
    text = TINY[: TINY.index('[[source]]\nkind = "sky-spectra"')]
    with pytest.raises(ConfigError, match="no source draws a sky"):
        plan_montecarlo(configured(text=text), 1, MACHINE)


def test_the_command_prints_a_table_and_json(tmp_path, capsys):
    file = tmp_path / "tiny.toml"
    file.write_text(TINY, encoding="utf-8")
    words = ["plan", "mc", str(file), "--ranks", "2", "--machine", "jaguar", "montecarlo.realizations=20"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "20 realizations, apart" in text and "30 iterations a map are assumed" in text
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    fields = {one.name for one in dataclasses.fields(GroupPlan)}
    assert all(set(row) == fields | {"seconds"} for row in rows) and [row["groups"] for row in rows] == [1, 2]
    assert "+ spectra of each map on all ranks" not in text and text.count("*") == 2
    assert main([*words, "resources.memory=2 MB"]) == 0
    text = capsys.readouterr().out
    assert "+ spectra of each map on all ranks" in text
    assert "no group has room in 2 MB a rank" in text and text.count("*") == 1
