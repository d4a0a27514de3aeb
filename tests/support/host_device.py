"""A device of `petamap.cuda` on the processor: its kernels compiled for the host, NumPy's memory and FFT."""

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from petamap.cuda.source import kernel_source

_LAUNCH = """
extern "C" void launch_{0}(unsigned n_blocks, unsigned n_rows, void** arguments) {{
    launch({0}, n_blocks, n_rows, arguments);
}}
"""
_FLAGS = ["-std=c++20", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-x", "c++"]


def compile_kernels(folder: Path) -> ctypes.CDLL:
    """Return the kernels as a library of the host, compiled in a folder."""
    prelude = Path(__file__).with_name("host_prelude.h").read_text()
    kernels = kernel_source()
    names = re.findall(r"__global__ void (\w+)", kernels)
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    source.write_text(prelude + kernels + "".join(_LAUNCH.format(name) for name in names))
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        pytest.skip("no compiler of C++")
    subprocess.run([compiler, *_FLAGS, str(source), "-o", str(library)], check=True, timeout=300)
    return ctypes.CDLL(str(library))


class HostDevice:
    """Runs kernels on the processor, a block after the other."""

    def __init__(self, kernels: ctypes.CDLL, free: int = 1 << 34) -> None:
        self.name = "host"
        self._kernels, self._free = kernels, free

    def free_bytes(self) -> int:
        return self._free

    def upload(self, values: np.ndarray) -> np.ndarray:
        return np.array(values, order="C")

    def empty(self, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.full(n_bytes, 0xA5, np.uint8).view(dtype).reshape(shape)  # of no use until it is written

    def write(self, values: np.ndarray, to: np.ndarray) -> None:
        to.reshape(-1)[: values.size] = values.reshape(-1)

    def read(self, values: np.ndarray, to: np.ndarray) -> None:
        to.reshape(-1)[...] = values.reshape(-1)[: to.size]

    def clear(self, values: np.ndarray) -> None:
        values.fill(0)

    def address(self, values: np.ndarray) -> int:
        return values.ctypes.data

    def launch(self, kernel: str, n_threads: int, n_rows: int, *arguments: int | float) -> None:
        held = [
            ctypes.c_double(one) if isinstance(one, float) else ctypes.c_int64(int(one)) for one in arguments
        ]
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(one) for one in held))
        run = getattr(self._kernels, f"launch_{kernel}")
        run(-(-n_threads // 128), n_rows, pointers)

    def transform(self, time: np.ndarray, inverse: bool) -> None:
        time[:] = np.fft.ifft(time, axis=1, norm="forward") if inverse else np.fft.fft(time, axis=1)
