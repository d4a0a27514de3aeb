"""Text and JSON of the reproduced tables."""

from __future__ import annotations

import dataclasses
from typing import Any

from petacomm.papers.almasi2005.figures import Ordering
from petacomm.papers.almasi2005.roles import PREDICTED
from petacomm.papers.almasi2005.tables import Almasi2005Results, TableCell

_NAMES = {
    2: "Table 2: aggregate bandwidth of the all-to-all",
    3: "Table 3: bandwidth on 512 nodes; /2: the message that reaches half of it",
    4: "Table 4: latency on 512 nodes",
}


def almasi2005_table(results: Almasi2005Results) -> str:
    """Return the reproduction as text: one block per table, then the orderings, constants and summary."""
    blocks = [results.title]
    for table, name in _NAMES.items():
        cells = [cell for cell in results.cells if cell.table == table]
        blocks.append("\n".join([name, *(_line(cell) for cell in cells), *_reasons(cells)]))
    blocks.append("\n".join(["Orders in Figures 5 to 10", *(_order(order) for order in results.orderings)]))
    constants = [f"  {key} = {value}: {source}" for key, value, source in results.constants]
    blocks.append("\n".join([f"{len(results.constants)} calibrated constants", *constants]))
    choices = [f"  {what}: {chosen} ({cells})" for what, chosen, cells in results.choices]
    blocks.append("\n".join([f"{len(results.choices)} choices made by looking at compared cells", *choices]))
    counts = [f"  {name}: {inside} of {n} predicted inside" for name, (inside, n) in results.groups.items()]
    blocks.append("\n".join([*results.left_out, *counts, results.summary]))
    return "\n\n".join(blocks)


def cell_verdict(cell: TableCell) -> str:
    """Return the role of a cell, and whether it is within its tolerance where that is asked."""
    return cell.role if cell.inside is None else f"{cell.role}, {'inside' if cell.inside else 'OUTSIDE'}"


def format_value(value: float | None) -> str:
    """Return a number with three or four digits; - for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _line(cell: TableCell) -> str:
    ratio = "" if cell.ours is None else f"{cell.ours / cell.published:.2f}"
    line = (
        f"  {cell.row:<22}{cell.column:<8}{format_value(cell.published):>9}{format_value(cell.ours):>9} "
        f"{cell.unit:<10}{ratio:>5}  {cell_verdict(cell):<26}{cell.tolerance:<11}{cell.how}"
    )
    return line.rstrip()


def _reasons(cells: list[TableCell]) -> list[str]:
    lines = []
    for why in dict.fromkeys(cell.why for cell in cells if cell.why):
        places = [f"{cell.row} {cell.column}" for cell in cells if cell.why == why]
        lines.append(f"  {'; '.join(places)}: {why}")
    return lines


def _order(order: Ordering) -> str:
    word = {True: "holds", False: "FAILS", None: "not covered"}[order.holds]
    role = "" if order.role == PREDICTED else f" ({order.role}, not counted)"
    lines = [f"  {order.figure:<6} {order.what}: {word}{role}"]
    for at, values in order.points:
        text = ", ".join(f"{name} {format_value(value)}" for name, value in values.items())
        lines.append(f"           {at:<10} {text} {order.unit}")
    if order.note:
        lines.append(f"           {order.note}")
    return "\n".join(lines)


def almasi2005_json(results: Almasi2005Results) -> dict[str, Any]:
    """Return the reproduction as JSON data."""
    data = dataclasses.asdict(results)
    return {"source": data.pop("title"), "summary": results.summary, "groups": results.groups} | data
