"""Commands that tests run, bounded in time with all processes that they start."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path


def run_command(words, timeout=180.0, check=False, input=None, **options):
    """Return the `subprocess.CompletedProcess` of a command, its output as text.

    Output goes to files: what a killed command has started may live on, and would keep a pipe open for ever.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        feed = {"stdin": subprocess.PIPE} if input is not None else {}
        process = subprocess.Popen(
            list(map(str, words)),
            stdout=out,
            stderr=err,
            start_new_session=True,
            text=True,
            **feed,
            **options,
        )
        try:
            process.communicate(input, timeout)
        except BaseException:
            kill(process)
            raise
        said = [file.seek(0) or file.read() for file in (out, err)]
    done = subprocess.CompletedProcess(process.args, process.returncode, *said)
    if check:
        assert done.returncode == 0, (
            f"{' '.join(process.args)}\nended with {done.returncode}:\n{''.join(said)}"
        )
    return done


def kill(process):
    """Kill a process and all that it has started."""
    for pid in [*descendants(process.pid), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def descendants(pid):
    """Return all processes that a process has started, and those that they have."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found
