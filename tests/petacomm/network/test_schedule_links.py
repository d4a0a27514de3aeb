"""Link loads in the rounds of a schedule, against routes link by link."""

import numpy as np
import pytest
from schedules import all_schedules

from petacomm.network.closed_forms import alpha_beta_cost
from petacomm.network.schedule_links import busiest_link_bytes, round_link_loads, synchronous_rounds_time
from petacomm.schedule import CollectiveCall, link_message_counts, make_schedule
from petacomm.topology import Torus


@pytest.mark.parametrize("grid", [Torus((4, 2, 3), False), Torus((4, 5))])
def test_loads_are_those_of_the_routes(grid):
    for schedule in all_schedules(grid.n_nodes, 12, grid, root=1):
        for part, loads in zip(schedule.rounds(), round_link_loads(schedule, grid, 8), strict=True):
            if (part.heading >= 0).any():
                continue
            walked = np.zeros(grid.n_links)
            for row in np.flatnonzero(part.is_message):
                walked[grid.route(part.source[row], part.destination[row])] += 8 * part.length[row]
            np.testing.assert_allclose(loads, walked)


@pytest.mark.parametrize("grid", [Torus((4, 4), False), Torus((8, 3))])
def test_lines_load_each_link_once(grid):
    schedule = make_schedule(CollectiveCall("broadcast", grid.n_nodes, 240, grid=grid), "streams")
    n_streams = 2 * sum(grid.wrap) or grid.n_dimensions
    total = sum(round_link_loads(schedule, grid, 1))
    np.testing.assert_allclose(total, link_message_counts(schedule, grid) * 240 / n_streams)
    assert busiest_link_bytes(schedule, grid, 2) == 2 * total.max()


def test_rounds_wait_for_their_busiest_link():
    ring = make_schedule(CollectiveCall("allreduce", 8, 64), "ring")
    assert synchronous_rounds_time(ring, Torus((8,)), 8, 1.0, 64.0) == pytest.approx(14 * (1 + 1))
    # On a line the message from the end to the beginning uses all links; no link carries two messages.
    assert synchronous_rounds_time(ring, Torus((8,), False), 8, 1.0, 64.0) == pytest.approx(14 * (1 + 1))
    # Larger messages use the rendezvous protocol: two more latencies, in all rounds here.
    assert synchronous_rounds_time(ring, Torus((8,)), 8, 1.0, 64.0, rendezvous=63) == pytest.approx(
        14 * (3 + 1)
    )
    assert synchronous_rounds_time(ring, Torus((8,)), 8, 1.0, 64.0, rendezvous=64) == pytest.approx(
        14 * (1 + 1)
    )


@pytest.mark.parametrize("n_ranks", [1, 2, 5, 8])
@pytest.mark.parametrize("algorithm", ["bruck", "all-post", "pairwise"])
def test_rounds_that_copy_in_memory_take_no_time(n_ranks, algorithm):
    schedule = make_schedule(CollectiveCall("alltoall", n_ranks, 1, 1), algorithm)
    n_messages = alpha_beta_cost("alltoall", algorithm, n_ranks, 1).messages
    assert synchronous_rounds_time(schedule, Torus((n_ranks,)), 1, 1.0, np.inf) == n_messages
