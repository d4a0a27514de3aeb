"""Errors that all ranks raise together: the error of one rank is raised on all."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from petacomm.base.errors import UserError

if TYPE_CHECKING:
    from petacomm.mpi.communicator import Communicator


def agree(comm: Communicator, error: BaseException | None) -> None:
    """Raise the error of the lowest failing rank on all ranks; do nothing if no rank has one. Collective.

    Use it where ranks check what they were given, before any communication that relies on it.
    """
    if comm.size == 1:
        if error is not None:
            raise error
        return
    failing = -int(comm.max(-(comm.rank if error is not None else comm.size)))
    if failing == comm.size:
        return
    if error is not None and not isinstance(error, UserError):
        # Other exceptions may not survive the way, and their traceback never does.
        error = RuntimeError("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    agreed: BaseException = comm.bcast(error, failing)
    agreed.__dict__["_agreed"] = True
    raise agreed


@contextmanager
def together(comm: Communicator) -> Iterator[None]:
    """Let an exception of any rank inside the block be raised on all ranks at its end. Collective.

    For work that each rank does alone, such as reading its files; the block itself must not communicate.
    """
    error: Exception | None = None
    try:
        yield
    except Exception as caught:
        error = caught
    agree(comm, error)
