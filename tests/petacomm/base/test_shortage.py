"""Errors of memory, space and threads that do not suffice are ResourceErrors that name the phase."""

import errno
import gc
import weakref

import numpy as np
import pytest

from petacomm.base.errors import DataError
from petacomm.base.shortage import shortage_error
from petacomm.base.timers import Timers


def failing(error, held=None):
    with Timers().phase("outer"), Timers().phase("inner"):
        raise error


def caught(error, held=None):
    with pytest.raises(type(error)) as info:
        failing(error, held)
    return info.value


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "rank 3 has no memory left in phase 'outer'"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "no memory left in phase 'outer': [Errno 12]"),
        (OSError(errno.ENOSPC, "No space left on device", "/scratch/a"), "no space left in phase 'outer'"),
        (ImportError("lib.so: failed to map segment from shared object"), "no memory left in phase 'outer'"),
        (RuntimeError("can't start new thread"), "no room for threads in phase 'outer'"),
    ],
)
def test_shortages(error, words):
    told = shortage_error(caught(error), rank=3)
    assert words in str(told) and told.mend and told.exit_code == 5


def test_the_memory_of_numpy_that_fails_is_told_without_a_rank():
    with pytest.raises(MemoryError) as info:
        np.zeros((2**45, 8))
    assert str(shortage_error(info.value)).startswith("no memory left: Unable to allocate 2.00 PiB")


def test_other_errors_are_none():
    for error in (
        KeyError("a"),
        OSError(errno.ENOENT, "no file"),
        RuntimeError("x"),
        DataError("no memory left"),
    ):
        assert shortage_error(caught(error)) is None


def test_what_the_failing_functions_held_is_freed():
    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    try:
        failing(MemoryError(), held)
    except MemoryError as error:
        kept = error
    del held
    assert gone() is not None, "the traceback holds it"
    assert shortage_error(kept) is not None
    gc.collect()
    assert gone() is None
