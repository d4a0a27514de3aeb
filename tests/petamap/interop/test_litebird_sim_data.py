"""litebird_sim's observations in memory: binned, they make the map of its own binner, with a plate or not."""

import numpy as np
import pytest

pytest.importorskip("litebird_sim", reason="no litebird_sim: make test-interop has one")

import litebird_sim as lbs
from litebird_sim.mapmaking.binner import make_binned_map

import petamap
from petamap.interop.litebird_sim import litebird_sim_observations, read_litebird_sim
from petamap.pointing import quaternion

N_SAMP, N_SIDE, RATE = 6000, 16, 10.0


def observation(hwp=False, units="K_CMB", prepared=True):
    angles = np.radians([0.0, 90.0, 45.0, 135.0])
    noise = {"fknee_mhz": 20.0, "fmin_hz": 1e-3, "alpha": 1.0}
    detectors = [
        vars(
            lbs.DetectorInfo(
                name=f"d{k}", sampling_rate_hz=RATE, quat=quaternion.about_y(0.01 * k), pol_angle_rad=angle,
                net_ukrts=50.0 + 10 * k, bandcenter_ghz=100.0, bandwidth_ghz=20.0, **noise,
            )
        )
        for k, angle in enumerate(angles)
    ]  # fmt: skip
    tods = [lbs.TodDescription("tod", lbs.Units(units), np.float32, "signal")]
    one = lbs.Observation(
        detectors=detectors, start_time_global=0.0, sampling_rate_hz=RATE, n_samples_global=N_SAMP, tods=tods
    )
    rng, t = np.random.default_rng(4), np.arange(N_SAMP)
    one.tod[:] = 1e-4 * rng.standard_normal(one.tod.shape)
    knots = quaternion.from_angles(1.4 + 0.3 * np.sin(0.031 * t), 0.0012 * t, 0.01 * t)
    if prepared:
        one.prepare_pointings(
            instrument=lbs.InstrumentInfo(name="one"),
            spin2ecliptic_quats=lbs.RotQuaternion(knots, start_time=0.0, sampling_rate_hz=RATE),
            hwp=lbs.IdealHWP(ang_speed_radpsec=0.7) if hwp else None,
        )
    return one


@pytest.mark.parametrize("hwp", [False, True])
@pytest.mark.parametrize("frame", ["ecliptic", "galactic"])
def test_the_binned_map_is_that_of_litebird_sim(hwp, frame):
    one = observation(hwp)
    system = {"ecliptic": lbs.CoordinateSystem.Ecliptic, "galactic": lbs.CoordinateSystem.Galactic}[frame]
    theirs = np.array(make_binned_map(N_SIDE, one, output_coordinate_system=system, nthreads=1).binned_map)
    white = {"solver.binned_only": True, "noise.kernel": "white"}
    maps = petamap.make_map(
        litebird_sim_observations(one), pixelization=petamap.Healpix(N_SIDE), frame=frame, options=white,
        progress=False,
    )  # fmt: skip
    mine = maps.sky.values
    solved = np.isfinite(mine[0]) & (theirs[0] > -1e20) & (maps.rcond.values[0] > 0.02)
    assert solved.sum() > 100 and maps.sky.frame == frame
    np.testing.assert_allclose(mine[:, solved], theirs[:, solved], rtol=0, atol=4e-12)
    np.testing.assert_allclose(mine[0, solved], theirs[0, solved], rtol=0, atol=6e-13)


def test_litebird_sim_has_the_same_signs():
    one = observation()
    (made,) = litebird_sim_observations(one)
    for row in range(4):
        _, angles = made.pointing.directions(row, 0, N_SAMP)
        one.tod[row] = np.sin(angles * (2 * np.pi / 2**32))
    system = lbs.CoordinateSystem.Ecliptic
    binned = np.array(make_binned_map(N_SIDE, one, output_coordinate_system=system, nthreads=1).binned_map)
    seen = binned[0] > -1e20
    assert seen.sum() > 100
    np.testing.assert_allclose(np.median(binned[:, seen], axis=1), [0, 0, 1], rtol=0, atol=5e-10)


def test_noise_and_units_are_those_of_the_detectors():
    one = observation(units="uK_CMB")
    (made,) = litebird_sim_observations([one])
    assert made.noise.noise_model(2, 0) == petamap.OneOverF(70e-6, 0.02, 1e-3)
    assert made.unit == "K_CMB" and made.detectors == ("d0", "d1", "d2", "d3")
    out = np.zeros(10)
    made.signals[0].add_signal(1, 5, 15, out)
    np.testing.assert_allclose(out, 1e-6 * one.tod[1, 5:15], rtol=1e-6)
    maps = petamap.make_map([made], n_side=N_SIDE, progress=False)
    assert maps.summary.solver.converged and maps.sky.frame == "ecliptic"


@pytest.mark.parametrize("hwp", [False, True])
def test_files_make_the_map_of_the_data_in_memory(tmp_path, hwp):
    both = [observation(hwp), observation(hwp)]
    both[1].tod[:] *= 2
    both[0].local_flags = (np.arange(4 * N_SAMP).reshape(4, N_SAMP) % 97 == 0).astype(np.uint8)
    lbs.write_list_of_observations(both, tmp_path)
    plain = petamap.make_map(litebird_sim_observations(both), n_side=N_SIDE, progress=False)
    for path in (tmp_path, sorted(tmp_path.glob("*.h5"))):
        found = petamap.make_map(read_litebird_sim(path), n_side=N_SIDE, progress=False)
        for name in plain:
            np.testing.assert_array_equal(found[name].values, plain[name].values, err_msg=name)
    with pytest.raises(petamap.DataError, match="litebird_sim with 'sky'"):
        read_litebird_sim(tmp_path, tod="sky")
    with pytest.raises(petamap.DataError, match="no file of litebird_sim"):
        read_litebird_sim(tmp_path / "none.h5")


def test_flags_of_all_detectors():
    one = observation()
    one.global_flags = (np.arange(N_SAMP) % 50 == 0).astype(np.uint8)
    found = petamap.make_map(litebird_sim_observations(one), n_side=N_SIDE, progress=False)
    assert np.nansum(found.hits.values) == 4 * (N_SAMP - N_SAMP // 50)


def test_what_is_missing_is_named():
    with pytest.raises(petamap.ConfigError, match="prepare_pointings"):
        litebird_sim_observations(observation(prepared=False))
    with pytest.raises(petamap.DataError, match="no samples called 'sky'"):
        litebird_sim_observations(observation(), tod="sky")
