"""Fuzz the parsers of files, led by the branches that inputs take (atheris, libFuzzer).

python tests/support/fuzz_parsers.py MINUTES [NAME...]

Each parser is fuzzed for so many minutes of the processor, whatever else runs, and a line says how many
inputs it was given and how many branches of petamap and petacomm they took. What is no typed error, takes
10 s or 2 GB is a finding: it is told, its input kept in fuzz/, and the exit code is 1.
"""

from __future__ import annotations

import gc
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FunctionType
from typing import NoReturn

PACKAGES = ("petamap", "petacomm")

# Written anew for each input, which a disk would take longer for than most parsers.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SECONDS, MEGABYTES = 10, 2048  # of an input: seconds of the processor
HANG = 3600  # seconds after which one in compiled code is a finding, though others have the processor


def instrument() -> None:
    """Have the branches told that functions of petamap and petacomm take.

    Of the functions themselves: the hook of imports passes over modules that a loader of an editable install
    brings.
    """
    import atheris

    for found in gc.get_objects():
        if isinstance(found, FunctionType) and str(found.__module__).partition(".")[0] in PACKAGES:
            atheris.instrument_func(found)


def fuzz(name: str, seconds: int, corpus: Path) -> None:
    """Fuzz a parser in this process, which ends."""
    import atheris
    from parsers import READERS

    from petacomm.base.errors import UserError

    (whole,) = corpus.iterdir()
    READERS[name](Path(shutil.copy(whole, corpus.parent / name)))  # imports what it needs
    instrument()
    path, begin, counts = corpus.parent / name, time.process_time(), itertools.count(1)
    signal.signal(signal.SIGPROF, _takes_too_long)

    def attempt(content: bytes) -> None:
        number = next(counts)
        if time.process_time() - begin > seconds:
            print(f"#{number} END", file=sys.stderr, flush=True)
            os._exit(0)
        path.write_bytes(content)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of the processor: this process may be suspended
        try:
            READERS[name](path)
        except UserError as error:
            if name not in str(error):
                raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    # the fuzzer's own memory grows by 85 bytes an input: a gigabyte in half an hour
    limits = [f"-timeout={HANG}", f"-malloc_limit_mb={MEGABYTES}", f"-rss_limit_mb={4 * MEGABYTES}"]
    found = Path("fuzz") / name
    found.mkdir(parents=True, exist_ok=True)
    atheris.Setup([sys.argv[0], str(corpus), f"-artifact_prefix={found}/", *limits], attempt)
    atheris.Fuzz()


def _takes_too_long(*_: object) -> NoReturn:
    raise TimeoutError(f"an input takes {SECONDS} s of the processor")


def main(minutes: float, names: list[str]) -> int:
    """Fuzz parsers one by one, and return the exit code."""
    from parsers import seeds

    failed = 0
    for name, seed in seeds().items():
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            corpus = Path(folder) / "corpus"
            corpus.mkdir()
            (corpus / "seed").write_bytes(seed)
            words = [sys.executable, __file__, "--one", name, str(round(60 * minutes)), str(corpus)]
            ended = subprocess.run(words, capture_output=True, text=True, errors="replace")
        counts = re.findall(r"^#(\d+)", ended.stderr, re.MULTILINE)
        lines = re.findall(r" cov: (\d+)", ended.stderr)
        done = f"{name:<20}{counts[-1] if counts else 0:>12} inputs{lines[-1] if lines else 0:>8} branches"
        sound = ended.returncode == 0 and lines
        print(f"{done}   no finding" if sound else f"{done}   A FINDING, or nothing led it", flush=True)
        if not sound:
            print(ended.stdout[-3000:], ended.stderr[-3000:])
            failed += 1
    return int(failed > 0)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        fuzz(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
