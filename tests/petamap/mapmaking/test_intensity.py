"""Streams whose response to intensity is not 1, as demodulated Q and U, against dense algebra."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_systems import (
    Models,
    compressed,
    dense,
    full_map,
    make_system,
    numbered,
    read,
    recorded,
    solve,
)

from petacomm.base.errors import DataError
from petamap.data.formats.volume_write import write_volume
from petamap.data.source import SourceContext
from petamap.mapmaking.coverage import estimate_coverage
from petamap.noise.model import OneOverF
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import UniformPlate
from petamap.simulation.sky import Sky, SkySignal
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map
from petamap.sky.stokes import Stokes
from petamap.templates.known_signals import LeakageSource


def streams(**changes):
    """Return a scan of one detector as three streams: I, and two of polarization."""
    one = compressed(np.random.default_rng(8), **({"n_det": 3, "n_samp": 4000, "speed": 0.01} | changes))
    given, same = one.pointing, np.tile(one.pointing.detectors[:1], (3, 1))
    pointing = CompressedPointing(
        given.boresight, same, epsilon=[1, 0, 0], gamma=[0, 0, -np.pi / 8], intensity=[1, 0, 0],
        plate=UniformPlate(0.0, 0.0),
    )  # fmt: skip
    return dataclasses.replace(one, pointing=pointing)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["I", "QU", "IQU"]),
    st.sampled_from([0, 2, 9]),
    st.sampled_from([None, 3.0]),
    st.sampled_from([(1.0, 0.0, 0.0), (1.0, 0.5, 0.0)]),
)
def test_equals_the_dense_solution(seed, stokes, n_lag, gains, intensities):
    made = recorded(
        np.random.default_rng(seed),
        3,
        200,
        6,
        n_lag,
        ((0, 90), (97, 200)),
        gains,
        0.1,
        intensities=intensities,
    )
    system = make_system([made], numbered(6), stokes=stokes, n_lag=n_lag)
    assert not system.statistics.dead.any()
    expected = dense([made], numbered(6), stokes, n_lag).map().reshape(6, -1)
    found = full_map(system, solve(system).map.pixels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("stokes", ["QU", "IQU"])
def test_both_preconditioners_and_both_ways_of_pointing_give_the_map(stokes):
    made = streams()
    object.__setattr__(made, "noise", Models(((OneOverF(0.3, fknee=0.5, fmin=2e-3, alpha=-2.5),),) * 3))
    found = {}
    for kind, pointing in (("two-level", "keep"), ("two-level", "recompute"), ("block-diagonal", "keep")):
        system = make_system(
            [made], Healpix(4, nest=True), stokes=stokes, n_lag=300, preconditioner=kind, pointing=pointing
        )
        solution = system.solver().solve(read(system).unknowns, 1e-11, 3000)
        assert solution.converged
        found[kind, pointing] = solution
    two, again, one = found.values()
    assert two.map.pixels.tobytes() == again.map.pixels.tobytes()
    np.testing.assert_allclose(
        two.map.pixels, one.map.pixels, rtol=0, atol=1e-8 * np.abs(one.map.pixels).max()
    )
    assert two.iterations < 0.5 * one.iterations


def test_streams_without_intensity_solve_for_polarization_alone():
    made = streams()
    polarized = dataclasses.replace(made, pointing=made.pointing.of_detectors([1, 2]), detectors=("q", "u"))
    for choice, of, solvable in (("IQU", made, True), ("IQU", polarized, False), ("QU", polarized, True)):
        seen = estimate_coverage([of], Healpix(4, nest=True), Stokes(choice), 1e-3)
        assert (seen.n_mapped > 0.9 * seen.n_seen) if solvable else seen.n_mapped == 0
        system = make_system([of], Healpix(4, nest=True), stokes=choice, n_lag=8)
        assert system.statistics.dead.all() != solvable


def test_a_sky_seen_and_solved_for():
    sky = np.random.default_rng(2).standard_normal((3, Healpix(4, nest=True).n_pix))
    made = streams(n_samp=2000, speed=0.05)
    seen = SkySignal(Sky(Healpix(4, nest=True), lambda: sky), made.pointing)
    system = make_system([dataclasses.replace(made, signals=(seen,))], Healpix(4, nest=True), n_lag=8)
    good = system.keys[~system.statistics.dead]
    found = full_map(system, solve(system).map.pixels)[good]
    assert len(good) > 20
    np.testing.assert_allclose(found, sky.T[good], rtol=0, atol=1e-9)


def test_leakage_is_of_the_temperature_that_streams_do_not_see(tmp_path):
    sky = np.random.default_rng(2).standard_normal((3, Healpix(4).n_pix))
    names = {"names": ("I", "Q", "U"), "unit": "K_CMB", "run_id": "test", "frame": "galactic"}
    write_map(tmp_path / "sky.fits", sky, Healpix(4), **names)
    one = dataclasses.replace(streams(), signals=())
    source = LeakageSource(LeakageSource.options(map="sky.fits", rms=0.1), SourceContext(tmp_path))
    seen = source.extend([one])[0].templates[0].signal
    for detector in range(3):
        pixels, found = np.empty(100, np.int32), np.zeros(100)
        one.pointing.expand(Healpix(4), detector, 0, 100, pixels, None)
        seen.add_signal(detector, 0, 100, found)
        np.testing.assert_allclose(found, sky[0, pixels], rtol=1e-6)


def test_formats_of_detectors_do_not_hold_streams(tmp_path):
    with pytest.raises(DataError, match="streams of polarization alone"):
        write_volume(tmp_path / "volume.h5", [streams()])
