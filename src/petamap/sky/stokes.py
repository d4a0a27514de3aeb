"""Stokes parameters of a map."""

from __future__ import annotations

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
