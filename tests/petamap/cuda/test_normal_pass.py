"""The kernels of a device against the processor's: compiled for the host, and on a device if there is one."""

from dataclasses import replace

import numpy as np
import pytest
from host_device import HostDevice, compile_kernels
from small_systems import WHITE, Bad, compressed, make_system, recorded, spinning

from petacomm.base.errors import ConfigError, ResourceError, UserError
from petamap.cuda import normal_pass
from petamap.cuda.device import CupyDevice
from petamap.mapmaking.vectors import Unknowns
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import SampledPlate, UniformPlate
from petamap.sky.car import CarPatch
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels
from petamap.sky.stokes import Stokes


def there_is_a_device():
    try:
        CupyDevice()
    except UserError:
        return False
    return True


@pytest.fixture(scope="module", params=["host", "cuda"] if there_is_a_device() else ["host"])
def device(request, tmp_path_factory):
    if request.param == "cuda":
        return CupyDevice()
    return HostDevice(compile_kernels(tmp_path_factory.mktemp("kernels")))


def compare(observations, pixelization, device, rng, width=1, **choices):
    """Return A p by the device, by the processor, and the system on the device."""
    processor = make_system(observations, pixelization, **choices)
    other = make_system(observations, pixelization, device=device, **choices)
    n_stokes, n_gaps = processor.projection.stokes.n, processor.projection.n_nuisance
    p = Unknowns(rng.normal(size=(len(processor.keys), n_stokes, width)), rng.normal(size=(n_gaps, 1, width)))
    return other.operator().apply(p), processor.operator().apply(p), other


def assert_equal(found, expected):
    """Compare rows of pixels and gaps but for the rounding of transforms."""
    for one, other in zip(found, expected, strict=True):
        scale = np.abs(other).max(initial=0) or 1.0
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-14 * scale)
    assert np.abs(expected.pixels).max() > 0.1


@pytest.mark.parametrize("stokes", list(Stokes))
@pytest.mark.parametrize("flagged", [0.0, 0.1])
def test_kept_samples(device, stokes, flagged):
    rng = np.random.default_rng(1)
    one = recorded(rng, n_det=3, n_samp=2500, flagged=flagged, outside=flagged / 2, gains=2.0)
    found, expected, system = compare([one], NumberedPixels(12), device, rng, n_lag=5, stokes=stokes)
    assert_equal(found, expected)
    assert system.projection.kept is not None
    assert (system.projection.gaps.n > 0) == (flagged > 0)


def scan(rng, spacing, plate=None, n_samp=6000, flagged=0.0, **names):
    """Return an observation of compressed pointing with knots so far apart."""
    one = compressed(rng, n_samp, n_det=4, flagged=flagged, **names)
    made = spinning(n_samp, speed=0.004, n_det=4, spacing=spacing)
    pointing = CompressedPointing(made.boresight, made.detectors, epsilon=made.epsilon, plate=plate)
    return replace(one, pointing=pointing)


@pytest.mark.parametrize("nest", [True, False])
@pytest.mark.parametrize("spacing", [1, 20, 100, 333.25])
def test_expanded_samples(device, nest, spacing):
    rng = np.random.default_rng(2)
    found, expected, system = compare(
        [scan(rng, spacing), scan(rng, 64, uid=2, name="next")], Healpix(64, nest=nest), device, rng, n_lag=8
    )
    assert_equal(found, expected)
    assert system.projection.kept is None


@pytest.mark.parametrize("plate", [UniformPlate(0.3, 1.7), SampledPlate(np.arange(1000.0) ** 1.2, 7.0, -3.0)])
def test_wave_plates(device, plate):
    rng = np.random.default_rng(7)
    found, expected, _ = compare([scan(rng, 100, plate)], Healpix(16), device, rng, n_lag=8)
    assert_equal(found, expected)


@pytest.mark.parametrize("flags", ["exact", "levels", "cut"])
def test_gaps_of_expanded_samples(device, flags):
    rng = np.random.default_rng(3)
    one = scan(rng, 100, flagged=0.05)
    bad = rng.random((4, one.n_samp)) < 0.02
    bad[1, 700:1500] = bad[2, :300] = bad[3, -200:] = True
    one = replace(one, flags=(Bad(bad),))
    found, expected, system = compare([one], Healpix(16), device, rng, n_lag=8, flags=flags)
    assert_equal(found, expected)
    assert system.projection.kept is None
    assert system.projection.gaps.n > (100 if flags != "cut" else 0)


def test_ends_where_noise_goes_on(device):
    rng = np.random.default_rng(4)
    one = replace(scan(rng, 100), intervals=((100, 2900), (3000, 5900)))
    found, expected, _ = compare([one], Healpix(16), device, rng, n_lag=8, free_ends=True)
    assert_equal(found, expected)


@pytest.mark.parametrize("width", [2, 4])
def test_vectors_side_by_side(device, width):
    rng = np.random.default_rng(5)
    found, expected, _ = compare([scan(rng, 100, flagged=0.02)], Healpix(16), device, rng, width, n_lag=8)
    assert_equal(found, expected)


@pytest.mark.parametrize("flagged", [0.0, 0.1])
def test_white_noise(device, flagged):
    rng = np.random.default_rng(6)
    white = {name: value for name, value in WHITE.items() if name != "device"} | {"flags": "exact"}
    found, expected, _ = compare([scan(rng, 100, flagged=flagged)], Healpix(16), device, rng, **white)
    assert_equal(found, expected)


def test_bits_do_not_depend_on_batches(device, monkeypatch):
    one = scan(np.random.default_rng(8), 100, flagged=0.02)
    found = compare([one], Healpix(16), device, np.random.default_rng(9), n_lag=8)[0]
    monkeypatch.setattr(normal_pass, "_BATCH_BYTES", 1 << 14)
    again = compare([one], Healpix(16), device, np.random.default_rng(9), n_lag=8)[0]
    for left, right in zip(found, again, strict=True):
        np.testing.assert_array_equal(left, right)


def test_pixels_that_are_not_expanded_are_kept(device):
    rng = np.random.default_rng(10)
    patch = CarPatch.box((0.0, 0.0), (360.0, 180.0), 4.0)
    found, expected, system = compare([scan(rng, 100)], patch, device, rng, n_lag=8)
    assert_equal(found, expected)
    assert system.projection.kept is not None
    with pytest.raises(ConfigError, match="what a device cannot expand"):
        make_system([scan(rng, 100)], patch, device=device, n_lag=8, pointing="recompute")


def test_too_little_memory():
    rng = np.random.default_rng(11)
    device = HostDevice(None, free=1 << 20)
    system = make_system([scan(rng, 100)], Healpix(16), device=device, n_lag=8)
    with pytest.raises(ResourceError, match=r"GB on host, 0.00 GB are free"):
        system.operator()
