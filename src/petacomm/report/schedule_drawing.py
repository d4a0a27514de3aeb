"""Drawings of schedules as SVG: messages and link loads by round."""

from __future__ import annotations

import os
from colorsys import hls_to_rgb
from html import escape
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.files import write_text
from petacomm.network.schedule_links import round_link_loads
from petacomm.schedule import Round, Schedule
from petacomm.topology import Torus

# Size of a panel, and height of its title.
PANEL, TITLE = 170, 22
_STEP, _EDGE = 36, 31  # distance between nodes, and margin
STYLE = (
    "<style>text{font:12px sans-serif;fill:#333}.r path{fill:none;stroke-width:1.6}"
    ".n{fill:#fff;stroke:#333}.a{stroke:#ddd}</style>"
)
# Limits for a legible drawing: nodes of a side, ranks, rounds; and for its cost: messages.
_MAX_SIDE, _MAX_RANKS, _MAX_ROUNDS, _MAX_MESSAGES = 16, 64, 96, 4_000_000


def write_drawing(
    schedule: Schedule, grid: Torus | None, itemsize: int, path: str | os.PathLike[str]
) -> Path:
    """Write a drawing of a schedule as SVG, and return its path.

    Messages between neighbours and along lines are drawn as arrows on a plane of nodes; other messages
    between ranks from left to right, with rounds from top to bottom. With a grid, the link loads of each
    round are shown below.

    Raises
    ------
    ConfigError
        If there is too much to draw, or the name does not end with ``.svg``.
    ResourceError
        If it cannot be written.
    """
    if Path(path).suffix != ".svg":
        raise ConfigError("drawings are SVG", where=os.fspath(path), mend="end the name with .svg")
    if schedule.n_rounds * schedule.n_ranks > _MAX_MESSAGES:
        raise ConfigError(
            f"{schedule.n_rounds:,} rounds of {schedule.n_ranks:,} ranks are too many to draw",
            mend="give a smaller shape",
        )
    parts = []
    plane = grid if grid is not None and _in_plane(schedule, grid) else None
    if plane is not None or (schedule.n_ranks <= _MAX_RANKS and schedule.n_rounds <= _MAX_ROUNDS):
        width, height = _size(schedule, plane)
        title = f"{schedule.collective}, {schedule.algorithm}: from blue, the first round, to red, the last"
        parts.append((height + TITLE, width, panel(title, schedule, plane, width, height)))
    if grid is not None and schedule.network == "torus":
        parts.append(_link_chart(schedule, grid, itemsize))
    if not parts:
        raise ConfigError(
            f"{schedule.n_ranks:,} ranks are too many to draw", mend="give a shape, or fewer ranks"
        )
    write_text(path, _stacked(parts))
    return Path(path)


def panel(
    title: str, schedule: Schedule, grid: Torus | None, width: float = PANEL, height: float = PANEL
) -> str:
    """Return the SVG of the messages of a schedule with a title: on a plane of nodes, or as a time line."""
    rounds = [part.take(part.is_message) for part in schedule.rounds()]
    rounds = [part for part in rounds if len(part)]
    inside = _in_time(rounds, schedule.n_ranks, width, height) if grid is None else _on_grid(rounds, grid)
    text = f'<text x="{width / 2}" y="15" text-anchor="middle">{escape(title)}</text>'
    return f'{text}<g transform="translate(0 {TITLE})">{inside}</g>'


def _in_plane(schedule: Schedule, grid: Torus) -> bool:
    flat = grid.n_dimensions > 1 and sum(size > 1 for size in grid.shape) <= 2
    return (
        flat
        and max(grid.shape) <= _MAX_SIDE
        and all(bool((part.heading[part.is_message] >= 0).all()) for part in schedule.rounds())
    )


def _axes(grid: Torus) -> list[int]:
    """Return the two dimensions that are drawn: those with several nodes, else the first ones."""
    return sorted(sorted(range(grid.n_dimensions), key=lambda d: grid.shape[d] == 1)[:2])


def _size(schedule: Schedule, plane: Torus | None) -> tuple[float, float]:
    if plane is not None:
        across, down = (2 * _EDGE + _STEP * (plane.shape[d] - 1) for d in _axes(plane))
        return max(420, across), down
    return max(420, 18 * schedule.n_ranks), max(PANEL, 40 * schedule.n_rounds + 20)


