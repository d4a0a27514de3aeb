"""What the benchmarks share: the scan, the equation to solve, the bare transforms, and clocks.

The scan is a satellite's: 8 detectors, I, Q, U, N_side 512, a band of 4096 lags, noise made on request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petacomm.base.typing import FloatArray
from petacomm.mpi import world
from petamap.cuda.device import Device
from petamap.data.config import RunConfig, open_sources, parse_config
from petamap.data.observation import Observation
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.noise_kernels import declared_model
from petamap.mapmaking.normal_operator import NormalOperator
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.mapmaking.system import MapmakingSystem, set_up
from petamap.mapmaking.system_options import SystemOptions
from petamap.mapmaking.vectors import aligned_zeros, stack
from petamap.pointing.compressed import CompressedPointing
from petamap.sky.healpix import Healpix
from petamap.sky.stokes import Stokes

N_DET, N_LAG, N_SIDE, RATE = 8, 4096, 512, 78.8
NET, FKNEE, FMIN = 50e-6, 0.05, 1e-5  # K s^0.5, Hz, Hz
ALL = slice(None)
REQUEST = 1 << 16  # samples asked for at once, about what a block of the map-maker asks for

_CONFIG = f"""
[map]
n_side = {{n_side}}
[resources]
threads = {{threads}}
pointing = "{{pointing}}"
[noise]
n_lag = {N_LAG}
[solver]
max_iterations = 3
[[source]]
kind = "satellite"
n_det = {N_DET}
duration = "{{duration}} s"
sample_rate = "{RATE} Hz"
spin_period = "1 min"
opening = "50 deg"
precession_angle = "45 deg"
precession_period = "6 h"
net = "{NET * 1e6:g} uK s^0.5"
fknee = "{FKNEE * 1e3:g} mHz"
fmin = "{FMIN * 1e3:g} mHz"
[[source]]
kind = "noise"
"""


def config(
    n_samples: int, pointing: str = "keep", n_threads: int = 1, n_side: int = N_SIDE, more: str = ""
) -> RunConfig:
    """Return a run of `n_samples` in all; `more`: sources beside scan and noise, as TOML."""
    duration = n_samples / N_DET / RATE
    text = _CONFIG.format(duration=duration, pointing=pointing, threads=n_threads, n_side=n_side)
    return parse_config(text + more, Path("benchmark.toml"))


def observation(n_samples: int) -> Observation:
    """Return the satellite's observation of `n_samples` in all."""
    (found,) = open_sources(config(n_samples))
    return found


def pointing_of(scan: Observation) -> CompressedPointing:
    """Return where its detectors look."""
    return cast(CompressedPointing, scan.pointing)


@dataclass
class Best:
    """The least of several times, s: of the processor, which others disturb least, and of the wall."""

    cpu: float = math.inf
    wall: float = math.inf

    def note(self, cpu: float, wall: float) -> None:
        """Take another time."""
        self.cpu, self.wall = min(self.cpu, cpu), min(self.wall, wall)

    def measure(self, work: Callable[[], object]) -> None:
        """Take the time of a call."""
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        self.note(time.process_time() - cpu, time.perf_counter() - wall)


