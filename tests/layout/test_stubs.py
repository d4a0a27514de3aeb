"""The stubs of the extension modules are those of the bindings as they are compiled."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bindings" / "make_stubs.py"


def make_stubs():
    spec = importlib.util.spec_from_file_location("make_stubs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_stubs"] = module
    spec.loader.exec_module(module)
    return module


stubs = make_stubs()


@pytest.mark.parametrize("module", stubs.extension_modules())
def test_stub_is_current(module):
    assert stubs.stub_path(module).read_text(encoding="utf-8") == stubs.stub(module), "run make stubs"
