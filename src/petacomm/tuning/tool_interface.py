"""Control variables of an MPI library, read and written through MPI's tool information interface (MPI_T)."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class ToolInterface:
    """Access to the integer control variables of the MPI library that a process has loaded.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``, started.
    """

    def __init__(self, mpi: Any) -> None:
        self._library = ctypes.CDLL(mpi.__file__)  # symbols of the libraries that it is linked to
        provided = ctypes.c_int()
        self._library.MPI_T_init_thread(0, ctypes.byref(provided))
        self._handles: dict[str, ctypes.c_void_p | None] = {}

    def has(self, name: str) -> bool:
        """Return whether the library has a variable."""
        return self._handle(name) is not None

    def write(self, settings: Mapping[str, int]) -> None:
        """Set variables of this process; raise a LookupError if the library does not let one be set."""
        for name, value in settings.items():
            handle = self._handle(name)
            number = ctypes.c_int(value)
            if handle is None or self._library.MPI_T_cvar_write(handle, ctypes.byref(number)):
                raise LookupError(name)

    def read(self, name: str) -> int:
        """Return the value of a variable; raise a LookupError if there is none."""
        handle, number = self._handle(name), ctypes.c_int()
        if handle is None or self._library.MPI_T_cvar_read(handle, ctypes.byref(number)):
            raise LookupError(name)
        return number.value

    def description(self, name: str) -> str:
        """Return what the library says of a variable; nothing if there is none."""
        return self._described(name)[0]

    def values(self, name: str) -> dict[str, int]:
        """Return the named values of a variable; none if the library has not named them."""
        choices = self._described(name)[1]
        number, found = ctypes.c_int(), {}
        text, length = ctypes.create_string_buffer(512), ctypes.c_int(512)
        if choices.value is None or self._library.MPI_T_enum_get_info(
            choices, ctypes.byref(number), text, ctypes.byref(length)
        ):
            return {}
        for index in range(number.value):
            value, length = ctypes.c_int(), ctypes.c_int(512)
            self._library.MPI_T_enum_get_item(choices, index, ctypes.byref(value), text, ctypes.byref(length))
            found[text.value.decode(errors="replace")] = value.value
        return found

    def _described(self, name: str) -> tuple[str, ctypes.c_void_p]:
        """Return the description of a variable, and the handle of its named values."""
        index, choices = self._index(name), ctypes.c_void_p()
        text, length = ctypes.create_string_buffer(8192), ctypes.c_int(8192)
        label, label_length = ctypes.create_string_buffer(512), ctypes.c_int(512)
        verbosity, bind, scope = (ctypes.byref(ctypes.c_int()) for _ in range(3))
        kind = ctypes.c_void_p()
        if index is None or self._library.MPI_T_cvar_get_info(
            index, label, ctypes.byref(label_length), verbosity, ctypes.byref(kind), ctypes.byref(choices),
            text, ctypes.byref(length), bind, scope,
        ):  # fmt: skip
            return "", ctypes.c_void_p()
        return text.value.decode(errors="replace"), choices

    def _index(self, name: str) -> int | None:
        index = ctypes.c_int()
        failed = self._library.MPI_T_cvar_get_index(name.encode(), ctypes.byref(index))
        return None if failed else index.value

    def _handle(self, name: str) -> ctypes.c_void_p | None:
        if name not in self._handles:
            index, handle, count = self._index(name), ctypes.c_void_p(), ctypes.c_int()
            missing = index is None or self._library.MPI_T_cvar_handle_alloc(
                index, None, ctypes.byref(handle), ctypes.byref(count)
            )
            self._handles[name] = None if missing else handle
        return self._handles[name]


def loaded_mpi_library() -> Path | None:
    """Return the path of the MPI library that this process has loaded; None if it cannot be told."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return mapped_mpi_library(maps)


def mapped_mpi_library(maps: str) -> Path | None:
    """Return the path of the MPI library in the text of a ``/proc/PID/maps``; None if it has none."""
    found = re.search(r"^(?:\S+ +){5}(/.*/libmpi(?:_abi)?\.so[\w.]*)$", maps, re.MULTILINE)
    return Path(found[1]) if found else None
