"""Draw ``docs/images/transpose.svg``, the transpose of a small array, from layouts and datatypes themselves.

python docs/make_transpose.py
"""

from pathlib import Path

import numpy as np

from petacomm.mpi import SerialCommunicator
from petacomm.mpi.datatypes import merged_loops
from petacomm.redistribution import ArrayLayout
from petacomm.redistribution.exchanges import LayoutOverlaps

IMAGE = Path(__file__).parent / "images" / "transpose.svg"
N, RANKS = 4, 2
CELL, SIZE, GAP, MARGIN = 34, 32, 18, 24
COLOURS = ("#2a78d6", "#eb6834")
STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#1a1a1a}.t{font-weight:600}.n{fill:#555}"
    ".c{fill:#fff;text-anchor:middle}</style>"
)


class OneOf(SerialCommunicator):
    """A rank of several, for what needs no others."""

    def __init__(self, rank):
        super().__init__()
        self.rank, self.size = rank, RANKS


def cells(x, y, numbers):
    """A block of numbered elements as it lies in memory, coloured by the ranks that hold them before."""
    drawn = []
    for (i, j), number in np.ndenumerate(numbers):
        row, column = divmod(int(number), N)
        left, top, colour = x + j * CELL, y + i * CELL, COLOURS[row * RANKS // N]
        drawn.append(
            f'<rect x="{left}" y="{top}" width="{SIZE}" height="{SIZE}" rx="4" fill="{colour}"/>'
            f'<text class="c" x="{left + SIZE / 2}" y="{top + SIZE / 2 + 4}">{row + 1},{column + 1}</text>'
        )
    return "".join(drawn)


def words(x, y, text, kind=""):
    """A line of text."""
    return f'<text class="{kind}" x="{x}" y="{y}">{text}</text>'


def type_of(view):
    """What a datatype of a view says, in elements: its slices, and their extent."""
    _, loops = merged_loops(view.itemsize, view.shape[1:], view.strides[1:])
    block = view.itemsize if loops else view[0].nbytes
    n, extent = block // view.itemsize, view.strides[0] // view.itemsize
    inner = "".join(f"{times} blocks, stride {stride // view.itemsize}, of " for times, stride in loops)
    return f"{len(view)} slices of {inner}{n}; extent {extent}"


def picture():
    """The picture as SVG."""
    before, after = ArrayLayout((N, N), (RANKS, 1)), ArrayLayout((N, N), (1, RANKS), (1, 0))
    whole = np.arange(N * N).reshape(N, N)
    parts = [LayoutOverlaps(OneOf(rank), before, after) for rank in range(RANKS)]
    sources = [whole[before.box(rank)].copy() for rank in range(RANKS)]
    targets = [after.empty(rank, whole.dtype) for rank in range(RANKS)]
    for rank in range(RANKS):
        targets[rank][...] = whole[after.box(rank)]
    middle, right = MARGIN + N * CELL + 3 * GAP, MARGIN + 2 * N * CELL + 6 * GAP
    titles = ("before: rows", "messages, as they travel", "after: columns, turned")
    columns = zip((MARGIN, middle, right), titles, strict=True)
    drawn = [words(x, MARGIN, title, "t") for x, title in columns]
    height = N // RANKS * CELL
    for rank in range(RANKS):
        y = MARGIN + 14 + rank * (height + 2 * GAP)
        drawn.append(words(MARGIN, y + 12, f"rank {rank}", "n") + cells(MARGIN, y + 20, sources[rank]))
        drawn.append(words(right, y + 12, f"rank {rank}", "n"))
        drawn.append(cells(right, y + 20, after.in_memory_order(targets[rank])))
        for line, (other, view) in enumerate(parts[rank].sends(sources[rank])):
            top = y + 20 + line * CELL
            drawn.append(words(middle - 2 * GAP, top + 21, f"to {other}", "n"))
            drawn.append(cells(middle, top, view.reshape(1, -1)))
    foot = MARGIN + 14 + RANKS * (height + 2 * GAP) + 8
    (_, out), (_, into) = list(parts[0].sends(sources[0]))[1], next(parts[1].receives(targets[1]))
    drawn.append(words(MARGIN, foot, "from rank 0 to rank 1, in elements:", "t"))
    drawn.append(words(MARGIN, foot + 20, f"send type: {type_of(out)}"))
    drawn.append(words(MARGIN, foot + 40, f"receive type: {type_of(into)}: they interleave"))
    width, height = right + N * CELL + MARGIN, foot + 40 + MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    back = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return "\n".join([head, STYLE, back, *drawn, "</svg>", ""])


if __name__ == "__main__":
    IMAGE.write_text(picture(), encoding="utf-8")
    print(f"wrote {IMAGE}")
