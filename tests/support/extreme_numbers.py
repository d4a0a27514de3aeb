"""Runs with extreme numbers of one option each, made one after the other in this process.

python tests/support/extreme_numbers.py FOLDER KIND STEP

KIND is a kind of source, whose template is run with numbers of its own options; or "sections", for those of
all sections, with a satellite. Each STEP-th of its runs is made. A run is a line of JSON on the standard
output, written before it begins and once more when it has ended: the last line of a process that was ended
names the run.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from pysm_templates import write_pysm_templates

from petacomm.base.units import units_by_dimension
from petamap.cli.main import main
from petamap.data.config import SECTIONS
from petamap.data.config.fields import OptionField, option_fields
from petamap.data.config.source_kinds import source_kind
from petamap.sky.map_file import read_map

SECONDS = 30  # of a run
NOT_CONVERGED = 4  # exit code
MEMORY = 4 << 30
REALS = ("0", "-1", "1e-300", "1e-15", "1e15", "1e300", "nan", "inf", "-inf")
INTEGERS = ("0", "-1", "1", "2147483648", "9223372036854775807", "1" + 30 * "0")
INTERNAL = {"angle": "rad", "frequency": "Hz", "time": "s", "temperature": "K", "noise": "K s^0.5"}


class TooLong(BaseException):
    """Raised where a run takes longer than any should."""


def numbers(field: OptionField) -> list[str]:
    """Return values of an option, as they are written."""
    if field.scalar not in (int, float):
        return []
    found = INTEGERS if field.scalar is int else REALS
    if field.dimension:
        unit = INTERNAL.get(field.dimension) or units_by_dimension()[field.dimension][0]
        found = tuple(f'"{one} {unit}"' for one in found)
    if field.length is None:
        return list(found)
    return ["[" + ", ".join([one] * max(1, field.length)) + "]" for one in found]


def overrides(kind: str) -> Iterator[str]:
    """Iterate over settings of the command line."""
    if kind != "sections":
        places = {f"source.{kind}": source_kind(kind).fields}
    else:
        places = {name: option_fields(options) for name, options in SECTIONS.items()}
    for place, fields in places.items():
        for name, field in fields.items():
            yield from (f"{place}.{name}={value}" for value in numbers(field))


def outcome(words: list[str], maps: Path) -> tuple[str, str]:
    """Return how a run ended: typed, harmless, silent, traceback or hang; and what it said."""
    said = io.StringIO()
    signal.alarm(SECONDS)
    try:
        with redirect_stdout(said), redirect_stderr(said):
            code = main(words)
    except TooLong:
        return "hang", ""
    except SystemExit as error:
        code = error.code
    except BaseException as error:
        return "traceback", repr(error)
    finally:
        signal.alarm(0)
    told = said.getvalue()
    if "Traceback" in told:
        return "traceback", told[-800:]
    if code not in (0, NOT_CONVERGED):
        return ("typed" if "petamap: error: " in told else "traceback"), f"{code} {told[-300:]}"
    return ("harmless" if is_whole(maps) else "silent"), told[-300:]


def is_whole(maps: Path) -> bool:
    """Return whether all pixels that a run solved for have numbers."""
    totals = json.loads((maps / "summary.json").read_text())["totals"]
    n_finite = [np.isfinite(read_map(path).values).all(0).sum() for path in maps.glob("*_map.fits")]
    return sum(n_finite) >= totals["pixels_observed"] - totals["pixels_cut"]


def run_some(folder: Path, kind: str, step: int) -> None:
    """Make each step-th run of a kind."""
    os.chdir(folder)
    if kind == "sky-pysm":  # which would fetch its templates from the network
        write_pysm_templates(folder)
        os.environ["PYSM_LOCAL_DATA"] = str(folder)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def ring(*_: Any) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, ring)
    with redirect_stdout(io.StringIO()):
        main(["init", f"{kind}.toml", "--kind", "satellite" if kind == "sections" else kind])
    for override in list(overrides(kind))[::step]:
        print(json.dumps([kind, override]), flush=True)
        begin = time.monotonic()
        words = ["run", f"{kind}.toml", "map.n_side=4", "products.report=false", override]
        found = outcome([*words, "--out", f"out-{kind}", "--force"], Path(f"out-{kind}"))
        print(json.dumps([kind, override, *found, round(time.monotonic() - begin, 2)]), flush=True)


if __name__ == "__main__":
    run_some(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
