"""Polarization angles that passes read in the user's array, in the place of response angles that are kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import petamap
from petamap.pointing._pointing import response_angles
from petamap.pointing.sampled import SampledPointing

N_DET, N_SAMP = 3, 6000


def scan():
    rng, t = np.random.default_rng(4), np.arange(N_SAMP)
    offset = 0.02 * np.arange(N_DET)[:, None]
    theta = 1.4 + 0.3 * np.sin(0.031 * t) + offset
    phi = 0.6 * np.sin(0.0123 * t) - offset
    psi = 0.01 * t + np.pi / N_DET * np.arange(N_DET)[:, None]
    return 1e-4 * rng.standard_normal((N_DET, N_SAMP)), theta, phi, psi


def mapped(*arrays, **changes):
    noise = petamap.OneOverF("60 uK s^0.5", "50 mHz", fmin="1 mHz")
    plain = {"sample_rate": "10 Hz", "n_side": 16, "progress": False, "noise": noise}
    return petamap.make_map(*arrays, **{**plain, **changes})


def with_gaps():
    arrays = scan()
    flags = np.zeros((N_DET, N_SAMP), bool)
    flags[1, 1000:1300] = flags[:, 4000] = True
    for array in arrays:
        array[flags] = np.nan
    return arrays, {"flags": flags, "intervals": [(5, 2500), (2500, 5990)]}


CASES = {
    "plain": lambda: (scan(), {}),
    "gaps and intervals": with_gaps,
    "two threads": lambda: (scan(), {"options": {"resources.threads": 2}}),
    "two levels": lambda: (scan(), {"options": {"solver.preconditioner": "two-level"}}),
    "templates": lambda: (scan(), {"options": {"source": [{"kind": "baselines", "length": "30 s"}]}}),
    "splits": lambda: (scan(), {"options": {"split": [{"name": "halves", "by": "time"}]}}),
    "polarization alone": lambda: (scan(), {"stokes": "QU"}),
    "psi of all detectors": lambda: ([*scan()[:3], scan()[3][0]], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_bits_are_those_of_angles_that_are_kept(case, monkeypatch):
    arrays, changes = CASES[case]()
    read = mapped(*arrays, **changes)
    monkeypatch.setattr(SampledPointing, "psi", lambda self, detector: None)
    kept = mapped(*arrays, **changes)
    assert set(read) == set(kept)
    for name in read:
        np.testing.assert_array_equal(read[name].values, kept[name].values, err_msg=name)
    assert read.summary.memory.bytes_per_sample < kept.summary.memory.bytes_per_sample - 3.9


def test_intensity_keeps_and_reads_none():
    assert 4 < mapped(*scan(), stokes="I").summary.memory.bytes_per_sample < 4.2


def strided(psi):
    wide = np.empty((N_DET, 2 * N_SAMP))
    wide[:, ::2] = psi
    return wide[:, ::2]


@pytest.mark.parametrize("other", [strided, np.asfortranarray, lambda psi: [list(row) for row in psi]])
def test_arrays_of_any_strides_have_the_same_bits(other):
    signal, theta, phi, psi = scan()
    one, another = mapped(signal, theta, phi, psi), mapped(signal, theta, phi, other(psi))
    np.testing.assert_array_equal(one.sky.values, another.sky.values)


def test_angles_in_32_bits_are_kept():
    signal, theta, phi, psi = scan()
    maps = mapped(signal, theta, phi, psi.astype(np.float32))
    assert maps.summary.memory.bytes_per_sample > 8


def test_turned_pointing_keeps_the_angles_of_its_frame():
    noise = petamap.OneOverF("60 uK s^0.5", "50 mHz", fmin="1 mHz")
    day = petamap.array_observation(*scan(), sample_rate="10 Hz", noise=noise, frame="galactic")
    turned = petamap.make_map([day], n_side=16, frame="equatorial", progress=False)
    assert turned.summary.memory.bytes_per_sample > 8
    assert petamap.make_map([day], n_side=16, progress=False).summary.memory.bytes_per_sample < 4.2


@given(st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=50))
def test_response_angles_are_twice_psi(psi):
    found = np.empty(len(psi), np.uint32)
    response_angles(np.array(psi), found)
    turns = found / 2.0**32 - np.array(psi) / np.pi
    assert np.abs(turns - np.round(turns)).max() < 0.51 / 2**32
