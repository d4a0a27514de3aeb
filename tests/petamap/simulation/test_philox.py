"""Tests of Philox4x32-10 against the known answers of Random123 (kat_vectors)."""

import numpy as np
import pytest

from petamap.simulation import _simulation

KNOWN = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter, key, expected):
    out = np.zeros((1, 4), np.uint32)
    _simulation.philox4x32(np.array([counter], np.uint32), np.array(key, np.uint32), out)
    assert out[0].tolist() == expected
