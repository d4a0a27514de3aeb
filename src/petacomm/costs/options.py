"""Options of reduction algorithms, on which their costs depend, too."""

from __future__ import annotations

from dataclasses import dataclass

from petacomm.base.arguments import require_integer, require_real
from petacomm.base.errors import ConfigError, did_you_mean, is_known
from petacomm.mpi.persistent import TRANSPORT_EXCHANGES, Transport
from petacomm.redistribution.indexed_rows import PACKINGS

TRANSPORTS = list(TRANSPORT_EXCHANGES)


@dataclass(frozen=True)
class ReductionOptions:
    """Options of reduction algorithms.

    Attributes
    ----------
    buffer_keys : int
        Keys of a buffer of "dense" and of "gather-sift".
    n_threads : int
        Threads of packing, unpacking and reducing.
    transport : str
        Transport of messages: one of `TRANSPORTS`.
    radix : int
        Parts into which "butterfly" splits a group of ranks.
    theta : float
        Fraction of the nodes that must hold a dense key of "hybrid".
    mu : int
        Largest number of nodes that may hold a key that pairs of nodes exchange in "hybrid".
    packing : str
        Whether rows are packed into messages, or sent by indexed datatypes: one of `PACKINGS`.
    """

    buffer_keys: int = 1 << 20
    n_threads: int = 1
    transport: Transport = "alltoallv"
    radix: int = 4
    theta: float = 0.9
    mu: int = 2
    packing: str = "packed"

    def error(self) -> ConfigError | None:
        """Return the error of options that are out of range; None if all are valid."""
        try:
            require_integer(self.n_threads, "n_threads", 1)
            for name in ("buffer_keys", "radix", "mu"):
                require_integer(getattr(self, name), name, -(2**63))
            if not isinstance(self.theta, float):  # of which the sign is seen below
                require_real(self.theta, "theta", -1e300, 1e300)
        except ConfigError as error:
            return error
        for kind, name, known in (
            ("transport", self.transport, TRANSPORTS),
            ("packing", self.packing, list(PACKINGS)),
        ):
            if not is_known(name, known):
                return ConfigError(f"no {kind} '{name}'", mend=did_you_mean(name, known))
        if not 1 <= self.buffer_keys < 2**31:
            return ConfigError(f"buffers of {self.buffer_keys} keys", mend="1 to 2147483647")
        if self.radix < 2:
            return ConfigError(f"nested groups of radix {self.radix}", mend="2 or more")
        if not self.theta >= 0 or self.mu < 0:
            return ConfigError(f"theta {self.theta}, mu {self.mu}", mend="neither is negative")
        return None


DEFAULT_OPTIONS = ReductionOptions()
