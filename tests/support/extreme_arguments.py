"""Calls of the public functions and classes with extreme arguments, one after the other in this process.

python tests/support/extreme_arguments.py FOLDER STEP NAME...

A name is one of petamap or petacomm, as petamap.make_map. The right arguments are those of the example in its
documentation; in each call one of them is another value, or one that the example leaves away is given. So are
those of methods of some classes, of the objects that the example has. Each STEP-th of the calls of a name is
made. A call is a line of JSON on the standard output, written before it begins and once more when it has
ended: the last line of a process that was ended names the call.
"""

from __future__ import annotations

import copy
import doctest
import importlib
import inspect
import io
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import UserError
from petamap.spectra.measure import SpectraChoices

SECONDS = 20  # of a call
MEMORY = 2 << 30  # bytes of a call
PACKAGES = "petamap", "petacomm"
REALS = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-300, 0.5, 1e300]
INTEGERS = [-(2**63), -1, 0, 1, 7, 2**31, 2**63, 2**70]
KINDS = [
    None,
    True,
    "",
    "x",
    "nan",
    "\0",
    "x" * 100_000,
    b"x",
    1j,
    (),
    [],
    [None],
    {},
    {"a": 1},
    object(),
    print,
]
ARRAYS = [
    np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0)), np.float64(np.nan), np.zeros((2, 2, 2, 2)),
    np.full(3, None), np.array(["a"]), np.arange(3), np.zeros(3, complex), np.zeros(3, bool),
]  # fmt: skip
WRONG = (UserError, TypeError, ValueError)  # of a call that is wrong
# What has methods for users: of classes, or of what a function returns.
WITH_METHODS = (
    *("petamap.SkyMap", "petamap.Spectra", "petamap.Bandpowers"),
    *(f"petacomm.{name}" for name in (
        "ArrayLayout", "CommunicationGraph", "Halo", "IndexMap", "Lattice", "LatticeField", "OwnedRows",
        "PacketSimulator", "ParallelFFT", "Placement", "Redistribution", "ReductionPlan", "TopologyManager",
        "Torus", "box",
    )),
)  # fmt: skip
# Annotations of arguments that are objects of a class, of which no number is one: Python's own error will do
# for petamap, and for listeners to progress.
AN_OBJECT = re.compile(r"(bool \| )?((?!\w*(Array|Any|Path|Sequence)\b)[A-Z]\w+(\[.*\])?( \| |$))+(None)?")
VARIABLE = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
KEYWORDS = {"petamap.bandpowers": [field.name for field in fields(SpectraChoices)]}


class TooLong(BaseException):
    """Raised where a call takes longer than any should."""


def public_names() -> list[str]:
    """Return all public functions and classes that take arguments, but errors, as petamap.make_map."""
    names = []
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in sorted(vars(module)["__all__"]):
            item = getattr(module, name)
            is_error = inspect.isclass(item) and issubclass(item, Exception)
            if not callable(item) or is_error or inspect.isabstract(item):
                continue
            if inspect.signature(item).parameters:
                names.append(f"{package}.{name}")
    return names


@dataclass
class Example:
    """What the example in the documentation of a name does with it.

    Attributes
    ----------
    item : callable
        The function or class.
    given : dict
        Arguments of its first call, or the attributes of an object of the class, by name.
    instance : object, optional
        Of the class.
    """

    item: Callable[..., Any]
    given: dict[str, Any]
    instance: Any = None

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.item).parameters


def example_of(target: str) -> Example:
    """Run the example of a name."""
    package, name = target.split(".")
    module = importlib.import_module(package)
    item = getattr(module, name)
    signature = inspect.signature(item)
    found: list[inspect.BoundArguments] = []

    class Recorder:
        def __call__(self, *arguments: Any, **named: Any) -> Any:
            found.append(
                signature.bind(*map(copied, arguments), **{key: copied(named[key]) for key in named})
            )
            return item(*arguments, **named)

        def __getattr__(self, attribute: str) -> Any:  # other constructors
            return getattr(item, attribute)

    setattr(module, name, Recorder())
    space: dict[str, Any] = {}
    try:
        for example in doctest.DocTestParser().get_examples(item.__doc__):
            with redirect_stdout(io.StringIO()), suppress(UserError):  # which some are to show
                exec(compile(example.source, target, "single"), space)
    finally:
        setattr(module, name, item)
    kind = item if inspect.isclass(item) else tuple(type(one) for one in space.values() if is_own(one))
    values = [one for one in space.values() if isinstance(one, kind)]
    instance, given = values[0] if values else None, {}
    for key, value in (found[0].arguments if found else {}).items():
        is_named = signature.parameters[key].kind is inspect.Parameter.VAR_KEYWORD
        given.update(value if is_named else {key: value})
    if not found and instance is not None:
        given = {key: getattr(instance, key) for key in signature.parameters if hasattr(instance, key)}
    return Example(item, given, instance)


def is_method(value: Any) -> bool:
    """Return whether a member of a class is a method, of objects or of the class."""
    return inspect.isfunction(value) or inspect.ismethod(value)


def is_own(value: Any) -> bool:
    """Return whether a value is an object of a class of the packages."""
    return type(value).__module__.partition(".")[0] in PACKAGES


