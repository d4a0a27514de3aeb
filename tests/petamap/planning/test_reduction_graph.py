"""Communication graphs of the reductions of a planned run."""

from pathlib import Path

import numpy as np
import pytest
from made_scans import satellite

from petacomm.base.errors import ConfigError
from petacomm.costs.occupancy import Occupancy
from petacomm.mapping.graph_sources import occupancy_graph
from petacomm.mapping.job import load_mapping_job
from petamap.planning import reduction_graph as sharing
from petamap.planning.node_samples import rank_pixels
from petamap.planning.rank_samples import distribute_samples
from petamap.planning.scanned_run import ScannedRun

N_RANKS = 6


def test_the_full_sky_gives_the_graph_of_the_keys_of_the_ranks() -> None:
    config = satellite()
    run = ScannedRun.open(config)
    distribution = distribute_samples(run.layout, None, N_RANKS)
    keys = [rank_pixels(run, distribution, rank) for rank in range(N_RANKS)]
    expected = occupancy_graph(Occupancy.from_rank_keys(keys), k=3)
    graph = sharing.run_reduction_graph(config, N_RANKS)
    assert graph.offsets.tolist() == expected.offsets.tolist() and graph.n_edges > N_RANKS
    np.testing.assert_array_equal(graph.targets, expected.targets)
    np.testing.assert_allclose(graph.n_bytes, expected.n_bytes)


def test_a_sample_of_the_sky_gives_about_the_same_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    config = satellite(n_side=128)
    whole = sharing.run_reduction_graph(config, N_RANKS)
    monkeypatch.setattr(sharing, "_N_REGIONS", 600)  # of 3072
    some = sharing.run_reduction_graph(config, N_RANKS)
    assert some.total_bytes == pytest.approx(whole.total_bytes, rel=0.1)
    assert some.total_bytes != whole.total_bytes


def test_more_ranks_than_blocks_are_refused() -> None:
    with pytest.raises(ConfigError, match="blocks of data for 100000 ranks"):
        sharing.run_reduction_graph(satellite(), 100_000)


def test_a_job_can_name_a_run(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        '[map]\nn_side = 16\n[noise]\nn_lag = 64\n[[source]]\nkind = "satellite"\nsample_rate = "4 Hz"\n'
        'duration = "3 h"\nyear = "3 h"\ninterval = "1 h"\nnet = "100 uK s^0.5"\n'
    )
    job = tmp_path / "job.toml"
    job.write_text(
        'ranks = 4\n[graph]\nrun = "run.toml"\n[machine]\nname = "bluegene-l"\nshape = [4, 1, 1]\n'
    )
    mapping_job = load_mapping_job(job)
    assert mapping_job.graph.n_ranks == 4 and mapping_job.graph.total_bytes > 0
    job.write_text(job.read_text().replace("run.toml", "none.toml"))
    with pytest.raises(ConfigError, match=r"none\.toml"):
        load_mapping_job(job)
