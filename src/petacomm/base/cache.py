"""The user's cache: small JSON files that may be deleted at any time."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from petacomm.base.errors import UserError
from petacomm.base.files import read_text, write_text


def cache_folder() -> Path:
    """Return the cache folder: ``$XDG_CACHE_HOME/petamap`` if set, else the system's default.

    Of a user without a home it is a temporary one.
    """
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg:
        return Path(xdg) / "petamap"
    below = ("Library", "Caches") if sys.platform == "darwin" else (".cache",)
    try:
        return Path.home().joinpath(*below, "petamap")
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / f"petamap-{os.getuid()}"


def load_cached(name: str) -> Any:
    """Return the cached value of a name; None if there is none, or with a warning if it cannot be read.

    Parameters
    ----------
    name : str
        Path in the cache folder, such as ``"reductions/6f1c.json"``.
    """
    path = cache_folder() / name
    try:
        path.stat()
        return json.loads(read_text(path))
    except FileNotFoundError:
        return None
    except (UserError, OSError, ValueError, RecursionError) as error:
        warnings.warn(f"{path} is ignored: {error}", stacklevel=2)
        return None


def save_cached(name: str, value: Any) -> None:
    """Write a value that JSON can represent to the cache; warn if it cannot be written."""
    path = cache_folder() / name
    try:
        write_text(path, json.dumps(value))
    except (UserError, OSError) as error:
        warnings.warn(f"nothing is remembered: {error}", stacklevel=2)
