"""Progress reports of long-running work: the command line shows them, libraries discard them by default."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receiver of progress reports; only that of rank 0 shows anything."""

    def begin(self, phase: str, total: float | None = None, unit: str = "") -> None:
        """Begin a phase of `total` units of work; None if the total is unknown."""

    def advance(self, amount: float, note: str = "") -> None:
        """Report that `amount` more units are done; `note` is shown beside them."""

    def end(self, note: str = "") -> None:
        """End the phase."""

    def warn(self, text: str) -> None:
        """Warn the user; the text is also part of the report of the run."""


class SilentProgress:
    """Receiver that shows nothing and keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def begin(self, phase: str, total: float | None = None, unit: str = "") -> None:
        """Do nothing."""

    def advance(self, amount: float, note: str = "") -> None:
        """Do nothing."""

    def end(self, note: str = "") -> None:
        """Do nothing."""

    def warn(self, text: str) -> None:
        """Keep the warning."""
        self.warnings.append(text)
