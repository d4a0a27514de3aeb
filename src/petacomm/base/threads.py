"""Independent work over threads; the compiled kernels release the GIL."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from petacomm.base.control_groups import processor_quota
from petacomm.base.launcher import launched_rank, launcher_process

if TYPE_CHECKING:  # NumPy takes longer than help
    from petacomm.base.typing import Int64Array

Item = TypeVar("Item")
Result = TypeVar("Result")

# A signal that comes just as a wait begins is not seen before it ends: waits are short, and repeated.
WAIT_SECONDS = 0.25
_pool = threading.local()  # of a thread of `map_threads`: an event, set when nobody waits for the work


class Cancelled(BaseException):
    """End of work whose result nobody waits for any more: other work has failed, or a signal came."""


def allowed_processors() -> list[int]:
    """Return the numbers of the processors that this process may use, increasing."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def node_processors() -> int:
    """Return the number of processors that the ranks of a job on this node have together, at least 1.

    Each may be bound to some of them: those that their launcher may use are theirs together, up to the
    quotas of control groups.
    """
    allowed = set(allowed_processors())
    launcher = launcher_process()
    if launcher and hasattr(os, "sched_getaffinity"):
        with contextlib.suppress(OSError):
            allowed |= os.sched_getaffinity(launcher)
    elif launched_rank():  # to one rank its own alone may be allowed
        allowed |= set(range(os.cpu_count() or 1))
    return max(1, math.floor(min(len(allowed), processor_quota() or math.inf)))


def asked_threads() -> float:
    """Return the number of threads that ``OMP_NUM_THREADS`` asks for; infinity if it asks for none."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else math.inf


def available_threads() -> int:
    """Return the number of processors that this process may use, or less if it is to take less of their time.

    Quotas of control groups and ``OMP_NUM_THREADS`` say so.
    """
    return max(1, math.floor(min(len(allowed_processors()), processor_quota() or math.inf, asked_threads())))


def map_threads(work: Callable[[Item], Result], items: Iterable[Item], n_threads: int) -> list[Result]:
    """Return ``[work(item) for item in items]``, computed by `n_threads` threads; raise the first error.

    After an error, and after a signal that raises one here, no more items are begun, and those in work end
    at their next `end_if_cancelled`.
    """
    if n_threads == 1:
        return [work(item) for item in items]
    cancelled = threading.Event()
    with ThreadPoolExecutor(n_threads, initializer=setattr, initargs=(_pool, "cancelled", cancelled)) as pool:
        try:
            futures = [pool.submit(work, item) for item in items]
            return [await_result(future) for future in futures]
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise


def map_ahead(work: Callable[[Item], Result], items: Iterable[Item], n_threads: int) -> Iterator[Result]:
    """Yield ``work(item)`` of all items in their order; threads are a few of them ahead of who takes them."""
    if n_threads == 1:
        yield from map(work, items)
        return
    cancelled = threading.Event()
    with ThreadPoolExecutor(n_threads, initializer=setattr, initargs=(_pool, "cancelled", cancelled)) as pool:
        ahead: deque[Future[Result]] = deque()
        try:
            for item in items:
                ahead.append(pool.submit(work, item))
                if len(ahead) >= 2 * n_threads:
                    yield await_result(ahead.popleft())
            while ahead:
                yield await_result(ahead.popleft())
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise


def await_result(future: Future[Result]) -> Result:
    """Return the result of work in another thread, as ``future.result()``; signals are seen meanwhile."""
    while not future.done():
        wait([future], WAIT_SECONDS)
    return future.result()


def end_if_cancelled() -> None:
    """Raise `Cancelled` in a thread of `map_threads` if nobody waits for its work; between long steps."""
    cancelled = getattr(_pool, "cancelled", None)
    if cancelled is not None and cancelled.is_set():
        raise Cancelled


def map_with_states(
    new_state: Callable[[], Result],
    work: Callable[[Result, Item], None],
    items: Iterable[Item],
    n_threads: int,
) -> list[Result]:
    """Call ``work(state, item)`` for all items, with one state per thread; return the states.

    The calling thread is one of them. The assignment of items to threads is not deterministic: results must
    not depend on it. After an error, or a signal that raises one, no more items are begun, and the error of
    the first item that fails is raised, on any number of threads.
    """
    lock, iterator = threading.Lock(), enumerate(items)
    errors: dict[int, BaseException] = {}

    def worker() -> Result:
        state = new_state()
        while True:
            with lock:
                begun = None if errors else next(iterator, None)
            if begun is None:
                return state
            try:
                work(state, begun[1])
            except BaseException as error:  # items are begun in order: those before may still fail
                errors[begun[0]] = error
                return state

    with ThreadPoolExecutor(max(n_threads - 1, 1)) as pool:
        try:
            others = [pool.submit(worker) for _ in range(n_threads - 1)]
            states = [worker(), *map(await_result, others)]
        except BaseException as error:  # no item's: of a signal, or of a state that cannot be made
            errors[-1] = error
    if errors:
        raise errors[min(errors)]
    return states


def add_by_threads(arrays: Sequence[Int64Array]) -> Int64Array:
    """Return the sum of arrays of one shape, in the memory of the first; a thread for each adds some rows."""
    total, *others = arrays
    n_threads = len(arrays)

    def add(thread: int) -> None:
        rows = slice(len(total) * thread // n_threads, len(total) * (thread + 1) // n_threads)
        for other in others:
            total[rows] += other[rows]

    map_threads(add, range(n_threads), n_threads)
    return total


def single_blas_thread() -> Any:
    """Return a context in which BLAS uses one thread, since its sums depend on the number of threads."""
    return _blas_libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@cache
def _blas_libraries(with_scipy: bool) -> Any:
    """Return a controller of the BLAS of NumPy, and of SciPy's own: to look for them takes a millisecond."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
