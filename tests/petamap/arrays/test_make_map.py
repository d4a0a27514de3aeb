"""Maps of arrays: against healpy, against the same data in a volume, in all forms that arrays may have."""

import warnings

import healpy
import numpy as np
import pytest
from astropy import units
from astropy.table import Column, MaskedColumn
from astropy.utils.masked import Masked
from mpi import run_ranks

import petamap
from petamap.data.config import parse_config
from petamap.data.formats.volume_write import write_volume
from petamap.pointing import quaternion
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.frames import frame_rotation
from petamap.pointing.half_wave_plate import SampledPlate
from petamap.templates.kinds import Baselines

N_SIDE, N_DET, N_SAMP = 16, 3, 6000
NOISE = petamap.OneOverF(net="100 uK s^0.5", fknee="50 mHz", fmin="1 mHz")
COMMON = {"noise": NOISE, "sample_rate": "10 Hz"}


def scan(n_det=N_DET, seed=1):
    """Return theta, phi, psi and signal of detectors that look all over a part of the sky."""
    rng, t = np.random.default_rng(seed), np.arange(N_SAMP)
    offset = 0.02 * np.arange(n_det)[:, None]
    theta = 1.4 + 0.3 * np.sin(0.031 * t) + offset
    phi = 0.6 * np.sin(0.0123 * t) - offset
    psi = 0.01 * t + np.pi / n_det * np.arange(n_det)[:, None]
    return theta, phi, psi, 1e-4 * rng.standard_normal((n_det, N_SAMP))


def mapped(signal, *angles, **changes):
    return petamap.make_map(signal, *angles, **{**COMMON, "n_side": N_SIDE, "progress": False, **changes})


@pytest.fixture(scope="module")
def plain():
    theta, phi, psi, signal = scan()
    return mapped(signal, theta, phi, psi)


def assert_same_bits(one, other):
    assert set(one) == set(other)
    for name in one:
        np.testing.assert_array_equal(one[name].values, other[name].values, err_msg=name)


def test_hits_are_those_of_healpy(plain):
    theta, phi, _, _ = scan()
    hits = np.bincount(healpy.ang2pix(N_SIDE, theta, phi, nest=True).ravel(), minlength=12 * N_SIDE**2)
    np.testing.assert_array_equal(np.nan_to_num(plain.hits.values[0]), hits)
    assert plain.sky.pixelization == petamap.Healpix(N_SIDE, nest=True)
    assert plain.sky.frame is None
    assert plain.summary.memory.bytes_per_sample < 4.2


def test_a_polarized_sky_comes_back_as_cosmo():
    theta, phi, psi, _ = scan()
    rng = np.random.default_rng(3)
    sky = rng.normal(scale=1e-4, size=(3, 12 * N_SIDE**2))
    i, q, u = sky[:, healpy.ang2pix(N_SIDE, theta, phi)]
    maps = mapped(
        i + q * np.cos(2 * psi) + u * np.sin(2 * psi), theta, phi, psi, n_side=None,
        pixelization=petamap.Healpix(N_SIDE), options={"solver.tolerance": 1e-12},
    )  # fmt: skip
    solved = np.isfinite(maps.sky.values[0])
    assert solved.sum() > 100 and maps.sky.polarization == "COSMO"
    np.testing.assert_allclose(maps.sky.values[:, solved], sky[:, solved], rtol=0, atol=1e-10)


def one_boresight():
    theta, phi, psi, signal = scan(1)
    return (
        theta,
        phi,
        psi,
        signal,
        petamap.Boresight(quaternion.from_angles(theta[0], phi[0], psi[0]), N_SAMP),
    )


VOLUME = f"""
[map]
n_side = {N_SIDE}
frame = "{{frame}}"
[[source]]
kind = "volume"
path = "one.h5"
"""


