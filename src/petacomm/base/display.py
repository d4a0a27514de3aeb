"""Objects that show themselves: a line of facts in a terminal, a table in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Displayed:
    """Base of objects whose ``repr`` is a line of facts, which notebooks show as a table."""

    def _facts(self) -> Mapping[str, object]:
        """Return what is shown: names and values, without those that are None or empty."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self._facts().items() if _is_said(value))
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        rows = [(name, value) for name, value in self._facts().items() if _is_said(value)]
        return html_table(type(self).__name__, rows)


def _is_said(value: object) -> bool:
    return value is not None and str(value) != ""


def html_table(title: str, rows: Sequence[Sequence[object]], heads: Sequence[str] = ()) -> str:
    """Return a small HTML table; numbers stand to the right.

    Parameters
    ----------
    title : str
        Above the table.
    rows : sequence of rows
        Cells, shown as text.
    heads : sequence of str, optional
        Heads of the columns.
    """
    from html import escape

    def cell(value: object) -> str:
        side = "right" if isinstance(value, int | float) else "left"
        return f'<td style="text-align:{side}">{escape(str(value))}</td>'

    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    return (
        f'<table><caption style="text-align:left"><b>{escape(title)}</b></caption>'
        f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    )


def some_names(names: Sequence[str], most: int = 4) -> str:
    """Return names separated by commas; of more than `most`, the first, how many, and the last.

    >>> some_names(["a", "b"]), some_names(list("abcdefg"))
    ('a, b', '7: a, b, ... g')
    """
    if len(names) <= most:
        return ", ".join(names)
    return f"{len(names)}: {', '.join(names[: most - 2])}, ... {names[-1]}"
