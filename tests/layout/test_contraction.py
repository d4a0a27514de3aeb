"""The kernels hold no fused multiply-add, which would round differently from one machine to the next."""

import importlib
import re
import shutil
import subprocess

import pytest

ROOMS = ["base", "comm", "mapmaking", "pointing", "simulation", "sky"]


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_is_contracted(room):
    objdump = shutil.which("objdump")
    if objdump is None:
        pytest.skip("there is no objdump")
    module = importlib.import_module(f"petamap.{room}._{room}")
    text = subprocess.run([objdump, "-d", module.__file__], capture_output=True, text=True, check=True).stdout
    assert len(text) > 100_000
    fused = re.findall(r"\b(?:vfn?m(?:add|sub)\w*|fn?m(?:add|sub|la|ls)\b)", text)
    assert not fused
