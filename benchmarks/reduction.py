"""petamap's reductions beside others, on 4, 8 and 16 ranks: three float64 a key, packing included.

    make benchmark-reduction                    # with PETSc, under Debian's Open MPI
    python benchmarks/reduction.py              # without PETSc, under the MPI beside this Python

All contenders are set up in the same processes and take turns; a time is that of the slowest rank, and each
figure the median of all turns; memory is that which a plan keeps, keys included, of the rank that keeps most
a key. `auto` chooses in the first set-up, which is shown by itself with the first
call. It is compared with the better of PETSc's types, the better pairwise exchange (petamap's and a NumPy
script's) and the better dense all-reduce. `patterns.py` says which keys there are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from contenders import OURS, PLAIN, Ready, contenders
from patterns import PATTERNS

from petacomm.base.host import cpu_model
from petacomm.mpi import MpiCommunicator, collective_errors, world
from petamap.cli.doctor import launcher_path

STOKES = 3
# The bar: `auto` is so many times faster than each of the others, and set up in so many times PETSc's time.
FASTER, SETUP = 3.0, 3.0
OTHERS = ("PETSc", "pairwise", "dense")
# More ranks than cores, and root in a container: what the launchers want to be told.
SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMP_NUM_THREADS": "1",
}


def measure(comm: MpiCommunicator, patterns: str, rounds: int) -> list[dict[str, Any]]:
    """Return the ms of each pattern and contender: medians of set-up and call, the first. Collective."""
    rows = []
    for pattern in patterns:
        keys = PATTERNS[pattern](comm.rank, comm.size)
        values = np.random.default_rng([1, comm.rank]).random((len(keys), STOKES))
        ready: dict[str, Ready] = {}
        setups: dict[str, list[float]] = {}
        for name, set_up in contenders().items():
            for _ in range(3):
                spent, ready[name] = _slowest(comm, partial(set_up, comm, keys, STOKES))
                setups.setdefault(name, []).append(spent)
        firsts = {name: setups[name][0] + ms for name, ms in _turn(comm, ready, values).items()}
        _compare(comm, ready)
        turns = [_turn(comm, ready, values) for _ in range(rounds)]
        calls = {name: float(np.median([turn[name] for turn in turns])) for name in ready}
        for name, contender in ready.items():
            kept = contender.n_bytes() / len(keys) if contender.n_bytes else 0.0
            memory = {"bytes": comm.max(kept)}
            row = {"pattern": pattern, "ranks": comm.size, "name": name, "ms": calls[name]}
            rows.append(row | memory | {"setup": float(np.median(setups[name])), "first": firsts[name]})
    return rows


def _slowest(comm: MpiCommunicator, work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the ms that a collective piece of work takes on the slowest rank, and what it returns."""
    comm.barrier()
    begin = time.perf_counter()
    made = work()
    return comm.max(1e3 * (time.perf_counter() - begin)), made


def _turn(comm: MpiCommunicator, ready: dict[str, Ready], values: Any) -> dict[str, float]:
    spent = {}
    for name, (vector, allreduce, _) in ready.items():
        vector[...] = values
        spent[name], _ = _slowest(comm, partial(allreduce, vector))
    return spent


def _compare(comm: MpiCommunicator, ready: dict[str, Ready]) -> None:
    expected = ready["dense, a script"].vector
    for name, (vector, *_) in ready.items():
        if comm.max(float(not np.allclose(vector, expected, rtol=1e-12, atol=0))):
            raise SystemExit(f"{name} gives other sums than dense")


def launch(n_ranks: int, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Run this script on `n_ranks` ranks and return their rows."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        words = ["--patterns", given.patterns, "--rounds", str(given.rounds), "--out", str(out)]
        settings = SETTINGS | os.environ | {"XDG_CACHE_HOME": folder}  # where nothing is remembered
        command = [str(launcher_path()), "-n", str(n_ranks), sys.executable, __file__, *words]
        subprocess.run(command, env=settings, check=True)
        rows: list[dict[str, Any]] = json.loads(out.read_text())
    return rows


def print_table(rows: list[dict[str, Any]], figure: str, title: str) -> None:
    """Print a line a contender, a column a case."""
    cases = sorted(
        {(row["pattern"], row["ranks"]) for row in rows}, key=lambda c: ("NPLGR".index(c[0]), c[1])
    )
    print(f"\n{title:24}" + "".join(f"{pattern + str(ranks):>8}" for pattern, ranks in cases))
    for name in dict.fromkeys(row["name"] for row in rows):
        found = {(r["pattern"], r["ranks"]): r[figure] for r in rows if r["name"] == name}
        print(f"{name:24}" + "".join(f"{found[case]:8.1f}" for case in cases))


def print_ratios(rows: list[dict[str, Any]], figure: str, ours: str = OURS + "auto") -> None:
    """Print how many times longer than `auto` the others take: each case, and the median."""
    cases = list(dict.fromkeys((row["pattern"], row["ranks"]) for row in rows))
    for other in OTHERS:
        ratios = []
        for case in cases:
            here = [row for row in rows if (row["pattern"], row["ranks"]) == case]
            theirs = [row[figure] for row in here if row["name"].removeprefix(OURS).startswith(other)]
            ratios += [min(theirs) / next(r[figure] for r in here if r["name"] == ours)] if theirs else []
        if ratios:
            low, high = min(ratios), max(ratios)
            print(f"auto against {other:9} {np.median(ratios):6.2f}   ({low:.2f} to {high:.2f})")


def main() -> None:
    """Launch the ranks one number after another; as a rank, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--patterns", default="NPL", help="letters of patterns.py")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each contender")
    parser.add_argument("--out", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.out:
        comm = world()
        with collective_errors(comm):
            assert isinstance(comm, MpiCommunicator)
            rows = measure(comm, given.patterns, given.rounds)
            if comm.rank == 0:
                Path(given.out).write_text(json.dumps([{"mpi": comm.mpi_library}, *rows]))
        return
    rows = []
    for n_ranks in given.ranks:
        head, *more = launch(n_ranks, given)
        rows += more
    print(f"{cpu_model()}, {os.cpu_count()} cores; {head['mpi']}; k = {STOKES} float64")
    print_table(rows, "ms", "ms a call")
    print_table(rows, "setup", "ms to set up again")
    print_table(rows, "first", "ms, first set-up + call")
    print_table([row for row in rows if row["bytes"]], "bytes", "bytes a key, kept")
    print(f"\nTimes faster, median over the cases (the bar: {FASTER:g}):")
    print_ratios(rows, "ms")
    print("\nThe same of plain arrays, copied in and out:")
    print_ratios(rows, "ms", PLAIN)
    print(f"\nTimes faster to set up (the bar: PETSc's at least 1/{SETUP:g} = {1 / SETUP:.2f}):")
    print_ratios(rows, "setup")
    print("\nThe first set-up and call, choosing included:")
    print_ratios(rows, "first")


if __name__ == "__main__":
    main()
