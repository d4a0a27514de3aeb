"""Text of tables, of shapes and of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table_lines(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return the lines of a table with aligned columns, the first `left` of them to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def shape_text(shape: Iterable[int]) -> str:
    """Return a shape as text, such as ``8x8x4``."""
    return "x".join(map(str, shape))


def format_bytes(n_bytes: float) -> str:
    """Return a number of bytes with a suitable unit."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.3g} {unit}"
    return f"{n_bytes:.3g} B"
