"""What a realization costs among others: side by side in one pass, and with a space learnt on the first ones.

    python benchmarks/montecarlo.py [--samples 8e6] [--batch 8] [--examples planck-lfi ground]

The scan is that of speed.py, with its noise made anew for each realization. Figures are processor time of one
thread a sample and realization, the best of turns that lone maps and batches take. A whole realization is its
right-hand side and `--iterations` iterations, with the residual computed anew at the end. Recycling is
measured on examples as they come, with other noise for training than for what is counted.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import cases
from cases import Best, Solver

from petamap.base.machine import cpu_model
from petamap.base.progress import Silent
from petamap.comm.mpi import world
from petamap.data.config import load, open_sources
from petamap.data.observation import Signal
from petamap.examples import find
from petamap.mapmaking.binning import right_hand_sides
from petamap.mapmaking.normal import NormalOperator
from petamap.mapmaking.pcg import ConjugateGradients, Solution
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.stage import Stage
from petamap.mapmaking.system import System
from petamap.mapmaking.vectors import Unknowns

Dataset = Sequence[Sequence[Signal]]


@dataclass
class Row:
    """A line of the table: what it costs alone and among others, and the promise for the ratio."""

    name: str
    alone: float
    among: float
    unit: str
    bar: float | None = None

    def line(self) -> str:
        """Return it as text."""
        ratio = self.among / self.alone
        bar = "" if self.bar is None else f"<= {self.bar:g} {'yes' if ratio <= self.bar else 'NO'}"
        return f"{self.name:44s}{self.alone:9.2f}{self.among:9.2f} {self.unit:11s}{ratio:6.2f}  {bar}"


def datasets_of(n_samples: int, n: int) -> list[Dataset]:
    """Return the signals of n realizations of the scan."""
    config = cases.config(n_samples)
    numbered = (replace(config, run=replace(config.run, realization=number)) for number in range(n))
    return [[found.signals for found in open_sources(one)] for one in numbered]


def read(system: System, datasets: Sequence[Dataset]) -> list[Unknowns]:
    """Return the right-hand sides of data sets."""
    statistics = system.statistics
    found = right_hand_sides(
        system.projection, system.noise, system.shared, statistics.binned_weights, statistics.hits_max,
        datasets,
    )  # fmt: skip
    return [Unknowns(one.pixels, one.gaps) for one in found]


def map_all(one: Solver, datasets: Sequence[Dataset], iterations: int) -> None:
    """Map data sets, with a given number of iterations."""
    one.gradients.solve_many(read(one.system, datasets), 0.0, iterations)


def batch_rows(n_samples: int, pointing: str, n: int, iterations: int, repeats: int) -> Iterator[Row]:
    """Time lone realizations and batches in turn."""
    one = cases.solver(cases.observation(n_samples), pointing, 1)
    datasets = datasets_of(n_samples, n)
    rhs = read(one.system, datasets)
    works: dict[str, Callable[[], object]] = {}
    for name, count in (("alone", 1), ("among", n)):
        works[f"{name} long"] = partial(one.gradients.solve_many, rhs[:count], 0.0, 5)
        works[f"{name} short"] = partial(one.gradients.solve_many, rhs[:count], 0.0, 1)
        works[f"{name} read"] = partial(read, one.system, datasets[:count])
        works[f"{name} whole"] = partial(map_all, one, datasets[:count], iterations)
    best = cases.interleaved(works, repeats)
    bar, how = (0.7, "kept") if pointing == "keep" else (0.4, "recomputed")

    def row(name: str, bar: float | None, cpu: Callable[[str], float]) -> Row:
        alone, among = (1e9 * cpu(which) / one.n_samp for which in ("alone", "among"))
        return Row(f"{name}, pointing {how}", alone, among / n, "ns a sample", bar)

    yield row("an iteration", bar, lambda which: (best[f"{which} long"].cpu - best[f"{which} short"].cpu) / 4)
    yield row("a right-hand side", None, lambda which: best[f"{which} read"].cpu)
    yield row("a realization", bar, lambda which: best[f"{which} whole"].cpu)


def iterations_to(solution: Solution, tolerance: float) -> int:
    """Return after how many iterations the residual is at most the tolerance."""
    return next(step.iteration for step in solution.history if step.relative_residual <= tolerance)


def recycling_rows(example: str, changes: Sequence[str], n_vectors: int, tolerance: float) -> Iterator[Row]:
    """Count the iterations that realizations of an example take, without and with a space."""
    stages = []
    for number in range(4):
        chosen = load(find(example), [*changes, f"run.realization={number}", "resources.threads=1"])
        stages.append(Stage(chosen, world(), Silent()))
        stages[-1].open()
    system = stages[0].set_up()
    rhs = read(system, [[one.signals for one in stage.observations] for stage in stages])
    operator = NormalOperator(system.projection, system.noise, system.shared, system.statistics.hits_max)
    gradients = ConjugateGradients(operator, system.preconditioner)
    space = Deflation.train(gradients, rhs[:2], tolerance, 300, n_vectors)
    alone, helped = Best(), Best()
    found: list[list[Solution]] = [[], []]
    alone.measure(lambda: found[0].extend(gradients.solve_many(rhs[2:], tolerance, 300)))
    helped.measure(lambda: found[1].extend(gradients.solve_many(rhs[2:], tolerance, 300, space=space)))
    assert all(one.converged for one in found[0] + found[1])
    for at in (1e-3, 1e-4, 1e-5, 1e-6):
        if at >= tolerance:
            counts = [sum(iterations_to(one, at) for one in these) / len(these) for these in found]
            yield Row(f"{example}, {space.n_vectors} vectors, to {at:g}", *counts, "iterations", 0.7)
    yield Row(f"{example}, their time", alone.cpu / 2, helped.cpu / 2, "s", None)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--samples", type=float, default=8e6, help="of all detectors together")
    parser.add_argument("--batch", type=int, default=8, help="realizations at once")
    parser.add_argument("--iterations", type=int, default=30, help="of a whole realization")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--vectors", type=int, default=32, help="of the space")
    parser.add_argument("--tolerance", type=float, default=1e-6, help="of the recycling")
    parser.add_argument("--pointing", nargs="*", default=["keep", "recompute"])
    parser.add_argument("--examples", nargs="*", default=["planck-lfi", "ground"])
    parser.add_argument(
        "--change", nargs="*", default=[], help="values of the examples, as on the command line"
    )
    given = parser.parse_args()
    os.chdir(tempfile.mkdtemp())
    print(f"{cpu_model()}, load {os.getloadavg()[0]:.2f}, {given.batch} at once", flush=True)
    print(f"{'':44s}{'alone':>9s}{'among':>9s} {'':11s} ratio  bar", flush=True)
    for pointing in given.pointing:
        arguments = (int(given.samples), pointing, given.batch, given.iterations, given.repeats)
        for row in batch_rows(*arguments):
            print(row.line(), flush=True)
    for example in given.examples:
        for row in recycling_rows(example, given.change, given.vectors, given.tolerance):
            print(row.line(), flush=True)


if __name__ == "__main__":
    main()
