"""Stokes parameters of a map."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Stokes(str, Enum):
    """Stokes parameters solved for, in the order in which they are stored."""

    I = "I"  # noqa: E741
    QU = "QU"
    IQU = "IQU"

    @property
    def n(self) -> int:
        """Number of components."""
        return len(self.value)

    @staticmethod
    def of_names(names: Iterable[str]) -> Stokes | None:
        """Return the Stokes parameters that columns of these names are; None if they are others."""
        joined = "".join(names)
        return Stokes(joined) if joined in {one.value for one in Stokes} else None
