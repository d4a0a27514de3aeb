"""Every command on a full disk, and with signals at random moments."""

import errno
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cases import cases
from commands import kill, run_command
from every_command import COMMANDS, prepare
from mpi import MPIEXEC

from petacomm.base import files
from petacomm.cli.main import build_parser as petacomm_parser
from petacomm.cli.main import main as petacomm
from petamap.cli.main import build_parser as petamap_parser
from petamap.cli.main import main as petamap

MAINS = {"petamap": petamap, "petacomm": petacomm}
FULL = 5  # exit code
# SIGTERM stops run, mc and sweep with what to go on from
ENDS = {signal.SIGINT: (130,), signal.SIGTERM: (143, 75)}
# As the scripts that are installed do.
START = "import sys; from {prog}.cli import start_{prog}; sys.exit(start_{prog}())"
ON_RANKS = ("run", "sweep", "simulate", "coadd --joint", "mc", "datatypes")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    made = tmp_path_factory.mktemp("commands") / "files"
    prepare(made)
    return made


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    shutil.copytree(prepared, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def call(name):
    """Run a command within this process, and return its exit code."""
    prog, *words = shlex.split(COMMANDS[name])
    try:
        return MAINS[prog](words)
    except SystemExit as ended:
        return ended.code


@pytest.mark.parametrize("parser", [petamap_parser(), petacomm_parser()], ids=("petamap", "petacomm"))
def test_the_campaign_has_every_command(parser):
    (commands,) = parser._subparsers._group_actions
    tried = [words.split() for words in COMMANDS.values()]
    assert set(commands.choices) == {name for prog, name, *_ in tried if prog == parser.prog}


QUICK = "convert", "net draw", "report"
WRITERS = [name for name, words in COMMANDS.items() if "out" in words or name == "report"]


@pytest.mark.parametrize("name", cases(*QUICK, long=[name for name in WRITERS if name not in QUICK]))
def test_a_full_disk_at_each_write(name, folder, monkeypatch, capsys, outcomes):
    """All files are synced before they get their names: each time another one cannot be."""
    before, sync, n = content(folder), files._sync, 0
    while True:
        n, calls = n + 1, 0

        def synced(path):
            nonlocal calls
            calls += 1
            if calls >= n:  # noqa: B023
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            sync(path)

        monkeypatch.setattr(files, "_sync", synced)
        code = call(name)
        monkeypatch.setattr(files, "_sync", sync)
        said = capsys.readouterr().err
        if code == 0:
            break
        assert n < 200 and calls, said  # else it ended for another reason
        outcomes.ended(f"{name}: write {n} fails", code == FULL and said.count(": error: ") == 1, said)
        found = content(folder)
        assert {path: found.get(path) for path in before if not path.startswith("copy")} == {
            path: old for path, old in before.items() if not path.startswith("copy")
        }
        for path in set(found) - set(before):
            assert not Path(path).name.startswith("."), path
        for path in folder.glob("out*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert n > 1 and not outcomes.bad


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "name", cases("net predict", long=[name for name in COMMANDS if name != "net predict"])
)
def test_a_full_device_in_place_of_the_screen(name, unbuffered, folder, outcomes):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    prog, *words = shlex.split(COMMANDS[name])
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", f"{prog}.cli.main", *words]
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        ended = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=environment
        )
    fine = ended.returncode in (0, 1, FULL) and not re.search("Traceback|Exception ignored", ended.stderr)
    outcomes.ended(name, fine, ended.stderr)
    assert not outcomes.bad


@pytest.mark.parametrize(
    ("name", "lost"),
    cases(
        ("run", "stderr"), ("mc", "stderr"), ("run --dry-run", "stdout"),
        long=[(name, lost) for name in COMMANDS for lost in ("stdout", "stderr")],
    ),
)  # fmt: skip
def test_a_pipe_that_nobody_reads_in_place_of_the_screen(name, lost, folder, outcomes):
    prog, *words = shlex.split(COMMANDS[name])
    words = [sys.executable, "-m", f"{prog}.cli.main", *words]
    expected = subprocess.run(words, capture_output=True, timeout=60).returncode
    made = {path for path in content(folder) if not path.startswith(".")}
    for path in folder.glob("out*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    reading, writing = os.pipe()
    os.close(reading)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {lost: writing}
    ended = subprocess.run(words, text=True, timeout=60, **streams)
    os.close(writing)
    said = (ended.stdout or "") + (ended.stderr or "")
    whole = made <= set(content(folder)) and ended.returncode == expected
    outcomes.ended(f"{name}, {lost}", whole and not re.search("Traceback|BrokenPipe", said), said)
    assert not outcomes.bad


def end_of(words):
    """Return the exit code of a command that nothing disturbs, and its seconds."""
    begin = time.monotonic()
    ended = run_command(words, 120)
    return ended.returncode, time.monotonic() - begin


@pytest.mark.parametrize(
    ("name", "n_ranks", "n_tries"),
    cases(("mc", 1, 1), long=[*((name, 1, 5) for name in COMMANDS), *((name, 3, 5) for name in ON_RANKS)]),
)
def test_signals_at_random_moments(name, n_ranks, n_tries, folder, outcomes):
    prog, *words = shlex.split(COMMANDS[name])
    launcher = [str(MPIEXEC), "-n", str(n_ranks)] if n_ranks > 1 else []
    words = [*launcher, sys.executable, "-c", START.format(prog=prog), *words]
    chance, (code, whole) = random.Random(name), end_of(words)
    expected = {path: data for path, data in content(folder).items() if path.endswith((".fits", ".h5"))}
    for _ in range(n_tries):
        for path in folder.glob("out*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        number = chance.choice(list(ENDS))
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        try:
            moment = chance.uniform(min(0.2, whole / 2), whole)  # before, Python tells of it itself
            time.sleep(moment)
            process.send_signal(number)
            said = process.communicate(timeout=20)[1]
        except subprocess.TimeoutExpired:
            kill(process)
            pytest.fail(f"{name}: does not end after {number.name} at {moment:.2f} s")
        # a launcher makes codes of its own of a signal that it gets
        known = n_ranks > 1 or process.returncode in (code, *ENDS[number], -number)
        # Python tells itself of an interrupt before the command begins; where it has nobody to raise an
        # exception for, it prints and ignores it, and we raise it anew
        its_own = "Exception ignored in" in said or "start_command" not in said
        fine = known and ("Traceback" not in said or its_own)
        outcomes.ended(f"{name}: {number.name} at {moment:.2f} s", fine, f"{process.returncode} {said}")
    if name in ("coadd --joint", "convert", "init", "simulate"):  # do not replace what they have finished
        for path in folder.glob("out*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    again = run_command([*words, *(["--resume"] if name in ("run", "mc", "sweep") else [])], 120)
    assert again.returncode in (0, 1), again.stderr
    assert {path: (folder / path).read_bytes() for path in expected} == expected
    assert not outcomes.bad
