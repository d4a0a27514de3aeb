"""What an exchange costs: messages, bytes on their way, and what is copied by hand or by MPI's datatypes.

``T = a messages + b bytes + c copied blocks + d copied bytes + e typed blocks + f typed bytes + g waits``. A
block is what lies together; copying and datatypes pay for each. The share of packing, (c copied blocks + d
copied bytes) / T, is what the model of MILC for Blue Waters tells: large where a rank's part is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.mpi.communicator import Communicator
from petacomm.mpi.datatypes import merged


@dataclass(frozen=True)
class Work:
    """What a rank does in one exchange.

    Attributes
    ----------
    messages, wire_bytes : float
        Sent to other ranks.
    copied_blocks, copied_bytes : float
        Packed, unpacked, or read from another rank's memory.
    typed_blocks, typed_bytes : float
        Gathered or placed by MPI's datatypes.
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

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def busiest(self, comm: Communicator) -> Work:
        """Return the most that any rank does, kind by kind. Collective."""
        return Work(*comm.allreduce(np.array(astuple(self), np.float64), "max").tolist())


def copied(views: Sequence[AnyArray]) -> Work:
    """Return the work of copying views, to or from places where their elements lie side by side."""
    return Work(
        copied_blocks=sum(_blocks(view) for view in views), copied_bytes=sum(view.nbytes for view in views)
    )


def typed(views: Sequence[AnyArray]) -> Work:
    """Return the work of datatypes of views."""
    work = copied(views)
    return Work(typed_blocks=work.copied_blocks, typed_bytes=work.copied_bytes)


def sent(views: Sequence[AnyArray]) -> Work:
    """Return the work of sending views, a message each."""
    return Work(messages=len(views), wire_bytes=sum(view.nbytes for view in views))


def _blocks(view: AnyArray) -> int:
    return view.nbytes // merged(view.itemsize, view.shape, view.strides)[0] if view.size else 0


@dataclass(frozen=True)
class Costs:
    """Seconds a unit of each kind of work, fitted to timings; 0 where these do not show it."""

    seconds: Work

    @classmethod
    def fit(cls, works: Sequence[Work], seconds: Sequence[float]) -> Costs:
        """Fit the costs, none negative, by least squares of the relative error of one timing or more."""
        from scipy.optimize import nnls

        rows = np.array([astuple(work) for work in works], np.float64) / np.array(seconds)[:, None]
        scale = np.linalg.norm(rows, axis=0)
        scale[scale == 0] = 1.0
        found, _ = nnls(rows / scale, np.ones(len(seconds)))
        return cls(Work(*(found / scale).tolist()))

    def predict(self, work: Work) -> float:
        """Return the seconds of an exchange."""
        return float(np.dot(astuple(self.seconds), astuple(work)))

    def packing_share(self, work: Work) -> float:
        """Return the part of the time that goes into copying by hand."""
        total = self.predict(work)
        by_hand = Work(copied_blocks=work.copied_blocks, copied_bytes=work.copied_bytes)
        return self.predict(by_hand) / total if total > 0 else 0.0

    def told(self) -> str:
        """Return the costs in words."""
        units = {
            "messages": "us a message",
            "copied_blocks": "ns a block copied",
            "typed_blocks": "ns a block by datatypes",
            "waits": "us a wait",
            "wire_bytes": "GB/s on the way",
            "copied_bytes": "GB/s copied",
            "typed_bytes": "GB/s by datatypes",
        }
        words = []
        for field in fields(Work):
            cost, unit = getattr(self.seconds, field.name), units[field.name]
            if cost > 0:
                factor = 1e6 if unit.startswith("us") else 1e9
                words.append(f"{1e-9 / cost if 'GB/s' in unit else cost * factor:.3g} {unit}")
        return ", ".join(words)
