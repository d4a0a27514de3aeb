"""Work over threads: order, errors and states; and timers of phases."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from commands import run_command
from threadpoolctl import threadpool_info, threadpool_limits

from petacomm.base.launcher import launcher_process
from petacomm.base.threads import (
    add_by_threads,
    available_threads,
    end_if_cancelled,
    map_ahead,
    map_threads,
    map_with_states,
    node_processors,
    single_blas_thread,
)
from petacomm.base.timers import Timers


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_come_in_order(n_threads):
    assert map_threads(lambda x: x * x, range(50), n_threads) == [x * x for x in range(50)]
    assert map_threads(lambda x: x, [], n_threads) == []


@pytest.mark.parametrize("n_threads", [1, 3])
def test_the_first_error_is_raised_and_other_work_cancelled(n_threads):
    done = []

    def work(x):
        if x == 3:
            raise KeyError(x)
        done.append(x)

    with pytest.raises(KeyError, match="3"):
        map_threads(work, range(100_000), n_threads)
    assert len(done) < 100_000


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_come_in_order_a_few_ahead(n_threads):
    begun = []

    def work(x):
        begun.append(x)
        return x * x

    found = []
    for value in map_ahead(work, range(60), n_threads):
        found.append(value)
        assert len(begun) <= len(found) + 2 * n_threads
    assert found == [x * x for x in range(60)]
    assert list(map_ahead(work, [], n_threads)) == []


@pytest.mark.parametrize("n_threads", [1, 3])
def test_errors_come_in_order_and_end_the_work_ahead(n_threads):
    done = []

    def work(x):
        if x == 20:
            raise KeyError(x)
        done.append(x)
        return x

    results = map_ahead(work, range(100_000), n_threads)
    with pytest.raises(KeyError, match="20"):
        for number, value in enumerate(results):
            assert value == number < 20
    assert max(done) < 20 + 2 * n_threads
    unfinished = map_ahead(work, range(21, 100_000), n_threads)
    next(unfinished)
    unfinished.close()
    assert max(done) <= 21 + 2 * n_threads


def long_work(begun, ended):
    """Return work of which the first item fails once another one is in its many steps."""

    def work(item):
        if item == 0:
            begun.wait(10)
            raise KeyError(item)
        begun.set()
        for _ in range(2000):
            end_if_cancelled()
            time.sleep(0.005)
        ended.append(item)

    return work


def test_work_that_nobody_waits_for_ends_between_two_steps():
    begun, ended = threading.Event(), []
    with pytest.raises(KeyError):
        map_threads(long_work(begun, ended), range(2), 2)
    assert begun.is_set() and not ended


def test_a_signal_ends_the_work_of_all_threads_between_two_steps():
    begun, ended = threading.Event(), []

    def interrupt():
        begun.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        map_threads(long_work(begun, ended), [1, 2], 2)
    assert begun.is_set() and not ended


def test_a_signal_that_does_not_end_a_wait_is_seen_soon_after():
    """It is handled in a thread at work, as one that comes just before the main thread begins to wait."""
    ended = []

    def work(item):
        if item == 0:
            time.sleep(0.1)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            for _ in range(2000):
                end_if_cancelled()
                time.sleep(0.005)
            ended.append(item)

    with pytest.raises(KeyboardInterrupt):
        map_threads(work, range(2), 2)
    assert not ended


def test_work_outside_of_threads_is_never_cancelled():
    end_if_cancelled()
    assert map_threads(lambda _: end_if_cancelled(), range(3), 2) == [None] * 3


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_each_item_is_processed_once_with_the_state_of_its_thread(n_threads):
    owners = {}

    def work(state, item):
        assert owners.setdefault(id(state), threading.get_ident()) == threading.get_ident()
        state.append(item)

    states = map_with_states(list, work, iter(range(1000)), n_threads)
    assert len(states) == n_threads
    assert sorted(np.concatenate(states).tolist()) == list(range(1000))


@pytest.mark.parametrize("n_threads", [1, 4])
def test_an_error_in_a_worker_is_raised(n_threads):
    def work(state, item):
        if item == 7:
            raise ValueError("seven")

    with pytest.raises(ValueError, match="seven"):
        map_with_states(list, work, range(1000), n_threads)


@pytest.mark.parametrize("n_threads", [1, 4])
def test_the_error_of_the_first_item_that_fails_is_raised_at_once(n_threads):
    begun = []
    later_failed = threading.Event()

    def work(state, item):
        begun.append(item)
        if item == 20:
            later_failed.wait(0.0 if n_threads == 1 else 5.0)
        if item in (20, 21, 22):
            later_failed.set()
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 20"):
        map_with_states(list, work, range(100_000), n_threads)
    assert len(begun) < 30


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_a_signal_ends_work_with_states_after_an_item(n_threads):
    done = []

    def work(state, x):
        if len(done) == 20:
            signal.raise_signal(signal.SIGINT)
        time.sleep(1e-3)
        done.append(x)

    with pytest.raises(KeyboardInterrupt):
        map_with_states(list, work, range(100_000), n_threads)
    assert len(done) < 1000


def test_a_state_that_cannot_be_made_is_an_error_on_any_thread():
    calls = iter(range(3))

    def new_state():
        if next(calls) == 1:
            raise MemoryError
        return []

    with pytest.raises(MemoryError):
        map_with_states(new_state, lambda state, x: time.sleep(1e-3), range(1000), 3)


def test_at_least_one_thread_is_available():
    assert available_threads() >= 1


def test_each_blas_runs_on_one_thread_in_the_context():
    import scipy.linalg  # noqa: F401 (has a BLAS of its own)

    with threadpool_limits(2, "blas"), single_blas_thread():
        found = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
    assert len(found) >= 1 and set(found) == {1}


def test_phases_add_up_and_keep_their_order():
    sent = iter([0, 5, 5, 12, 20, 20])
    timers = Timers(lambda: (n := next(sent), 3 * n, 2 * n))
    with timers.phase("b"):
        pass
    with timers.phase("a") as phase:
        phase.calls += 1
    with pytest.raises(KeyError), timers.phase("b"):
        raise KeyError
    assert list(timers.phases) == ["b", "a"]
    b, a = timers.phases["b"], timers.phases["a"]
    assert (b.calls, b.bytes, a.calls, a.bytes) == (2, 5, 2, 7)
    assert (b.messages, a.messages) == (15, 21)
    assert (b.collectives, a.collectives) == (10, 14)
    assert b.seconds >= 0 and a.seconds >= 0


# threads of kernels where there is no room for the stacks of all of them
_FEW_STACKS = """
import resource
import numpy as np
from petacomm.sharing.index_map import rows_of_keys
keys = np.arange(100_000)
rows_of_keys(keys, keys, 3)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (100 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    rows_of_keys(keys, keys, 200)
except RuntimeError as error:
    print(error)
print(rows_of_keys(keys, keys, 3)[-1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_of_kernels_that_cannot_be_started_are_an_error_and_not_the_end():
    said = run_command([sys.executable, "-c", _FEW_STACKS], check=True).stdout.split("\n")
    assert said[0].startswith("can't start new thread: ") and said[0].endswith(" of 200 run")
    assert said[1] == "99999"


_FORKED = """
import os, signal
import numpy as np
from petacomm.sharing.index_map import rows_of_keys
keys = np.arange(100_000)
rows_of_keys(keys, keys, 3)
child = os.fork()
signal.alarm(30)
os.write(1, b"%d\\n" % rows_of_keys(keys, keys, 3)[-1])  # a line at once: both have the pipe
if child:
    print(os.waitpid(child, 0)[1])
"""


def test_kernels_have_threads_in_forked_processes():
    assert run_command([sys.executable, "-c", _FORKED], check=True).stdout.split() == ["99999", "99999", "0"]


@pytest.mark.parametrize(
    ("asked", "threads"), [("1", 1), ("3,2", 3), ("1000", 8), ("", 8), ("0", 8), ("many", 8), (" 2", 2)]
)
def test_omp_num_threads_may_make_them_fewer(asked, threads, monkeypatch):
    monkeypatch.setattr("petacomm.base.threads.allowed_processors", lambda: list(range(8)))
    monkeypatch.setattr("petacomm.base.threads.processor_quota", lambda: None)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert available_threads() == threads


@pytest.mark.parametrize("asked", ["2,1", " 1 , 2", "many", "-1"])
def test_transforms_work_where_openmp_is_asked_for_threads_of_each_level(asked):
    program = "import petacomm, numpy, ducc0; print(ducc0.fft.c2c(numpy.ones(4), nthreads=2).real)"
    environ = {name: value for name, value in os.environ.items() if name != "DUCC0_NUM_THREADS"}
    said = run_command(
        [sys.executable, "-c", program], check=True, env=environ | {"OMP_NUM_THREADS": asked}
    ).stdout
    assert said == "[4. 0. 0. 0.]\n"


def test_a_quota_may_make_them_fewer(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("petacomm.base.threads.allowed_processors", lambda: list(range(8)))
    for quota, threads in ((2.5, 2), (0.5, 1), (16.0, 8)):
        monkeypatch.setattr("petacomm.base.threads.processor_quota", lambda quota=quota: quota)
        assert available_threads() == threads
        assert node_processors() == threads


def test_processors_of_a_node_are_those_of_the_launcher(monkeypatch):
    monkeypatch.setattr("petacomm.base.threads.processor_quota", lambda: None)
    monkeypatch.setattr("petacomm.base.threads.allowed_processors", lambda: [1])
    monkeypatch.setattr("petacomm.base.threads.launcher_process", lambda: 12)
    monkeypatch.setattr("os.sched_getaffinity", {12: {1, 2, 5}}.__getitem__, raising=False)
    assert node_processors() == 3
    monkeypatch.setattr("petacomm.base.threads.launcher_process", lambda: None)
    assert node_processors() == 1
    monkeypatch.setattr("petacomm.base.threads.launched_rank", lambda: "0")
    assert node_processors() == os.cpu_count(), "a launcher that does not show itself"


def _write_process(folder, number, parent, environ):
    (folder / number).mkdir()
    (folder / number / "stat").write_text(f"{number} (a (name) b) S {parent} 1 1")
    if environ is not None:
        (folder / number / "environ").write_text("\0".join(f"{n}={v}" for n, v in environ.items()) + "\0")


def test_the_launcher_is_the_nearest_that_was_told_other_things(tmp_path):
    told = {"PMI_RANK": "1", "PMI_SIZE": "2"}
    _write_process(tmp_path, "self", 30, told)
    _write_process(tmp_path, "30", 20, told | {"A": "b"})
    _write_process(tmp_path, "20", 10, {"PMI_RANK": "0", "PMI_SIZE": "2"})  # a rank of a job around this one
    assert launcher_process(told, tmp_path) == 20
    assert launcher_process({"A": "b"}, tmp_path) is None, "no launcher"
    assert launcher_process(told | {"PMI_FD": "7"}, tmp_path) == 30
    (tmp_path / "20/environ").unlink()
    assert launcher_process(told, tmp_path) == 20, "of another user"
    (tmp_path / "20/environ").write_text("PMI_RANK=1\0PMI_SIZE=2\0")
    assert launcher_process(told, tmp_path) == 10, "whatever that was told"
    (tmp_path / "20/stat").unlink()
    assert launcher_process(told, tmp_path) is None


@pytest.mark.parametrize("shape", [(0, 3), (1, 2), (7, 3), (64,)])
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_sums_of_threads_are_added_up_in_the_memory_of_the_first(n_threads, shape):
    arrays = list(np.random.default_rng(n_threads).integers(-(2**62), 2**62, (n_threads, *shape)))
    expected = np.sum(arrays, axis=0, dtype=np.int64)  # wraps around, as sums of threads do
    assert add_by_threads(arrays) is arrays[0]
    np.testing.assert_array_equal(arrays[0], expected)
