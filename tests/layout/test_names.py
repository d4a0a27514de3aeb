"""The layout: each public name once, files and functions of readable size, rooms that say what is in them."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MOST_LINES, MOST_LINES_OF_A_FUNCTION, MOST_FILES_OF_A_NAME = 500, 60, 3
# Names that several modules define, because something calls them by that name.
SHARED_NAMES = {
    "add_commands": "each module of a command line adds its commands by it",
    "build_parser": "the parsers of the two commands, which tests and pages look up",
    "main": "the entry points of the two commands",
}
# File names that stand for the same thing in every room or format.
SHARED_FILES = {"__init__.py"}


def trees():
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES]


def test_each_public_name_is_defined_once():
    places = defaultdict(list)
    for path, tree in trees():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                if any(getattr(one, "id", "") == "overload" for one in node.decorator_list):
                    continue
                places[node.name].append(str(path.relative_to(ROOT / "src")))
    several = {name: where for name, where in places.items() if len(where) > 1}
    assert set(several) <= set(SHARED_NAMES), several
    assert set(SHARED_NAMES) <= set(several), "an exception that is none"


def test_no_file_name_stands_for_many_things():
    counts = Counter(path.name for path in SOURCES)
    many = {name: n for name, n in counts.items() if n > MOST_FILES_OF_A_NAME and name not in SHARED_FILES}
    assert not many


def test_files_and_functions_are_short():
    long = []
    for path, tree in trees():
        n = len(path.read_text(encoding="utf-8").splitlines())
        if n > MOST_LINES:
            long.append((path.name, n))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                n = node.end_lineno - node.lineno + 1 - docstring_lines(node)
                if n > MOST_LINES_OF_A_FUNCTION:
                    long.append((f"{path.name}:{node.name}", n))
    assert not long


def docstring_lines(node):
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return first.end_lineno - first.lineno + 1 if is_text and isinstance(first.value.value, str) else 0


@pytest.mark.parametrize("package", ["petacomm", "petamap"])
def test_each_room_says_what_is_in_it_and_what_it_must_not_import(package):
    rooms = [path.parent for path in (ROOT / "src" / package).glob("*/__init__.py")]
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for room in rooms:
        docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
        assert docstring and "Must not import" in docstring, room
        assert f"{room.name}/" in text, f"ARCHITECTURE.md does not name {package}.{room.name}"
