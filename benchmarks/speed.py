"""A table of all promises of speed and memory: the promise, the figure here, and peers in the same run.

    python benchmarks/speed.py [--samples 30e6] [--sets v3 v4] [--peers PYTHON]

A satellite scan of 8 detectors, I, Q, U at N_side 512, a band of 4096 lags, float64. Figures of one thread
are processor time, the best of turns that all works take; the ratio of two threads to one is wall time. Each
is the median of several processes, as where a process has its memory alone makes some per cent. Peers run one
after the other, each in a process of its own on one core, under the interpreter given by --peers. There is a
table for each instruction set that the processor has.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import cases
from cases import Best, Solver

from petacomm.base.host import cpu_model
from petacomm.base.instruction_set import VARIABLE, built_sets, kernel_set, processor_sets
from petamap.data.observation import Observation

HERE = Path(__file__).parent
PEERS = {
    "furax": "furax",
    "mappraiser": "",  # is built from its source
    "so3g": "so3g",
    "litebird_sim": "litebird_sim",
    "toast": "toast",
}  # module: package
SOURCE_OF = {"mappraiser": "MIDAPACK"}  # module: the variable that says where the source is
PEER_SECONDS = 240
COPIED = 1 << 28  # bytes
# Iterations in units of bare FFTs: of many samples, and of few, beside which the vectors weigh more.
BARS = {"kept": (1.7, 2.2), "recomputed": (3.0, 4.0)}
FEW_SAMPLES = 16e6


@dataclass
class Row:
    """A line of the table: a figure, and the promise that it is at most (or at least) so much."""

    name: str
    value: float
    unit: str = "ns"
    bar: float | None = None
    at_least: bool = False
    line: str = ""  # what peers call it
    peers: list[tuple[str, float]] = field(default_factory=list)

    @property
    def kept(self) -> str:
        """Whether the promise is kept, in a word."""
        if self.bar is None:
            return ""
        return "yes" if (self.value >= self.bar if self.at_least else self.value <= self.bar) else "NO"

    def lines(self) -> Iterator[str]:
        """Return the row, and a row for each peer with the ratio of its figure to ours."""
        sign = "" if self.bar is None else f"{'>=' if self.at_least else '<='} {self.bar:g}"
        yield f"{self.name:52s}{sign:>8s}{self.value:9.2f} {self.unit:8s}{self.kept:4s}"
        for peer, value in self.peers:
            yield f"    {peer:56s}{value:9.2f} {self.unit:8s}{value / self.value:8.1f} x ours"


def ns(seconds: float, n_samp: int) -> float:
    """Return nanoseconds a sample."""
    return 1e9 * seconds / n_samp


def iteration_rows(scan: Observation, pointing: str, repeats: int) -> list[Row]:
    """Time iterations with one thread and with two, taking turns with the bare transforms."""
    solvers = {n: cases.solver(scan, pointing, n) for n in (1, 2)}
    one, two = solvers[1], solvers[2]
    best = cases.interleaved(
        {
            "apply": one.apply,
            "one": one.iterate,
            "transforms": cases.bare_transforms(one.system),
            "apply by two": two.apply,
            "two": two.iterate,
            "transforms by two": cases.bare_transforms(one.system, 2),
        },
        repeats,
    )
    return _iteration_rows(one, two, best, "kept" if pointing == "keep" else "recomputed")


def _iteration_rows(one: Solver, two: Solver, best: dict[str, Best], how: str) -> list[Row]:
    iteration, transforms = (ns(b.cpu, one.n_samp) for b in (one.iteration, best["transforms"]))
    peer_line = "apply" if how == "kept" else ""
    bar = BARS[how][one.n_samp < FEW_SAMPLES]
    return [
        Row(f"iteration, pointing {how}", iteration, bar=30),
        Row("    of it P^T N^-1 P", ns(best["apply"].cpu, one.n_samp), line=peer_line),
        Row("    bare FFTs that it needs (ducc0)", transforms),
        Row("    iteration / bare FFTs", iteration / transforms, "times", bar),
        Row("    two threads, iteration", one.iteration.wall / two.iteration.wall, "times", 1.8, True),
        Row("    two threads, P^T N^-1 P", best["apply"].wall / best["apply by two"].wall, "times"),
        Row("    two threads, bare FFTs", best["transforms"].wall / best["transforms by two"].wall, "times"),
    ]


def kernel_rows(repeats: int) -> list[Row]:
    """Time the convolver beside ducc0's transforms, and what two cores have of one's memory."""
    convolve, transform = cases.convolutions(1 << 15, 200)
    works = {
        "ours": convolve,
        "ducc0": transform,
        "one": cases.copies(COPIED),
        "two": cases.copies(COPIED, 2),
    }
    best = cases.interleaved(works, 3 * repeats)
    ratio, threads = best["ours"].cpu / best["ducc0"].cpu, best["one"].wall / best["two"].wall
    bar = 0.35 if kernel_set() == "v4" else 0.45
    return [
        Row("convolver of 32768 points / ducc0's FFTs", ratio, "times", bar),
        Row("two threads, copies of memory", threads, "times"),
    ]


def pass_rows(scan: Observation, solvers: Sequence[Solver], repeats: int) -> list[Row]:
    """Time single passes over the samples, with one thread and with two."""
    one, two = solvers
    parts = {
        "pointing": partial(cases.expansion, scan),
        "noise": partial(cases.noise, scan),
        "binning": partial(cases.binning, one),
    }
    works = {name: make() for name, make in parts.items()}
    works |= {f"{name} by two": cases.by_threads(make, 2) for name, make in parts.items()}
    works |= {"both": cases.right_hand_sides(one), "both by two": cases.right_hand_sides(two)}
    best = cases.interleaved(works, repeats)

    def rows(name: str, what: str, bar: float | None = None, line: str = "") -> list[Row]:
        ratio = best[name].wall / best[f"{name} by two"].wall
        return [
            Row(what, ns(best[name].cpu, one.n_samp), bar=bar, line=line),
            Row("    two threads", ratio, "times", 1.8, True),
        ]

    return [
        *rows("pointing", "pointing expansion: pixel and angle", 40, "pointing"),
        *rows("noise", "noise, 1/f", 40, "noise"),
        *rows("binning", "binning: both right-hand sides of a time stream", 15, "binning"),
        *rows("both", "the whole pass: noise made, filtered, binned"),
    ]


def memory_rows(n_samples: int) -> list[Row]:
    """Run the whole job in fresh processes: what it says that it needs, and what it takes."""
    rows = []
    for pointing, bar in (("keep", 16.0), ("recompute", 1.0)):
        command = [sys.executable, str(HERE / "memory.py"), pointing, str(n_samples)]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        how = "kept" if pointing == "keep" else "recomputed"
        off = abs(found["predicted"] / found["peak"] - 1) * 100
        rows += [
            Row(f"memory, pointing {how}", found["bytes_per_sample"], "bytes", bar),
            Row("    the whole process at its peak", found["peak"] / 1e6, "MB"),
            Row("    predicted before the run, off by", off, "%", 15),
        ]
    return rows


def ask_peers(
    python: str, scan_file: Path, peers: Mapping[str, str], prefix: str = "peer_"
) -> tuple[list[dict[str, object]], list[str]]:
    """Return what the scripts of peers measured, and a line for each that could not."""
    found: list[dict[str, object]] = []
    missing = []
    for module, package in peers.items():
        if (lacks := _lacks(python, module, package)) is not None:
            missing.append(f"{module} is not there: {lacks}")
            continue
        command = [python, str(HERE / "peers" / f"{prefix}{module}.py"), str(scan_file)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, timeout=PEER_SECONDS
            )
        except subprocess.TimeoutExpired:
            missing.append(f"{module} took more than {PEER_SECONDS} s")
            continue
        found += [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode != 0:
            missing.append(f"{module} failed: {done.stderr.strip().splitlines()[-1]}")
    return found, missing


def _lacks(python: str, module: str, package: str) -> str | None:
    """Return what is to be done for a peer that is not there; None if it is."""
    if module in SOURCE_OF:
        variable = SOURCE_OF[module]
        return None if os.environ.get(variable) else f"set {variable} to the folder of its source"
    there = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
    return None if there.returncode == 0 else f"{python} -m pip install {package}"


def show(text: str) -> None:
    """Print a line now."""
    print(text, flush=True)


def load() -> str:
    """Return how busy the machine is."""
    return ", ".join(f"{value:.2f}" for value in os.getloadavg())


def measure(given: argparse.Namespace) -> None:
    """Write what is measured under this process's instruction set, a list of rows, as JSON."""
    scan = cases.observation(int(given.samples))
    # first, as a process counts what its parent holds in its peak
    memory = memory_rows(scan.n_samp * cases.N_DET)
    rows = iteration_rows(scan, "keep", given.repeats) + iteration_rows(scan, "recompute", given.repeats)
    rows += kernel_rows(given.repeats)
    rows += pass_rows(scan, [cases.solver(scan, "keep", n) for n in (1, 2)], given.repeats) + memory
    given.rows.write_text(json.dumps([asdict(row) for row in rows]))


