"""What a signal that is made of another keeps of it."""

from __future__ import annotations

from dataclasses import dataclass

from petacomm.mpi import Communicator
from petamap.data.node_reads import Read
from petamap.data.observation import Signal, share_signals, signal_reads


@dataclass(frozen=True, eq=False)
class DerivedSignal:
    """Base of signals that are made of the samples of another: scaled, filtered, of some detectors.

    Attributes
    ----------
    signal : Signal
    """

    signal: Signal

    def inputs(self, detector: int, start: int, stop: int) -> tuple[int, int, int]:
        """Return the detector and the samples of `signal` that samples [start, stop) of one are made of."""
        return detector, start, stop

    @property
    def of_sky(self) -> bool:
        """Whether it is a simulated sky alone."""
        return bool(getattr(self.signal, "of_sky", False))

    @property
    def any_order(self) -> bool:
        """Whether samples are had as quickly in any order."""
        return bool(getattr(self.signal, "any_order", False))

    @property
    def shared_sky(self) -> object:
        """What the ranks of a node share of it, if anything."""
        return getattr(self.signal, "shared_sky", None)

    def share(self, comm: Communicator) -> None:
        """Make once on each node what ranks can share. Collective."""
        share_signals([[[self.signal]]], comm)

    def signal_reads(self, detector: int, start: int, stop: int) -> list[Read]:
        """Return what is read of files for samples [start, stop) of a detector."""
        return signal_reads([self.signal], *self.inputs(detector, start, stop))
