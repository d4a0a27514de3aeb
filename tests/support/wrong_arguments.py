"""Calls of functions of the extension modules with arguments that are almost right, or random.

python tests/support/wrong_arguments.py LOG N_CALLS SEED TARGET...

A target is the name of a function, a class or a method, and each of its calls a line of the log, written
before the call: the last line of a process that ends names the call that ended it.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from kernel_calls import right_calls
from kernel_objects import OTHERS, find, pointing

MEMORY = 1 << 30  # bytes of the process
SECONDS = 20  # of a call
RAISED = (ValueError, TypeError, MemoryError, OverflowError, IndexError)
NUMBERS = [-(2**63), -(2**31), -1, 0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**64 - 1]
# Functions that take as long as their numbers say, up to 2^40 bytes of a message: no numbers in between.
SIMULATIONS = "simulate_all_to_all", "simulate_messages", "refine"
REALS = [np.nan, np.inf, -np.inf, -1.0, 0.0, 0.5, 1e-310, 1e300]
# Operations and flows of reductions, arbitrations, ties and routings of routers, and what is none of them.
WORDS = [
    *("sum", "max", "min", "or", "everywhere", "onto_owners", "from_owners", "onto_slots", "from_slots"),
    *("in_node_order", "round-robin", "longest-queue", "farthest", "plus", "parity", "random", "", "mean"),
    *("minimal", "valiant", "ugal", "ugal-g", "ugal-l", "ugal-l-vc"),
]
LENGTHS = [0, 1, 2, 3, 4, 6, 8, 18, 64]
MOST_ELEMENTS = 1 << 24  # of an array: those of five axes would take all memory


class Guarded:
    """Memory of arrays, each at the end or the begin of pages beside which nothing may be touched."""

    def __init__(self) -> None:
        self._protect = ctypes.CDLL(None).mprotect
        self._maps: list[mmap.mmap] = []

    def put(self, array: Any, at_end: bool) -> Any:
        """Return a copy of an array in guarded memory."""
        page, n = mmap.PAGESIZE, array.nbytes
        room = max(1, -(-n // page)) * page
        memory = mmap.mmap(-1, room + 2 * page)
        self._maps.append(memory)
        first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for place in (first, first + page + room):
            self._protect(ctypes.c_void_p(place), ctypes.c_size_t(page), 0)
        begin = page + room - n if at_end else page
        copy = np.frombuffer(memory, array.dtype, array.size, begin).reshape(array.shape)
        copy[...] = array
        return copy


class Wrong:
    """Arguments that are wrong, chosen by a seed."""

    def __init__(self, seed: int, numbers: list[int]) -> None:
        self.numbers = numbers
        self.rng = np.random.default_rng(seed)
        self.guarded = Guarded()

    def pick(self, values: list[Any]) -> Any:
        """Return one of some values."""
        return values[int(self.rng.integers(len(values)))]

    def guard(self, value: Any) -> Any:
        """Return arguments of which arrays lie in guarded memory."""
        if isinstance(value, np.ndarray):
            return self.guarded.put(value, bool(self.rng.integers(4)))
        if isinstance(value, list | tuple):
            return type(value)(self.guard(one) for one in value)
        return value

    def almost(self, arguments: list[Any]) -> list[Any]:
        """Return right arguments but for one or two."""
        made = list(arguments)
        for _ in range(int(self.rng.integers(1, 3)) if made else 0):
            i = int(self.rng.integers(len(made)))
            made[i] = self.changed(made[i])
        return made

    def changed(self, value: Any) -> Any:
        """Return another value of the kind of one."""
        if isinstance(value, np.ndarray):
            return self.changed_array(value)
        if isinstance(value, list | tuple) and value:
            items = list(value)
            i = int(self.rng.integers(len(items)))
            items[i : i + 1] = self.pick([[self.changed(items[i])]] * 4 + [[], [items[i]] * 2])
            return type(value)(items)
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return self.pick(self.numbers)
        if isinstance(value, float):
            return self.pick(REALS)
        if isinstance(value, str):
            return self.pick(WORDS)
        return self.changed_object(value)

    def changed_array(self, array: Any) -> Any:
        """Return an array with another element, or of another shape."""
        made = array.copy()
        if made.size and self.rng.integers(3):
            for _ in range(int(self.rng.integers(1, 3))):
                made.flat[int(self.rng.integers(made.size))] = self.element(made.dtype)
            return made
        shape = list(made.shape)
        axis = int(self.rng.integers(len(shape)))
        shape[axis] = self.pick([0, max(0, shape[axis] - 1), shape[axis] + 1, self.pick(LENGTHS)])
        return np.resize(made, shape) if made.size else np.zeros(shape, made.dtype)

    def element(self, dtype: Any) -> Any:
        """Return a number of a dtype, most often one that is no index."""
        if dtype.kind == "f":
            return np.asarray(self.pick(REALS)).astype(dtype)
        limits = np.iinfo(dtype)
        held = [number for number in self.numbers if limits.min <= number <= limits.max]
        return self.pick([*held, limits.min, limits.max, int(self.rng.integers(0, 100))])

    def overlapping(self, arguments: list[Any]) -> list[Any]:
        """Return arguments of which one array lies in the memory of another one, if there are two."""
        made = list(arguments)
        arrays = [i for i, one in enumerate(made) if isinstance(one, np.ndarray) and one.size]
        if len(arrays) < 2:
            return made
        one, other = (arrays[int(k)] for k in self.rng.choice(len(arrays), 2, replace=False))
        small, large = sorted((one, other), key=lambda i: made[i].nbytes)
        memory = made[large].reshape(-1).view(np.uint8)[: made[small].nbytes]
        if memory.nbytes == made[small].nbytes and made[large].flags.c_contiguous:
            made[small] = memory.view(made[small].dtype).reshape(made[small].shape)
        return made

    def changed_object(self, value: Any) -> Any:
        """Return another object of the class of one, or one with another property."""
        name = type(value).__name__
        if name == "TorusHardware" and self.rng.integers(4):
            names = [key for key, one in vars(type(value)).items() if isinstance(one, property)]
            key = self.pick(names)
            with contextlib.suppress(TypeError):  # of a word that the property does not know
                setattr(value, key, self.property_value(getattr(value, key)))
            return value
        return self.pick(OTHERS[name])() if name in OTHERS else value

    def property_value(self, value: Any) -> Any:
        """Return a value that a property of C++ may hold: its numbers are of 32 bits, or doubles."""
        made = self.changed(value)
        return made if not isinstance(made, int) or -(2**31) <= made < 2**31 else -1

    def random(self, signature: str) -> list[Any]:
        """Return random arguments of the types of a signature, the object of a method left out."""
        self.lengths = [self.pick(LENGTHS) for _ in range(3)]
        inner = signature[signature.index("(") + 1 : signature.rindex(")")]
        kinds = [one.partition(":")[2].partition(" = ")[0].strip() for one in split(inner) if ":" in one]
        return [self.of_kind(kind) for kind in kinds]

    def of_kind(self, kind: str) -> Any:
        """Return a random value of the type that an annotation names."""
        if kind.endswith(" | None"):
            return None if self.rng.integers(3) == 0 else self.of_kind(kind.removesuffix(" | None"))
        if found := re.match(r"(?:numpy\.)?ndarray\[dtype=(\w+), shape=\(([^)]*)\)", kind):
            shape = [self.pick(self.lengths) for _ in found[2].split(",") if _.strip()]
            while math.prod(shape) > MOST_ELEMENTS:
                shape[shape.index(max(shape))] = 2
            flat = [self.element(np.dtype(found[1])) for _ in range(min(3, int(np.prod(shape))))]
            made = np.zeros(shape, found[1])
            made.flat[: len(flat)] = flat
            return made
        if found := re.match(r"collections\.abc\.Sequence\[(.*)\]$", kind):
            return [self.of_kind(found[1]) for _ in range(int(self.rng.integers(4)))]
        if found := re.match(r"tuple\[(.*)\]$", kind):
            kinds = split(found[1])
            return pointing() if kinds[-1] == "..." else tuple(self.of_kind(one) for one in kinds)
        if found := re.match(r"(?:typing\.)?Literal\[(.*)\]$", kind):
            return self.pick(re.findall(r"'([^']*)'", found[1]))
        simple = {"int": self.numbers, "float": REALS, "bool": [False, True]}
        if kind in simple:
            return self.pick(simple[kind])
        return self.of_class(kind.rpartition(".")[2])

    def of_class(self, name: str) -> Any:
        """Return an object of a class of the extension modules."""
        return self.pick(OTHERS[name])()


def split(text: str) -> list[str]:
    """Split at the commas that stand in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


