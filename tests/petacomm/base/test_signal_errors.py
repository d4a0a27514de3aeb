"""Errors of signals neither leave locks locked nor go lost, whatever Python does as they come."""

import signal
import sys
import time

import pytest
from commands import run_command

from petacomm.base.errors import Interruption
from petacomm.base.signal_errors import error_of_signal, forget_signal
from petacomm.base.stop_request import StopRequest

# Signals at moments all over the imports of 20 modules: raised at once, 3 of 100 go wrong.
AMID_IMPORTS = """
import _imp, importlib, random, signal, sys, time
from petacomm.base.signal_errors import raise_of_signal, when_safe

def receive(number):
    raise_of_signal(KeyboardInterrupt(), number)

def load():
    for i in range(20):
        sys.modules.pop(f"module{i}", None)
        importlib.import_module(f"module{i}")

signal.signal(signal.SIGALRM, when_safe(receive))
begun = time.perf_counter()
load()
seconds, raised, locked, draw = time.perf_counter() - begun, 0, 0, random.Random(1)
for _ in range(150):
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, seconds))
        load()
        time.sleep(10)
    except KeyboardInterrupt:
        raised += 1
    locked += _imp.lock_held()
print(raised, locked)
"""


@pytest.fixture(autouse=True)
def forget():
    yield
    forget_signal()


def test_imports_that_a_signal_ends_are_not_locked(tmp_path):
    for i in range(20):
        (tmp_path / f"module{i}.py").write_text("x = 1\n")
    words = [sys.executable, "-c", f"import sys; sys.path.append({str(tmp_path)!r}){AMID_IMPORTS}"]
    assert run_command(words, check=True).stdout == "150 0\n"


class Destroyed:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


def test_what_a_signal_raises_in_a_destructor_is_raised_after_it():
    with pytest.raises(Interruption), StopRequest({}).signals():
        destroyed = Destroyed()
        del destroyed
        time.sleep(30)
    assert isinstance(error_of_signal(), Interruption)


def test_other_errors_that_python_drops_are_told_as_before(monkeypatch):
    class Fails:
        def __del__(self):
            raise ValueError("in a destructor")

    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(str(dropped.exc_value)))
    with pytest.raises(Interruption), StopRequest({}).signals():
        signal.raise_signal(signal.SIGUSR1)
    Fails()
    forget_signal()
    Fails()
    assert told == ["in a destructor"] * 2


class Held:
    """A lock that a signal comes upon as it is entered or left."""

    held = False

    def __init__(self, when):
        self.when = when

    def __enter__(self):
        self.held = True
        if self.when == "entered":
            signal.raise_signal(signal.SIGTERM)

    def __exit__(self, *_):
        if self.when == "left":
            signal.raise_signal(signal.SIGTERM)
        self.held = False


@pytest.mark.parametrize("when", ["entered", "left"])
def test_what_is_entered_as_a_signal_comes_is_left(when):
    lock = Held(when)
    with pytest.raises(Interruption), StopRequest({}).signals():
        with lock:
            pass
        time.sleep(30)
    assert not lock.held
