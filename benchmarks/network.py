"""The packet simulator: its speed, what it reaches of the published all-to-all, and SimGrid beside it.

    python benchmarks/network.py                    # everything, some minutes
    python benchmarks/network.py --only speed       # or plateaus, short, simgrid

Processor time of one thread. Published numbers are those of Table 2 of Almasi et al. 2005, BlueGene/L. A node
sends nothing to itself over links, so what the simulator reaches counts N (N - 1) messages.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from petacomm.base.host import cpu_model
from petacomm.network import (
    Hardware,
    PacketMessages,
    PacketSimulator,
    SimulationResult,
    alltoall_peak_bandwidth,
    link_loads,
    make_hardware,
)
from petacomm.topology import Torus, bluegene_partition, load_machine, parse_shape

HERE = Path(__file__).parent
MACHINE = load_machine("bluegene-l")
HARDWARE = make_hardware(MACHINE)


class Row(NamedTuple):
    """A row of Table 2: aggregate MB/s at 16, 64 and 256 bytes, and the best % of the peak."""

    small: tuple[int, int, int]
    best: int
    long: int  # bytes that show the plateau in some seconds


TABLE_2 = {
    "4x4x2": Row((237, 619, 1892), 86, 61440),
    "8x4x2": Row((566, 1272, 2817), 94, 30720),
    "8x4x4": Row((1330, 2705, 5524), 92, 15360),
    "8x8x4": Row((2727, 4354, 9905), 86, 7680),
    "8x8x8": Row((5463, 9462, 20015), 98, 7680),
    "8x16x8": Row((8751, 12936, 26845), 79, 1440),
}


def timed(work: Callable[[], SimulationResult]) -> tuple[SimulationResult, float]:
    """Return what a simulation counted and the seconds of processor time that it took."""
    begin = time.process_time()
    run = work()
    return run, time.process_time() - begin


def speed() -> None:
    """Print packet-hops a second of 512 and of 4096 nodes, messages of 1 KB, and bytes a packet in flight."""
    print("speed                              packets       hops  Mhops/s  Mevents/s      s  bytes/packet")
    cube = PacketSimulator(Torus((8, 8, 8)), HARDWARE)
    _speed_row("512 nodes, all-to-all  (bar 3)", lambda: cube.simulate_all_to_all(1024))
    big = Torus((16, 16, 16))
    pairs = np.random.default_rng(1).integers(big.n_nodes, size=(2, 40 * big.n_nodes))
    pairs = pairs[:, pairs[0] != pairs[1]]
    messages = PacketMessages(pairs[0], pairs[1], np.full(pairs.shape[1], 1024))
    simulator = PacketSimulator(big, HARDWARE)
    _speed_row("4096 nodes, 40 each  (bar 1.5)", lambda: simulator.simulate(messages))


def _speed_row(name: str, work: Callable[[], SimulationResult]) -> None:
    run, took = min((timed(work) for _ in range(2)), key=lambda pair: pair[1])
    print(
        f"{name:30s} {run.packets:11,d} {run.hops:10,d} {run.hops / took / 1e6:8.2f} "
        f"{run.events / took / 1e6:10.2f} {took:6.1f} {run.memory / run.most_in_flight:13.0f}"
    )


def reached(shape: str, n_bytes: int, hardware: Hardware = HARDWARE) -> tuple[float, float]:
    """Return the aggregate MB/s of an all-to-all, and its part of the peak in percent."""
    grid = bluegene_partition(MACHINE, parse_shape(shape)).grid
    run = PacketSimulator(grid, hardware).simulate_all_to_all(n_bytes)
    rate = grid.n_nodes * (grid.n_nodes - 1) * n_bytes / run.seconds
    return rate / 1e6, 100 * rate / grid.n_nodes / alltoall_peak_bandwidth(grid, HARDWARE.link_bandwidth)


def plateaus() -> None:
    """Print the part of the peak that slices of long messages reach, beside what was printed."""
    begun = dataclasses.replace(HARDWARE, all_to_all_cycles=0.0, all_to_all_miss_cycles=0.0)
    print("plateaus      bytes  % of peak  printed  off  bar")
    for shape, row in TABLE_2.items():
        percent = reached(shape, row.long, begun)[1]
        bar = 10 if bluegene_partition(MACHINE, parse_shape(shape)).grid.wrap[0] else 3
        off = percent - row.best
        kept = "ok" if abs(off) <= bar else "NOT KEPT"
        print(f"{shape:8s} {row.long:10,d} {percent:10.1f} {row.best:8d} {off:+5.1f} {bar:4d} {kept}")


def short() -> None:
    """Print MB/s of short messages over the printed ones."""
    print("short messages: MB/s simulated / printed (bar: 1 / 1.6 to 1.6)")
    for shape, row in TABLE_2.items():
        ratios = [reached(shape, n)[0] / printed for n, printed in zip((16, 64, 256), row.small, strict=True)]
        marks = ["" if 1 / 1.6 <= ratio <= 1.6 else " NOT KEPT" for ratio in ratios]
        cells = (f"{n:4d} B {r:5.2f}{m}" for n, r, m in zip((16, 64, 256), ratios, marks, strict=True))
        print(f"{shape:8s}" + "  ".join(cells))


def simgrid() -> None:
    """Print the seconds that an all-to-all takes by three models, and what each costs to find."""
    print("all-to-all of 1024 B on a torus, us (s of processor time)")
    print("shape      link loads, ties one way           packets           SimGrid, flows")
    for shape in ("4x4x2", "4x4x4", "8x4x4"):
        found = _simgrid(shape, 1024)
        if found is None:
            return
        grid = Torus(parse_shape(shape))
        begin = time.process_time()
        loads = link_loads(grid, 1024.0, tie="plus").max() / HARDWARE.link_bandwidth
        took = time.process_time() - begin
        simulator = PacketSimulator(grid, HARDWARE)
        run, cpu = timed(partial(simulator.simulate_all_to_all, 1024))
        print(f"{shape:8s} {1e6 * loads:12.1f} ({took:.4f}) {1e6 * run.seconds:12.1f} ({cpu:.3f})", end="")
        print(f" {1e6 * found['seconds']:14.1f} ({found['cpu']:.3f})")


def _simgrid(shape: str, n_bytes: int) -> dict[str, float] | None:
    command = ["/usr/bin/python3", str(HERE / "peers" / "peer_simgrid.py"), shape, str(n_bytes)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        print(f"SimGrid is left out: {last} (apt install python3-simgrid)")
        return None
    return json.loads(done.stdout)


PARTS = {"speed": speed, "plateaus": plateaus, "short": short, "simgrid": simgrid}


def main() -> None:
    """Print all tables, or one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS)
    only = parser.parse_args().only
    print(f"{cpu_model()}, Python {sys.version.split()[0]}", flush=True)
    for name in [only] if only else PARTS:
        print()
        PARTS[name]()
        sys.stdout.flush()


if __name__ == "__main__":
    main()
