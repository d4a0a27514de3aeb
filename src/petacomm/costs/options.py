"""Options of reductions: what both their costs and the algorithms depend on."""

from __future__ import annotations

from dataclasses import dataclass

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.mpi.persistent import CHANNELS, Transport
from petacomm.redistribution.indexed_rows import PACKINGS

TRANSPORTS = list(CHANNELS)


@dataclass(frozen=True)
class Options:
    """What an algorithm may be told.

    Attributes
    ----------
    buffer_keys : int
        Keys reduced at once, where an algorithm works buffer by buffer.
    n_threads : int
        Threads that pack, unpack and reduce.
    transport : str
        What carries messages: one of `TRANSPORTS`.
    radix : int
        Parts that a group of ranks is cut into, where an algorithm goes by nested groups.
    theta : float
        Share of the nodes that must hold a key to make it a dense one, where an algorithm tells them apart.
    mu : int
        Most nodes that may hold a key which pairs exchange, where an algorithm tells them apart.
    packing : str
        Whether rows of messages are packed, or sent from where they lie by indexed types: one of `PACKINGS`.
    """

    buffer_keys: int = 1 << 20
    n_threads: int = 1
    transport: Transport = "alltoallv"
    radix: int = 4
    theta: float = 0.9
    mu: int = 2
    packing: str = "packed"

    def fault(self) -> ConfigError | None:
        """Return what is wrong, if anything."""
        if self.transport not in TRANSPORTS:
            return ConfigError(
                f"no transport '{self.transport}'", mend=did_you_mean(self.transport, TRANSPORTS)
            )
        if self.packing not in PACKINGS:
            return ConfigError(
                f"no packing '{self.packing}'", mend=did_you_mean(self.packing, list(PACKINGS))
            )
        if not 1 <= self.buffer_keys < 2**31:
            return ConfigError(f"buffers of {self.buffer_keys} keys", mend="1 to 2147483647")
        if self.radix < 2:
            return ConfigError(f"nested groups of radix {self.radix}", mend="2 or more")
        if not self.theta >= 0 or self.mu < 0:
            return ConfigError(f"theta {self.theta}, mu {self.mu}", mend="neither is negative")
        return None


DEFAULTS = Options()