@pytest.mark.parametrize("frame", ["equatorial", "galactic"])
def test_a_volume_of_the_same_data_gives_the_same_bits(tmp_path, frame):
    theta, phi, psi, signal, boresight = one_boresight()
    flags = np.arange(N_SAMP) % 50 == 0
    given = {"flags": flags, "intervals": [(0, 2500), (2600, N_SAMP)], "frame": "equatorial"}
    along = CompressedPointing(boresight, [[0.0, 0.0, 0.0, 1.0]])
    one = petamap.array_observation(signal, pointing=along, **COMMON, **given)
    write_volume(tmp_path / "one.h5", [one])
    volume = petamap.run(parse_config(VOLUME.format(frame=frame), tmp_path / "run.toml"))
    if frame == "equatorial":
        assert_same_bits(mapped(signal, pointing=boresight.knots[np.newaxis], **given), volume)
        assert_same_bits(petamap.make_map(one, n_side=N_SIDE, progress=False), volume)
    # angles are rounded otherwise than quaternions, which are multiplied in another order in another frame
    maps = mapped(signal, theta, phi, psi, options={"map.frame": frame}, **given)
    assert maps.sky.frame == frame == volume.sky.frame
    np.testing.assert_array_equal(maps.hits.values, volume.hits.values)
    np.testing.assert_allclose(maps.sky.values, volume.sky.values, rtol=0, atol=1e-12)


def test_a_half_wave_plate_turns_as_in_compressed_pointing():
    theta, phi, psi, signal, boresight = one_boresight()
    plate, gamma = 0.05 * np.arange(N_SAMP) % (2 * np.pi), 0.3
    along = CompressedPointing(boresight, [[0.0, 0.0, 0.0, 1.0]], gamma=[gamma], plate=SampledPlate(plate))
    compressed = mapped(signal, pointing=along)
    maps = mapped(signal, theta, phi, psi, hwp_angle=plate, gamma=gamma)
    np.testing.assert_allclose(maps.sky.values, compressed.sky.values, rtol=0, atol=1e-10)
    with pytest.raises(petamap.ConfigError, match="gamma"):
        mapped(signal, theta, phi, psi, hwp_angle=plate)


def test_arrays_of_any_strides_and_shapes_give_the_same_bits(plain):
    theta, phi, psi, signal = scan()
    wide = np.zeros((N_SAMP, 2 * N_DET))
    wide[:, ::2] = signal.T
    maps = mapped(wide[:, ::2].T, np.asfortranarray(theta), phi, psi)
    assert_same_bits(maps, plain)
    single = signal.astype(np.float32)
    assert_same_bits(mapped(single, theta, phi, psi), mapped(single.astype(np.float64), theta, phi, psi))
    micro = mapped(1e6 * signal, theta, phi, psi, unit="uK")
    np.testing.assert_allclose(micro.sky.values, plain.sky.values, rtol=0, atol=1e-12)
    assert micro.sky.unit == "K_CMB"


def test_angles_of_all_detectors_are_broadcast():
    theta, phi, psi, signal = scan()
    shared = mapped(signal, theta[0], phi[0], psi)
    full = mapped(signal, np.tile(theta[0], (N_DET, 1)), np.tile(phi[0], (N_DET, 1)), psi)
    assert_same_bits(shared, full)


def test_pixels_and_quaternions_say_the_same_as_angles(plain):
    theta, phi, psi, signal = scan()
    ring = {"pixels": healpy.ang2pix(N_SIDE, theta, phi), "n_side": None}
    ring["pixelization"] = petamap.Healpix(N_SIDE)
    weights = np.stack([np.ones_like(psi), np.cos(2 * psi), np.sin(2 * psi)], axis=-1)
    q = quaternion.from_angles(theta, phi, psi)
    ways = [
        mapped(signal, pointing=q),
        mapped(signal, psi=psi, **ring),
        mapped(signal, weights=weights, **ring),
    ]
    ways.append(mapped(2 * signal, weights=2 * weights.astype(np.float32), **ring))
    order = healpy.nest2ring(N_SIDE, np.arange(12 * N_SIDE**2))
    for maps in ways:
        values = maps.sky.values if maps.sky.pixelization.nest else maps.sky.values[:, order]
        # 2^-32 of a turn, and float32 of the last way
        np.testing.assert_allclose(values, plain.sky.values, rtol=0, atol=1e-9)


