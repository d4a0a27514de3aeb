"""Cores of ranks while collectives are timed: `RankAffinity`."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Any

import numpy as np

from petacomm.base.threads import allowed_processors


class RankAffinity:
    """Ranks of nodes with fewer cores than ranks, dealt to the cores anew in each round.

    Which ranks share a core tells as much of the time of a collective as its algorithm does. In one job they
    hardly move, so that rounds of one job would agree with each other, and not with those of the next.

    Parameters
    ----------
    mpi : module
    """

    def __init__(self, mpi: Any) -> None:
        node = mpi.COMM_WORLD.Split_type(mpi.COMM_TYPE_SHARED)
        self._rank, self._size = int(node.rank), int(node.size)
        self._cores = allowed_processors()
        alike = self._cores == node.bcast(self._cores, 0) and hasattr(os, "sched_setaffinity")
        crowded = self._size > len(self._cores)
        self._deals = bool(node.allreduce(int(alike and crowded), mpi.MIN))
        self._random = np.random.default_rng(node.bcast(secrets.randbits(64), 0))
        node.Free()

    def deal(self) -> None:
        """Move each rank to a core, as many to each; from there the system moves them as it likes.

        Nothing is done where each rank may have a core of its own, or launchers bind them to different ones.
        """
        if not self._deals:
            return
        place = int(self._random.permutation(self._size)[self._rank])
        with contextlib.suppress(OSError):  # cores may have been taken from the job
            os.sched_setaffinity(0, {self._cores[place * len(self._cores) // self._size]})
            os.sched_setaffinity(0, self._cores)
