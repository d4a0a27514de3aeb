"""Independent pieces of work over threads; kernels release the GIL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_NO_MORE = object()


def available_threads() -> int:
    """Return the processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def over_threads(work: Callable[[Item], Result], items: Iterable[Item], n_threads: int) -> list[Result]:
    """Return ``[work(item) for item in items]``, `n_threads` at a time; the first error is raised."""
    if n_threads == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def in_workers(
    new_state: Callable[[], Result],
    work: Callable[[Result, Item], None],
    items: Iterable[Item],
    n_threads: int,
) -> list[Result]:
    """Call ``work(state, item)`` for all items, each thread with a state of its own; return the states.

    Which thread takes which item is left to chance: combine the states in a way that does not depend on it.
    """
    lock, iterator = threading.Lock(), iter(items)

    def worker(_: int) -> Result:
        state = new_state()
        while True:
            with lock:
                item = next(iterator, _NO_MORE)
            if item is _NO_MORE:
                return state
            work(state, item)  # type: ignore[arg-type]

    return over_threads(worker, range(n_threads), n_threads)


def one_blas_thread() -> Any:
    """Return a context in which BLAS has one thread: its sums depend on how many there are."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, "blas")
