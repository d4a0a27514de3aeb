"""Tests of TOAST volumes whose samples are compressed with FLAC, by the package that TOAST uses."""

from __future__ import annotations

import sys
from dataclasses import replace

import h5py
import numpy as np
import pytest
from commands import run_command
from made_observations import Samples, White, observation

from petacomm.base.errors import DataError
from petamap.data.formats.hdf5 import load_flacarray
from petamap.data.formats.toast import ToastOptions, ToastSource
from petamap.data.formats.toast_write import write_toast
from petamap.data.observation import read_flags, read_signal
from petamap.data.source import SourceContext

N_SAMP, QUANTUM = 900_000, 1e-4
RANGES = (0, 1000), (130_000, 400_000), (700_000, 840_000), (N_SAMP - 10, N_SAMP)


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """Return the file of a volume, and its signal and flags, which are hardly any."""
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("flac")
    signal, flags = rng.standard_normal((2, N_SAMP)), np.zeros((2, N_SAMP), np.uint8)
    flags[:, 500:600] = 1
    one = observation(n_samp=N_SAMP, n_det=2, noise=White())
    one = replace(one, signals=(Samples(signal),), flags=(Samples(flags),), intervals=((0, N_SAMP),))
    write_toast(folder, [one])
    with h5py.File(folder / "first.h5", "r+") as file:
        for name, values, quanta in (("signal", signal, QUANTUM), ("flags", flags.astype(np.int32), None)):
            attributes = dict(file[f"detdata/{name}"].attrs)
            del file[f"detdata/{name}"]
            load_flacarray().write_array(values, file["detdata"].create_group(name), quanta=quanta)
            file[f"detdata/{name}"].attrs.update(attributes)
    return folder / "first.h5", signal, flags


def read(path):
    (one,) = ToastSource(ToastOptions(path=path.name), SourceContext(path.parent)).extend([])
    return one


@pytest.mark.parametrize("samples", RANGES)
def test_any_samples_are_found(volume, samples):
    path, signal, flags = volume
    one, part = read(path), slice(*samples)
    for detector in range(2):
        found = read_signal(one, detector, *samples)
        assert np.abs(found - signal[detector, part]).max() <= QUANTUM
        assert np.array_equal(read_flags(one, detector, *samples), flags[detector, part])


def test_a_damaged_stream_is_told(volume, tmp_path):
    path = tmp_path / "a.h5"
    path.write_bytes(volume[0].read_bytes())
    with h5py.File(path, "r+") as file:
        file["detdata/signal/compressed"][:] = 0
    with pytest.raises(DataError, match=r"a.h5, detdata/signal, detector D0, samples 5..9: cannot be read"):
        read_signal(read(path), 0, 5, 10)


def test_flac_is_read_without_mpi():
    """The package would start MPI, in a process that no launcher has started."""
    program = (
        "import os, sys; from petamap.data.formats.hdf5 import load_flacarray; load_flacarray().read_array; "
        "assert 'mpi4py.MPI' not in sys.modules and 'MPI_DISABLE' not in os.environ"
    )
    run_command([sys.executable, "-c", program], check=True)
