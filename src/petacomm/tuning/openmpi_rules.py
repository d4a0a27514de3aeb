"""Open MPI: algorithms of its component `tuned`, and the file of rules that this reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from petacomm.tuning.choice import size_bands
from petacomm.tuning.tool_interface import ToolInterface

# Numbers of collectives in files of rules.
_NUMBERS = {
    "allgather": 0,
    "allreduce": 2,
    "alltoall": 3,
    "barrier": 6,
    "bcast": 7,
    "reduce": 11,
    "reduce_scatter_block": 13,
}
# Those whose rules go by the bytes of all blocks together, not of one.
_BY_ALL_BLOCKS = ("allgather", "alltoall", "reduce_scatter_block")
# Of two ranks alone, or for powers of two.
_NEVER = ("ignore", "two_proc")
_POWER_OF_TWO = {("allgather", "recursive_doubling"), ("reduce_scatter_block", "recursive_doubling")}
_EVEN = {("allgather", "neighbor")}
# Those that combine in the order of ranks, or fall back where they cannot. Without rules the library asks of
# each operation whether it commutes; an algorithm that a rule names is taken for all.
_IN_ORDER = {
    "allreduce": ("basic_linear", "nonoverlapping", "recursive_doubling", "rabenseifner"),
    "reduce": ("linear", "in_order_binary", "rabenseifner"),
    "reduce_scatter_block": ("basic_linear", "recursive_doubling", "recursive_halving", "butterfly"),
}
RULES_FILE = "openmpi-rules.txt"
RULES_VARIABLES = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
RULES_VARIABLE = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
ENABLED = "coll_tuned_use_dynamic_rules"


def openmpi_candidates(
    tools: ToolInterface, collective: str, n_ranks: int, commutative: bool = False
) -> dict[str, dict[str, int]]:
    """Return the algorithms of a collective that the library has: name to variables and values.

    With `commutative` also those that are wrong for operations that do not commute.
    """
    variable = f"coll_tuned_{collective}_algorithm"
    found: dict[str, dict[str, int]] = {}
    for name, number in tools.values(variable).items():
        short = re.sub(r"\W+", "_", name.lower())
        if short in _NEVER:
            continue
        if (collective, short) in _POWER_OF_TWO and n_ranks & (n_ranks - 1):
            continue
        if (collective, short) in _EVEN and n_ranks % 2:
            continue
        if not commutative and short not in _IN_ORDER.get(collective, (short,)):
            continue
        found[f"{number} {short}"] = {ENABLED: 1, variable: number}
    return found


def dynamic_rules(n_ranks: int, sizes: Sequence[int], chosen: Mapping[tuple[str, int], str]) -> str:
    """Return the text of a file of rules.

    Parameters
    ----------
    n_ranks : int
        Ranks of the communicators that the choices are for; others keep the library's own choice.
    sizes : sequence of int
        All sizes that were measured, in bytes.
    chosen : mapping of (str, int) to str
        Number and name of the algorithm of a collective and size; none where the library's own choice stays.
    """
    collectives = sorted({name for name, _ in chosen}, key=_NUMBERS.__getitem__)
    lines = [f"{len(collectives)} # collectives"]
    for collective in collectives:
        mine = {size: name for (one, size), name in chosen.items() if one == collective}
        rules = _rules_of_one(collective, n_ranks, sizes, mine)
        lines += [f"{_NUMBERS[collective]} # {collective}", "3 # sizes of communicators"]
        lines += ["0 # ranks and more", "1", "0 0 0 0 # its own choice"]
        lines += [
            f"{n_ranks} # ranks",
            f"{len(rules)} # bytes, algorithm, fan-out, bytes of a segment",
            *rules,
        ]
        lines += [f"{n_ranks + 1} # ranks and more", "1", "0 0 0 0 # its own choice"]
    return "\n".join(lines) + "\n"


def _rules_of_one(collective: str, n_ranks: int, sizes: Sequence[int], mine: Mapping[int, str]) -> list[str]:
    if collective == "barrier":
        number, name = mine[0].split()
        return [f"0 {number} 0 0 # {name}"]
    blocks = n_ranks if collective in _BY_ALL_BLOCKS else 1
    bands = size_bands([size for size in sizes if size])
    lines = ["0 0 0 0 # its own choice"]
    for size, (begin, _) in bands.items():
        number, name = mine.get(size, "0 its_own_choice").split()
        lines.append(f"{begin * blocks} {number} 0 0 # {name}")
    end = max(end for _, end in bands.values())
    return [*lines, f"{(end + 1) * blocks} 0 0 0 # its own choice"]