def interleaved(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Best]:
    """Return the best times of works that take turns, so that all meet the same disturbances."""
    best = {name: Best() for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            best[name].measure(work)
    return best


@dataclass
class Solver:
    """The equation of a scan, set up, with a right-hand side of ones; its iterations are timed one by one."""

    system: MapmakingSystem
    timers: Timers
    iteration: Best = field(default_factory=Best)

    def __post_init__(self) -> None:
        system = self.system
        self.operator = cast(NormalOperator, system.operator())
        self.gradients = ConjugateGradients(self.operator, system.preconditioner)
        self.ones = system.shared.zeros(system.projection.stokes.n)
        self.ones.pixels[:] = 1
        self._vector = stack([self.ones])
        self._out = self._vector.zeros_like()

    @property
    def n_samp(self) -> int:
        """Samples of the scan."""
        return self.system.layout.n_samp

    def apply(self) -> None:
        """Multiply by P^T N^-1 P."""
        self.operator.apply_integers(self._vector, np.array([3.0]), self._out)

    def iterate(self, n: int = 3) -> None:
        """Make n iterations."""
        clocks: list[tuple[float, float]] = []
        self.gradients.solve(
            self.ones, 0.0, n, lambda step: clocks.append((time.process_time(), time.perf_counter()))
        )
        for cpu, wall in np.diff(clocks, axis=0):
            self.iteration.note(cpu, wall)


def solver(
    scan: Observation, pointing: str, n_threads: int, n_side: int = N_SIDE, device: Device | None = None
) -> Solver:
    """Set the equation up; `pointing` is "keep" or "recompute"."""
    timers = Timers()
    choices = SystemOptions(
        stokes=Stokes.IQU, n_lag=N_LAG, pointing=pointing, device=device, n_threads=n_threads
    )
    system = set_up(
        [scan], Healpix(n_side, nest=True), choices, declared_model, world(), timers, SilentProgress()
    )
    return Solver(system, timers)


class BareTransforms:
    """The real transforms, forward and back, by ducc0, of as many blocks of n points."""

    def __init__(self, n: int, n_transforms: int) -> None:
        self._n_transforms = n_transforms
        self._time = np.random.default_rng(0).standard_normal(n)
        self._spectrum = np.empty(n // 2 + 1, complex)

    def __call__(self) -> None:
        """Make them on one thread."""
        import ducc0

        time_domain, spectrum = self._time, self._spectrum
        for _ in range(self._n_transforms):
            ducc0.fft.r2c(time_domain, out=spectrum, nthreads=1)
            ducc0.fft.c2r(
                spectrum, out=time_domain, lastsize=len(time_domain), forward=False, inorm=2, nthreads=1
            )


def bare_transforms(system: MapmakingSystem, n_threads: int = 1) -> Callable[[], None]:
    """Return what makes the transforms that all blocks need, on threads that share nothing."""
    layout = system.layout
    half = layout.block // 2
    n_transforms = int(np.ceil(system.projection.local.blocks[:, 3] / half).sum())
    works = [BareTransforms(layout.transform, n_transforms // n_threads) for _ in range(n_threads)]
    return works[0] if n_threads == 1 else lambda: side_by_side(works)


def side_by_side(works: Sequence[Callable[[], None]]) -> None:
    """Do works at a time, a thread each."""
    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


def copies(n_bytes: int, n_threads: int = 1) -> Callable[[], None]:
    """Return what copies so many bytes of memory, on threads that share nothing."""
    given = np.ones((n_threads, n_bytes // 8 // n_threads))
    to = np.zeros_like(given)
    works = [partial(np.copyto, to[thread], given[thread]) for thread in range(n_threads)]
    return works[0] if n_threads == 1 else lambda: side_by_side(works)


def convolutions(n: int, n_pairs: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what filters pairs of blocks of n points by the convolver, and what transforms them by ducc0."""
    from petamap.noise._noise import Convolver

    # As in the map-maker (filter.h): a quarter of a page and a line apart.
    convolver, padding = Convolver(n), 136
    memory = aligned_zeros(3 * n + 2 * padding).view(float)
    blocks = [memory[begin : begin + n] for begin in (0, n + padding)]
    for block in blocks:
        block[:] = np.random.default_rng(0).standard_normal(n)
    spectrum = memory[-n:]
    convolver.spectrum(np.array([1.0]), spectrum)

    def convolve() -> None:
        for _ in range(n_pairs):
            convolver.convolve(blocks[0], blocks[1], spectrum)

    return convolve, BareTransforms(n, 2 * n_pairs)


def requests(n_samp: int, part: slice = ALL) -> list[tuple[int, int, int]]:
    """Return (detector, start, stop) of (a part of) the requests for n_samp samples of each detector."""
    starts = range(0, n_samp, REQUEST)
    return [(d, start, min(start + REQUEST, n_samp)) for d in range(N_DET) for start in starts][part]


def by_threads(make: Callable[[slice], Callable[[], None]], n_threads: int) -> Callable[[], None]:
    """Return what threads do that share nothing, of which each makes an equal part."""
    works = [make(slice(thread, None, n_threads)) for thread in range(n_threads)]
    return lambda: side_by_side(works)


def expansion(scan: Observation, part: slice = ALL) -> Callable[[], None]:
    """Return what expands the pixel and the angle of every sample."""
    pixels, angles = np.empty(REQUEST, np.int32), np.empty(REQUEST, np.uint32)
    pointing, sky = pointing_of(scan), Healpix(N_SIDE, nest=True)

    def work() -> None:
        for detector, start, stop in requests(scan.n_samp, part):
            n = stop - start
            pointing.expand(sky, detector, start, stop, pixels[:n], angles[:n])

    return work


def noise(scan: Observation, part: slice = ALL) -> Callable[[], None]:
    """Return what makes the noise of every sample."""
    signal = np.zeros(REQUEST)

    def work() -> None:
        for detector, start, stop in requests(scan.n_samp, part):
            for source in scan.signals:
                source.add_signal(detector, start, stop, signal[: stop - start])

    return work


def inverse_lags(system: MapmakingSystem) -> FloatArray:
    """Return lags of N^-1 of every detector, (n_det, n_lag + 1)."""
    noise = system.noise
    lags: FloatArray = noise.lags[noise.kernel_of]
    return lags


def write_scan(path: Path, scan: Observation, lags: FloatArray, n_side: int = N_SIDE) -> None:
    """Write the scan for peers: quaternions at every sample, pixels (nested) and polarization angles."""
    pointing, sky = pointing_of(scan), Healpix(n_side, nest=True)
    pixels = np.empty((N_DET, scan.n_samp), np.int32)
    angles = np.empty((N_DET, scan.n_samp), np.uint32)
    for detector in range(N_DET):
        pointing.expand(sky, detector, 0, scan.n_samp, pixels[detector], angles[detector])
    np.savez(
        path, boresight=pointing.boresight.quaternions(0, scan.n_samp), detectors=pointing.detectors,
        pixels=pixels, angles=angles * (math.pi / 2**32), lags=lags, n_side=n_side, rate=RATE, net=NET,
        fknee=FKNEE, fmin=FMIN,
    )  # fmt: skip


def binning(one: Solver, part: slice = ALL) -> Callable[[], None]:
    """Return what adds up a weighted time stream on the pixels of the samples."""
    import petamap.mapmaking._mapmaking as kernels

    projection = one.system.projection
    sums = aligned_zeros(projection.n_local, projection.stokes.n, 4, 1)
    gap_sums = np.zeros((projection.gaps.n, 2, 1), np.int64)
    largest = np.empty(1)
    signal = np.random.default_rng(0).standard_normal(int(projection.local.blocks[:, 3].max()))
    # as the pass over data in memory visits them
    order = np.argsort(projection.layout.turns(projection.local), kind="stable")[part].tolist()

    def work() -> None:
        for number in order:
            block = projection.local.blocks[number]
            looks, values = projection.outputs(number), signal[None, : int(block[3])]
            kernels.add_signals(
                looks.pixels, looks.angles, looks.gains, looks.intensity, looks.efficiency,
                values, values, 1.0, 2.0**30, 30, sums, gap_sums, largest,
            )  # fmt: skip

    return work


def right_hand_sides(one: Solver) -> Callable[[], None]:
    """Return the pass over the data of a run: noise is made, filtered, and both right-hand sides added up."""
    return lambda: right_hand_side(one.system)
