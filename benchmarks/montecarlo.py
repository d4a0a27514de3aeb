"""What a realization costs among others: in one pass with them, with a space learnt before, and all together.

    python benchmarks/montecarlo.py [--samples 8e6] [--n-side 128] [--batch 8] [--peers PYTHON]

Four tables, each a comparison of works that take turns in this run, on one thread: `--tables` chooses.

batch      realizations of a satellite's scan (that of speed.py, at another N_side) alone and among others,
           nanoseconds of processor time a sample and realization. A whole realization is drawn, read, and
           iterated on `--iterations` times. What a sample takes to be drawn is told apart: nothing of it
           is shared.
recycling  iterations of realizations without a space and with some learnt on others: planck-lfi; the same
           with all 22 radiometers, whose knees differ most; the telescope on the ground, noise alone.
whole      realizations of planck-lfi by `petamap mc`, batch and space, against `petamap run` for each, in
           seconds of processor time, spectra made together alone; and the scan of the first table simulated
           and mapped once, beside TOAST 3 where --peers has it.
groups     not by default: realizations by groups of ranks under mpiexec, predicted as `petamap mc` does that
           chooses among them, and by the clock.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import cases
import numpy as np
import speed
from cases import Best

from petacomm.base.host import cpu_model
from petacomm.base.progress import SilentProgress
from petacomm.base.typing import FloatArray
from petacomm.mpi import world
from petamap.data.config import RunConfig, SignalParts, load_config, open_signal_parts
from petamap.data.observation import Observation
from petamap.data.run_summary import Summary
from petamap.examples import find_example
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.right_hand_side import right_hand_sides
from petamap.mapmaking.run import run
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.vectors import Unknowns
from petamap.montecarlo.draws import Draws, Realization, Signals
from petamap.montecarlo.group_plan import plan_group
from petamap.montecarlo.run import run_montecarlo
from petamap.planning.distribution_choice import local_machine

EXAMPLE = "planck-lfi"
# Two levels leave vectors little to do.
BLOCKS = "solver.preconditioner=block-diagonal"
TRAINING = 2**33  # a realization that no user can ask for
SKY = '\n[[source]]\nkind = "sky-spectra"\nn_side = {n_side}\nfwhm = "1 deg"\n'


@dataclass
class Row:
    """A line of a table: what it costs alone and otherwise, and the promise for the ratio."""

    name: str
    alone: float
    among: float
    unit: str
    bar: float | None = None

    def line(self) -> str:
        """Return it as text."""
        ratio = self.among / self.alone
        bar = "" if self.bar is None else f"<= {self.bar:g} {'yes' if ratio <= self.bar else 'NO'}"
        return f"{self.name:52s}{self.alone:9.2f}{self.among:9.2f} {self.unit:11s}{ratio:6.2f}  {bar}"


@dataclass
class Job:
    """A system set up once, and what draws its realizations: the state of `petamap mc` before the first."""

    system: MapmakingSystem
    draws: Draws
    gradients: ConjugateGradients

    @staticmethod
    def of(config: RunConfig) -> Job:
        """Set it up."""
        stage = RunSetup(config, world(), SilentProgress())
        parts: list[SignalParts] = []

        def opened(given: RunConfig) -> list[Observation]:
            observations, found = open_signal_parts(given)
            parts.append(found)
            return observations

        stage.open(opened)
        system = stage.set_up(8)
        draws = Draws(config.montecarlo, parts[0], stage.observations, config.run.seed)
        draws.model_of = stage.model_of
        operator = system.operator()
        return Job(system, draws, ConjugateGradients(operator, system.preconditioner))

    @property
    def n_samp(self) -> int:
        """Samples of all detectors."""
        return self.system.layout.n_samp

    def read(self, datasets: Sequence[Signals]) -> list[Unknowns]:
        """Return the right-hand sides of data sets."""
        return [one.unknowns for one in right_hand_sides(self.system, datasets)]

    def drawn(self, part: str, first: int, n: int = 1) -> list[Signals]:
        """Return the signals of n realizations, skies not yet made."""
        return [Realization(self.draws, number).signals(part) for number in range(first, first + n)]

    def draw(self, part: str) -> None:
        """Make all samples of the sky or the noise of a realization."""
        (signals,) = self.drawn(part, 0)
        out = np.zeros(cases.REQUEST)
        for observation, ours in zip(self.draws.observations, signals, strict=True):
            for detector in range(observation.n_det):
                for start in range(0, observation.n_samp, cases.REQUEST):
                    stop = min(start + cases.REQUEST, observation.n_samp)
                    for one in ours:
                        one.add_signal(detector, start, stop, out[: stop - start])

    def map_all(self, n: int, iterations: int) -> None:
        """Draw, read and map n realizations at once, with a given number of iterations."""
        self.gradients.solve_many(self.read(self.drawn("both", 0, n)), 0.0, iterations)


@dataclass(frozen=True)
class Stored:
    """A time stream in memory (implements `Signal`): what reading costs when nothing is drawn."""

    values: FloatArray

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) to `out`."""
        out += self.values[start:stop]


