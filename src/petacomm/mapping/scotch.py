"""Strategy that calls the library Scotch (Pellegrini) through ctypes, if it is installed."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError, ResourceError
from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.grouping import fit_capacity
from petacomm.mapping.strategies import Resources, register_strategy
from petacomm.topology import Allocation, CliqueHierarchy, FatTree, Network, Torus, network_shape

_QUALITY, _BALANCE, _RECURSIVE = 1, 4, 256
# The sum of weights must fit the library's integers, of 32 bits in most builds.
_MAX_SUM = 1 << 29


@functools.cache
def _library() -> ctypes.CDLL | None:
    for suffix in ("", "-7.0", "-6.1"):
        errors, scotch = (ctypes.util.find_library(name + suffix) for name in ("scotcherr", "scotch"))
        if errors and scotch:
            # libscotch needs the error functions of libscotcherr among the global symbols.
            ctypes.CDLL(errors, ctypes.RTLD_GLOBAL)
            # With several threads, which version 7 starts by itself, equal seeds may give other placements.
            os.environ["SCOTCH_PTHREAD_NUMBER"] = "1"
            return ctypes.CDLL(scotch)
    return None


def _missing() -> str:
    return "" if _library() else "there is no libscotch (Debian: apt install libscotch-dev)"


@register_strategy("scotch", "Scotch's mapping by dual recursive bipartitioning (Pellegrini)", _missing)
def _place(graph: CommunicationGraph, resources: Resources, seed: int) -> Int64Array:
    library = _library()
    assert library is not None
    with _Session(library, seed) as session:
        nodes = session.map(graph, resources)
    return fit_capacity(graph, resources, nodes)


class _Session:
    """Context manager that owns the library's objects and frees them at exit."""

    def __init__(self, library: ctypes.CDLL, seed: int) -> None:
        self.scotch = library
        self.number: type[Any] = ctypes.c_int64 if library.SCOTCH_numSizeof() == 8 else ctypes.c_int32
        self._made: list[tuple[str, ctypes.c_void_p]] = []
        self._kept: list[AnyArray] = []
        library.SCOTCH_randomSeed(self.number(seed))
        library.SCOTCH_randomReset()

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        for kind, pointer in reversed(self._made):
            getattr(self.scotch, f"SCOTCH_{kind}Exit")(pointer)
            self.scotch.SCOTCH_memFree(pointer)

    def map(self, graph: CommunicationGraph, resources: Resources) -> Int64Array:
        """Return the node of each rank; some nodes may have more ranks than slots."""
        target, source, strategy = self._network(resources.network), self._graph(graph), self._new("strat")
        flags = self.number(_QUALITY | _BALANCE | _RECURSIVE)
        n_nodes = self.number(resources.network.n_nodes)
        self._call("stratGraphMapBuild", strategy, flags, n_nodes, ctypes.c_double(0.01))
        nodes = self._array(np.zeros(graph.n_ranks))
        self._call("graphMap", source, target, strategy, self._pointer(nodes))
        return nodes.astype(np.int64)

    def _new(self, kind: str) -> ctypes.c_void_p:
        allocate = getattr(self.scotch, f"SCOTCH_{kind}Alloc")
        allocate.restype = ctypes.c_void_p
        pointer = ctypes.c_void_p(allocate())
        self._call(f"{kind}Init", pointer)
        self._made.append((kind, pointer))
        return pointer

    def _call(self, name: str, *arguments: Any) -> None:
        if getattr(self.scotch, f"SCOTCH_{name}")(*arguments) != 0:
            raise ResourceError(f"Scotch's {name} failed", mend="choose another strategy")

    def _array(self, values: AnyArray) -> AnyArray:
        array = np.ascontiguousarray(values, np.dtype(self.number))
        self._kept.append(array)
        return array

    def _pointer(self, array: AnyArray) -> ctypes.c_void_p:
        return ctypes.c_void_p(array.ctypes.data)

    def _graph(self, graph: CommunicationGraph) -> ctypes.c_void_p:
        offsets, partners, to, from_ = graph.partner_lists
        both = to + from_
        scale = min(1.0, _MAX_SUM / max(1.0, float(both.sum())))
        weights = self._array(np.maximum(1, np.rint(both * scale)))
        starts, ends = self._array(offsets), self._array(partners)
        pointer = self._new("graph")
        none, number = ctypes.c_void_p(None), self.number
        self._call(
            "graphBuild", pointer, number(0), number(graph.n_ranks), self._pointer(starts), none, none, none,
            number(len(ends)), self._pointer(ends), self._pointer(weights),
        )  # fmt: skip
        return pointer

    def _network(self, network: Network) -> ctypes.c_void_p:
        pointer = self._new("arch")
        if isinstance(network, Allocation):
            nodes = self._array(network.nodes)
            of_all = self._network(network.network)
            self._call("archSub", pointer, of_all, self.number(len(nodes)), self._pointer(nodes))
        elif isinstance(network, Torus):
            # In Scotch the first dimension runs fastest.
            shape = self._array(np.array(network.shape[::-1]))
            kind = "archTorusX" if any(network.wrap) else "archMeshX"
            self._call(kind, pointer, self.number(len(shape)), self._pointer(shape))
        else:
            costs = _tree_costs(network)
            arrays = self._array(np.array(network_shape(network))), self._array(np.array(costs))
            self._call("archTleaf", pointer, self.number(len(costs)), *map(self._pointer, arrays))
        return pointer


def _tree_costs(network: Network) -> list[int]:
    """Return the link cost of each level of the network as a tree of groups, from the root."""
    if isinstance(network, FatTree):
        return [1] * len(network.children)
    if isinstance(network, CliqueHierarchy):
        costs, longest = [1] * (network.nodes_per_vertex > 1), 0
        for level in network.levels:
            longest = max(1, longest) if level.fully_linked else 2 * longest + 1
            costs.append(longest)
        return costs[::-1]
    raise ConfigError(f"Scotch knows no {type(network).__name__}", mend="choose another strategy")
