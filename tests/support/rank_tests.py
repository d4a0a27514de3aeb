"""Which tests start several ranks: they are run apart from others, which slow them down many times over.

Ranks that wait for each other yield the processor again and again. Where there are more ranks than cores, a
process that computes beside them has it from each yield to the end of its slice, some milliseconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import killed_jobs
import mpi
import pytest

_STARTS = mpi.run_ranks, mpi.launch
_STARTS_N_RANKS = killed_jobs.Job, mpi.MPIEXEC  # as many as the test is parametrized by


def mark_rank_tests(items: list[pytest.Item]) -> None:
    """Mark tests whose function, fixtures or what these call starts ranks as "ranks"."""
    for item in items:
        if isinstance(item, pytest.Function):
            starts = _STARTS + _STARTS_N_RANKS * (_n_ranks(item) > 1)
            if any(_names_one(function, starts) for function in _functions(item)):
                item.add_marker("ranks")


def _n_ranks(item: pytest.Function) -> int:
    """Return the number of ranks that a test is parametrized by."""
    callspec = getattr(item, "callspec", None)
    return 1 if callspec is None else int(callspec.params.get("n_ranks", 1))


def _functions(item: pytest.Function) -> Iterator[FunctionType]:
    """Iterate over the functions of a test and of the fixtures of its file."""
    yield _inner(item.obj)
    for fixtures in item._fixtureinfo.name2fixturedefs.values():
        yield from (_inner(one.func) for one in fixtures if one.baseid == item.nodeid.partition("::")[0])


def _inner(function: Any) -> FunctionType:
    """Return the function of a test that has decorators, as those of hypothesis."""
    test = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    inner = inspect.unwrap(getattr(test, "__func__", test))
    assert isinstance(inner, FunctionType)
    return inner


@cache
def _names_one(function: FunctionType, starts: tuple[Any, ...]) -> bool:
    """Return whether a function, or one of test files that it names at any depth, names one of `starts`."""
    reached, left = set(), [function]
    while left:
        reached.add(one := left.pop())
        named = [one.__globals__.get(name) for name in _names(one.__code__)]
        if any(each is start for each in named for start in starts):
            return True
        called = (each for each in named if isinstance(each, FunctionType))
        left += {_inner(each) for each in called if "/tests/" in each.__code__.co_filename} - reached
    return False


def _names(code: CodeType) -> Iterator[str]:
    """Iterate over names that a function and those within it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
