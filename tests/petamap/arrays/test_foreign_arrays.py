"""Arrays of other packages, through DLPack: read where they are, or refused with the way to the host."""

import numpy as np
import pytest

import petamap

SHAPE = (2, 4000)
GIVEN = {
    "noise": petamap.OneOverF("60 uK s^0.5"), "sample_rate": 10.0, "n_side": 8, "progress": False,
}  # fmt: skip


class Foreign:
    """An array that NumPy knows by DLPack alone."""

    def __init__(self, array, device=(1, 0)):
        self._array, self._device = np.ascontiguousarray(array), device

    def __dlpack__(self, **given):
        if self._device[0] != 1:
            raise BufferError("Unsupported device in DLTensor.")
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._device


def scan():
    t = np.arange(SHAPE[1])
    signal = 1e-4 * np.random.default_rng(1).standard_normal(SHAPE)
    theta, phi = 1.4 + 0.3 * np.sin(0.031 * t), 0.6 * np.sin(0.0123 * t)
    return signal, np.tile(theta, (2, 1)), np.tile(phi, (2, 1)), np.array([[0.0], [np.pi / 4]]) + 0.01 * t


def test_foreign_arrays_give_the_same_bits():
    arrays = scan()
    flags = (np.arange(SHAPE[1]) % 70 == 0).astype(np.uint8)
    plain = petamap.make_map(*arrays, flags=flags, **GIVEN)
    found = petamap.make_map(*map(Foreign, arrays), flags=Foreign(flags), **GIVEN)
    for name in plain:
        np.testing.assert_array_equal(found[name].values, plain[name].values, err_msg=name)


def test_nothing_is_copied():
    signal, *angles = scan()
    one = petamap.array_observation(Foreign(signal), *angles, sample_rate=10.0)
    signal[1, 7] = 3.0
    out = np.zeros(10)
    one.signals[0].add_signal(1, 0, 10, out)
    assert out[7] == 3.0


def test_arrays_of_an_accelerator_are_refused():
    signal, *angles = scan()
    with pytest.raises(petamap.DataError, match=r"signal: .*NumPy cannot see.*\n?.*device_get"):
        petamap.make_map(Foreign(signal, (2, 0)), *angles, **GIVEN)
    with pytest.raises(petamap.DataError, match=r"phi: .*NumPy cannot see"):
        petamap.make_map(signal, angles[0], Foreign(angles[1], (2, 0)), angles[2], **GIVEN)
