"""Linear cost model of exchanges: messages, bytes sent, and bytes copied explicitly or by MPI datatypes.

``T = a messages + b bytes + c copied blocks + d copied bytes + e typed blocks + f typed bytes + g waits``. A
block is a contiguous range of memory; copies and datatypes have a cost for each. The share of packing,
(c copied blocks + d copied bytes) / T, is the result of the model of MILC for Blue Waters: it is large where
a rank's part is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.mpi.communicator import Communicator
from petacomm.mpi.datatypes import merged_loops
from petacomm.topology import Machine


@dataclass(frozen=True)
class ExchangeWork:
    """Work of a rank in one exchange.

    Attributes
    ----------
    messages, wire_bytes : float
        Messages to other ranks, and their bytes.
    copied_blocks, copied_bytes : float
        Blocks and bytes packed, unpacked, or read from another rank's memory.
    typed_blocks, typed_bytes : float
        Blocks and bytes gathered or scattered by MPI datatypes.
    waits : float
        Barriers of the node.
    """

    messages: float = 0
    wire_bytes: float = 0
    copied_blocks: float = 0
    copied_bytes: float = 0
    typed_blocks: float = 0
    typed_bytes: float = 0
    waits: float = 0

    def __add__(self, other: ExchangeWork) -> ExchangeWork:
        return ExchangeWork(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def busiest(self, comm: Communicator) -> ExchangeWork:
        """Return the maximum over ranks of each kind of work. Collective."""
        return ExchangeWork(*comm.allreduce(np.array(astuple(self), np.float64), "max").tolist())


def copy_work(views: Sequence[AnyArray]) -> ExchangeWork:
    """Return the work of copying views to or from contiguous buffers."""
    return ExchangeWork(
        copied_blocks=sum(_blocks(view) for view in views), copied_bytes=sum(view.nbytes for view in views)
    )


def datatype_work(views: Sequence[AnyArray]) -> ExchangeWork:
    """Return the work of sending or receiving views by datatypes."""
    work = copy_work(views)
    return ExchangeWork(typed_blocks=work.copied_blocks, typed_bytes=work.copied_bytes)


def message_work(views: Sequence[AnyArray]) -> ExchangeWork:
    """Return the work of sending each view as one message."""
    return ExchangeWork(messages=len(views), wire_bytes=sum(view.nbytes for view in views))


def _blocks(view: AnyArray) -> int:
    return view.nbytes // merged_loops(view.itemsize, view.shape, view.strides)[0] if view.size else 0


@dataclass(frozen=True)
class ExchangeCosts:
    """Seconds per unit of each kind of work, fitted to timings or those of a machine's file.

    A cost is 0 where timings do not determine it.
    """

    seconds: ExchangeWork

    @classmethod
    def fit(cls, works: Sequence[ExchangeWork], seconds: Sequence[float]) -> ExchangeCosts:
        """Fit non-negative costs to one timing or more, by least squares of the relative errors."""
        from scipy.optimize import nnls

        rows = np.array([astuple(work) for work in works], np.float64) / np.array(seconds)[:, None]
        scale = np.linalg.norm(rows, axis=0)
        scale[scale == 0] = 1.0
        costs, _ = nnls(rows / scale, np.ones(len(seconds)))
        return cls(ExchangeWork(*(costs / scale).tolist()))

    @classmethod
    def from_machine(cls, machine: Machine) -> ExchangeCosts:
        """Return the costs between nodes of a machine, by its file.

        A message takes the latency, and its bytes the bandwidth; a block is found as a row is. Copies by hand
        read and write memory; datatypes, at best, read it while the network writes.
        """
        read = 1 / machine.core_memory_bandwidth
        return cls(
            ExchangeWork(
                messages=machine.latency,
                wire_bytes=1 / machine.bandwidth,
                copied_blocks=machine.row_time,
                copied_bytes=2 * read,
                typed_blocks=machine.row_time,
                typed_bytes=read,
                waits=machine.synchronisation,
            )
        )

    def predict(self, work: ExchangeWork) -> float:
        """Return the predicted seconds of an exchange."""
        return float(np.dot(astuple(self.seconds), astuple(work)))

    def packing_share(self, work: ExchangeWork) -> float:
        """Return the fraction of the predicted time that is spent on explicit copies."""
        total = self.predict(work)
        copies = ExchangeWork(copied_blocks=work.copied_blocks, copied_bytes=work.copied_bytes)
        return self.predict(copies) / total if total > 0 else 0.0

    def describe(self) -> str:
        """Return the costs as text."""
        units = {
            "messages": "us a message",
            "copied_blocks": "ns a block copied",
            "typed_blocks": "ns a block by datatypes",
            "waits": "us a wait",
            "wire_bytes": "GB/s sent",
            "copied_bytes": "GB/s copied",
            "typed_bytes": "GB/s by datatypes",
        }
        words = []
        for field in fields(ExchangeWork):
            cost, unit = getattr(self.seconds, field.name), units[field.name]
            if cost > 0:
                factor = 1e6 if unit.startswith("us") else 1e9
                words.append(f"{1e-9 / cost if 'GB/s' in unit else cost * factor:.3g} {unit}")
        return ", ".join(words)
