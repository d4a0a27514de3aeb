"""The public names: imported at first use, documented in full, with examples that run."""

import doctest
import importlib
import inspect
import json
import os
import sys
from pathlib import Path

import pytest
from commands import run_command
from numpydoc import validate

PACKAGES = ("petacomm", "petamap")
# Matters of style, which say nothing of completeness: where the text begins, sections
# See Also and Extended Summary, order and form of types, capital letters and full stops of descriptions.
ALLOWED = {
    "GL01",
    "GL02",
    "GL03",
    "ES01",
    "SA01",
    "PR06",
    "PR07",
    "PR08",
    "PR09",
    "RT02",
    "RT03",
    "RT04",
    "RT05",
    "YD01",
}
# Methods and properties of exported classes need no example of their own.
ALLOWED_OF_MEMBERS = ALLOWED | {"EX01"}


def exports():
    return [f"{package}.{name}" for package in PACKAGES for name in dir(importlib.import_module(package))]


def documented(path):
    """Yield the path of an export and those of its public methods and properties that it defines itself."""
    yield path, ALLOWED
    package, name = path.split(".")
    thing = getattr(importlib.import_module(package), name)
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_") and (
                inspect.isfunction(value) or isinstance(value, classmethod | staticmethod | property)
            ):
                yield f"{path}.{member}", ALLOWED_OF_MEMBERS


@pytest.mark.parametrize("path", exports())
def test_documentation_is_complete(path):
    faults = []
    for name, allowed in documented(path):
        found = validate.validate(name)["errors"]
        faults += [f"{name}: {code} {text}" for code, text in found if code not in allowed]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("path", exports())
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    package, name = path.split(".")
    thing = getattr(importlib.import_module(package), name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    tests = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})
    assert any(test.examples for test in tests), "no example"
    for test in tests:
        assert runner.run(test).failed == 0


def run_python(code, **environ):
    return run_command([sys.executable, "-c", code], check=True, env=os.environ | environ).stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_is_cheap(package):
    code = f"import sys, json, {package}; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.split(".")[0] for name in json.loads(run_python(code))}
    assert not loaded & {"scipy", "astropy", "mpi4py", "h5py", "ducc0", "rich", "lxml", "numpy"}


def test_petacomm_needs_numpy_alone():
    """All rooms are imported where only the standard library and NumPy can be."""
    code = """
import sys, pkgutil, importlib
allowed = set(sys.stdlib_module_names) | {"numpy", "petacomm"}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in allowed:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
import petacomm
names = [found.name for found in pkgutil.walk_packages(petacomm.__path__, "petacomm.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
    n_files = len(list(Path(importlib.import_module("petacomm").__file__).parent.rglob("*.py")))
    assert int(run_python(code)) > 0.9 * n_files


@pytest.mark.parametrize("package", PACKAGES)
def test_names_that_are_not_exported_are_errors(package):
    with pytest.raises(AttributeError, match="has no attribute 'utils'"):
        importlib.import_module(package).utils  # noqa: B018


SOURCE = Path(importlib.import_module("petacomm").__file__).parents[1]


@pytest.mark.parametrize("stub", sorted(SOURCE.rglob("__init__.pyi")), ids=lambda stub: stub.parent.name)
def test_names_imported_at_first_use_are_no_modules(stub):
    # once a module of this name is imported, it is what the package has by it
    package = ".".join(stub.parent.relative_to(SOURCE).parts)
    modules = {path.stem for path in stub.parent.iterdir()}
    assert not modules & set(dir(importlib.import_module(package)))
