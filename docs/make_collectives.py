"""Write the drawings of ``docs/collectives.md`` and its table of algorithms from the schedules themselves.

python docs/make_collectives.py
"""

import re
from collections.abc import Iterator
from colorsys import hls_to_rgb
from pathlib import Path

from petamap.comm.schedule import ALGORITHMS, Call, Round, Schedule, make
from petamap.comm.topology import Torus

FOLDER = Path(__file__).parent
PAGE = FOLDER / "collectives.md"
COLLECTIVES = ("broadcast", "reduce", "allreduce", "alltoall", "barrier")
_MESH, _TORUS = Torus((4, 4), False), Torus((4, 4))
_PANEL, _STEP, _EDGE, _TITLE = 170, 36, 31, 22  # of a picture: its size, between nodes, to the first, above
_TABLE = re.compile(r"(<!-- algorithms -->\n).*?(<!-- end -->)", re.DOTALL)


def panels(collective: str) -> Iterator[tuple[str, Schedule, Torus | None]]:
    """Iterate over the drawn examples of a collective: title, schedule, and the grid if drawn on one."""
    for of, name in ALGORITHMS:
        if of != collective:
            continue
        if name in ("streams", "hamiltonian"):
            for grid, kind in ((_MESH, "mesh"), (_TORUS, "torus")):
                if kind == "mesh" or name == "streams":
                    yield f"{name}, {kind}", make(Call(collective, 16, 96, grid=grid), name), grid
        else:
            line = Torus((8,), False) if name == "lines" else None
            call = Call(collective, 8, 8, integer=True, grid=line, tree=True, interrupts=True)
            yield name, make(call, name), None


def drawing_of(collective: str) -> str:
    """Return the examples of a collective as SVG."""
    drawn = [_panel(i, *panel) for i, panel in enumerate(panels(collective))]
    rows = -(-len(drawn) // 4)
    width, height = _PANEL * min(4, len(drawn)), (_PANEL + _TITLE) * rows
    style = (
        "<style>text{font:12px sans-serif;fill:#333}.r path{fill:none;stroke-width:1.6}"
        ".n{fill:#fff;stroke:#333}.a{stroke:#ddd}</style>"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    back = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return "\n".join([head, style, back, *drawn, "</svg>", ""])


def _panel(number: int, title: str, schedule: Schedule, grid: Torus | None) -> str:
    x, y = number % 4 * _PANEL, number // 4 * (_PANEL + _TITLE)
    rounds = [part.take(part.moves) for part in schedule.rounds()]
    rounds = [part for part in rounds if len(part)]
    inside = _on_grid(rounds, grid) if grid is not None else _in_time(rounds, schedule.n_ranks)
    text = f'<text x="{_PANEL / 2}" y="15" text-anchor="middle">{title}</text>'
    return f'<g transform="translate({x} {y})">{text}<g transform="translate(0 {_TITLE})">{inside}</g></g>'


def _colour(number: int, n_rounds: int) -> str:
    """From blue, the first round, to red, the last."""
    red, green, blue = hls_to_rgb(0.64 * (1 - number / max(1, n_rounds - 1)), 0.42, 0.8)
    return f"#{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}"


def _on_grid(rounds: list[Round], grid: Torus) -> str:
    """Draw messages between neighbours and along lines as arrows in the plane."""
    out = [
        _arrows([_hop(grid, part, i) for i in range(len(part))], k, len(rounds))
        for k, part in enumerate(rounds)
    ]
    nodes = [
        f'<circle class="n" cx="{_EDGE + _STEP * x}" cy="{_EDGE + _STEP * y}" r="4"/>'
        for x, y in grid.coordinates(range(grid.n_nodes))
    ]
    return "".join([*out, *nodes])


def _hop(grid: Torus, part: Round, row: int) -> tuple[float, float, float, float]:
    """Return the last link of a message, on the right-hand side of its way; over the seam, its end."""
    dimension, direction = part.heading[row] // 2, 1 - 2 * (part.heading[row] % 2)
    end = [_EDGE + _STEP * float(c) for c in grid.coordinates(part.destination[row])]
    begin = list(end)
    begin[dimension] -= direction * _STEP
    if not _EDGE <= begin[dimension] <= _EDGE + _STEP * (grid.shape[dimension] - 1):
        begin[dimension] += direction * _STEP / 3
    side = 1 - dimension
    shift = 3.5 * direction * (1 if dimension == 0 else -1)
    begin[side] += shift
    end[side] += shift
    end[dimension] -= direction * 5
    return begin[0], begin[1], end[0], end[1]


def _in_time(rounds: list[Round], n_ranks: int) -> str:
    """Draw ranks from left to right, rounds from top to bottom."""
    step_x, step_y = (_PANEL - 30) / (n_ranks - 1), (_PANEL - 20) / max(2, len(rounds))
    lines = "".join(f"M{15 + step_x * rank:.0f} 0v{step_y * len(rounds):.0f}" for rank in range(n_ranks))
    out = [f'<path class="a" d="{lines}"/>']
    for number, part in enumerate(rounds):
        pairs = sorted(set(zip(part.source.tolist(), part.destination.tolist(), strict=True)))
        arrows = [
            (15 + step_x * a, step_y * number, 15 + step_x * b, step_y * (number + 1)) for a, b in pairs
        ]
        out.append(_arrows(arrows, number, len(rounds)))
    return "".join(out)


def _arrows(arrows: list[tuple[float, float, float, float]], number: int, n_rounds: int) -> str:
    """Draw arrows of one round as one path."""
    path = []
    for x0, y0, x1, y1 in arrows:
        size = max(1e-9, ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5)
        u, v = (x1 - x0) / size * 4, (y1 - y0) / size * 4
        wings = (x1 - u - v * 0.6, y1 - v + u * 0.6), (x1 - u + v * 0.6, y1 - v - u * 0.6)
        (ax, ay), (bx, by) = wings
        path.append(
            f"M{x0:.0f} {y0:.0f}L{x1:.0f} {y1:.0f}M{ax:.0f} {ay:.0f}L{x1:.0f} {y1:.0f}L{bx:.0f} {by:.0f}"
        )
    return f'<g class="r" stroke="{_colour(number, n_rounds)}"><path d="{"".join(path)}"/></g>'


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
