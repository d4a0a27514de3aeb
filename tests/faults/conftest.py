"""Outcomes of the faults that tests try, counted in a table at the end of ``make faults``."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from petacomm.base.errors import UserError
from petacomm.base.root_cause import root_cause

COLUMNS = ("typed", "harmless", "silent", "traceback")
_totals: dict[str, Counter[str]] = {}


class Outcomes:
    """Outcomes of faults of one kind: each is typed, harmless, silent or a traceback."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.bad: list[str] = []

    def tried(self, fault: str, read: Callable[[], Any], expected: Any, path: str) -> None:
        """Count what comes of reading a damaged file whose content is `expected`."""
        try:
            found = read()
        except Exception as error:
            told = root_cause(error)  # as commands do: want of memory, for one, is typed
            outcome = "typed" if isinstance(told, UserError) and path in str(told) else "traceback"
            fault = f"{fault}: {error!r}"
        else:
            outcome = "harmless" if found == expected else "silent"
        self.counts[outcome] += 1
        if outcome in ("silent", "traceback"):
            self.bad.append(f"{outcome}: {fault}")


@pytest.fixture
def outcomes(request):
    """Return the outcomes of a test, which must not be silent, nor tracebacks."""
    found = Outcomes()
    yield found
    name = re.sub(r"^test_(.*)\[(.*)-\d+\]$", r"\1: \2", request.node.name)
    request.node.user_properties.append(("faults", (name, dict(found.counts))))


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        for key, value in report.user_properties:
            if key == "faults":
                _totals.setdefault(value[0], Counter()).update(value[1])


def pytest_terminal_summary(terminalreporter):
    if not _totals:
        return
    lines = [f"{'faults':<44}" + "".join(f"{word:>11}" for word in ("tried", *COLUMNS))]
    rows = [*sorted(_totals.items()), ("all", sum(_totals.values(), Counter()))]
    for name, counts in rows:
        numbers = (sum(counts.values()), *(counts[word] for word in COLUMNS))
        lines.append(f"{name:<44}" + "".join(f"{number:>11}" for number in numbers))
    terminalreporter.write_line("\n".join(lines))
