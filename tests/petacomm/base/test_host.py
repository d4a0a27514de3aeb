"""Memory that processes may take: of all that limits it, the least."""

import os
import platform
import resource
import sys

import pytest
from commands import run_command

from petacomm.base import host


@pytest.fixture
def free(monkeypatch):
    """A host of which 64 GB are free, without limits."""
    monkeypatch.setattr(host, "memory_left", lambda: None)
    monkeypatch.setattr(host, "_kilobytes", lambda file, key: 64_000_000 if key == "MemAvailable:" else 0)
    monkeypatch.setattr(host, "resident_bytes", lambda: 1 << 20)
    monkeypatch.setattr(host.resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)
    for name in ("MEM_PER_NODE", "MEM_PER_CPU", "CPUS_ON_NODE"):
        monkeypatch.delenv(f"SLURM_{name}", raising=False)


@pytest.mark.usefixtures("free")
def test_what_is_shared_is_divided(monkeypatch):
    assert host.memory_bounds(4) == {"free memory": 16_000_000 * 1024}
    monkeypatch.setattr(host, "memory_left", lambda: 4000)
    assert host.available_bytes() == 4000 and host.available_bytes(4) == 1000


@pytest.mark.usefixtures("free")
def test_what_was_asked_of_slurm(monkeypatch):
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "512")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "16")
    assert host.available_bytes(2) == (4096 - 1) << 20
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "1024")
    assert host.available_bytes(2) == (512 - 1) << 20
    for all_of_it in ("0", "", "much", "²"):
        monkeypatch.setenv("SLURM_MEM_PER_NODE", all_of_it)
        monkeypatch.setenv("SLURM_MEM_PER_CPU", "0")
        assert "the memory asked of Slurm" not in host.memory_bounds()


def test_the_limit_of_a_process_is_its_own():
    code = "import petacomm.base.host as host; print(host.memory_bounds(8)['ulimit -v'])"
    ended = run_command(
        ["/bin/sh", "-c", 'ulimit -v 8388608; exec "$0" "$@"', sys.executable, "-c", code], check=True
    )
    assert 7 << 30 < int(ended.stdout) < 8 << 30


def test_a_limit_without_room_for_libraries_is_told_at_once():
    words = ["-m", "petamap.cli.main", "plan", "--machines"]
    done = run_command(["/bin/sh", "-c", 'ulimit -v 200000; exec "$0" "$@"', sys.executable, *words])
    assert done.returncode == 5
    assert done.stderr == (
        "petamap: error: ulimit -v 200000 leaves no room for libraries (allow 524288 or more)\n"
    )


def test_all_memory_is_the_bound_where_the_system_does_not_tell_what_is_free(monkeypatch):
    free = host.memory_bounds()["free memory"]
    monkeypatch.setattr(host, "_kilobytes", lambda file, key: None)
    bounds = host.memory_bounds(2)
    assert "free memory" not in bounds
    assert free / 2 - host.resident_bytes() < bounds["the memory of the machine"] < sys.maxsize


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator of glibc")
def test_memory_that_is_freed_is_used_again():
    code = """
import resource, sys
import numpy as np
from petacomm.base.host import keep_freed_memory
keep_freed_memory()
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(250_000), np.ones(250_000)
before = faults()
for _ in range(50): np.ones(250_000), np.ones(250_000)
print(faults() - before)
"""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("MALLOC_")}
    done = [
        run_command([sys.executable, "-c", code], env=environment | more, check=True).stdout
        for more in ({}, {"MALLOC_TRIM_THRESHOLD_": "131072"})
    ]
    kept, as_asked = map(int, done)
    assert kept < 500  # an array has 500 pages
    assert as_asked > 10_000
