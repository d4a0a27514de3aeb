"""The instruction set of the kernels: the best that the processor has, of those that they were compiled for.

Sets are levels of x86-64: v2 (SSE 4.2), v3 (AVX2), v4 (AVX-512). Other processors have one, the baseline.
A room has a folder of extension modules for each set, of which one is put on the path of the room.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache

from petacomm.base import _base
from petacomm.base.errors import ConfigError
from petacomm.base.host import cpu_model

VARIABLE = "PETAMAP_ARCH"  # of the environment: the set to take instead of the best


def built_sets() -> list[str]:
    """Return the sets that kernels were compiled for, the lowest first."""
    return _base.built_sets()


def processor_sets() -> list[str]:
    """Return the sets that this processor has, the lowest first."""
    return _base.processor_sets()


@cache
def kernel_set() -> str:
    """Return the set of the kernels of this process: the same from its first call on.

    Raises
    ------
    ConfigError
        The environment asks for a set that is not there, or the processor runs no kernels that are.
    """
    built, runs = built_sets(), processor_sets()
    usable = [name for name in built if name in runs]
    asked = os.environ.get(VARIABLE)
    wanted = asked or (usable or built[:1])[-1]
    if wanted in usable:
        return wanted
    if wanted in built:
        what = f"this processor ({cpu_model()}) has not all instructions of {wanted}"
    else:
        what = f"there are no kernels for {wanted!r}"
    mend = f"{VARIABLE}={' or '.join(usable)}, or none" if usable else "build petamap on this machine"
    raise ConfigError(what, where=VARIABLE if asked else "kernels", mend=mend)


def kernel_folders(path: Iterable[str]) -> list[str]:
    """Return the folders of the extension modules of a room.

    Parameters
    ----------
    path : iterable of str
        The ``__path__`` of the room, which they are added to.
    """
    return [os.path.join(folder, kernel_set()) for folder in path]
