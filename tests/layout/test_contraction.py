"""Machine code: no fused multiply-adds, which would round differently, and no register that a set lacks."""

import re
import shutil
from pathlib import Path

import pytest
from commands import run_command

import petacomm
import petamap
from petacomm.base.instruction_set import built_sets

ROOT = Path(__file__).parents[2]
WIDE = {"v2": r"%[yz]mm", "v3": r"%zmm"}  # registers that a set lacks
# Headers of vectors, which are passed otherwise and in other registers where the set is another.
VECTORS = {"petacomm/base/simd.h", "petacomm/base/columns.h"}


def extension_modules():
    """Return the paths of all extension modules and the set that each is for."""
    found = []
    for package in (petacomm, petamap):
        for folder in map(Path, package.__path__):
            found += [(file, built_sets()[0]) for file in folder.glob("*/_*.so")]
            found += [(file, name) for name in built_sets() for file in folder.glob(f"*/{name}/_*.so")]
    return sorted(found)


MODULES = extension_modules()


def test_all_rooms_have_modules():
    sources = sorted((ROOT / "bindings").glob("*/*.cpp"))
    of_petamap = sum(source.parent.name == "petamap" for source in sources)
    assert len(MODULES) == len(sources) + of_petamap * (len(built_sets()) - 1)


@pytest.mark.parametrize(("file", "name"), MODULES, ids=lambda value: getattr(value, "stem", value))
def test_nothing_is_contracted_and_registers_are_there(file, name):
    objdump = shutil.which("objdump")
    if objdump is None:
        pytest.skip("there is no objdump")
    text = run_command([objdump, "-d", file], check=True).stdout
    assert len(text) > 10_000
    assert not re.findall(r"\b(?:vfn?m(?:add|sub)\w*|fn?m(?:add|sub|la|ls)\b)", text)
    assert not re.findall(WIDE.get(name, "%never"), text)


@pytest.mark.parametrize(("file", "name"), MODULES, ids=lambda value: getattr(value, "stem", value))
def test_no_vector_functions_of_the_c_library(file, name):
    assert b"_ZGV" not in file.read_bytes()  # how their names begin; sets have their own, with other bits


def included(file, seen):
    for name in re.findall(r'^#include "(.*)"', file.read_text(encoding="utf-8"), flags=re.MULTILINE):
        path = next(p for p in (file.parent / name, ROOT / "cpp" / name) if p.exists()).resolve()
        if path not in seen:
            seen.add(path)
            included(path, seen)
    return seen


@pytest.mark.parametrize("source", sorted((ROOT / "bindings").glob("*/*.cpp")), ids=lambda path: path.stem)
def test_bindings_know_no_vectors(source):
    """They are compiled once, and linked to the kernels of each set."""
    headers = {str(path).partition("/cpp/")[2] for path in included(source, set())}
    assert any(headers)
    assert not headers & VECTORS
