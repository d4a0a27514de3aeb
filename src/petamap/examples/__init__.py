"""Configurations and data of the examples in the package.

An example is a folder with ``run.toml``, its data, their licence and their provenance. The name of the
example is that of the folder, with ``-`` instead of ``_``. An example that is too large to run has
``plan.toml`` instead.

Must not import: any other room of petamap except petamap.sky.
"""

from __future__ import annotations

from pathlib import Path

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.toml import parse_toml

_FOLDER = Path(__file__).parent
# Files of configurations to run and, preferred, to plan with.
TO_RUN, TO_PLAN = ("run.toml",), ("plan.toml", "run.toml")


def example_names(files: tuple[str, ...] = TO_RUN) -> list[str]:
    """Return the sorted names of the examples that have one of `files`."""
    paths = [path for file in files for path in _FOLDER.glob(f"*/{file}")]
    return sorted(path.parent.name.replace("_", "-") for path in paths)


def find_example(name: str, files: tuple[str, ...] = TO_RUN) -> Path:
    """Return the path of the configuration of an example: the first of `files` that exists.

    Raises
    ------
    ConfigError
        If there is no such example.
    """
    known = example_names(files)
    if name not in known:
        raise ConfigError(f"unknown example '{name}'", mend=did_you_mean(name, known) or "none is installed")
    folder = _FOLDER / name.replace("-", "_")
    return next(folder / file for file in files if (folder / file).exists())


def example_title(name: str) -> str:
    """Return the title in the run configuration of an example, or ''."""
    path = find_example(name, TO_PLAN)
    table, _ = parse_toml(path.read_text(encoding="utf-8"), str(path))
    return str(table.get("run", {}).get("title", ""))
