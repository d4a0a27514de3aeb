"""Assembly of self-contained HTML pages from data and scripts."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from petacomm.base.files import write_text

_PAGE = Path(__file__).with_name("page")


def assemble_page(title: str, package: str, elsewhere: str, data: Any, scripts: Sequence[str | Path]) -> str:
    """Return the HTML of a page.

    Parameters
    ----------
    title, package : str
        Plain text; the package whose page it is, petacomm or petamap.
    elsewhere : str
        HTML that tells users without JavaScript where to find the same data.
    data
        JSON data for the scripts.
    scripts : sequence of str or Path
        Scripts in order: file names in the folder ``page``, or paths.
    """
    return fill_template(
        (_PAGE / "page.html").read_text(encoding="utf-8"),
        title=html.escape(f"{title} – {package}"),
        style=(_PAGE / "page.css").read_text(encoding="utf-8"),
        package=package,
        elsewhere=elsewhere,
        data=json_for_html(data),
        script="\n".join((_PAGE / name).read_text(encoding="utf-8") for name in scripts),
    )


def write_page(
    path: str | os.PathLike[str],
    title: str,
    package: str,
    elsewhere: str,
    data: Any,
    scripts: Sequence[str | Path],
) -> Path:
    """Write the page of `assemble_page`, and return its path.

    Raises
    ------
    ResourceError
        If it cannot be written.
    """
    write_text(path, assemble_page(title, package, elsewhere, data, scripts))
    return Path(path)


def json_for_html(data: Any) -> str:
    """Return data as JSON that is safe inside an HTML script element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def fill_template(template: str, **parts: str) -> str:
    """Return a template with each ``{{name}}`` replaced once, in order; inserted parts are not searched."""
    pieces = []
    rest = template
    for name, part in parts.items():
        before, _, rest = rest.partition("{{" + name + "}}")
        pieces += [before, part]
    return "".join([*pieces, rest])
