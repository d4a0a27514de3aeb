"""Write the drawings of ``docs/petacomm/collectives.md`` and its table of algorithms from the schedules.

python docs/make_collectives.py
"""

import re
from collections.abc import Iterator
from pathlib import Path

from petacomm.report.schedule_drawing import PANEL, STYLE, TITLE, panel
from petacomm.schedule import ALGORITHMS, CollectiveCall, Schedule, make_schedule
from petacomm.topology import Torus

FOLDER = Path(__file__).parent
PAGE = FOLDER / "petacomm" / "collectives.md"
COLLECTIVES = ("broadcast", "reduce", "allreduce", "alltoall", "barrier")
_MESH, _TORUS = Torus((4, 4), False), Torus((4, 4))
_TABLE = re.compile(r"(<!-- algorithms -->\n).*?(<!-- end -->)", re.DOTALL)


def panels(collective: str) -> Iterator[tuple[str, Schedule, Torus | None]]:
    """Iterate over the drawn examples of a collective: title, schedule, and the grid if drawn on one."""
    for of, name in ALGORITHMS:
        if of != collective:
            continue
        if name in ("streams", "hamiltonian", "cycle"):
            for grid, kind in ((_MESH, "mesh"), (_TORUS, "torus")):
                if kind == "mesh" or name == "streams":
                    yield (
                        f"{name}, {kind}",
                        make_schedule(CollectiveCall(collective, 16, 96, grid=grid), name),
                        grid,
                    )
        else:
            line = Torus((8,), False) if name == "lines" else None
            call = CollectiveCall(
                collective, 8, 8, integer=True, grid=line, has_tree=True, has_interrupts=True
            )
            yield name, make_schedule(call, name), None


def drawing_of(collective: str) -> str:
    """Return the examples of a collective as SVG."""
    drawn = [_placed(i, *example) for i, example in enumerate(panels(collective))]
    rows = -(-len(drawn) // 4)
    width, height = PANEL * min(4, len(drawn)), (PANEL + TITLE) * rows
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    back = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return "\n".join([head, STYLE, back, *drawn, "</svg>", ""])


def _placed(number: int, title: str, schedule: Schedule, grid: Torus | None) -> str:
    x, y = number % 4 * PANEL, number // 4 * (PANEL + TITLE)
    return f'<g transform="translate({x} {y})">{panel(title, schedule, grid)}</g>'


def table() -> str:
    """Return the algorithms and what they need, as a table."""
    head = ["| collective | algorithm | what it does | needs that |", "|---|---|---|---|"]
    rows = []
    for (collective, name), algorithm in ALGORITHMS.items():
        needs = "; ".join(needed.text for needed in algorithm.requires)
        rows.append(f"| {collective} | `{name}` | {algorithm.summary} | {needs} |")
    return "\n".join([*head, *rows, ""])


def page(text: str) -> str:
    """Return the page with its present table."""
    return _TABLE.sub(lambda match: match[1] + table() + match[2], text)


def pictures() -> dict[Path, str]:
    """Return the files of the drawings, and what they hold."""
    return {FOLDER / "images" / f"{name}.svg": drawing_of(name) for name in COLLECTIVES}


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for path, text in pictures().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}, {len(text) / 1000:.0f} kB")