def test_quantities_are_in_their_own_units(plain):
    theta, phi, psi, signal = scan()
    degrees = [np.degrees(angle) * units.deg for angle in (theta, phi, psi)]
    noise = petamap.OneOverF(net=100 * units.uK * units.s**0.5, fknee=50 * units.mHz, fmin=1e-3 * units.Hz)
    made = mapped(signal * 1e6 * units.uK, *degrees, noise=noise, sample_rate=10 * units.Hz)
    np.testing.assert_array_equal(made.hits.values, plain.hits.values)
    np.testing.assert_allclose(made.sky.values, plain.sky.values, rtol=0, atol=1e-9 * 1e-4)
    assert made.sky.unit == "K_CMB"
    column = MaskedColumn(signal[0] * 1e6, "signal", mask=signal[0] > 1e-4, unit="uK")
    flagged = mapped(signal[0], theta[0], phi[0], psi[0], flags=signal[0] > 1e-4)
    of_column = mapped(column, Column(np.degrees(theta[0]), unit="deg"), phi[0], psi[0])
    np.testing.assert_array_equal(of_column.hits.values, flagged.hits.values)
    np.testing.assert_allclose(of_column.sky.values, flagged.sky.values, rtol=0, atol=1e-9 * 1e-4)
    brightness = mapped(signal * units.MJy / units.sr, theta, phi, psi)
    np.testing.assert_array_equal(brightness.sky.values, plain.sky.values)
    assert brightness.sky.unit == "MJy / sr"


def test_masked_samples_are_flagged():
    theta, phi, psi, signal = scan()
    mask, flags = signal > 1e-4, signal < -2e-4
    flagged = mapped(signal, theta, phi, psi, flags=mask | flags)
    masked = np.ma.masked_array(np.where(mask, np.nan, signal), mask)
    assert_same_bits(mapped(masked, theta, phi, psi, flags=flags), flagged)
    assert_same_bits(mapped(Masked(masked.data, mask=mask), theta, phi, psi, flags=flags), flagged)


def test_flagged_samples_are_not_looked_at():
    theta, phi, psi, signal = scan()
    flags = np.random.default_rng(5).random(signal.shape) < 0.05
    maps = mapped(signal, theta, phi, psi, flags=flags)
    for array in (signal, theta, phi, psi):
        array[flags] = np.nan
    assert_same_bits(mapped(signal, theta, phi, psi, flags=flags.astype(np.uint8)), maps)
    assert np.nansum(maps.hits.values) == (~flags).sum()
    common = mapped(scan()[3], *scan()[:3], flags=flags[0])
    assert np.nansum(common.hits.values) == N_DET * (~flags[0]).sum()


def test_intensity_needs_no_psi(plain):
    theta, phi, _, signal = scan()
    maps = mapped(signal, theta, phi, stokes="I")
    assert maps.sky.names == ("I",)
    np.testing.assert_array_equal(maps.hits.values, plain.hits.values)


def test_patches_templates_and_estimated_noise():
    theta, phi, psi, signal = scan()
    box = petamap.CarPatch.box((0.0, 5.0), (80.0, 60.0), 2.0)
    maps = mapped(
        signal + np.array([[1e-3], [2e-3], [-1e-3]]), theta, phi, psi, n_side=None, pixelization=box,
        templates=[Baselines()], detectors=["A", "B", "C"],
    )  # fmt: skip
    assert maps.sky.pixelization == box
    assert maps["amplitudes"].detectors == ["A", "B", "C"]
    estimated = mapped(signal, theta, phi, psi, noise="estimate", options={"noise.max_rounds": 1})
    assert estimated.summary.noise.rounds == 1


