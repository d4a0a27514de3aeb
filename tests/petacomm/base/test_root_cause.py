"""What a signal raised is told, also where a library puts its own error in the place of it."""

import os
import signal
import sys

import numpy as np
import pytest

from petacomm.base.errors import DataError, Interruption
from petacomm.base.root_cause import root_cause
from petacomm.base.signal_errors import forget_signal, raise_of_signal
from petacomm.base.stop_request import StopRequest
from petacomm.cli import parser


@pytest.fixture(autouse=True)
def forget():
    yield
    forget_signal()


def test_the_error_of_a_signal_is_the_cause_of_others():
    end, defect, told = Interruption("stopped"), TypeError("cannot compare"), DataError("no map")
    assert root_cause(defect) is defect
    with pytest.raises(Interruption):
        raise_of_signal(end, signal.SIGTERM)
    assert root_cause(defect) is end and root_cause(end) is end
    assert root_cause(told) is told  # the program knew what it said
    assert root_cause(SystemExit(3)).code == 3
    forget_signal()
    assert root_cause(defect) is defect
    assert root_cause(MemoryError(), rank=2).what == "rank 2 has no memory left"


def compare(number):
    """Compare structured arrays, as `numpy.unique` along an axis does; a signal comes when it asks Python."""

    def called(frame, event, _):
        if event == "call" and frame.f_code.co_name == "_promote_fields":
            os.kill(os.getpid(), number)

    rows = np.zeros(3, dtype=[("a", "u4"), ("b", "u4")])
    sys.setprofile(called)
    try:
        return rows[1:] == rows[:-1]
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_in_a_comparison_of_numpy(number):
    with pytest.raises(TypeError) as caught, StopRequest({}).signals():
        compare(number)
    assert type(root_cause(caught.value)) is Interruption
    with StopRequest({}).signals():  # another command of this process
        assert root_cause(caught.value) is caught.value


def test_the_end_of_the_time_in_a_comparison_of_numpy():
    with pytest.raises(TypeError) as caught, StopRequest({}).signals():
        compare(signal.SIGALRM)
    assert "the time of the job ends" in str(root_cause(caught.value))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_that_a_signal_ends_in_a_comparison(number, code, capsys):
    def build():
        command = parser.Parser(prog="tool")
        command.set_defaults(command="compare", handler=lambda _: compare(number))
        return command

    assert parser.run_command(build, []) == code
    said = capsys.readouterr().err
    assert said.startswith("tool: ") and "files already written are whole" in said and said.count("\n") == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
