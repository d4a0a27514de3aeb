"""Commands that are run to their end, and do not outlive the process that runs them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from petacomm.base.errors import ConfigError
from petacomm.base.threads import WAIT_SECONDS

_ENDING = 20  # seconds that a job has to end when it is asked to


def run_to_end(command: Sequence[str], environment: Mapping[str, str], **streams: Any) -> int:
    """Run a command and return its exit code; if this process is stopped, so is the job.

    Parameters
    ----------
    command : sequence of str
    environment : mapping of str to str
    **streams
        As of `subprocess.Popen`; by default those of this process.

    Raises
    ------
    ConfigError
        If there is no such program, or it cannot be run.
    """
    try:
        job = subprocess.Popen(list(command), env=dict(environment), **streams)
    except OSError as error:
        raise ConfigError(f"'{command[0]}' cannot be run: {error.strerror}", mend=None) from None
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return job.wait(WAIT_SECONDS)
    except BaseException:
        job.terminate()
        try:
            job.wait(_ENDING)
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()
        raise
