"""Iterations and processor time of the preconditioners, block-diagonal and two-level, on six scans.

    python benchmarks/solver.py [--tolerance 1e-6] [--most 3000] [--scans NAME ...] [--stops]

Each scan is simulated noise (no sky: the solver does not know the difference) of detectors with steep or
gentle 1/f noise, a tenth of the samples flagged, mapped on one thread. Set-up of the preconditioner is told
beside the iterations; the last column is the time of both together over that of block-diagonal.

With --stops, where the solver stops at shares of the noise and at the tolerance, and the error that it then
has, ||x - x_k||_A, by all later iterations to a residual of 1e-11 (Hestenes and Stiefel 1952).
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from petacomm.base.host import cpu_model
from petacomm.base.progress import SilentProgress
from petacomm.base.typing import FloatArray
from petacomm.mpi import SerialCommunicator
from petamap.data.config import open_sources, parse_config
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.linear_operators import Preconditioner
from petamap.mapmaking.preconditioning import PreconditionerInputs, plan_preconditioner
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.stop_rule import Iteration, SolverTolerance
from petamap.mapmaking.system import MapmakingSystem, make_preconditioner
from petamap.mapmaking.vectors import Unknowns

STEEP = 'net = "300 uK s^0.5"\nfknee = "1 Hz"\nfmin = "5 mHz"\nalpha = -2.5\nsample_rate = "20 Hz"\n'
GENTLE = 'net = "60 uK s^0.5"\nfknee = "50 mHz"\nfmin = "1 mHz"\nalpha = -1.0\nsample_rate = "10 Hz"\n'
FLAT = '[map]\npixelization = "flat"\nresolution = "10 arcmin"\nframe = "equatorial"\n'
NOISE = '[noise]\nn_lag = 1024\n[resources]\nthreads = 1\npointing = "keep"\n'
REST = '[[source]]\nkind = "noise"\n[[source]]\nkind = "cuts"\ngap_every = "20 s"\ngap_length = "2 s"\n'


def _ground(name: str, azimuth: int, start: int, more: str) -> str:
    return (
        f'[[source]]\nkind = "ground"\nname = "{name}"\n{STEEP}{more}azimuth_min = "{azimuth} deg"\n'
        f'azimuth_max = "{azimuth + 30} deg"\nelevation = "50 deg"\nstart = "2026-01-01T{start:02d}:00:00"\n'
    )


def _crossed(more: str) -> str:
    return FLAT + _ground("rising", 120, 0, more) + _ground("setting", 210, 4, more)


SCANS = {
    "satellite": '[map]\nn_side = 32\n[[source]]\nkind = "satellite"\nn_det = 4\n'
    + GENTLE + 'duration = "1 day"\n',
    "ground, one direction": FLAT + _ground(
        "rising", 120, 0, 'n_det = 8\nspacing = "1 deg"\nduration = "2 h"\n'
    ),
    "ground, cross-linked": _crossed('n_det = 8\nspacing = "1 deg"\nduration = "1 h"\n'),
    "ground, many detectors": _crossed('n_det = 60\nspacing = "30 arcmin"\nduration = "30 min"\n'),
    "ground, short intervals": _crossed(
        'n_det = 8\nspacing = "1 deg"\nduration = "1 h"\ninterval = "5 min"\n'
    ),
    "raster": FLAT.replace("10 arcmin", "4 arcmin") + f'[[source]]\nkind = "raster"\nn_det = 8\n{STEEP}'
    'spacing = "15 arcmin"\nduration = "1 h"\nn_observations = 2\nwidth = "5 deg"\nheight = "5 deg"\n'
    'row_spacing = "6 arcmin"\nspeed = "0.5 deg/s"\nacceleration = "1 deg/s^2"\n',
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a preconditioner took."""

    setup_s: float
    solve_s: float
    iterations: int
    residual: float


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--most", type=int, default=3000, help="iterations at most")
    parser.add_argument("--stops", action="store_true", help="where the solver stops, instead of times")
    parser.add_argument("--scans", nargs="+", choices=SCANS, default=list(SCANS))
    arguments = parser.parse_args()
    if arguments.stops:
        for name in arguments.scans:
            _tell_stops(name, arguments.tolerance, arguments.most)
        return
    print(f"{cpu_model()}, one thread; to {arguments.tolerance:g}; seconds of processor time")
    print(f"{'':25}{'unknowns':>18}   {'block-diagonal':>20}   {'two-level':>26}   ratio")
    print(f"{'':25}{'pixels':>9}{'gaps':>9}   {'iterations':>10}{'seconds':>10}   "
          f"{'iterations':>10}{'set-up':>8}{'seconds':>8}")  # fmt: skip
    for name in arguments.scans:
        _measure(name, arguments.tolerance, arguments.most)


