"""The program whose ranks time collectives: `run_measurement`.

The algorithms of a cell (a collective, a size and a number of ranks) take turns in rounds within one job, and
their order is rotated: what else the machine does falls on all alike, and so does where ranks lie, on nodes
with fewer cores than ranks. The time of a call is that of its slowest rank. Communicators of fewer ranks than
there are have consecutive ones, and all call at once, as rows of a grid of processes do.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.files import write_text
from petacomm.base.host import available_bytes
from petacomm.base.typing import FloatArray
from petacomm.mpi.launch import OVERSUBSCRIBED, load_mpi
from petacomm.tuning.cells import Cell
from petacomm.tuning.choice import DEFAULT
from petacomm.tuning.mpich_rules import mpich_candidates
from petacomm.tuning.openmpi_rules import ENABLED, openmpi_candidates
from petacomm.tuning.prediction import predicted_seconds
from petacomm.tuning.rank_affinity import RankAffinity
from petacomm.tuning.tool_interface import ToolInterface, loaded_mpi_library

COLLECTIVES = ("allreduce", "bcast", "reduce", "allgather", "alltoall", "reduce_scatter_block", "barrier")
_CALLS = 5  # of an algorithm in a round
_FEWEST, _MOST = 12, 60  # rounds
_TRIAL = 4  # rounds after which an algorithm is given up that is slower than the default by this factor
_SLOW = 1.6
# What is too dear to measure: rounds of the default that would take so many times the seconds of a cell, or
# arrays beyond a share of the memory that there is, of which libraries take as much again and more.
_DEAR = 10
_SHARE = 0.2


def library_kind(version: str) -> str:
    """Return "mpich" or "open-mpi", or "" for others, by the version text of a library."""
    if "Open MPI" in version:
        return "open-mpi"
    return "mpich" if "MPICH" in version and "CRAY" not in version else ""


@dataclass
class CollectiveBuffers:
    """Arrays of a cell on one rank of its communicator, and the check of its result.

    All values are small integers, so that sums are exact in every order.
    """

    cell: Cell
    mpi: Any
    rank: int

    def __post_init__(self) -> None:
        sent, taken = self.lengths(self.cell)
        self.collective = self.cell.collective
        self.send = self._made(self.rank, sent)
        self.recv: FloatArray = np.zeros(taken)

    @staticmethod
    def lengths(cell: Cell) -> tuple[int, int]:
        """Return the numbers that a rank sends of a cell, and that it is sent."""
        n = max(1, cell.size // 8)
        many = n * cell.ranks
        sent = {"alltoall": many, "reduce_scatter_block": many}.get(cell.collective, n)
        return sent, {"alltoall": many, "allgather": many}.get(cell.collective, n)

    @staticmethod
    def _made(rank: int, n: int) -> FloatArray:
        return np.asarray((np.arange(n) * 7 + rank * 3) % 11, np.float64)

    def call(self, comm: Any) -> Callable[[], object]:
        """Return a call of the collective on a communicator."""
        send, recv, name = self.send, self.recv, self.collective
        if name == "barrier":
            return lambda: comm.Barrier()
        if name == "bcast":
            return lambda: comm.Bcast(recv, 0)
        method = getattr(comm, name.capitalize())
        if name == "reduce":
            return lambda: method(send, recv, self.mpi.SUM, 0)
        if name in ("allreduce", "reduce_scatter_block"):
            return lambda: method(send, recv, op=self.mpi.SUM)
        return lambda: method(send, recv)

    def is_right(self, comm: Any) -> bool:
        """Call the collective and return whether this rank has what it should."""
        self.recv[:] = -1.0
        if self.collective == "bcast" and self.rank == 0:
            self.recv[:] = self._made(0, len(self.recv))
        self.call(comm)()
        return bool(np.array_equal(self.recv, self._expected()))

    def _expected(self) -> FloatArray:
        n, ranks = len(self.recv), range(self.cell.ranks)
        mine = slice(self.rank * n, (self.rank + 1) * n)
        if self.collective == "barrier" or (self.collective == "reduce" and self.rank):
            return np.full(n, -1.0)
        if self.collective == "bcast":
            return self._made(0, n)
        if self.collective == "allgather":
            return np.concatenate([self._made(rank, len(self.send)) for rank in ranks])
        sent = [self._made(rank, len(self.send)) for rank in ranks]
        if self.collective == "alltoall":
            n //= self.cell.ranks
            mine = slice(self.rank * n, (self.rank + 1) * n)
            return np.concatenate([one[mine] for one in sent])
        total = np.asarray(np.sum(sent, axis=0), np.float64)
        return total[mine] if self.collective == "reduce_scatter_block" else total


class CellTimer:
    """Timer of the algorithms of one collective, each on communicators of its own.

    Parameters
    ----------
    mpi : module
    tools : ToolInterface
    settings : mapping of str to (mapping of str to int)
        Variables of each algorithm; those of the default undo all others.
    n_ranks : int
        Ranks of a communicator. There are as many as ranks suffice for; ranks that are left do not call.
    """

    def __init__(
        self, mpi: Any, tools: ToolInterface, settings: Mapping[str, Mapping[str, int]], n_ranks: int
    ) -> None:
        self._mpi, self._tools, self._settings = mpi, tools, settings
        self._world, self._affinity = mpi.COMM_WORLD, RankAffinity(mpi)
        number, self._rank = divmod(self._world.rank, n_ranks)
        self._calls = (number + 1) * n_ranks <= self._world.size
        group = self._world.Split(number, self._rank)
        self._comms = {}
        for name in settings:  # Open MPI chooses when a communicator is made, MPICH at each call
            tools.write(settings[name])
            self._comms[name] = group.Dup()
        tools.write(settings[DEFAULT])
        group.Free()

    def free(self) -> None:
        """Free the communicators."""
        for comm in self._comms.values():
            comm.Free()

    def times(
        self, cell: Cell, seconds: float, fewest: int = _FEWEST, names: Sequence[str] | None = None
    ) -> tuple[dict[str, list[float]], list[str]]:
        """Return the seconds of a call in each round by algorithm, and algorithms whose results are wrong.

        All algorithms are timed, or the default and those of some `names`.
        """
        buffers = CollectiveBuffers(cell, self._mpi, self._rank)
        tried = [name for name in self._settings if names is None or name in (DEFAULT, *names)]
        wrong = [name for name in tried if not self._is_right(name, buffers)]
        names = [name for name in tried if name not in wrong]
        taken: dict[str, list[FloatArray]] = {name: [] for name in names}
        begin = time.perf_counter()
        for turn in range(_MOST):
            self._affinity.deal()
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                taken[name].append(self._round(name, buffers))
            if turn + 1 == _TRIAL:
                names = self._worth_timing(names, taken)
            if turn + 1 >= fewest and self._agreed(time.perf_counter() - begin > seconds):
                break
        self._tools.write(self._settings[DEFAULT])
        return {name: self._of_slowest(rounds) for name, rounds in taken.items()}, wrong

    def _is_right(self, name: str, buffers: CollectiveBuffers) -> bool:
        self._tools.write(self._settings[name])
        right = buffers.is_right(self._comms[name]) if self._calls else True
        self._tools.write(self._settings[DEFAULT])
        return bool(self._world.allreduce(int(right), self._mpi.MIN))

    def _round(self, name: str, buffers: CollectiveBuffers) -> FloatArray:
        """Return the seconds of a few calls on this rank."""
        self._tools.write(self._settings[name])
        call = buffers.call(self._comms[name]) if self._calls else lambda: None
        barrier = self._world.Barrier
        seconds = np.empty(_CALLS)
        call()
        for i in range(_CALLS):
            barrier()
            begin = time.perf_counter()
            call()
            seconds[i] = time.perf_counter() - begin
        self._tools.write(self._settings[DEFAULT])
        return seconds

    def _worth_timing(self, names: list[str], taken: Mapping[str, list[FloatArray]]) -> list[str]:
        medians = {name: float(np.median(self._of_slowest(taken[name]))) for name in names}
        return [name for name in names if name == DEFAULT or medians[name] <= _SLOW * medians[DEFAULT]]

    def _of_slowest(self, rounds: list[FloatArray]) -> list[float]:
        """Return the median over the calls of each round of the seconds of the slowest rank. Collective."""
        mine = np.array(rounds)
        slowest = np.empty_like(mine)
        self._world.Allreduce(mine, slowest, self._mpi.MAX)
        return [float(value) for value in np.median(slowest, axis=1)]

    def _agreed(self, wish: bool) -> bool:
        return bool(self._world.bcast(wish, 0))


def candidate_settings(
    kind: str, tools: ToolInterface, collective: str, n_ranks: int, commutative: bool = False
) -> dict[str, dict[str, int]]:
    """Return the default and all algorithms of a collective: name to variables and their values.

    Those of the default are the values that the variables of the others have now.
    """
    if kind == "open-mpi":
        found = openmpi_candidates(tools, collective, n_ranks, commutative)
    else:
        found = mpich_candidates(tools, collective, n_ranks)
    default = {variable: tools.read(variable) for setting in found.values() for variable in setting}
    if kind == "open-mpi":
        default[ENABLED] = tools.read(ENABLED)
    return {DEFAULT: default} | {name: default | setting for name, setting in found.items()}


def measured_cells(mpi: Any, request: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Return the times of all cells of a request, and the kind of the MPI library. Collective.

    A cell of 0 ranks is of all that there are. What is too dear has no times.
    """
    kind, tools = library_kind(mpi.Get_library_version()), ToolInterface(mpi)
    n_ranks = mpi.COMM_WORLD.size
    asked = [Cell(name, size, ranks or n_ranks) for name, size, ranks in request["cells"]]
    names = dict(zip(asked, request.get("names") or [None] * len(asked), strict=True))
    found: dict[Cell, dict[str, Any]] = {}
    if n_ranks == 1 or max(cell.ranks for cell in asked) > n_ranks:  # the one that started it tells
        return [], kind
    forced = bool(request["forced"] and kind)
    for collective, ranks in dict.fromkeys((cell.collective, cell.ranks) for cell in asked):
        settings: dict[str, dict[str, int]] = {DEFAULT: {}}
        if forced:
            settings = candidate_settings(kind, tools, collective, ranks, request.get("commutative", False))
        timer = CellTimer(mpi, tools, settings, ranks)
        for cell in sorted(one for one in asked if (one.collective, one.ranks) == (collective, ranks)):
            times: dict[str, list[float]] = {}
            wrong: list[str] = []
            if not (forced and _is_too_dear(mpi, cell, found, request["seconds"])):
                rounds = request.get("rounds", _FEWEST)
                times, wrong = timer.times(cell, request["seconds"], rounds, names[cell])
            found[cell] = {**cell._asdict(), "times": times, "wrong": wrong}
        timer.free()
    return [found[cell] for cell in asked], kind