def table(
    own: Sequence[str], name: str, given: argparse.Namespace, found: Sequence[Mapping[str, object]]
) -> None:
    """Print the table of an instruction set, medians of processes, beside what is known of peers."""
    show(f"{cpu_model()}, kernels for {name}, {os.cpu_count()} cores, load {load()} before")
    show(f"{given.samples / 1e6:.1f} M samples; ns and bytes of one; medians of {given.processes} processes")
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "rows.json"
        tables = []
        for _ in range(given.processes):
            subprocess.run([*own, "--rows", str(written)], check=True, env={**os.environ, VARIABLE: name})
            tables.append([Row(**row) for row in json.loads(written.read_text())])
    show(f"{'':52s}{'bar':>8s}{'here':>9s} {'':8s}kept")
    for rows in zip(*tables, strict=True):
        row = replace(rows[0], value=statistics.median(one.value for one in rows))
        row.peers = [(str(p["peer"]), float(str(p["value"]))) for p in found if p["line"] == row.line]
        for line in row.lines():
            show(line)
    show(f"load {load()} after")


def write_scan(given: argparse.Namespace) -> None:
    """Write the scan that peers are given."""
    scan = cases.observation(int(min(given.peer_samples, given.samples)))
    cases.write_scan(given.write, scan, cases.inverse_lags(cases.solver(scan, "keep", 1).system))


