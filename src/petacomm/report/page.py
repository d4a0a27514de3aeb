"""A page of data and scripts in one HTML file."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).with_name("page")


def assembled(title: str, elsewhere: str, data: Any, scripts: Sequence[str | Path]) -> str:
    """Return a page of data and scripts.

    Parameters
    ----------
    title : str
        Plain text.
    elsewhere : str
        HTML: where the same facts are for those without JavaScript.
    data
        What JSON can hold.
    scripts : sequence of str or Path
        In the order of use: names of scripts of this room, or paths of others.
    """
    return filled(
        (_PAGE / "page.html").read_text(encoding="utf-8"),
        title=html.escape(title),
        style=(_PAGE / "page.css").read_text(encoding="utf-8"),
        elsewhere=elsewhere,
        data=inert(data),
        script="\n".join((_PAGE / name).read_text(encoding="utf-8") for name in scripts),
    )


def inert(data: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def filled(template: str, **parts: str) -> str:
    """Return the template with each ``{{name}}`` replaced once; parts are never searched for more."""
    pieces = []
    rest = template
    for name, part in parts.items():
        before, _, rest = rest.partition("{{" + name + "}}")
        pieces += [before, part]
    return "".join([*pieces, rest])