def test_several_observations_make_one_map():
    theta, phi, psi, signal = scan()
    days = [
        petamap.array_observation(
            signal[:, part], theta[:, part], phi[:, part], psi[:, part], name=f"day {k}", uid=k, **COMMON
        )
        for k, part in enumerate((slice(0, 2500), slice(2500, None)))
    ]
    maps = petamap.make_map(days, n_side=N_SIDE, progress=False)
    whole = mapped(signal, theta, phi, psi, intervals=[(0, 2500), (2500, N_SAMP)])
    np.testing.assert_array_equal(maps.sky.values, whole.sky.values)


def test_options_reach_splits_sources_and_products():
    theta, phi, psi, signal = scan()
    options = {
        "products": {"residual": False}, "solver.max_iterations": 3, "source": [{"kind": "offsets"}],
        "split": [{"name": "halves", "by": "time"}],
    }  # fmt: skip
    with pytest.warns(UserWarning, match="3 iterations"):
        maps = mapped(signal, theta, phi, psi, options=options)
    assert "residual" not in maps and "amplitudes" in maps
    assert maps.summary.solver.iterations == 3
    assert sum(name.startswith("halves_") and name.endswith("_map") for name in maps) == 2


def test_nothing_is_written_or_said(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    theta, phi, psi, signal = scan()
    for array in (theta, phi, psi, signal):
        array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        petamap.make_map(signal, theta, phi, psi, n_side=N_SIDE, **COMMON)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


def on_ranks(comm):
    theta, phi, psi, signal = scan()
    maps = mapped(signal, theta, phi, psi, comm=comm)
    if comm.rank == 0:
        print(float(np.nansum(maps.sky.values)).hex(), len(maps))
    else:
        assert len(maps) == 0


def test_ranks_make_the_same_map(plain):
    out = run_ranks(on_ranks, 2).out.split()
    assert out == [float(np.nansum(plain.sky.values)).hex(), str(len(plain))]


def on_communicators_of_mpi4py(comm):
    from mpi4py import MPI

    angles = scan()
    half = MPI.COMM_WORLD.Split(comm.rank % 2)
    alone = mapped(angles[3], *angles[:3], comm=half)  # each makes its own map
    both = mapped(angles[3], *angles[:3], comm=MPI.COMM_WORLD)
    assert len(alone) and bool(len(both)) == (comm.rank == 0)
    if comm.rank == 0:
        assert_same_bits(alone, both)
        assert both.summary.environment.ranks == 2 and alone.summary.environment.ranks == 1
    with pytest.raises(petamap.ConfigError, match="comm: this process is not in it"):
        mapped(angles[3], *angles[:3], comm=MPI.COMM_NULL)


def test_communicators_of_mpi4py_are_taken():
    run_ranks(on_communicators_of_mpi4py, 2)


def test_a_rotated_frame_is_that_of_rotated_angles():
    theta, phi, psi, signal = scan()
    turned = quaternion.multiply(
        frame_rotation("equatorial", "galactic"), quaternion.from_angles(theta, phi, psi)
    )
    maps = mapped(signal, theta, phi, psi, frame="equatorial", options={"map.frame": "galactic"})
    other = mapped(signal, pointing=turned, frame="galactic")
    np.testing.assert_array_equal(maps.hits.values, other.hits.values)
    np.testing.assert_allclose(maps.sky.values, other.sky.values, rtol=0, atol=1e-9)


def on_ranks_that_differ(comm):
    theta, phi, psi, signal = scan()
    for changes, words in (
        ({"phi": None}, "theta and phi are given together"),
        ({"n_side": 2}, "rank 1: was given another configuration"),
        ({"detectors": ["a", "b", "c"]}, "rank 1: was given another .* than rank 0"),
    ):
        own = {"phi": phi, **(changes if comm.rank == 1 else {})}
        with pytest.raises(petamap.ConfigError, match=words):
            mapped(signal, theta, psi=psi, comm=comm, **own)


def test_ranks_that_are_given_something_else_end_all():
    run_ranks(on_ranks_that_differ, 2)