# --- the process


def make_calls(target: str, seed: int, n_calls: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Iterate over calls of a target, each with what it is: the right one comes first."""
    is_long = target.endswith(SIMULATIONS)
    wrong = Wrong(seed, [one for one in NUMBERS if not is_long or not 7 < one < 2**40])
    value, rights = find(target), right_calls()[target]
    if isinstance(value, property):
        yield "right", lambda: value.fget(*rights[0]())
        for _ in range(n_calls if value.fset else 0):
            owner = rights[0]()[0]
            made = wrong.property_value(value.fget(owner))
            yield f"{made!r}", lambda owner=owner, made=made: value.fset(owner, made)
        return
    for right in rights:
        arguments = wrong.guard(right())
        yield "right", lambda arguments=arguments: value(*arguments)
    signatures = (value.__init__ if isinstance(value, type) else value).__nb_signature__
    for number in range(n_calls):
        right = rights[number % len(rights)]
        if number % 4 == 3:
            made = wrong.random(wrong.pick(list(signatures))[0])
            is_method = target.count(".") == 4
            made = [*right()[:1], *made] if is_method else made
        else:
            made = wrong.almost(right())
        guarded = wrong.guard(made)
        if number % 8 == 5:
            guarded = wrong.overlapping(guarded)
        yield f"{made!r:.300}".replace("\n", " "), lambda guarded=guarded: value(*guarded)


def call_all(log: Path, n_calls: int, seed: int, names: list[str]) -> None:
    """Call targets, and write what they do to the log."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    np.seterr(all="ignore")
    with log.open("a") as file:
        for target in names:
            for number, (what, call) in enumerate(make_calls(target, seed + len(target), n_calls)):
                print(f"{target} {number} {what}", file=file, flush=True)
                signal.alarm(SECONDS)
                try:
                    call()
                except RAISED as error:
                    if what == "right":
                        print(f"FAULT {target}: refuses right arguments: {error}", file=file, flush=True)
                except Exception as error:
                    print(f"FAULT {target}: raises {error!r} for {what}", file=file, flush=True)
                signal.alarm(0)


if __name__ == "__main__":
    call_all(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
