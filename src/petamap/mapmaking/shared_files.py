"""Files that all ranks write together, each its parts: whole, or as they were."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from petacomm.base.files import atomic_write, write_errors
from petacomm.mpi import Communicator, agree_on_errors


@contextmanager
def replaced_file(comm: Communicator, path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` at the end. Collective: rank 0 creates and renames it."""
    with ExitStack() as stack:
        temporary: Path | None = None
        with agree_on_errors(comm):
            if comm.rank == 0:
                temporary = stack.enter_context(atomic_write(path))
        yield comm.bcast(temporary)
        with agree_on_errors(comm):
            stack.close()


@contextmanager
def open_part(temporary: Path, path: Path) -> Iterator[BinaryIO]:
    """Open the temporary file of `path` to write into it; synced at the end."""
    with write_errors(path), open(temporary, "r+b") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
