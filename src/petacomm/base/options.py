"""Options of sources and sections: frozen dataclasses whose fields carry a dimension and a help line.

One definition serves the TOML reader, the XML reader, the XSD, ``petamap init`` and the documentation.
"""

from __future__ import annotations

import dataclasses
from typing import Any

REQUIRED: Any = dataclasses.MISSING


def option(
    default: Any = REQUIRED,
    *,
    help: str,
    dimension: str | None = None,
    choices: tuple[str, ...] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    path: bool = False,
) -> Any:
    """Declare one option.

    Parameters
    ----------
    default : object, optional
        Without it the option must be given.
    help : str
        One line for the documentation, ``petamap init`` and error messages.
    dimension : str, optional
        A dimension of `petacomm.base.units`; the file then says ``"7.5 arcmin"`` and the field holds
        the number in the internal unit.
    choices : tuple of str, optional
        The words allowed.
    minimum, maximum : float, optional
        Inclusive bounds.
    path : bool
        A file that must exist, relative to the configuration file.
    """
    metadata = {
        "help": help,
        "dimension": dimension,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
        "path": path,
    }
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
    if isinstance(default, list | dict):
        raise TypeError("defaults must be immutable; use a tuple")
    return dataclasses.field(default=default, metadata=metadata)
