"""The text of the kernels, as a compiler at run time takes it: one piece, without headers of the system."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import petamap.cuda
from petacomm.base.errors import ConfigError

# Those of GCC mean nothing to compilers at run time.
_PRAGMA = re.compile(r"#pragma (once|GCC .*)\n")
_INCLUDE = re.compile(r'#include (?:"(?P<own>[^"]+)"|<[^>]+>)\n')


@cache
def kernel_source() -> str:
    """Return the text of all kernels, in need of `prelude` or the standard library before it.

    Formulas that the processor's kernels have, too, come from their headers.
    """
    return _with_headers("normal.cu", set())


def prelude() -> str:
    """Return what stands in for the standard library on a device."""
    return _find("prelude.h").read_text()


def _with_headers(name: str, known: set[str]) -> str:
    """Return a file with its headers in place, each the first time that it is asked for."""
    if name in known:
        return ""
    known.add(name)
    text = _PRAGMA.sub("", _find(name).read_text())
    return _INCLUDE.sub(lambda found: _with_headers(found["own"], known) if found["own"] else "", text)


def _find(name: str) -> Path:
    folders = [Path(folder) for folder in petamap.cuda.__path__]
    for folder in folders:
        for place in (folder / name, folder / "headers" / name):
            if place.exists():
                return place
    raise ConfigError(f"{name} is not installed with petamap", where=str(folders[0]), mend="install it anew")
