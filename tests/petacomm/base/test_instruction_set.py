"""The instruction set of the kernels: the best that the processor has, or the one asked for."""

import os
import platform
import sys
from pathlib import Path

import pytest
from commands import run_command

from petacomm.base import instruction_set
from petacomm.base.errors import ConfigError
from petacomm.base.host import cpu_info

LEVELS = {
    "v2": {"cx16", "popcnt", "lahf_lm", "sse4_2"},
    "v3": {"abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
    "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


@pytest.fixture
def machine(monkeypatch):
    """Return a function that sets what was built, what the processor has and what is asked for."""

    def change(built, has, asked=""):
        monkeypatch.setattr(instruction_set, "built_sets", built.split)
        monkeypatch.setattr(instruction_set, "processor_sets", ("baseline " + has).split)
        monkeypatch.setenv("PETAMAP_ARCH", asked)

    instruction_set.kernel_set.cache_clear()
    yield change
    instruction_set.kernel_set.cache_clear()


@pytest.mark.parametrize(
    ("built", "has", "asked", "expected"),
    [
        ("v2 v3 v4", "v2 v3 v4", "", "v4"),
        ("v2 v3 v4", "v2 v3", "", "v3"),
        ("v2 v3 v4", "v2 v3 v4", "v2", "v2"),
        ("v2", "v2 v3 v4", "", "v2"),
        ("baseline", "", "", "baseline"),
        ("baseline", "v2 v3 v4", "baseline", "baseline"),
    ],
)
def test_the_best_or_what_is_asked_for(machine, built, has, asked, expected):
    machine(built, has, asked)
    assert instruction_set.kernel_set() == expected
    assert instruction_set.kernel_folders(["/a/sky"]) == [os.path.join("/a/sky", expected)]


@pytest.mark.parametrize(
    ("built", "has", "asked", "message"),
    [
        (
            "v2 v3 v4", "v2 v3", "V3",
            r"PETAMAP_ARCH: there are no kernels for 'V3' \(PETAMAP_ARCH=v2 or v3, or none\)",
        ),
        ("v2 v3 v4", "v2 v3", "v4", r"PETAMAP_ARCH: this processor .* has not all instructions of v4 \(.*v3"),
        ("v3 v4", "v2", "", r"kernels: this processor .* of v3 \(build petamap on this machine\)"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_an_error(machine, built, has, asked, message):
    machine(built, has, asked)
    with pytest.raises(ConfigError, match=message):
        instruction_set.kernel_set()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels are those of x86-64")
def test_levels_are_those_of_the_processors_flags():
    flags = set(cpu_info("flags").split())
    if not flags:
        pytest.skip("there is no /proc/cpuinfo")
    has, needed = ["baseline"], set()
    for name, more in LEVELS.items():
        needed |= more
        if needed <= flags:
            has.append(name)
    assert instruction_set.processor_sets() == has


def test_modules_are_those_of_the_set():
    code = "from petamap.noise import _noise; print(_noise.__file__)"
    for name in instruction_set.built_sets():
        if name in instruction_set.processor_sets():
            done = run_python(code, name)
            assert Path(done.stdout.strip()).parent.name == name


def test_commands_refuse_what_is_not_there(tmp_path):
    done = run_python("import petamap; petamap.Healpix(1)", "v1")
    assert "ConfigError: PETAMAP_ARCH: there are no kernels for 'v1'" in done.stderr
    program = [sys.executable, "-c", "from petamap.cli import start_petamap; start_petamap()"]
    command = [*program, "run", "--example", "spire", "--out", tmp_path]
    done = run_command(command, env={**os.environ, "PETAMAP_ARCH": "v1"})
    assert done.returncode == ConfigError.exit_code
    assert done.stderr.startswith("petamap: error: PETAMAP_ARCH: there are no kernels for 'v1'")
    assert len(done.stderr.splitlines()) == 1


def run_python(code, wanted):
    return run_command([sys.executable, "-c", code], env={**os.environ, "PETAMAP_ARCH": wanted})