def _is_too_dear(mpi: Any, cell: Cell, found: Mapping[Cell, Mapping[str, Any]], seconds: float) -> bool:
    """Return whether a cell would take too long, as predicted, or too much memory. Collective."""
    times = {one: float(np.median(row["times"][DEFAULT])) for one, row in found.items() if row["times"]}
    predicted = predicted_seconds(times, cell) or 0.0
    node = mpi.COMM_WORLD.Split_type(mpi.COMM_TYPE_SHARED)
    n_bytes = 8 * sum(CollectiveBuffers.lengths(cell))
    mine = n_bytes > _SHARE * available_bytes(node.size)
    node.Free()
    lacking = mpi.COMM_WORLD.allreduce(int(mine), mpi.MAX)
    return bool(lacking or predicted * _FEWEST * (_CALLS + 1) > _DEAR * max(seconds, 1.0))


def measure_request(request_path: str, result_path: str, before: Mapping[str, str]) -> None:
    """Time what a request asks for, and write the result on rank 0. Collective.

    `before` is the environment before MPI was started: settings made since then are part of the result.
    """
    mpi = load_mpi()
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    cells, kind = measured_cells(mpi, request)
    if mpi.COMM_WORLD.rank == 0:
        result = {
            "ranks": mpi.COMM_WORLD.size,
            "library": " ".join(mpi.Get_library_version().splitlines()[0].split()),
            "kind": kind,
            "library_path": str(loaded_mpi_library() or ""),
            "settings": oversubscription_settings(kind, before),
            "cells": cells,
        }
        write_text(result_path, json.dumps(result))


def oversubscription_settings(kind: str, before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a kind of library that were set for more ranks than cores, beside those before.

    Others, as that which silences MPICH's message of an abort, are none of a user's programs.
    """
    prefixes = {"mpich": ("MPIR_CVAR_",), "open-mpi": ("OMPI_MCA_", "PRTE_MCA_")}.get(kind, ())
    set_now = [name for name in OVERSUBSCRIBED if name.startswith(prefixes) and name in os.environ]
    return {name: os.environ[name] for name in set_now if before.get(name) != os.environ[name]}


def run_measurement(request_path: str, result_path: str) -> None:
    """Start MPI and measure, with one message of an error on any rank. Collective."""
    from petacomm.mpi import collective_errors, world

    launched_with = dict(os.environ)
    with collective_errors(world()):
        measure_request(request_path, result_path, launched_with)
