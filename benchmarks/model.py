"""Predicted against measured seconds of each way to reduce, on this machine.

    mpiexec -n 8 python benchmarks/model.py

Fits the constants of the model to all-reduces of 1, 3 and 6 float64 a key on some patterns, and predicts
those on others: fitted are long runs of keys (P) and keys without any order (R), between which N and L lie.
Every case is timed in each of several rounds, so that what else the machine does falls on all alike. Prints
milliseconds of the slowest rank, the median over rounds, beside the predicted ones.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from pathlib import Path

import numpy as np
from patterns import PATTERNS

from petacomm.base.typing import FloatArray
from petacomm.mpi import Communicator, collective_errors, world
from petacomm.network import predict_seconds
from petacomm.network.fit import Timing, fit_machine
from petacomm.reduction import ALGORITHMS, ReductionPlan
from petacomm.sharing import IndexMap
from petacomm.topology import Machine, load_machine

VALUES = (1, 3, 6)
CALLS = 2  # a round


def measure(comm: Communicator, names: list[str], n_rounds: int) -> dict[tuple[str, str, int], Timing]:
    """Time all-reduces by every algorithm on every pattern."""
    ranks_per_node = int(np.bincount(comm.node_of).max())
    plans: dict[tuple[str, str], ReductionPlan] = {}
    for pattern in names:
        index_map = IndexMap(comm, PATTERNS[pattern](comm.rank, comm.size))
        for algorithm in ALGORITHMS:
            plans[pattern, algorithm] = ReductionPlan(index_map, algorithm=algorithm, checks="first")
    loads = {case: plan.load() for case, plan in plans.items()}
    seconds: dict[tuple[str, str, int], list[float]] = {}
    for number in range(n_rounds + 1):
        for k in VALUES:
            for case, plan in plans.items():
                values = np.empty((plan.index_map.n_keys, k))  # loads are those of plain arrays
                values[...] = 1.0
                once = _seconds(comm, plan, values)
                if number:  # the first round makes buffers
                    seconds.setdefault((*case, k), []).append(once)
    return {
        case: Timing(loads[case[:2]], ranks_per_node, case[2], 8, float(np.median(each)))
        for case, each in seconds.items()
    }


def _seconds(comm: Communicator, plan: ReductionPlan, values: FloatArray) -> float:
    comm.barrier()
    begin = time.perf_counter()
    for _ in range(CALLS):
        plan.allreduce(values, "max")
    return comm.max(time.perf_counter() - begin) / CALLS


def show(timings: dict[tuple[str, str, int], Timing], machine: Machine, fitted_on: list[str]) -> None:
    """Print every case, and how far the predictions are off, by algorithm, on the patterns not fitted."""
    print(f"{'':4}{'':14}{'k':>2}{'measured':>10}{'predicted':>11}{'ratio':>7}   ms")
    off: dict[str, list[float]] = {}
    for (pattern, algorithm, k), timing in timings.items():
        predicted = predict_seconds(timing.load, machine, timing.ranks_per_node, k, timing.itemsize)
        ratio = predicted / timing.seconds
        if pattern not in fitted_on:
            off.setdefault(algorithm, []).append(ratio)
        print(
            f"{pattern:4}{algorithm:14}{k:2}{1e3 * timing.seconds:10.2f}{1e3 * predicted:11.2f}{ratio:7.2f}"
        )
    for algorithm, ratios in off.items():
        within = np.mean(np.abs(np.array(ratios) - 1) < 0.3)
        print(f"{algorithm:14} ratios {min(ratios):.2f} to {max(ratios):.2f}, {within:.0%} within 30%")


def main() -> None:
    """Measure, fit, predict."""
    comm = world()
    with collective_errors(comm):
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--fit", default="P,R", help="the patterns that are fitted")
        parser.add_argument("--predict", default="N,L", help="the patterns that are predicted")
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--out", type=Path, help="a file for the timings, in JSON")
        given = parser.parse_args()
        fitted_on = given.fit.split(",")
        timings = measure(comm, [*fitted_on, *given.predict.split(",")], given.rounds)
        if comm.rank:
            return
        if given.out:
            rows = [[*case, dataclasses.asdict(timing)] for case, timing in timings.items()]
            given.out.write_text(json.dumps(rows))
        box = dataclasses.replace(load_machine("one-node"), cores_per_socket=os.cpu_count() or 1)
        fitted = fit_machine(
            [timing for case, timing in timings.items() if case[0] in fitted_on],
            box,
            "this",
            given.fit,
        )
        show(timings, fitted, fitted_on)


if __name__ == "__main__":
    main()