# --- many right-hand sides


def example(*changes: str) -> RunConfig:
    """Return the example without the sky that no realization draws, which runs from scratch would scan."""
    fixed = ["montecarlo.parts=together", "resources.threads=1", BLOCKS]
    config = load_config(find_example(EXAMPLE), [*fixed, *changes])
    return replace(config, sources=tuple(one for one in config.sources if one.kind != "sky-map"))


def batch_rows(config: RunConfig, n: int, iterations: int, repeats: int) -> Iterator[Row]:
    """Time lone realizations and batches in turn."""
    job = Job.of(config)
    stored = Stored(1e-3 * np.random.default_rng(0).standard_normal(job.draws.observations[0].n_samp))
    datasets: list[Signals] = [[(stored,)] for _ in range(n)]
    rhs = job.read(datasets)
    works: dict[str, Callable[[], object]] = {
        "sky": partial(job.draw, "sky"), "noise": partial(job.draw, "noise")
    }  # fmt: skip
    for name, count in (("alone", 1), ("among", n)):
        works[f"{name} long"] = partial(job.gradients.solve_many, rhs[:count], 0.0, 5)
        works[f"{name} short"] = partial(job.gradients.solve_many, rhs[:count], 0.0, 1)
        works[f"{name} read"] = partial(job.read, datasets[:count])
        works[f"{name} whole"] = partial(job.map_all, count, iterations)
    best = cases.interleaved(works, repeats)
    bar, how = (0.7, "kept") if config.resources.pointing == "keep" else (0.4, "recomputed")

    def row(name: str, bar: float | None, cpu: Callable[[str], float]) -> Row:
        alone, among = (1e9 * cpu(which) / job.n_samp for which in ("alone", "among"))
        return Row(f"{name}, pointing {how}", alone, among / n, "ns a sample", bar)

    yield row("an iteration", bar, lambda which: (best[f"{which} long"].cpu - best[f"{which} short"].cpu) / 4)
    yield row("a right-hand side of samples that are there", bar, lambda which: best[f"{which} read"].cpu)
    for part in ("sky", "noise"):
        each = 1e9 * best[part].cpu / job.n_samp
        yield Row(f"its {part} drawn, pointing {how}", each, each, "ns a sample")
    yield row("a whole realization", bar, lambda which: best[f"{which} whole"].cpu)


# --- recycling


def recycling_rows(
    job: Job, part: str, tolerance: float, vectors: Sequence[int], trained: Sequence[int], n: int
) -> Iterator[Row]:
    """Count the iterations that realizations of a job take, without and with spaces."""
    training = job.read(job.drawn(part, TRAINING, max(trained)))
    rhs = job.read(job.drawn(part, 0, n))

    def solve(space: Deflation | None = None) -> tuple[float, float]:
        best = Best()
        found = []
        best.measure(lambda: found.extend(job.gradients.solve_many(rhs, tolerance, 300, deflation=space)))
        assert all(one.converged for one in found)
        return sum(one.iterations for one in found) / n, best.cpu / n

    alone = solve()
    for n_trained in trained:
        for n_vectors in vectors:
            learning = Best()
            spaces: list[Deflation] = []
            given = training[:n_trained]
            learning.measure(
                lambda: spaces.append(Deflation.train(job.gradients, given, tolerance, 300, n_vectors))  # noqa: B023
            )
            helped = solve(spaces[0])
            name = f"{n_vectors} vectors learnt on {n_trained}"
            yield Row(f"{name}, to {tolerance:g}", alone[0], helped[0], "iterations", 0.7)
            saved = alone[1] - helped[1]
            after = f"{math.ceil(learning.cpu / saved)} realizations" if saved > 0 else "never"
            yield Row(f"  s a map; {learning.cpu:.1f} s to learn pay after {after}", alone[1], helped[1], "s")


