"""Times of jobs in phases: by hand on small networks, and errors."""

from dataclasses import replace

import numpy as np
import pytest

from petacomm.base.errors import ConfigError
from petacomm.mapping import CommunicationGraph, Placement
from petacomm.mapping.job_time import JobPhase, idle_share, predict_phases
from petacomm.topology import FatTree, Torus, load_machine

MACHINE = load_machine("bluegene-p")
LINK, NODE = 374e6, MACHINE.node_bandwidth


def shift(n_ranks, step, n_bytes, work=1.0, messages=None):
    ranks = np.arange(n_ranks)
    graph = CommunicationGraph.from_edges(n_ranks, ranks, (ranks + step) % n_ranks, n_bytes)
    return JobPhase("shift", graph, np.full(n_ranks, work), messages)


def test_a_phase_takes_its_busiest_rank_link_and_node():
    ring = Torus((8,))
    phases = [shift(8, 1, 1e6), shift(8, 2, 1e6), replace(shift(8, 1, 1e6), work=np.arange(8.0))]
    one, two, uneven = predict_phases(phases, Placement.identity(ring), ring, MACHINE)
    assert one.links == pytest.approx(1e6 / LINK) and two.links == pytest.approx(2e6 / LINK)
    assert one.injection == two.injection == pytest.approx(1e6 / NODE)
    assert one.sending == one.mean_sending == pytest.approx(MACHINE.latency)
    assert (uneven.work, uneven.mean_work) == (7.0, 3.5)
    assert two.in_turn == pytest.approx(1 + MACHINE.latency + 2e6 / LINK) and two.overlapped == 1.0
    assert idle_share([uneven], uneven.in_turn) == pytest.approx(0.5, abs=1e-3)


def test_ranks_of_a_node_share_its_links_and_send_nothing_within_it():
    ring = Torus((4,))
    neighbours, across = shift(8, 1, 1e6), shift(8, 2, 1e6)
    together = Placement.identity(ring, 2)
    inside, outside = predict_phases([neighbours, across], together, ring, MACHINE)
    assert inside.links == pytest.approx(1e6 / LINK) and outside.links == pytest.approx(2e6 / LINK)
    assert outside.injection == pytest.approx(2e6 / NODE)


def test_counted_messages_replace_those_of_edges():
    ring = Torus((4,))
    many = shift(4, 1, 8.0, messages=np.array([1.0, 2.0, 3.0, 10.0]))
    (time,) = predict_phases([many], Placement.identity(ring), ring, MACHINE)
    assert time.sending == pytest.approx(10 * MACHINE.latency)
    assert time.mean_sending == pytest.approx(4 * MACHINE.latency)


def test_networks_of_switches_have_times_too():
    tree = FatTree([2, 2], [1, 1])
    machine = replace(MACHINE, network={"link_bandwidth": "1 GB/s"})
    (time,) = predict_phases([shift(4, 2, 1e6)], Placement.identity(tree), tree, machine)
    assert time.links == pytest.approx(2e-3)  # two nodes share each link to the top


def test_jobs_that_do_not_fit_are_errors():
    ring = Torus((4,))
    with pytest.raises(ConfigError, match="'shift' has 8 ranks, work of 8, messages of 8, on 4 places"):
        predict_phases([shift(8, 1, 8.0)], Placement.identity(ring), ring, MACHINE)
    with pytest.raises(ConfigError, match="says nothing of links"):
        predict_phases([], Placement.identity(ring), ring, replace(MACHINE, network={}))