def _stacked(parts: list[tuple[float, float, str]]) -> str:
    width, height = max(part[1] for part in parts), sum(part[0] for part in parts)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}">',
        STYLE,
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
    ]
    above = 0.0
    for tall, _, inside in parts:
        out.append(f'<g transform="translate(0 {above:g})">{inside}</g>')
        above += tall
    return "\n".join([*out, "</svg>", ""])


def _link_chart(schedule: Schedule, grid: Torus, itemsize: int) -> tuple[float, float, str]:
    """Return a bar chart of the largest and mean link loads of each round: height, width and SVG."""
    loads = np.array(
        [(load.max(initial=0), load.mean()) for load in round_link_loads(schedule, grid, itemsize)]
    ).reshape(-1, 2)
    step = -(-len(loads) // _MAX_ROUNDS) or 1
    firsts = np.arange(0, len(loads), step)
    bars = np.array([loads[i : i + step].max(axis=0) for i in firsts]).reshape(-1, 2)
    most = float(bars.max(initial=0)) or 1.0
    left, top, tall, width = 20.0, 46.0, 120.0, 420.0
    wide = min(40.0, (width - 2 * left) / max(1, len(bars)))
    group = f"{step} rounds" if step > 1 else "round"
    out = [
        f'<text x="{left}" y="16">bytes on the busiest link of each {group}, most {most:,.0f};</text>',
        f'<text x="{left}" y="32">dark: the mean of all {grid.n_links:,} links</text>',
    ]
    for number, (busiest, mean) in enumerate(bars):
        for value, colour in ((busiest, "#9db8e0"), (mean, "#2a4b8d")):
            high = tall * value / most
            title = f"from round {firsts[number]}: {busiest:,.0f} B, mean {mean:,.1f} B"
            out.append(
                f'<rect x="{left + wide * number:.1f}" y="{top + tall - high:.1f}" fill="{colour}" '
                f'width="{max(0.5, 0.85 * wide):.1f}" height="{high:.1f}"><title>{title}</title></rect>'
            )
    base = top + tall
    right = left + wide * len(bars)
    out.append(f'<path d="M{left} {base}H{right}" stroke="#333"/>')
    out.append(f'<text x="{left}" y="{base + 16}">0</text>')
    out.append(f'<text x="{max(right, 100)}" y="{base + 16}" text-anchor="end">round {len(loads) - 1}</text>')
    return base + 28, width, "".join(out)


def _colour(number: int, n_rounds: int) -> str:
    """Return the colour of a round, from blue for the first to red for the last."""
    red, green, blue = hls_to_rgb(0.64 * (1 - number / max(1, n_rounds - 1)), 0.42, 0.8)
    return f"#{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}"


def _on_grid(rounds: list[Round], grid: Torus) -> str:
    """Return the SVG of messages between neighbours and along lines, as arrows on a plane of nodes."""
    out = [
        _arrows([_hop(grid, part, i) for i in range(len(part))], k, len(rounds))
        for k, part in enumerate(rounds)
    ]
    nodes = [
        f'<circle class="n" cx="{_EDGE + _STEP * x}" cy="{_EDGE + _STEP * y}" r="4"/>'
        for x, y in grid.coordinates(range(grid.n_nodes))[:, _axes(grid)]
    ]
    return "".join([*out, *nodes])


def _hop(grid: Torus, part: Round, row: int) -> tuple[float, float, float, float]:
    """Return the arrow of the last link of a message, on the right-hand side; shortened at a wrap-around."""
    axes = _axes(grid)
    dimension, direction = axes.index(part.heading[row] // 2), 1 - 2 * (part.heading[row] % 2)
    end = [_EDGE + _STEP * float(c) for c in grid.coordinates(part.destination[row])[axes]]
    begin = list(end)
    begin[dimension] -= direction * _STEP
    if not _EDGE <= begin[dimension] <= _EDGE + _STEP * (grid.shape[axes[dimension]] - 1):
        begin[dimension] += direction * _STEP / 3
    side = 1 - dimension
    shift = 3.5 * direction * (1 if dimension == 0 else -1)
    begin[side] += shift
    end[side] += shift
    end[dimension] -= direction * 5
    return begin[0], begin[1], end[0], end[1]


def _in_time(rounds: list[Round], n_ranks: int, width: float, height: float) -> str:
    """Return the SVG of messages between ranks from left to right, with rounds from top to bottom."""
    step_x, step_y = (width - 30) / max(1, n_ranks - 1), (height - 20) / max(2, len(rounds))
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
    """Return the SVG of the arrows of one round, as one path."""
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
