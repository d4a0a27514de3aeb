"""A Monte Carlo that is killed at any moment, and goes on."""

import multiprocessing
import random
import time

import h5py
import numpy as np
import pytest
from montecarlo.mc import TINY, arrays, same

from petamap.cli.main import main

N_KILLS, N_REALIZATIONS = 20, 50
# long enough for 20 kills: what a run needs before its first realization is more than one takes
SETTINGS = (f"montecarlo.realizations={N_REALIZATIONS}", "source.0.duration=3 h", "montecarlo.maps=true")


@pytest.fixture(scope="module")
def forks():
    """Processes that have imported everything and started no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["petamap.montecarlo.run", "petamap.cli.progress", "ducc0", "h5py", "scipy.spatial"]
    )
    return context


def finished(path):
    """Return how many realizations a file has; 0 where there is none."""
    if not path.exists():
        return 0
    with h5py.File(path) as file:
        return int(np.count_nonzero(file["status"][...]))


def test_killed_twenty_times_it_ends_with_the_same_bytes(tmp_path, forks):
    (tmp_path / "tiny.toml").write_text(TINY)
    words = ["mc", str(tmp_path / "tiny.toml"), *SETTINGS]
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    whole = arrays(tmp_path / "whole")
    path, chance, counts = tmp_path / "killed" / "tiny_mc.h5", random.Random(5), []
    for kill in range(N_KILLS):
        process = forks.Process(target=main, args=([*words, "--batch", "1", "--out", str(path.parent)],))
        process.start()
        _let_go_on(path, process, at_least=kill * (N_REALIZATIONS - 5) // N_KILLS)
        time.sleep(chance.uniform(0, 0.06))
        process.kill()
        process.join()
        assert process.exitcode == -9
        counts.append(finished(path))
        part = arrays(path.parent) if path.exists() else {"status": np.zeros(0)}
        done = np.flatnonzero(part["status"] == 1)
        for name in whole:
            if name not in ("status", "numbers", "weights", "theory") and len(done):
                assert same(part[name][done], whole[name][done]), name
    assert counts == sorted(counts) and 0 < counts[N_KILLS // 2] < counts[-1] < N_REALIZATIONS
    assert main([*words, "--out", str(path.parent)]) == 0
    assert path.read_bytes() == (tmp_path / "whole" / "tiny_mc.h5").read_bytes()


def _let_go_on(path, process, at_least):
    """Wait until a file has so many realizations."""
    end = time.monotonic() + 30
    while finished(path) < at_least:
        assert process.is_alive() and time.monotonic() < end, finished(path)
        time.sleep(0.002)
