"""Write the type stubs of the extension modules beside them, from the bindings as they are compiled.

python bindings/make_stubs.py
"""

import importlib
import subprocess
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

ROOT = Path(__file__).parents[1]


def extension_modules() -> list[str]:
    """Return the names of all extension modules: bindings/a/b.cpp makes a.b._b."""
    files = sorted((ROOT / "bindings").glob("*/*.cpp"))
    return [f"{file.parent.name}.{file.stem}._{file.stem}" for file in files]


def stub_path(module: str) -> Path:
    """Return where the stub of a module stands."""
    return ROOT / "src" / (module.replace(".", "/") + ".pyi")


def stub(module: str) -> str:
    """Return the stub of a module, formatted."""
    generator = StubGen(importlib.import_module(module))
    generator.put(generator.module)
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", f"{module}.pyi", "-"]
    return subprocess.run(
        command, input=generator.get(), capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


if __name__ == "__main__":
    for name in extension_modules():
        stub_path(name).write_text(stub(name), encoding="utf-8")
        print(f"wrote {stub_path(name)}")