GROUND = [
    "montecarlo.parts=noise", "montecarlo.noise=model", "resources.threads=1", "solver.tolerance=1e-4",
    BLOCKS,
]  # fmt: skip
# The jobs of the table: what is drawn, and their configuration.
RECYCLED: dict[str, tuple[str, Callable[[], RunConfig]]] = {
    EXAMPLE: ("both", partial(example, "solver.tolerance=1e-5")),
    "22 radiometers": ("both", partial(example, "source.0.detectors=", "solver.tolerance=1e-5")),
    "ground": ("noise", lambda: load_config(find_example("ground"), GROUND)),
}


# --- all together


def scratch(config: RunConfig, folder: Path) -> Best:
    """Simulate and map realizations as `petamap run` does, two in turn; return the better's times."""
    best = Best()
    for number in range(2):
        best.measure(partial(run, _alone(config, number), out=folder))
    return best


def _alone(config: RunConfig, number: int) -> RunConfig:
    """Return the run of a realization that writes its map alone."""
    return replace(
        config,
        run=replace(config.run, realization=number),
        products=replace(
            config.products, overwrite=True, covariance=False, rcond=False, binned=False, residual=False,
            hits=False,
        ),
    )  # fmt: skip


def seconds_of(summary: Summary, names: Sequence[str]) -> float:
    """Return the seconds of phases."""
    return sum(phase.seconds.mean for phase in summary.phases if phase.name in names)


def whole_lines(n: int, n_vectors: int, trained: int) -> Iterator[str]:
    """Time realizations one by one from scratch, and together."""
    config = example()
    one_by_one = scratch(config, Path("run")).cpu
    options = replace(config.montecarlo, realizations=n, vectors=n_vectors, vectors_from=trained)
    begin, wall = time.process_time(), time.perf_counter()
    summary = run_montecarlo(replace(config, montecarlo=options), out="mc")
    together, wall = time.process_time() - begin, time.perf_counter() - wall
    assert summary.montecarlo is not None and summary.montecarlo.done == n

    def seconds(*names: str) -> float:
        """Return processor time of phases, which are timed by the clock, beside whatever else runs."""
        return seconds_of(summary, names) * together / wall

    phases = ("data", "iterations", "spectra")
    each = seconds(*phases) / n
    once = together - n * each
    yield Row(f"{n} realizations, set-up and all", n * one_by_one, together, "s", 0.5).line()
    for many in (100, 1000):
        yield Row(f"{many}, predicted from these", many * one_by_one, once + many * each, "s", 0.5).line()
    yield Row("one more (aim: 0.25)", one_by_one, each, "s", 0.5).line()
    job = Job.of(config)
    drawing = {part: Best() for part in ("sky", "noise")}
    for part, best in drawing.items():
        best.measure(partial(job.draw, part))
    shares = {name: seconds(name) / n for name in phases}
    yield "of one more: " + ", ".join(f"{name} {100 * value / each:.0f} %" for name, value in shares.items())
    drawn = ", ".join(f"{part} {best.cpu:.2f} s" for part, best in drawing.items())
    yield f"drawn alone, of {shares['data']:.2f} s of data: {drawn}"
    learning = seconds("vectors")
    yield f"once: {learning:.1f} s to learn {n_vectors} vectors, {once - learning:.1f} s of set-up and files"


def peer_lines(n_samples: int, n_side: int, python: str) -> Iterator[str]:
    """Simulate and map a scan once from scratch, beside peers."""
    config = cases.config(n_samples, n_side=n_side, more=SKY.format(n_side=n_side))
    config = replace(config, solver=replace(config.solver, max_iterations=200, tolerance=1e-5))
    scan = cases.observation(n_samples)
    n_samp = scan.n_samp * cases.N_DET
    ours = scratch(config, Path("scan")).cpu
    how = "a realization from scratch, to 1e-5"
    row = speed.Row(f"{how}, {n_samp / 1e6:.1f} M samples", 1e9 * ours / n_samp, line="realization")
    notes: list[str] = []
    if python:
        file = Path("scan.npz").absolute()
        cases.write_scan(file, scan, np.zeros((cases.N_DET, 1)), n_side)
        found, notes = speed.ask_peers(python, file, {"toast": "toast"}, "realization_")
        row.peers = [(str(one["peer"]), float(str(one["value"]))) for one in found]
    yield from row.lines()
    yield from notes


