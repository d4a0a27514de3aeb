"""Options of configurations: fields of frozen dataclasses with a help line, a dimension and bounds.

The same definition serves the TOML reader, the XML reader, the XSD, ``petamap init`` and the documentation.
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
    path_or_name: bool = False,
    word: str | None = None,
    whole: str | None = None,
) -> Any:
    """Return the dataclass field of an option.

    Parameters
    ----------
    default : object, optional
        Without a default the option is required.
    help : str
        Line for the documentation, ``petamap init`` and error messages.
    dimension : str, optional
        Dimension of `petacomm.base.units`: the file has text such as ``"7.5 arcmin"``, the field the number
        in the internal unit.
    choices : tuple of str, optional
        Allowed words.
    minimum, maximum : float, optional
        Inclusive bounds.
    path : bool
        Whether it is the path of an existing file, relative to the configuration file.
    path_or_name : bool
        Whether it is the path of a file, or a name of what the package has, which has no dot.
    word : str, optional
        A word that may stand in the place of a number: the field is a ``int | str``.
    whole : str, optional
        What a percentage may be of, text such as ``"1% of noise"`` in the place of a number: the field is a
        ``float | str``.
    """
    metadata = {
        "help": help,
        "dimension": dimension,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
        "path": path,
        "path_or_name": path_or_name,
        "word": word,
        "whole": whole,
    }
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
    if isinstance(default, list | dict):
        raise TypeError("defaults must be immutable; use a tuple")
    return dataclasses.field(default=default, metadata=metadata)
