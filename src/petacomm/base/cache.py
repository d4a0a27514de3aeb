"""What is remembered between runs: small JSON files in the user's cache folder, which may go any time."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from petacomm.base.errors import UserError
from petacomm.base.files import replacing


def cache_folder() -> Path:
    """Return the folder of the user's cache: where the system has it, or ``$XDG_CACHE_HOME/petamap``."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    if chosen:
        return Path(chosen) / "petamap"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "petamap"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "petamap" / "Cache"
    return Path.home() / ".cache" / "petamap"


def recall(name: str) -> Any:
    """Return what was remembered under a name; None for nothing, and with a warning if it cannot be read.

    Parameters
    ----------
    name : str
        A path in the cache folder, such as ``"reductions/6f1c.json"``.
    """
    path = cache_folder() / name
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        warnings.warn(f"{path} is ignored: {error}", stacklevel=2)
        return None


def remember(name: str, value: Any) -> None:
    """Keep a value that JSON can hold; where it cannot be written, warn and go on."""
    path = cache_folder() / name
    try:
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(value), encoding="utf-8")
    except (UserError, OSError) as error:
        warnings.warn(f"nothing is remembered: {error}", stacklevel=2)
