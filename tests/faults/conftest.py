"""Outcomes of the faults that tests try, counted in a table at the end of ``make faults``."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest

from petacomm.base.errors import UserError
from petacomm.base.root_cause import root_cause

COLUMNS = ("typed", "harmless", "silent", "traceback", "hang")
_totals: dict[str, Counter[str]] = {}
_seconds: dict[str, list[float]] = defaultdict(list)  # from faults to the ends of jobs


class Outcomes:
    """Outcomes of faults of one kind: each is typed, harmless, silent, a traceback or a hang."""

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
        self.count(outcome, fault)

    def ended(self, fault: str, well: bool, said: str) -> None:
        """Count a command that has ended after a fault: as it should, by one line or by its work, or not."""
        self.count("typed" if well else "traceback", f"{fault}: {said}")

    def count(self, outcome: str, fault: str) -> None:
        """Count what came of a fault."""
        self.counts[outcome] += 1
        if outcome not in ("typed", "harmless"):
            self.bad.append(f"{outcome}: {fault}")


@pytest.fixture
def outcomes(request):
    """Return the outcomes of a test, which must be typed or harmless."""
    found = Outcomes()
    yield found
    name = re.sub(r"^test_(.*)\[(.*)-\d+\]$", r"\1: \2", request.node.name)
    request.node.user_properties.append(("faults", (name, dict(found.counts))))


@pytest.fixture
def ended_after(request):
    """Return a function that counts a fault of a kind, and the seconds after which the job had ended."""
    return lambda kind, seconds: request.node.user_properties.append(("ended after", (kind, seconds)))


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        for key, (name, value) in report.user_properties:
            if key == "faults":
                _totals.setdefault(name, Counter()).update(value)
            if key == "ended after":
                _seconds[name].append(value)


def pytest_terminal_summary(terminalreporter):
    if _totals:
        terminalreporter.write_line(_outcome_table())
    if _seconds:
        terminalreporter.write_line(_time_table())


def _outcome_table() -> str:
    lines = [f"{'faults':<44}" + "".join(f"{word:>11}" for word in ("tried", *COLUMNS))]
    rows = [*sorted(_totals.items()), ("all", sum(_totals.values(), Counter()))]
    for name, counts in rows:
        numbers = (sum(counts.values()), *(counts[word] for word in COLUMNS))
        lines.append(f"{name:<44}" + "".join(f"{number:>11}" for number in numbers))
    return "\n".join(lines)


def _time_table() -> str:
    lines = [
        f"{'faults of one rank':<44}" + "".join(f"{word:>11}" for word in ("tried", "median s", "most s"))
    ]
    everything = [one for found in _seconds.values() for one in found]
    for name, found in [*sorted(_seconds.items()), ("all", everything)]:
        lines.append(f"{name:<44}{len(found):>11}{median(found):>11.2f}{max(found):>11.2f}")
    return "\n".join(lines)