# --- groups of ranks


def group_rows(n: int) -> Iterator[Row]:
    """Make realizations by all numbers of groups of the ranks: predicted seconds, and those of the clock."""
    comm, config = world(), example("source.0.duration=2 day", f"montecarlo.realizations={n}")
    machine = local_machine(comm)
    numbers = [groups for groups in range(1, comm.size + 1) if comm.size % groups == 0]
    for groups in numbers:
        foreseen = plan_group(config, groups, comm.size // groups, 1, machine, math.inf).seconds
        options, seconds = replace(config.montecarlo, groups=groups), []
        for _ in range(2):
            comm.barrier()
            begin = time.perf_counter()
            out = comm.bcast(tempfile.mkdtemp())
            run_montecarlo(replace(config, montecarlo=options), out=out, comm=comm)
            comm.barrier()
            seconds.append(time.perf_counter() - begin)
        yield Row(f"{n} realizations, {groups} of {numbers[-1]} groups", foreseen, min(seconds), "s")


def on_ranks(ranks: int, n: int) -> None:
    """Print the table of groups, from a job of so many ranks."""
    mpiexec = str(Path(sys.executable).with_name("mpiexec"))
    words = [sys.executable, __file__, "--tables", "groups", "--realizations", str(n), "--ranks", "0"]
    subprocess.run([mpiexec, "-n", str(ranks), *words], check=True, cwd=Path(__file__).parent)


def show(lines: Iterator[str] | Iterator[Row]) -> None:
    """Print lines as they come."""
    for line in lines:
        print(line.line() if isinstance(line, Row) else line, flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", nargs="*", default=["batch", "recycling", "whole"])
    parser.add_argument("--samples", type=float, default=8e6, help="of all detectors together")
    parser.add_argument("--n-side", type=int, default=128, help="of the scan")
    parser.add_argument("--batch", type=int, default=8, help="realizations at once")
    parser.add_argument("--iterations", type=int, default=30, help="of a whole realization")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--pointing", nargs="*", default=["keep", "recompute"])
    parser.add_argument("--jobs", nargs="*", default=list(RECYCLED), help="of the table of recycling")
    parser.add_argument("--vectors", type=int, nargs="*", default=[16], help="of the spaces")
    parser.add_argument("--trained", type=int, nargs="*", default=[2], help="realizations learnt from")
    parser.add_argument("--realizations", type=int, default=16, help="that are made together")
    parser.add_argument("--peer-samples", type=float, default=2e6, help="of the scan that peers are given")
    parser.add_argument("--peers", default="", metavar="PYTHON", help="interpreter; '' for none")
    parser.add_argument("--ranks", type=int, default=4, help="of the table of groups; 0: of this job")
    given = parser.parse_args()
    if given.ranks == 0:
        rows = list(group_rows(given.realizations))
        if world().rank == 0:
            print(f"{EXAMPLE + ', two days: groups of ranks':52s}predicted  clock              ratio")
            show(iter(rows))
        return
    os.chdir(tempfile.mkdtemp())
    print(f"{cpu_model()}, load {os.getloadavg()[0]:.2f}", flush=True)
    if "groups" in given.tables:
        on_ranks(given.ranks, given.realizations)
    if "batch" in given.tables:
        head = f"a scan: alone, and among {given.batch}"
        print(f"{head:52s}    alone    among              ratio  bar")
        more = SKY.format(n_side=given.n_side)
        for pointing in given.pointing:
            config = cases.config(int(given.samples), pointing, 1, given.n_side, more)
            show(batch_rows(config, given.batch, given.iterations, given.repeats))
    if "recycling" in given.tables:
        for name, (part, make) in RECYCLED.items():
            if name not in given.jobs:
                continue
            print(f"{name + ': without a space, and with':52s}  without     with              ratio  bar")
            config = make()
            tolerance, job = float(config.solver.tolerance), Job.of(config)
            show(recycling_rows(job, part, tolerance, given.vectors, given.trained, given.batch))
    if "whole" in given.tables:
        print(f"{EXAMPLE + ': one by one, and together':52s}   scratch together              ratio  bar")
        show(whole_lines(given.realizations, given.vectors[0], given.trained[0]))
        show(peer_lines(int(given.peer_samples), given.n_side, given.peers))


if __name__ == "__main__":
    main()
