"""Ranks of which pairs are looked at: all where they are few, those of some nodes where they are many."""

import numpy as np
import pytest

from petacomm.costs.occupancy import Occupancy
from petamap.planning.node_samples import nodes_of_sky_sample
from petamap.planning.sky_regions import full_sky_sample
from petamap.sky.healpix import Healpix


def neighbours(size):
    """Return the occupancy of ranks that share a pixel with the next, on a sky of N_side 32."""
    return Occupancy.from_rank_keys([np.array([rank, rank + 1]) for rank in range(size)])


@pytest.mark.parametrize(
    ("size", "per_node", "kept"), [(1024, 16, 1024), (4096, 16, 1024), (4100, 512, 1536)]
)
def test_pairs_of_many_ranks_are_those_of_some_nodes(size, per_node, kept):
    sample = full_sky_sample(Healpix(32, nest=True))
    found = nodes_of_sky_sample(neighbours(size), sample, per_node)
    assert (found.size, found.occupancy.size) == (size, kept)
    assert found.n_nodes == kept // per_node
    assert len(found.weights) == len(found.occupancy.keys)
    # neighbours within a node still share, those of nodes apart do not
    multiplicity = found.occupancy.multiplicity
    assert (multiplicity == 2).sum() == kept - (1 if kept == size else found.n_nodes)
