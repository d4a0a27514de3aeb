"""Configurations and data of the examples that come with the package.

An example is a folder here that holds ``run.toml``, its data, their licence and their provenance; its name is
that of the folder, with ``-`` for ``_``.
"""

from __future__ import annotations

from pathlib import Path

from petamap.base.errors import ConfigError, did_you_mean

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Return the names of the examples, sorted."""
    return sorted(path.parent.name.replace("_", "-") for path in _FOLDER.glob("*/run.toml"))


def find(name: str) -> Path:
    """Return the run configuration of an example.

    Raises
    ------
    ConfigError
        If there is no such example.
    """
    known = names()
    if name not in known:
        raise ConfigError(f"unknown example '{name}'", mend=did_you_mean(name, known) or "none is installed")
    return _FOLDER / name.replace("-", "_") / "run.toml"


def title(name: str) -> str:
    """Return the title that the run configuration of an example gives itself, or ''."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    with find(name).open("rb") as file:
        table = tomllib.load(file)
    return str(table.get("run", {}).get("title", ""))