def _set_up(name: str) -> tuple[MapmakingSystem, Unknowns]:
    """Return the system of a scan and a right-hand side."""
    setup = RunSetup(
        parse_config(f'[run]\nname = "solver"\n{NOISE}{SCANS[name]}{REST}'),
        SerialCommunicator(), SilentProgress(),
    )  # fmt: skip
    setup.open(open_sources)
    system = setup.set_up()
    return system, right_hand_side(system).unknowns


def _tell_stops(name: str, tolerance: float, most: int) -> None:
    """Print where the solver would stop, and the error that it then has."""
    system, rhs = _set_up(name)
    stops = (SolverTolerance(0.1, True), SolverTolerance(0.01, True), SolverTolerance(tolerance))
    for kind in ("two-level", "block-diagonal"):
        steps, errors = _iterate(system, rhs, kind, most)
        ends = [next((one.number for one in steps if stop.reached(one)), -1) for stop in stops]
        print(f"{name:25}{kind:16}" + "; ".join(
            f"{stop}: {end}, {errors[end]:.2%}" for stop, end in zip(stops, ends, strict=True)
        ), flush=True)  # fmt: skip


def _iterate(
    system: MapmakingSystem, rhs: Unknowns, kind: str, most: int
) -> tuple[list[Iteration], FloatArray]:
    """Return what is told of each iterate on the way to 1e-11, and the error that it had."""
    told: list[Iteration] = []
    squares: list[float] = []  # what each iteration takes off the square of the error
    ConjugateGradients(system.operator(), _preconditioner(system, kind)).solve_many(
        [rhs], SolverTolerance(1e-11), most, lambda _, step: told.append(step),
        recorders=[lambda _, norm, alpha, __: squares.append(alpha * norm)],
    )  # fmt: skip
    return told, np.sqrt(np.append(np.cumsum(squares[::-1])[::-1], 0.0))


def _measure(name: str, tolerance: float, most: int) -> None:
    system, rhs = _set_up(name)
    old, new = (_solve(system, rhs, kind, tolerance, most) for kind in ("block-diagonal", "two-level"))
    alive = int((~system.statistics.dead).sum())
    ended = f"{old.iterations}" if old.residual <= tolerance else f">{old.iterations}"
    print(f"{name:25}{alive:9}{system.projection.gaps.n:9}   {ended:>10}{old.solve_s:10.2f}   "
          f"{new.iterations:10}{new.setup_s:8.2f}{new.solve_s:8.2f}   "
          f"{(new.setup_s + new.solve_s) / old.solve_s:5.2f}", flush=True)  # fmt: skip


def _preconditioner(system: MapmakingSystem, kind: str) -> Preconditioner:
    plan = plan_preconditioner(kind, system.projection, system.noise, system.comm)
    inputs = PreconditionerInputs(
        system.projection, system.noise, system.shared, system.keys, system.statistics
    )
    return make_preconditioner(inputs, plan)


def _solve(system: MapmakingSystem, rhs: Unknowns, kind: str, tolerance: float, most: int) -> Result:
    begin = time.process_time()
    preconditioner = _preconditioner(system, kind)
    ready = time.process_time()
    solver = ConjugateGradients(system.operator(), preconditioner)
    solution = solver.solve(rhs, SolverTolerance(tolerance), most)
    end = time.process_time()
    return Result(ready - begin, end - ready, solution.iterations, solution.relative_residual)


if __name__ == "__main__":
    main()
