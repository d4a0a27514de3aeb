"""Amplitudes that ranks hold, share and model, as a plan foresees them, against the keys of the map-maker."""

import itertools

import numpy as np
import pytest
from made_scans import satellite

from petamap.mapmaking.stream_terms import StreamTerms
from petamap.planning.amplitude_sizes import AmplitudeForecast, stream_sizes
from petamap.planning.rank_samples import distribute_samples
from petamap.planning.scanned_run import ScannedRun

OWN = '[[source]]\nkind = "baselines"\nlength = "7 min"\n'
IN_COMMON = '[[source]]\nkind = "offsets"\nper = "run"\n'
OF_ALL = '[[source]]\nkind = "offsets"\nper = "observation"\nall_detectors = true\n'


@pytest.mark.parametrize("groups", [None, 1, 4])
@pytest.mark.parametrize("templates", [OWN, IN_COMMON, OWN + OF_ALL], ids=["own", "in common", "both"])
def test_amplitudes_are_those_of_the_map_maker(templates, groups):
    run, size = ScannedRun.open(satellite(more=templates)), 5
    held = distribute_samples(run.layout, groups, size).held(run.layout, 1)
    found = AmplitudeForecast(run).sizes(held, size)
    terms = StreamTerms(run.observations, run.layout)

    def keys_of(streams):
        return np.unique(np.concatenate([key for one in streams for key in terms.shared_keys(int(one))]))

    keys = [keys_of(one.streams) for one in held]
    every, holders = np.unique(np.concatenate(keys), return_counts=True)
    others = [holders[np.searchsorted(every, own)] - 1 for own in keys]
    assert found.n_held == max(map(len, keys))
    assert found.n_sent == max(int(own.sum()) for own in others)
    assert (found.n_all, found.most_holders) == (len(every), holders.max())
    n_partners = [sum(len(np.intersect1d(own, other)) > 0 for other in keys) - 1 for own in keys]
    assert found.partners >= max(n_partners)
    firsts = run.layout.rank_streams(size)
    modelled = [keys_of(range(*pair)) for pair in itertools.pairwise(firsts)]
    assert found.n_modelled >= max(map(len, modelled))
    # streams of several ranks have those of any template; in common are those of several streams
    of_streams = np.concatenate([keys_of([stream]) for stream in range(len(run.layout.streams))])
    assert found.n_common == np.count_nonzero(np.unique(of_streams, return_counts=True)[1] > 1)


def test_without_templates_there_are_none():
    run = ScannedRun.open(satellite())
    held = distribute_samples(run.layout, 1, 3).held(run.layout, 1)
    assert AmplitudeForecast(run).sizes(held, 3) is None


@pytest.mark.parametrize("groups", [None, 1, 4])
def test_partners_of_whole_streams_are_those_that_hold_or_model_them(groups):
    run, size = ScannedRun.open(satellite()), 5
    held = distribute_samples(run.layout, groups, size).held(run.layout, 1)
    models = np.searchsorted(run.layout.rank_streams(size), np.arange(len(run.layout.streams)), "right") - 1
    to = [{int(models[s]) for s in one.streams} - {rank} for rank, one in enumerate(held)]
    partners = [len(to[r]) + sum(r in other for other in to) for r in range(size)]
    found = stream_sizes(run, held, size)
    assert (found.n_held, found.partners) == (max(len(one.streams) for one in held), max(partners))
    assert found.n_modelled == np.bincount(models).max()
