"""Errors that handlers of signals raise: where Python can bear them, and again where they went lost."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

_raised: BaseException | None = None
_hook: Callable[[Any], object] | None = None  # what Python did before with errors that it drops
_receiving = False

# An error between what these functions have locked and their end leaves it locked for ever.
_LOCKING = ("__enter__", "__exit__")
_MOMENT = 1e-3  # s


def when_safe(receive: Callable[[int], None]) -> Callable[[int, FrameType | None], None]:
    """Return a handler that calls `receive` with the number of a signal, where it may raise errors.

    Within Python's imports, an error leaves the lock of all imports locked, so that other threads wait for
    ever, or goes lost: 2 and 1 of 100 signals that come as modules are imported, with Python 3.11. There the
    signal comes again a moment later.
    """

    def received(number: int, frame: FrameType | None) -> None:
        global _receiving
        if _receiving or (frame is not None and frame.f_code is received.__code__):
            _send_again(number)
            return
        _receiving = True
        try:
            if _is_safe(frame):
                receive(number)
            else:
                _send_again(number)
        finally:
            _receiving = False

    return received


def _is_safe(frame: FrameType | None) -> bool:
    """Return whether an error may be raised in the frame that a signal has interrupted."""
    if frame is None:
        return True
    code = frame.f_code
    return not (code.co_filename.startswith("<frozen importlib") or code.co_name in _LOCKING)


def _send_again(number: int) -> None:
    """Have a signal come a moment later; one that is sent at once comes within its own handler."""

    def send() -> None:
        time.sleep(_MOMENT)
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    _thread.start_new_thread(send, ())


def raise_of_signal(error: BaseException, number: int) -> NoReturn:
    """Raise an error from a handler of a signal, and keep it for `error_of_signal`.

    Libraries put their own errors in the place of it: NumPy, when it compares structured arrays, makes a
    TypeError of whatever a handler raises meanwhile, and drops that. Python drops errors of destructors and
    of callbacks of weak references: there the error is raised again, once these have ended.
    """
    global _raised, _hook
    _raised = error
    if _hook is None:
        _hook = sys.unraisablehook
        sys.unraisablehook = lambda dropped: _raise_again(dropped, number)
    raise error


def _raise_again(dropped: Any, number: int) -> None:
    """Raise what a signal has raised when it comes again, now; tell any other error that Python drops."""
    if _raised is None or dropped.exc_value is not _raised:
        if _hook is not None:
            _hook(dropped)
        return
    before = signal.getsignal(number)

    def receive(number: int) -> None:
        signal.signal(number, before)
        raise_swallowed()

    signal.signal(number, when_safe(receive))
    _send_again(number)


def raise_swallowed() -> None:
    """Raise again what a signal has raised, if it went lost: where Python or a library drops errors."""
    if _raised is not None:
        raise _raised


def error_of_signal() -> BaseException | None:
    """Return what a signal has raised and nobody has forgotten, if any."""
    return _raised


def forget_signal() -> None:
    """Forget what `raise_of_signal` raised: the command that it ended has told it, or another one begins."""
    global _raised, _hook
    _raised = None
    if _hook is not None:
        sys.unraisablehook, _hook = _hook, None
