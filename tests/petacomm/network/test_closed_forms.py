"""Closed forms against the volumes of schedules and the published numbers of BlueGene/L."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.network import closed_forms as forms
from petacomm.network.schedule_time import schedule_time
from petacomm.schedule import ALGORITHMS, CollectiveCall, make_schedule, segmented
from petacomm.schedule.algorithms.edge_disjoint import edge_disjoint_broadcast
from petacomm.schedule.algorithms.hamiltonian import hamiltonian_reduce
from petacomm.schedule.algorithms.rectangle_lines import lines_allreduce, lines_barrier
from petacomm.topology import Torus

US, MB = 1e-6, 1e6
LINK = 154 * MB  # payload, in one direction (Almasi et al. 2005, 2.1)
READ = 204 / 700e6  # seconds to read a full packet (2.1)


def counted(schedule):
    """Return messages and bytes of the busiest rank, if all wait for each round."""
    n_messages = n_elements = 0
    for part in schedule.rounds():
        part = part.take(part.is_message)
        if len(part):
            n_messages += 1
            pair = part.source.astype(np.int64) * schedule.n_ranks + part.destination
            n_elements += int(np.bincount(np.unique(pair, return_inverse=True)[1], part.length).max())
    return forms.AlphaBetaCost(n_messages, n_elements)


@pytest.mark.parametrize(("collective", "algorithm"), list(forms._COSTS))
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 7, 8, 16, 24])
def test_forms_count_what_schedules_send(collective, algorithm, n_ranks):
    n_elements = 1 if collective == "barrier" else 48 * n_ranks
    said, call = (
        forms.alpha_beta_cost(collective, algorithm, n_ranks, n_elements),
        CollectiveCall(collective, n_ranks, n_elements),
    )
    if ALGORITHMS[collective, algorithm].unmet_preconditions(call):
        assert algorithm == "scatter-doubling" and n_ranks in (3, 7, 24)
        return
    made = counted(make_schedule(call, algorithm))
    assert said.messages == made.messages
    assert said.bytes == pytest.approx(made.bytes)


def test_pipelines_take_the_rounds_that_schedules_have():
    schedule = edge_disjoint_broadcast(Torus((4, 4, 4)), 6 * 1000)
    cut = segmented(schedule, 100)
    said = forms.pipeline_seconds(schedule.n_rounds, 6000, 10, 1.0, 0.0, 6)
    assert cut.n_rounds == said == 13
    assert forms.pipeline_seconds(4, 6000, 10, 0.0, 1.0, 6) == 13 * 100


@given(st.integers(1, 100), st.floats(1, 1e9), st.integers(1, 6))
def test_the_best_number_of_segments(n_rounds, n_bytes, n_streams):
    best = forms.optimal_segments(n_rounds, n_bytes, 2e-6, 1e-8, n_streams)
    least = forms.pipeline_seconds(n_rounds, n_bytes, best, 2e-6, 1e-8, n_streams)
    for other in (best - 1, best + 1):
        if other:
            assert least <= forms.pipeline_seconds(n_rounds, n_bytes, other, 2e-6, 1e-8, n_streams) * (
                1 + 1e-12
            )


def test_barrier_and_short_allreduce_of_512_nodes():
    # Table 4: 8.72 us is 3 (S + 7 T); T is the time to read a packet, which leaves S = 0.87 us.
    overhead = (8.72 * US - 3 * 7 * READ) / 3
    assert overhead == pytest.approx(0.87 * US, rel=0.01)
    assert forms.rectangle_latency((8, 8, 8), overhead, 32, LINK, READ) == pytest.approx(8.72 * US)
    # 19.7 us is 6 S + 12 T, in groups of 4: with that S, combining takes 1.2 us per packet.
    combine = (19.7 * US - 6 * overhead) / 12
    assert combine == pytest.approx(1.2 * US, rel=0.02)
    assert forms.rectangle_latency((8, 8, 8), overhead, 32, LINK, combine, 4) == pytest.approx(19.7 * US)


def test_latency_counts_what_schedules_receive():
    for shape, group in (((8, 8, 8), 4), ((8, 8, 8), None), ((16, 4), 4), ((6,), 3)):
        schedule = lines_allreduce(Torus(shape, False), 1, group)
        received = sum(np.bincount(part.destination).max() for part in schedule.rounds())
        assert forms.rectangle_latency(shape, 0.0, 0.0, 1.0, 1.0, group) == received
        assert forms.rectangle_latency(shape, 1.0, 0.0, 1.0, 0.0, group) == schedule.n_rounds


def test_the_link_or_the_processor_is_the_limit():
    assert forms.line_latency(8, 1.0, 256, 64.0, 2.0) == 1 + 7 * 4.0
    assert forms.line_latency(8, 1.0, 256, 64.0, 5.0) == 1 + 7 * 5.0


def test_tree():
    assert forms.tree_efficiency(256, 10) == pytest.approx(0.96, abs=0.003)
    assert 350 * forms.tree_efficiency(256, 10) == pytest.approx(336.8, abs=0.05)
    bandwidth = 1e6 / forms.tree_time(1e6, 2.5 * US, 350 * MB, 256, 10)
    assert bandwidth == pytest.approx(336.7 * MB, rel=0.01)  # Table 3
    assert forms.tree_time(1, 0.0, 350 * MB, 256, 10) == forms.tree_time(256, 0.0, 350 * MB, 256, 10)


TABLE_2 = {
    ((4, 4, 2), False): 4928,
    ((8, 4, 2), False): 4928,
    ((8, 4, 4), False): 9856,
    ((8, 8, 4), False): 19712,
    ((8, 8, 8), True): 78848,
    ((8, 16, 8), True): 78848,
    ((8, 16, 16), True): 157696,  # printed 15769: the last digit is missing
    ((8, 32, 16), True): 157696,
}


@pytest.mark.parametrize(("shape", "wrap"), TABLE_2)
def test_aggregate_peaks_of_table_2(shape, wrap):
    grid = Torus(shape, wrap)
    assert forms.alltoall_peak_bandwidth(grid, LINK) * grid.n_nodes == pytest.approx(
        TABLE_2[shape, wrap] * MB
    )


@pytest.mark.parametrize(("size", "ring"), [(5, False), (6, False), (5, True), (6, True), (2, False)])
def test_the_fullest_link_of_odd_lines_too(size, ring):
    grid = Torus((size,), ring)
    uses = np.zeros(grid.n_links)
    for a in range(size):
        for b in range(size):
            there, back = grid.route(a, b), grid.route(b, a)
            if ring and 2 * abs(a - b) == size:  # half the ring: half of the bytes in each direction
                for way in (there, [grid.link(n, 0, -1) for n in np.arange(a, a - size // 2, -1) % size]):
                    uses[np.array(way, int)] += 0.5
            else:
                uses[there] += 1
            assert len(there) == len(back)
    # All of a node's messages in the time of the fullest link.
    assert forms.alltoall_peak_bandwidth(grid, 1.0) == pytest.approx(size / uses.max())


def test_broadcast_is_bound_by_processors():
    # 243.8 MB/s (Table 3) are 1.58 links, or 689 cycles per packet.
    assert pytest.approx(1.58, abs=0.005) == 243.8 * MB / LINK
    assert forms.processor_bandwidth(240, 689, 700e6) == pytest.approx(243.8 * MB, rel=1e-3)
    assert forms.streams_peak_bandwidth(6, LINK) == 924 * MB
    assert forms.streams_peak_bandwidth(6, LINK, 243.8 * MB) == 243.8 * MB
    assert forms.streams_peak_bandwidth(1, LINK, 243.8 * MB) == LINK


def test_a_single_node_has_no_limit_and_unknown_forms_are_errors():
    assert forms.alltoall_peak_bandwidth(Torus((1,)), LINK) == np.inf
    with pytest.raises(ConfigError, match="no alpha-beta form of allreduce 'rings'"):
        forms.alpha_beta_cost("allreduce", "rings", 4, 8)
    with pytest.raises(ConfigError, match="of 0 ranks"):
        forms.alpha_beta_cost("allreduce", "ring", 0, 8)


@pytest.mark.parametrize(("collective", "algorithm"), list(forms._COSTS))
@pytest.mark.parametrize("n_ranks", [1, 2, 4, 8, 32])
def test_schedules_take_the_time_of_their_forms(collective, algorithm, n_ranks):
    n_elements = 1 if collective == "barrier" else 48 * n_ranks
    schedule = make_schedule(CollectiveCall(collective, n_ranks, n_elements), algorithm)
    said = forms.alpha_beta_cost(collective, algorithm, n_ranks, 8 * n_elements).time(3.0, 0.25)
    if algorithm == "scatter-allgather":  # the ring begins at the ranks where the scatter ends first
        assert schedule_time(schedule, 8, 3.0, 0.25) <= said * (1 + 1e-12)
    else:
        assert schedule_time(schedule, 8, 3.0, 0.25) == pytest.approx(said)


def test_segments_take_the_time_of_a_pipeline():
    path = hamiltonian_reduce(Torus((10,), False), 1200, 9)
    for n_segments in (1, 3, 12):
        cut = segmented(path, 1200 // n_segments)
        said = forms.pipeline_seconds(path.n_rounds, 9600, n_segments, 2.0, 0.5)
        assert schedule_time(cut, 8, 2.0, 0.5) == pytest.approx(said)


def test_a_line_is_one_message_with_the_deposit_bit():
    grid = Torus((8,), False)
    barrier = lines_barrier(grid)
    # Each receives seven tokens; those at the ends send seven, or one along the line.
    assert schedule_time(barrier, 1, 1.0, 0.0) == 7.0
    spread = edge_disjoint_broadcast(grid, 1)
    assert schedule_time(spread, 1, 1.0, 0.0) == 1.0
    assert schedule_time(spread, 1, 1.0, 0.0, deposit=False) == 7.0
    with pytest.raises(ConfigError, match="elements of 0 bytes"):
        schedule_time(spread, 0, 1.0, 0.0)


@given(st.integers(1, 3000))
def test_bruck_sends_a_block_for_each_digit_of_its_distance(n_ranks):
    digits = sum(distance.bit_count() for distance in range(n_ranks))
    assert forms.alpha_beta_cost("alltoall", "bruck", n_ranks, 3).bytes == 3 * digits


def test_closed_forms_of_many_ranks_need_no_sum_over_them():
    blocks = forms.alpha_beta_cost("alltoall", "bruck", 2**31 - 1, 1).bytes
    assert blocks == 31 * 2**30 - 31  # all digits of 31 bits, without those of the last distance
