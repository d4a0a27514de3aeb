"""Time and memory of one rank of many for the set-up of a large run: all of its phases before the data.

    python benchmarks/set_up.py --ranks 16384
    python benchmarks/set_up.py source.satellite.duration="120 day" source.satellite.n_observations=120

The rank does its own part of a run, by default the year of the example planck-217, with the map-maker's own
code. What other ranks send it is taken to be like what it sends them (`MirroredCommunicator`): as many keys
and rows, from as many ranks. Rank 0 is measured, where gathers end.

The choice of the distribution needs what all ranks have found of the sky, if blocks are few enough for it:
one process looks at all of it first, which is not timed, and the rank then does its share of the work and
gets the results of all.
"""

from __future__ import annotations

import argparse
import functools
import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.host import peak_bytes, resident_bytes, return_free_memory
from petacomm.base.progress import SilentProgress
from petacomm.base.threads import available_threads
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.mpi.communicator import Operation
from petacomm.mpi.persistent import AlltoallvBuffers, EmptyExchange, PersistentExchange, Transport
from petacomm.mpi.serial import SerialCommunicator
from petamap.data.config import RunConfig, load_config, open_sources
from petamap.mapmaking.setup import RunSetup
from petamap.planning.choice_limits import chooses_distribution
from petamap.planning.distribution_choice import local_machine, predict_distributions
from petamap.planning.scanned_run import ScannedRun

EXAMPLE = Path(__file__).parents[1] / "src" / "petamap" / "examples" / "planck_217" / "run.toml"
YEAR = ["source.satellite.duration=365 day", "source.satellite.n_observations=365"]


class CopiedRows(EmptyExchange):
    """Exchange in which a rank receives what it sends, as far as there is room for it."""

    def __init__(self, send: AnyArray, receive: AnyArray) -> None:
        self._send, self._receive = send, receive

    def start(self) -> None:
        n = min(self._send.size, self._receive.size)
        self._receive[:n] = self._send[:n]


class MirroredCommunicator(SerialCommunicator):
    """One of many ranks, each of which is taken to send and to find what this one does.

    Parameters
    ----------
    size, node_size : int
        Ranks of all nodes, and of a node.
    answers : list, optional
        What the next gathers of objects and rows give, in the place of copies of what is passed to them.
    """

    def __init__(self, size: int, node_size: int, answers: list[Any] | None = None) -> None:
        super().__init__()
        self.size, self._node_size, self.answers = size, min(node_size, size), answers or []

    def allreduce(self, array: AnyArray, op: Operation = "sum") -> AnyArray:
        if op == "sum":
            np.multiply(array, self.size, out=array, casting="unsafe")
        return array

    def sum(self, value: int) -> int:
        return int(value) * self.size

    def gather(self, value: Any, root: int = 0) -> list[Any] | None:
        return [value] * self.size if root == 0 else None

    def allgather(self, value: Any) -> list[Any]:
        if self.answers:
            return [self.answers.pop(0)]
        if isinstance(value, dict) and value and all(isinstance(key, int) for key in value):
            # numbers that are dealt to ranks in turn
            return [{key + rank: one for key, one in value.items()} for rank in range(self.size)]
        return [value] * self.size

    def allgather_rows(self, rows: AnyArray) -> tuple[AnyArray, Int64Array]:
        if self.answers:
            answer = self.answers.pop(0)
            return answer, np.array([len(answer)], np.int64)
        every = np.concatenate([rows] * self.size)
        return every, np.full(self.size, len(rows), np.int64)

    def gather_rows(self, rows: AnyArray, root: int = 0) -> AnyArray | None:
        return self.allgather_rows(rows)[0] if root == 0 else None

    def alltoallv_into(self, buffers: AlltoallvBuffers) -> None:
        CopiedRows(buffers.send, buffers.receive).run()

    def persistent_exchange(self, transport: Transport, buffers: AlltoallvBuffers) -> PersistentExchange:
        return CopiedRows(buffers.send, buffers.receive)

    def node_size(self) -> int:
        return self._node_size

    @functools.cache  # noqa: B019
    def node(self) -> MirroredCommunicator:
        return MirroredCommunicator(self._node_size, self._node_size)

    @functools.cache  # noqa: B019
    def peers(self) -> MirroredCommunicator:
        return MirroredCommunicator(-(-self.size // self._node_size), 1)

    @property
    def node_of(self) -> Int32Array:
        return (np.arange(self.size) // self._node_size).astype(np.int32)


class RecordedGathers(SerialCommunicator):
    """One process that does the work of all ranks, and keeps what they would gather."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []

    def allgather(self, value: Any) -> list[Any]:
        self.answers.append(value)
        return [value]

    def allgather_rows(self, rows: AnyArray) -> tuple[AnyArray, Int64Array]:
        self.answers.append(rows)
        return super().allgather_rows(rows)


def open_setup(config: RunConfig, comm: MirroredCommunicator) -> RunSetup:
    """Return the set-up of a run with its observations."""
    setup = RunSetup(config, comm, SilentProgress())
    setup.open(functools.partial(open_sources, comm=comm))
    return setup


def found_by_all(config: RunConfig, comm: MirroredCommunicator) -> list[Any]:
    """Return what all ranks gather while they choose the distribution, found by one process."""
    setup, every = open_setup(config, comm), RecordedGathers()
    run = ScannedRun.of(config, setup.observations, setup.pixelization)
    if not chooses_distribution(run.layout, comm.size):
        return []
    predict_distributions(
        run, config, comm.size, comm.node_size(), local_machine(comm), every, available_threads()
    )
    return every.answers


def measure(config: RunConfig, comm: MirroredCommunicator) -> None:
    """Set the run up on the rank, and print seconds and memory of the phases."""
    answers = found_by_all(config, comm)
    gc.collect()
    return_free_memory()
    before = resident_bytes()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is that of what follows
    setup = open_setup(config, comm)
    if answers:
        with setup.timers.phase("distribution"):
            run = ScannedRun.of(config, setup.observations, setup.pixelization)
            machine = local_machine(comm)
            comm.answers = answers
            predict_distributions(run, config, comm.size, comm.node_size(), machine, comm)
        setup.config = replace(config, comm=replace(config.comm, distribution="time-major"))
    system = setup.set_up()
    phases, peak = setup.timers.phases, peak_bytes()
    n_samples, n_pixels = system.projection.local.n_out, len(system.projection.keys())
    print(f"one of {comm.size:,} ranks: {n_samples:,} samples, {n_pixels:,} pixels")
    for name, phase in phases.items():
        print(f"{name:16} {phase.seconds:8.2f} s {phase.cpu_seconds:8.2f} s of the processor")
    seconds = [sum(getattr(one, kind) for one in phases.values()) for kind in ("seconds", "cpu_seconds")]
    print(f"{'all':16} {seconds[0]:8.2f} s {seconds[1]:8.2f} s of the processor")
    print(
        f"memory: {before / 1e6:.0f} MB before, {(peak - before) / 1e6:.0f} MB at most in the set-up; of the "
        f"run predicted {system.memory.total / 1e6:.0f} MB"
    )


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, default=EXAMPLE)
    parser.add_argument("--ranks", type=int, default=16_384)
    parser.add_argument("--ranks-per-node", type=int, default=128)
    parser.add_argument("options", nargs="*", default=YEAR, help="options of the run [those of the year]")
    chosen = parser.parse_args()
    config = load_config(chosen.config, ["resources.threads=1", "comm.reduction=owner", *chosen.options])
    measure(config, MirroredCommunicator(chosen.ranks, chosen.ranks_per_node))


if __name__ == "__main__":
    main()
