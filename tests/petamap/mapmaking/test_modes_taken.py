"""What templates take of the sky by scale: against dense algebra, and the same on any ranks."""

import dataclasses

import numpy as np
import pytest
from mpi import check_same_on_ranks
from small_systems import WHITE, compressed, make_system, numbered, recorded

from petacomm.base.errors import ConfigError
from petamap.data.template import IndependentPrior
from petamap.mapmaking.filter_and_bin import FilterAndBin
from petamap.mapmaking.modes_taken import modes_taken
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import Baselines


def scanned(*templates, seed=8):
    one = compressed(np.random.default_rng(seed), n_samp=3000, n_det=3, flagged=0.05, speed=0.01)
    return dataclasses.replace(one, templates=templates)


def taken_by(*templates, comm=None, **choices):
    system = make_system([scanned(*templates)], Healpix(8, nest=True), comm, **{**WHITE, **choices})
    return modes_taken(FilterAndBin(system))


def test_nothing_is_taken_without_templates():
    for one in taken_by():
        assert one.intensity < 1e-9 and one.polarization < 1e-9


def test_short_baselines_take_large_scales_and_more_than_long_ones():
    short, long = taken_by(Baselines(3.0)), taken_by(Baselines(60.0))
    assert [(one.l_first, one.l_last) for one in short] == [(2, 3), (4, 7), (8, 15), (16, 31)]
    shares = [one.intensity for one in short]
    assert shares[0] > 0.8 and shares[-1] < 0.5 * shares[0]
    assert all(a.intensity > b.intensity for a, b in zip(short, long, strict=True))
    assert all(0 <= one.polarization <= 1 for one in short)


def test_what_is_known_beforehand_is_not_taken():
    free, known = taken_by(Baselines(3.0)), taken_by(Baselines(3.0, IndependentPrior(1e-6)))
    assert known[0].intensity < 1e-3 < free[0].intensity


def test_maps_of_intensity_or_polarization_alone():
    for stokes, kind, other in ("I", "intensity", "polarization"), ("QU", "polarization", "intensity"):
        found = taken_by(Baselines(3.0), stokes=stokes)
        assert all(getattr(one, other) is None and getattr(one, kind) > 0 for one in found)


def taken_on(comm):
    return taken_by(Baselines(3.0), comm=comm)


def test_ranks_do_not_change_a_bit():
    check_same_on_ranks(taken_on, 3)


def test_pixels_without_a_place_are_refused():
    one = recorded(np.random.default_rng(1), 2, 300, 6, 5, ((0, 300),))
    system = make_system([one], numbered(6), **WHITE)
    with pytest.raises(ConfigError, match="a place on the sky"):
        modes_taken(FilterAndBin(system))
