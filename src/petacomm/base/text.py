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
    return _with_unit(
        n_bytes, ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")), 3
    )


def format_seconds(value: float | None, digits: int = 4) -> str:
    """Return a time with a suitable unit, rounded to significant digits; - for None."""
    return "-" if value is None else _with_unit(value, ((1, "s"), (1e-3, "ms"), (1e-6, "us")), digits)


def _with_unit(value: float, units: Sequence[tuple[float, str]], digits: int) -> str:
    """Return a value in the first unit of which it has one or more when it is rounded, else in the last."""
    roundings = [(float(f"{value / factor:.{digits}g}"), unit) for factor, unit in units]
    rounded, unit = next((one for one in roundings if abs(one[0]) >= 1), roundings[-1])
    text = f"{rounded:.{digits}g}" if abs(rounded) < 10**digits else f"{rounded:,.0f}"
    return f"{text} {unit}"
