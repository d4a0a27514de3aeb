"""furax's operators as pointing: binned, they make the map of its own normal equations; arrays by DLPack."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="no JAX: make test-interop has one")
pytest.importorskip("furax", reason="no furax: make test-interop has one")

import jax
import jax.numpy as jnp
from furax.obs.landscapes import HealpixLandscape
from furax.obs.operators import HWPOperator, LinearPolarizerOperator
from furax.obs.pointing import PointingOperator

import petamap
from petamap.interop.furax import furax_pointing
from petamap.pointing import quaternion

jax.config.update("jax_enable_x64", True)
N_SAMP, N_SIDE, N_DET = 3000, 16, 4
WHITE = {"solver.binned_only": True, "noise.kernel": "white"}
GIVEN = {"noise": petamap.OneOverF("50 uK s^0.5"), "sample_rate": 10.0, "progress": False}


def scalar_first(quaternions):
    found = jnp.asarray(np.roll(quaternions, 1, axis=-1))
    try:
        from fastquat import Quaternion
    except ImportError:
        return found
    return Quaternion.from_array(found)


def boresight_and_detectors():
    t = np.arange(N_SAMP)
    boresight = quaternion.from_angles(1.4 + 0.3 * np.sin(0.031 * t), 0.0012 * t, 0.01 * t)
    angles = np.radians([0.0, 90.0, 45.0, 135.0])
    return boresight, quaternion.from_angles(0.01 * np.arange(N_DET), 0.3, angles - 0.3)


def operator(plate=False, stokes="IQU", dtype=np.float64, **given):
    boresight, detectors = map(scalar_first, boresight_and_detectors())
    landscape = HealpixLandscape(N_SIDE, stokes, dtype)
    look = PointingOperator.create(landscape, boresight, detectors, frame="detector", **given)
    shape, kind = (N_DET, N_SAMP), {"dtype": dtype, "stokes": stokes}
    polarizer = LinearPolarizerOperator.create(shape, **kind)
    if not plate:
        return polarizer @ look
    angles = jnp.broadcast_to(0.05 * jnp.arange(N_SAMP), shape)
    return polarizer @ HWPOperator.create(shape, angles=angles, **kind) @ look


def binned_by_furax(acquisition, signal):
    """Return the solution of its normal equations, pixel by pixel, and the conditions of these."""
    zero = jnp.zeros(12 * N_SIDE**2)
    kind = type(acquisition.in_structure)
    names = [name.lower() for name in acquisition.in_structure.stokes]

    def rows(stokes):
        return np.array([getattr(stokes, name) for name in names])

    right = rows(acquisition.T.mv(jnp.asarray(signal)))
    columns = [
        rows(acquisition.T.mv(acquisition.mv(kind(**(dict.fromkeys(names, zero) | {name: zero + 1})))))
        for name in names
    ]
    matrices = np.moveaxis(np.array(columns), -1, 0)
    values = np.linalg.eigvalsh(matrices)
    good = values[:, 0] > 0.02 * np.maximum(values[:, -1], 1e-3)
    return np.linalg.solve(matrices[good], right.T[good][..., None])[..., 0].T, good


# K: of I, Q and U, whose angles are of 32 bits here, and of I alone
@pytest.mark.parametrize(
    "plate, stokes, most", [(False, "IQU", 2e-12), (True, "IQU", 4e-12), (False, "I", 1e-18)]
)
def test_the_binned_map_is_that_of_furax(plate, stokes, most):
    acquisition = operator(plate, stokes)
    signal = 1e-4 * np.random.default_rng(3).standard_normal((N_DET, N_SAMP))
    theirs, good = binned_by_furax(acquisition, signal)
    maps = petamap.make_map(
        jnp.asarray(signal), pointing=furax_pointing(acquisition), pixelization=petamap.Healpix(N_SIDE),
        stokes=stokes, options=WHITE, **GIVEN,
    )  # fmt: skip
    assert good.sum() > 100
    np.testing.assert_allclose(maps.sky.values[:, good], theirs, rtol=0, atol=most)


def test_furax_has_the_same_signs():
    """Its pointing is that of the same quaternions here: same pixels, angles to the width of a pixel."""
    boresight, detectors = boresight_and_detectors()
    ours = petamap.CompressedPointing(petamap.Boresight(boresight, N_SAMP), detectors)
    theirs = furax_pointing(operator())
    assert theirs.has_gains and theirs.efficiency(2) == pytest.approx(1, abs=1e-12)
    pixels, angles = np.empty((2, N_SAMP), np.int32), np.empty((2, N_SAMP), np.uint32)
    gains = np.empty(N_SAMP, np.float32)
    for detector in range(N_DET):
        ours.expand(petamap.Healpix(N_SIDE), detector, 0, N_SAMP, pixels[0], angles[0])
        theirs.expand(petamap.Healpix(N_SIDE), detector, 0, N_SAMP, pixels[1], angles[1], gains)
        np.testing.assert_array_equal(pixels[1], pixels[0])
        step = (angles[1] - angles[0]).astype(np.int32) * (2 * np.pi / 2**32)
        assert np.abs(step).max() < 0.1 and (gains == 0.5).all()


def test_single_precision_reads_the_same_pixels():
    pixels = np.empty((2, N_SAMP), np.int32)
    for row, dtype in zip(pixels, (np.float64, np.float32), strict=True):
        found = furax_pointing(operator(dtype=dtype))
        found.expand(petamap.Healpix(N_SIDE), 1, 0, N_SAMP, row, None)
    np.testing.assert_array_equal(pixels[1], pixels[0])


def test_what_is_no_pixel_is_refused():
    with pytest.raises(petamap.DataError, match="several pixels"):
        furax_pointing(operator(interpolate=True))


def test_arrays_of_jax_are_not_copied():
    signal = jnp.zeros((N_DET, N_SAMP))
    boresight, detectors = boresight_and_detectors()
    pointing = petamap.CompressedPointing(petamap.Boresight(boresight, N_SAMP), detectors)
    one = petamap.array_observation(signal, pointing=pointing, sample_rate=10.0)
    found = one.signals[0].signal
    assert found.__array_interface__["data"][0] == signal.unsafe_buffer_pointer()
