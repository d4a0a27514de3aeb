"""Open MPI: algorithms of its component `tuned`, and the file of rules that this reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from petacomm.tuning.cells import Cell, size_bands, sizes_measured
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
_POWER_OF_TWO = {("allgather", "recursive_doubling"), ("reduce_scatter_block", "recursive_doubling")}
_EVEN = {("allgather", "neighbor")}
# Those that combine in the order of ranks, or fall back where they cannot. Without rules the library asks of
# each operation whether it commutes; an algorithm that a rule names is taken for all.
_IN_ORDER = {
    "allreduce": ("basic_linear", "nonoverlapping", "recursive_doubling", "rabenseifner"),
    "reduce": ("linear", "in_order_binary", "rabenseifner"),
    "reduce_scatter_block": ("basic_linear", "recursive_doubling", "recursive_halving", "butterfly"),
}
_OWN = "0 0 0 0 # its own choice"
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
        if short == "ignore" or (short == "two_proc" and n_ranks != 2):
            continue
        if (collective, short) in _POWER_OF_TWO and n_ranks & (n_ranks - 1):
            continue
        if (collective, short) in _EVEN and n_ranks % 2:
            continue
        if not commutative and short not in _IN_ORDER.get(collective, (short,)):
            continue
        found[f"{number} {short}"] = {ENABLED: 1, variable: number}
    return found


def dynamic_rules(measured: Collection[Cell], chosen: Mapping[Cell, str]) -> str:
    """Return the text of a file of rules.

    Parameters
    ----------
    measured : collection of Cell
        All that was measured: choices are for sizes up to the middle to the next of these. Communicators of
        other numbers of ranks keep the library's own choice.
    chosen : mapping of Cell to str
        Number and name of the algorithm of a cell; none where the library's own choice stays.
    """
    collectives = sorted({cell.collective for cell in chosen}, key=_NUMBERS.__getitem__)
    lines = [f"{len(collectives)} # collectives"]
    for collective in collectives:
        by_ranks = {0: [_OWN]}
        for ranks in sorted({cell.ranks for cell in chosen if cell.collective == collective}):
            sizes = sizes_measured(measured, collective, ranks)
            mine = {size: name for (one, size, n), name in chosen.items() if (one, n) == (collective, ranks)}
            by_ranks |= {ranks: _rules_of_sizes(collective, ranks, sizes, mine), ranks + 1: [_OWN]}
        lines += [f"{_NUMBERS[collective]} # {collective}", f"{len(by_ranks)} # sizes of communicators"]
        for ranks, rules in by_ranks.items():
            lines += [f"{ranks} # ranks and more", f"{len(rules)} # bytes, algorithm, fan-out, segment"]
            lines += rules
    return "\n".join(lines) + "\n"


def _rules_of_sizes(
    collective: str, n_ranks: int, sizes: Sequence[int], mine: Mapping[int, str]
) -> list[str]:
    if collective == "barrier":
        number, name = mine[0].split()
        return [f"0 {number} 0 0 # {name}"]
    blocks = n_ranks if collective in _BY_ALL_BLOCKS else 1
    bands = size_bands(sizes)
    lines = [_OWN]
    for size, (begin, _) in bands.items():
        number, name = mine.get(size, "0 its_own_choice").split()
        lines.append(f"{begin * blocks} {number} 0 0 # {name}")
    end = max(end for _, end in bands.values())
    return [*lines, f"{(end + 1) * blocks} 0 0 0 # its own choice"]
