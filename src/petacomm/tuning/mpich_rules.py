"""MPICH: algorithms of collectives that its selection file can name, and that file.

The file replaces the table that is built into the library. That table, JSON text in the library itself, is
taken as the base, and rules of communicators of some sizes are put before its own; where the conditions of an
algorithm are not met, and in bands of sizes without a rule, its own rules stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from petacomm.base.errors import ResourceError
from petacomm.tuning.cells import Cell, size_bands, sizes_measured
from petacomm.tuning.tool_interface import ToolInterface

# By collective: algorithms of intracommunicators that any node layout can use.
_ALGORITHMS: dict[str, tuple[str, ...]] = {
    "allreduce": (
        "recursive_doubling", "reduce_scatter_allgather", "ring", "recursive_multiplying", "recexch", "tree",
        "k_reduce_scatter_allgather",
    ),
    "bcast": (
        "binomial", "scatter_recursive_doubling_allgather", "scatter_ring_allgather", "tree",
        "pipelined_tree",
    ),
    "reduce": ("binomial", "reduce_scatter_gather"),
    "allgather": ("brucks", "recursive_doubling", "ring", "k_brucks", "recexch_doubling", "recexch_halving"),
    "alltoall": ("brucks", "pairwise", "scattered", "k_brucks"),
    "reduce_scatter_block": ("recursive_halving", "recursive_doubling", "pairwise"),
    "barrier": ("k_dissemination", "recexch"),
}  # fmt: skip
_RADICES = (2, 4, 8)


class _Parameters(NamedTuple):
    """Parameters of an algorithm in the file: what the file leaves out is not set at all."""

    radix: str  # variable that is "k="
    fixed: tuple[str, ...] = ()  # those that the library's variables have by themselves
    chunk: str = ""  # variable that is "chunk_size="
    chunk_sizes: tuple[int, ...] = ()

    def settings(self, n_ranks: int) -> dict[str, dict[str, int]]:
        """Return the variables and values of each set of parameters, by its words in the file."""
        found = {f"k={k}": {self.radix: k} for k in _RADICES if k <= n_ranks}
        if not self.chunk:
            return found
        return {
            f"{words} chunk_size={size}": setting | {self.chunk: size}
            for words, setting in found.items()
            for size in self.chunk_sizes
        }


_ONE_PHASE = ("single_phase_recv=0",)
_TREE = ("tree_type=kary", "is_non_blocking=1")
_PARAMETERS: dict[tuple[str, str], _Parameters] = {
    ("allreduce", "recursive_multiplying"): _Parameters("MPIR_CVAR_ALLREDUCE_RECURSIVE_MULTIPLYING_KVAL"),
    ("allreduce", "recexch"): _Parameters("MPIR_CVAR_ALLREDUCE_RECEXCH_KVAL", _ONE_PHASE),
    ("allreduce", "tree"): _Parameters(
        "MPIR_CVAR_ALLREDUCE_TREE_KVAL", ("tree_type=knomial_1", "chunk_size=0", "buffer_per_child=0")
    ),
    ("allreduce", "k_reduce_scatter_allgather"): _Parameters("MPIR_CVAR_ALLREDUCE_RECEXCH_KVAL", _ONE_PHASE),
    ("bcast", "tree"): _Parameters("MPIR_CVAR_BCAST_TREE_KVAL", _TREE),
    ("bcast", "pipelined_tree"): _Parameters(
        "MPIR_CVAR_BCAST_TREE_KVAL",
        (*_TREE, "recv_pre_posted=0"),
        chunk="MPIR_CVAR_BCAST_TREE_PIPELINE_CHUNK_SIZE",
        chunk_sizes=(8192, 65536),
    ),
    ("allgather", "k_brucks"): _Parameters("MPIR_CVAR_ALLGATHER_BRUCKS_KVAL"),
    ("allgather", "recexch_doubling"): _Parameters("MPIR_CVAR_ALLGATHER_RECEXCH_KVAL", _ONE_PHASE),
    ("allgather", "recexch_halving"): _Parameters("MPIR_CVAR_ALLGATHER_RECEXCH_KVAL", _ONE_PHASE),
    ("alltoall", "k_brucks"): _Parameters("MPIR_CVAR_ALLTOALL_BRUCKS_KVAL"),
    ("barrier", "k_dissemination"): _Parameters("MPIR_CVAR_BARRIER_DISSEM_KVAL"),
    ("barrier", "recexch"): _Parameters("MPIR_CVAR_BARRIER_RECEXCH_KVAL", _ONE_PHASE),
}
_POWER_OF_TWO = {("allgather", "recursive_doubling"), ("bcast", "scatter_recursive_doubling_allgather")}
# Conditions of algorithms that the library's own table has before them, too.
_BUILT_IN_OPERATION = {("allreduce", "reduce_scatter_allgather"), ("reduce", "reduce_scatter_gather")}
_MANY_ELEMENTS = {("allreduce", "k_reduce_scatter_allgather")}
_COMBINING = ("allreduce", "reduce", "reduce_scatter_block")
# Those whose rules go by the bytes of all blocks together.
_BY_ALL_BLOCKS = ("allgather", "reduce_scatter_block")
RULES_FILE = "mpich-selection.json"
RULES_VARIABLE = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"


def mpich_candidates(tools: ToolInterface, collective: str, n_ranks: int) -> dict[str, dict[str, int]]:
    """Return the algorithms of a collective that the library has: name to variables and values.

    Some are wrong for operations that do not commute, which the rules leave to the library's own choice.
    """
    variable = f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM"
    # Values count the names in the order in which the description of the variable explains them.
    names = re.findall(r"^\s*(\w+)\s+-\s", tools.description(variable), re.MULTILINE)
    found: dict[str, dict[str, int]] = {}
    for name in _ALGORITHMS[collective]:
        power = n_ranks & (n_ranks - 1) == 0
        if name not in names or ((collective, name) in _POWER_OF_TWO and not power):
            continue
        setting = {variable: names.index(name)}
        parameters = _PARAMETERS.get((collective, name))
        if parameters is None:
            found[name] = setting
            continue
        for words, values in parameters.settings(n_ranks).items():
            if all(map(tools.has, values)):
                found[f"{name} {words}"] = setting | values
    return found


def builtin_table(library: Path) -> dict[str, Any]:
    """Return the table of algorithms that is built into a library of MPICH.

    Raises
    ------
    ResourceError
        If there is none.
    """
    try:
        content = library.read_bytes()
    except OSError as error:
        raise ResourceError(f"cannot be read: {error.strerror}", where=str(library), mend=None) from None
    for text in re.findall(rb'\{"collective=[ -~]+', content):
        if b"algorithm=MPIR_Allreduce_intra" in text:
            try:
                return dict(json.loads(text))
            except ValueError:
                continue
    raise ResourceError(
        "has no table of algorithms to begin from",
        where=str(library),
        mend="tune an MPICH of version 4 or later, which has one",
    )


def selection_table(
    base: Mapping[str, Any], measured: Collection[Cell], chosen: Mapping[Cell, str]
) -> dict[str, Any]:
    """Return a table of MPICH's selection file.

    Parameters
    ----------
    base : mapping
        Table that is built in.
    measured : collection of Cell
        All that was measured: choices are for sizes up to the middle to the next of these.
    chosen : mapping of Cell to str
        Algorithm of a cell; none where the library's own choice stays.
    """
    table = {name: dict(part) for name, part in base.items()}
    for collective in dict.fromkeys(cell.collective for cell in chosen):
        by_kind = table[f"collective={collective}"]
        own = by_kind["comm_type=intra"]
        by_ranks: dict[str, Any] = {}  # the first condition that is met counts
        for ranks in sorted({cell.ranks for cell in chosen if cell.collective == collective}):
            sizes = sizes_measured(measured, collective, ranks)
            mine = {size: name for (one, size, n), name in chosen.items() if (one, n) == (collective, ranks)}
            rules = _rules_of_sizes(collective, own, sizes, mine, ranks)
            if collective in _COMBINING:
                rules = {"is_commutative=yes": rules, "is_commutative=no": own}
            by_ranks |= {f"comm_size<{ranks}": own, f"comm_size<={ranks}": rules}
        by_kind["comm_type=intra"] = by_ranks | {"comm_size=any": own}
    return table


def _rules_of_sizes(
    collective: str, own: dict[str, Any], sizes: Sequence[int], mine: Mapping[int, str], n_ranks: int
) -> dict[str, Any]:
    if collective == "barrier":
        return _leaf(collective, mine[0], own)
    kind, blocks = ("total", n_ranks) if collective in _BY_ALL_BLOCKS else ("avg", 1)
    rules = {
        f"{kind}_msg_size<{(end + 1) * blocks}": _leaf(collective, mine[size], own) if size in mine else own
        for size, (_, end) in size_bands(sizes).items()
    }
    return rules | {f"{kind}_msg_size=any": own}


def _leaf(collective: str, name: str, own: dict[str, Any]) -> dict[str, Any]:
    algorithm, *words = name.split()
    known = _PARAMETERS.get((collective, algorithm))
    words += known.fixed if known else ()
    leaf: dict[str, Any] = {
        f"algorithm=MPIR_{collective.capitalize()}_intra_{algorithm}": {one: {} for one in words}
    }
    many = {"count<pow2": own, "count=any": leaf}
    if (collective, algorithm) in _BUILT_IN_OPERATION:
        return {"is_op_built_in=yes": many, "is_op_built_in=no": own}
    return many if (collective, algorithm) in _MANY_ELEMENTS else leaf
