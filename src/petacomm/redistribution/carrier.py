"""What every way of an exchange can do, between arrays or into the ghosts of a lattice."""

from __future__ import annotations

import abc
from typing import ClassVar

from petacomm.redistribution.exchange_cost import Work


class Carrier(abc.ABC):
    """One way of an exchange between places that stay where they are."""

    name: ClassVar[str]

    @abc.abstractmethod
    def start(self) -> None:
        """Start to send what is there now; it must not change before `wait` returns."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Wait until all has come and what was sent is free again."""

    @abc.abstractmethod
    def free(self) -> None:
        """Give back what MPI keeps for it. Not collective."""

    @abc.abstractmethod
    def work(self) -> Work:
        """Return what this rank does in one call."""