def changed_arrays(right: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over arrays that are like another one but for one thing, each with its name."""
    for value in (np.nan, np.inf, -1, 0, 1e300, 2**62):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if right.dtype.kind in "iu" and not (right.dtype.itemsize == 8 or abs(value) < 2**31):
                continue
            try:
                whole, one = np.full_like(right, value), right.copy()
                one.reshape(-1)[right.size // 2 : right.size // 2 + 1] = value
            except (OverflowError, ValueError, TypeError):
                continue
            yield f"all {value}", whole
            yield f"one {value}", one
    if right.ndim == 0:
        return
    yield "cut", right[:-1].copy()
    yield "twice", np.concatenate([right] * 2)
    yield "an axis more", right[None].copy()
    yield "an axis fewer", right[0] if len(right) else np.zeros(())
    for dtype in ("O", "c16", "U8", "?", "i1", "f4", "f2", ">f8", "M8[s]"):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield dtype, right.astype(dtype)
            except (TypeError, ValueError):
                continue
    strided = np.zeros((*right.shape[:-1], 2 * right.shape[-1]), right.dtype)
    strided[..., ::2] = right
    yield "strided", strided[..., ::2]
    still = right.copy()
    still.flags.writeable = False
    yield "read-only", still
    yield "reversed", right[::-1]
    yield "by columns", np.asfortranarray(right)
    yield "a list", right.tolist()


def extremes(right: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over values to be given in the place of a right one, each with its name."""
    if isinstance(right, np.ndarray):
        yield from changed_arrays(right)
    if isinstance(right, tuple | list) and right:
        for value in (np.nan, -1, 2**70, None, "x", ()):
            yield f"first {value!r}", type(right)([value, *right[1:]])
        yield "cut", right[1:]
        yield "twice", right * 2
        yield "an array", np.array(right, object)
    for value in [*REALS, *INTEGERS, *KINDS]:
        yield repr(value)[:40], value
    for value in ARRAYS:
        yield f"array {value.dtype} {value.shape}", value


def calls(target: str) -> Iterator[tuple[str, Callable[[], Any], bool]]:
    """Iterate over calls with one extreme argument each, by name, and whether an object of a class is due."""
    example = example_of(target)
    taken = [key for key, one in example.parameters.items() if one.kind != inspect.Parameter.VAR_KEYWORD]
    for key in [*taken, *(key for key in KEYWORDS.get(target, ()) if key not in taken)]:
        takes = str(example.parameters[key].annotation) if key in example.parameters else ""
        of_class = AN_OBJECT.fullmatch(takes) is not None
        of_class = of_class and (target.startswith("petamap.") or "Progress" in takes)
        for name, value in extremes(example.given.get(key)):
            yield f"{target}({key}={name})", partial(call_with, example, key, value), of_class
    if example.instance is not None and target in WITH_METHODS:
        yield from method_calls(target, example)


def call_with(example: Example, key: str, value: Any) -> Any:
    """Call as an example does, but for one argument."""
    named = {**{one: copied(old) for one, old in example.given.items() if one != key}, key: value}
    if key != "out" and "out" in named and example.item.__name__.startswith("run"):
        named["out"] = tempfile.mkdtemp(dir=".")
    positional = []
    for name, one in example.parameters.items():
        if one.kind == inspect.Parameter.VAR_POSITIONAL:
            positional += list(named.pop(name, ()))
    return example.item(*positional, **named)


def method_calls(target: str, example: Example) -> Iterator[tuple[str, Callable[[], Any], bool]]:
    """Iterate over calls of methods of an object: all arguments that must be given are the same value."""
    for method, function in inspect.getmembers(type(example.instance), is_method):
        if method.startswith("_") or method == "plot":  # figures take seconds
            continue
        own = list(inspect.signature(function).parameters.values())
        own = own if inspect.ismethod(function) else own[1:]  # of the class, or of objects
        needed = [one.name for one in own if one.default is one.empty and one.kind not in VARIABLE]
        for key in [one.name for one in own if one.default is not one.empty and one.name != "file"] or needed[
            :1
        ]:
            for name, value in extremes(None):
                named = dict.fromkeys(needed, value) | {key: value}
                yield f"{target}.{method}({key}={name})", partial(call_method, example, method, named), False


def call_method(example: Example, method: str, named: dict[str, Any]) -> Any:
    """Call a method of a copy of an object."""
    return getattr(copied(example.instance), method)(**named)


def copied(value: Any) -> Any:
    """Return a copy of an argument, or itself where there is none."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def outcome(call: Callable[[], Any], of_class: bool) -> tuple[str, str]:
    """Return how a call ended: typed, harmless, traceback or hang; and what it said."""
    said = io.StringIO()
    signal.alarm(SECONDS)
    try:
        with redirect_stdout(said), redirect_stderr(said):
            show(call())
    except WRONG as error:
        return ("traceback" if isinstance(error, np.linalg.LinAlgError) else "typed"), repr(error)[:300]
    except TooLong:
        return "hang", ""
    except AttributeError as error:
        return "typed" if of_class else "traceback", f"{error!r}"[:300] + " at " + place_of(error)
    except BaseException as error:
        return "traceback", f"{error!r}"[:300] + " at " + place_of(error)
    finally:
        signal.alarm(0)
    return "harmless", ""


def show(found: Any) -> None:
    """Have what was returned show itself, as notebooks do."""
    repr(found)
    for method in ("_repr_html_",):
        if hasattr(type(found), method):
            getattr(found, method)()


def place_of(error: BaseException) -> str:
    """Return the last line of the packages that an error came from."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/src/peta" in file:
            place = f"{file.partition('/src/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def make_calls(folder: Path, step: int, targets: list[str]) -> None:
    """Make each step-th call of some names."""

    def ring(*_: Any) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, ring)
    for target in targets:
        os.makedirs(folder / target)
        os.chdir(folder / target)
        made = list(calls(target))[::step]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        warnings.simplefilter("error", RuntimeWarning)
        for name, call, of_class in made:
            print(json.dumps([name]), flush=True)
            begin = time.monotonic()
            found = outcome(call, of_class)
            print(json.dumps([name, *found, round(time.monotonic() - begin, 2)]), flush=True)


if __name__ == "__main__":
    make_calls(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
