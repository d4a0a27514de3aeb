"""The kernels hold no fused multiply-add, which would round differently from one machine to the next."""

import importlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = [
    f"{file.parent.name}.{file.stem}._{file.stem}" for file in sorted((ROOT / "bindings").glob("*/*.cpp"))
]


@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_contracted(name):
    objdump = shutil.which("objdump")
    if objdump is None:
        pytest.skip("there is no objdump")
    module = importlib.import_module(name)
    text = subprocess.run([objdump, "-d", module.__file__], capture_output=True, text=True, check=True).stdout
    assert len(text) > 10_000
    fused = re.findall(r"\b(?:vfn?m(?:add|sub)\w*|fn?m(?:add|sub|la|ls)\b)", text)
    assert not fused
