"""Configurations and data of the examples that come with the package.

An example is a folder here that holds ``run.toml``, its data, their licence and their provenance; its name is
that of the folder, with ``-`` for ``_``. What is too large to be run holds ``plan.toml`` instead.
"""

from __future__ import annotations

from pathlib import Path

from petacomm.base.errors import ConfigError, did_you_mean

_FOLDER = Path(__file__).parent


def names(files: tuple[str, ...] = ("run.toml",)) -> list[str]:
    """Return the names of the examples that hold one of the files, sorted."""
    found = [path for file in files for path in _FOLDER.glob(f"*/{file}")]
    return sorted(path.parent.name.replace("_", "-") for path in found)


def find(name: str, files: tuple[str, ...] = ("run.toml",)) -> Path:
    """Return the run configuration of an example: the first of `files` that it holds.

    Raises
    ------
    ConfigError
        If there is no such example.
    """
    known = names(files)
    if name not in known:
        raise ConfigError(f"unknown example '{name}'", mend=did_you_mean(name, known) or "none is installed")
    folder = _FOLDER / name.replace("-", "_")
    return next(folder / file for file in files if (folder / file).exists())


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
