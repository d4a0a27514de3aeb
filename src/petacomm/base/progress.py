"""How long-running work tells a person where it stands; the command line draws it, libraries stay silent."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A listener to the phases of a run. Only rank 0 has one that speaks."""

    def begin(self, phase: str, total: float | None = None, unit: str = "") -> None:
        """Begin a phase of `total` units of work (None where it is not known)."""
        ...

    def advance(self, amount: float, note: str = "") -> None:
        """Say that `amount` more units are done; `note` is the newest figure worth seeing."""
        ...

    def end(self, note: str = "") -> None:
        """End the phase."""
        ...

    def warn(self, text: str) -> None:
        """Say something that the user should know; it stands in the report as well."""
        ...


class Silent:
    """A listener that says nothing and keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def begin(self, phase: str, total: float | None = None, unit: str = "") -> None:
        """Say nothing."""

    def advance(self, amount: float, note: str = "") -> None:
        """Say nothing."""

    def end(self, note: str = "") -> None:
        """Say nothing."""

    def warn(self, text: str) -> None:
        """Keep the warning."""
        self.warnings.append(text)