def all_tables(given: argparse.Namespace) -> None:
    """Print the tables, each made by a process of its own: a process has one instruction set."""
    own = [sys.executable, __file__, "--samples", str(given.samples), "--repeats", str(given.repeats)]
    with tempfile.TemporaryDirectory() as folder:
        scan = Path(folder) / "scan.npz"
        found: list[dict[str, object]] = []
        notes: list[str] = []
        if given.peers:
            subprocess.run(
                [*own, "--peer-samples", str(given.peer_samples), "--write", str(scan)], check=True
            )
            found, notes = ask_peers(given.peers, scan, PEERS)
    for name in given.sets:
        table(own, name, given, found)
        show("")
    for note in notes:
        show(note)


def main() -> None:
    """Print the tables, or do a part of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--samples", type=float, default=30e6, help="of all detectors together")
    parser.add_argument("--peer-samples", type=float, default=8e6, help="of the scan that peers are given")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--processes", type=int, default=3, help="of which figures are the median")
    sets = [name for name in built_sets() if name in processor_sets()]
    parser.add_argument("--sets", nargs="+", choices=sets, default=sets, help="instruction sets")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="interpreter; '' for none")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write_scan(given)
    elif given.rows:
        measure(given)
    else:
        all_tables(given)


if __name__ == "__main__":
    main()
