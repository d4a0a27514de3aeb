"""What the kernels run on: memory, launches and transforms of a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from petacomm.base.errors import ConfigError, ResourceError
from petacomm.base.typing import AnyArray
from petamap.cuda.source import kernel_source, prelude

# The numbers of the processor's kernels follow from the same roundings: no fused multiplication and addition.
_OPTIONS = ("-std=c++20", "--device-as-default-execution-space", "--fmad=false", "-w")
_THREADS = 128


class Device(Protocol):
    """A device: its arrays are C-contiguous, and nobody looks into them but kernels."""

    name: str

    def free_bytes(self) -> int:
        """Return how much memory nobody uses."""

    def upload(self, values: AnyArray) -> Any:
        """Return a copy of an array in the device's memory."""

    def empty(self, shape: tuple[int, ...], dtype: type) -> Any:
        """Return memory for an array."""

    def write(self, values: AnyArray, to: Any) -> None:
        """Copy values to the beginning of an array of the device."""

    def read(self, values: Any, to: AnyArray) -> None:
        """Copy the beginning of an array of the device."""

    def clear(self, values: Any) -> None:
        """Write zeros."""

    def address(self, values: Any) -> int:
        """Return where an array is, for kernels."""

    def launch(self, kernel: str, n_threads: int, n_rows: int, *arguments: int | float) -> None:
        """Run a kernel, `n_threads` or a few more in each of `n_rows`; arguments take 8 bytes each."""

    def transform(self, time: Any, inverse: bool) -> None:
        """Transform the rows of a complex array in place, without a factor."""


class CupyDevice:
    """One of NVIDIA's accelerators, by way of CuPy.

    Parameters
    ----------
    number : int
        Of the process among those of its node: they take devices in turn.

    Raises
    ------
    ConfigError
        If CuPy is not installed.
    ResourceError
        If there is no device.
    """

    def __init__(self, number: int = 0) -> None:
        self._cupy = _import_cupy()
        try:
            self._device = self._cupy.cuda.Device(number % self._cupy.cuda.runtime.getDeviceCount())
            self._device.use()
            properties = self._cupy.cuda.runtime.getDeviceProperties(self._device.id)
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            raise ResourceError(
                f"no CUDA device can be used: {error}", mend='set resources.backend = "cpu"'
            ) from None
        self.name = str(properties["name"].decode())
        module = self._cupy.RawModule(code=prelude() + kernel_source(), options=_OPTIONS, backend="nvrtc")
        self._function = module.get_function
        self._plans: dict[tuple[int, int], Any] = {}

    def free_bytes(self) -> int:
        self._cupy.get_default_memory_pool().free_all_blocks()
        return int(self._device.mem_info[0])

    def upload(self, values: AnyArray) -> Any:
        return self._allocated(lambda: self._cupy.asarray(values, order="C"))

    def empty(self, shape: tuple[int, ...], dtype: type) -> Any:
        return self._allocated(lambda: self._cupy.empty(shape, dtype))

    def _allocated(self, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise ResourceError(
                f"{self.name} is full: {error}",
                mend='use more devices or fewer maps at once, or set resources.backend = "cpu"',
            ) from None

    def write(self, values: AnyArray, to: Any) -> None:
        to.reshape(-1)[: values.size].set(np.ascontiguousarray(values).reshape(-1))

    def read(self, values: Any, to: AnyArray) -> None:
        values.reshape(-1)[: to.size].get(out=to.reshape(-1))

    def clear(self, values: Any) -> None:
        values.fill(0)

    def address(self, values: Any) -> int:
        return int(values.data.ptr)

    def launch(self, kernel: str, n_threads: int, n_rows: int, *arguments: int | float) -> None:
        grid = -(-n_threads // _THREADS), n_rows
        self._function(kernel)(grid, (_THREADS,), tuple(map(_number, arguments)))

    def transform(self, time: Any, inverse: bool) -> None:
        cufft = self._cupy.cuda.cufft
        shape: tuple[int, int] = time.shape
        if shape not in self._plans:
            plan = self._allocated(lambda: cufft.Plan1d(shape[1], cufft.CUFFT_Z2Z, shape[0]))
            self._plans[shape] = plan
        self._plans[shape].fft(time, time, cufft.CUFFT_INVERSE if inverse else cufft.CUFFT_FORWARD)


def _number(value: int | float) -> np.int64 | np.float64:
    return np.float64(value) if isinstance(value, float) else np.int64(value)


def _import_cupy() -> Any:
    try:
        import cupy
        import cupy.cuda.cufft
    except ImportError as error:
        raise ConfigError(
            f'resources.backend = "cuda" needs CuPy: {" ".join(str(error).split())}',
            mend='pip install "cupy-cuda13x[ctk]", or the one of your CUDA',
        ) from None
    return cupy
