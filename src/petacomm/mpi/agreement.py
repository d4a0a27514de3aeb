"""Agreement of ranks on errors and arguments: the error of one rank is raised on all."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from petacomm.base.errors import STOPS, ConfigError, UserError
from petacomm.base.phases import phase_of
from petacomm.base.root_cause import root_cause

if TYPE_CHECKING:
    from petacomm.mpi.communicator import Communicator


class RankError(RuntimeError):
    """Error of a rank that is no `UserError`, hence a defect; rank and traceback are its message."""


def require_communicator(comm: Communicator, name: str = "comm") -> None:
    """Raise a ConfigError unless an argument is a communicator; of mpi4py's it says how to make one."""
    if not hasattr(comm, "persistent_exchange"):
        what = f"must be a Communicator of petacomm, not {type(comm).__name__}"
        raise ConfigError(
            what, where=name, mend="give petacomm.world(), or petacomm.mpi.MpiCommunicator(comm) of mpi4py's"
        )


def agree(comm: Communicator, error: BaseException | None) -> None:
    """Raise the error of the lowest failing rank on all ranks; return if no rank has one. Collective.

    For checks of arguments, before any communication that relies on them.

    Parameters
    ----------
    comm : Communicator
    error : BaseException or None
        Error of this rank. For want of memory or space it becomes a ResourceError; another one that is no
        `UserError`, a `RankError`.
    """
    require_communicator(comm)
    if comm.size == 1:
        if error is not None:
            raise error
        return
    failing = -int(comm.max(-(comm.rank if error is not None else comm.size)))
    if failing == comm.size:
        return
    if error is not None:
        error = root_cause(error, comm.rank)
        if not isinstance(error, UserError | KeyboardInterrupt):
            # Other exceptions may not survive pickling, and tracebacks never do.
            error = _rank_error(error, comm.rank)
    agreed: BaseException = comm.bcast(error, failing)
    agreed.__dict__["_agreed"] = True
    raise agreed


def is_agreed(error: BaseException) -> bool:
    """Return whether all ranks of a communicator of several have raised this error together, by `agree`."""
    return bool(error.__dict__.get("_agreed", False))


def _rank_error(error: BaseException, rank: int) -> RankError:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    phase = phase_of(error)
    where = f"rank {rank} in phase '{phase}'" if phase else f"rank {rank}"
    return RankError(f"on {where}: {''.join(lines)}".rstrip())


def error_of(work: Callable[[], None]) -> Exception | None:
    """Return the exception of work of this rank, for `agree`; what a signal raises leaves at once.

    For work in which some ranks communicate: a signal may come while a rank waits for others, who must not
    wait for it elsewhere then. `collective_errors` ends them.

    Parameters
    ----------
    work : callable
    """
    try:
        work()
    except STOPS:
        raise
    except Exception as caught:
        return caught
    return None


@contextmanager
def agree_on_errors(comm: Communicator) -> Iterator[None]:
    """Raise an exception that leaves the block on any rank on all ranks at its end. Collective.

    For work that each rank does alone, such as reading its files; the block itself must not communicate
    (see `error_of`).
    """
    require_communicator(comm)
    error: Exception | None = None
    try:
        yield
    except Exception as caught:
        error = caught
    agree(comm, error)


def require_same_text(comm: Communicator, text: str, error_type: type[UserError]) -> None:
    """Raise an error of `error_type` on all ranks unless all pass the same text. Collective.

    Parameters
    ----------
    comm : Communicator
    text : str
        Description of the arguments that must be the same on all ranks.
    error_type : subclass of UserError
    """
    first = comm.bcast(text)
    error = None
    if text != first:
        error = error_type(
            f"ranks differ: rank 0 asks for {first}, rank {comm.rank} for {text}",
            mend="ask for the same on all",
        )
    agree(comm, error)
