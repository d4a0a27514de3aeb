"""Lazy exports: public names of a package that are imported at first use."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_exports(package: str, stub: Path) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package from its stub.

    The stub, ``__init__.pyi``, alone names the exports, in ``from module import name as name``
    lines; type checkers read it too.

    Parameters
    ----------
    package : str
        Name of the package.
    stub : Path
        Its ``__init__.pyi``.
    """
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    modules = {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module, original = modules[name]
        return getattr(import_module(module), original)

    return get, lambda: sorted(modules), sorted(modules)
