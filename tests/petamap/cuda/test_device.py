"""Where there is no device, or none that does what a run asks for."""

import sys
from types import SimpleNamespace

import pytest
from host_device import HostDevice

from petacomm.base.errors import ConfigError
from petacomm.mpi import SerialCommunicator
from petamap.cuda.device import CupyDevice
from petamap.cuda.source import kernel_source, prelude
from petamap.mapmaking.device_pass import device_pass, open_device


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ConfigError, match="needs CuPy") as caught:
        CupyDevice()
    assert "pip install" in caught.value.mend


def test_the_processor_needs_no_device(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert open_device("cpu", SerialCommunicator()) is None
    with pytest.raises(ConfigError, match="needs CuPy"):
        open_device("cuda", SerialCommunicator())


@pytest.mark.parametrize(
    ("amplitudes", "groups", "named"),
    [(object(), (), "templates"), (None, (1,), "noise that detectors share")],
)
def test_what_devices_do_not_have(amplitudes, groups, named):
    projection = SimpleNamespace(amplitudes=amplitudes)
    noise = SimpleNamespace(joint=SimpleNamespace(groups=groups))
    with pytest.raises(ConfigError, match=f"does not know {named}"):
        device_pass(HostDevice(None), projection, noise, SerialCommunicator())


def test_the_source_is_whole():
    source = prelude() + kernel_source()
    assert "#include" not in source and "#pragma once" not in source
    assert source.count("class ArcFits") == 1  # the processor's own
    for kernel in ("number_gaps", "expand", "gather", "multiply", "scatter", "weigh"):
        assert f"__global__ void {kernel}(" in source
