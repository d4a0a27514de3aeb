"""A plugin of pytest that hashes what compiled functions return and write, for each test and function.

pytest -p kernel_digests --digests FILE.json TESTS, and two instruction sets can be compared by their files.
Where libraries give tests other inputs, as on another architecture, --calls FILE.json has the results of
functions by their arguments, of calls that take no objects of the extension modules, of which more than the
arguments may differ.
"""

import functools
import hashlib
import importlib.machinery
import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import astropy.units  # noqa: F401
import hypothesis
import numpy as np

from petacomm.base import threads

_NO_TEST = "imports"
_calls: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
_current = _NO_TEST
_results: dict[str, dict[str, str]] = defaultdict(dict)
_with_results = False


def pytest_addoption(parser):
    parser.addoption("--digests", type=Path, required=True, help="JSON file to write")
    parser.addoption("--calls", type=Path, help="JSON file to write, of calls by their arguments")


def pytest_configure(config):
    global _with_results
    _with_results = config.getoption("calls") is not None
    # the same examples in every run
    hypothesis.settings.register_profile("digests", derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("digests")


def pytest_runtest_logstart(nodeid, location):
    global _current
    _current = nodeid


def pytest_sessionfinish(session):
    found = {
        test: {name: _digest(sorted(calls)) for name, calls in sorted(functions.items())}
        for test, functions in sorted(_calls.items())
        if test != _NO_TEST
    }
    session.config.getoption("digests").write_text(json.dumps(found, indent=1), encoding="utf-8")
    if _with_results:
        session.config.getoption("calls").write_text(json.dumps(_results), encoding="utf-8")


def _digest(thing):
    sha = hashlib.sha256()
    _update(sha, thing)
    return sha.hexdigest()


def _update(sha, thing):
    """Add a value: arrays by their bytes, containers item by item, other objects by their type."""
    if isinstance(thing, np.ndarray):
        sha.update(f"{thing.dtype}{thing.shape}".encode())
        if _with_results and thing.dtype.kind == "f":  # processors sign the nan that they make as they like
            thing = np.where(np.isnan(thing), thing.dtype.type(np.nan), thing)
        sha.update(np.ascontiguousarray(thing).view(np.uint8))
    elif isinstance(thing, list | tuple):
        for item in thing:
            _update(sha, item)
    elif isinstance(thing, str | int | float | complex | None | np.generic):
        sha.update(repr(thing).encode())
    else:
        sha.update(type(thing).__name__.encode())


def _has_objects(things):
    return any(
        _has_objects(thing)
        if isinstance(thing, list | tuple)
        else type(thing).__module__.startswith(("petamap.", "petacomm."))
        for thing in things
    )


def _recorded(name, function):
    @functools.wraps(function)
    def call(*arguments, **named):
        given = [arguments, [*named.values()]]
        asked = _digest(given) if _with_results else ""
        result = function(*arguments, **named)
        found = _digest([result, *given])
        _calls[_current][name].append(found)
        if _with_results and not _has_objects(arguments) and not _has_objects(named.values()):
            _results[name][asked] = found
        return result

    return call


def _record(module):
    room = module.__name__.rpartition(".")[0]
    for name, thing in list(vars(module).items()):
        if type(thing).__name__ == "nb_func":
            setattr(module, name, _recorded(f"{room}.{name}", thing))
        elif isinstance(thing, type):
            for member, method in list(vars(thing).items()):
                if type(method).__name__ == "nb_method" and not member.startswith("__"):
                    setattr(thing, member, _recorded(f"{room}.{name}.{member}", method))


_empty_like = np.empty_like


def _zeros_like(prototype, *arguments, **named):
    made = _empty_like(prototype, *arguments, **named)
    if type(made) is np.ndarray:
        made.fill(0)
    return made


# Outputs larger than what is written to them must not hold what was in memory before. Astropy, imported
# above, knows NumPy's functions by their identity.
np.empty, np.empty_like = np.zeros, _zeros_like


# Threads of Python would add to one sum in any order.
threads.ThreadPoolExecutor = lambda _, **named: ThreadPoolExecutor(1, **named)
_map_with_states = threads.map_with_states


def _map_in_one_thread(new_state, work, items, n_threads):
    states = _map_with_states(new_state, work, items, 1)
    return states + [new_state() for _ in range(n_threads - 1)]


threads.map_with_states = _map_in_one_thread

# Rooms keep what they import, so functions are replaced before anything can import them.
_exec_module = importlib.machinery.ExtensionFileLoader.exec_module


def _exec_and_record(loader, module):
    _exec_module(loader, module)
    if module.__name__.startswith(("petamap.", "petacomm.")):
        _record(module)


importlib.machinery.ExtensionFileLoader.exec_module = _exec_and_record
