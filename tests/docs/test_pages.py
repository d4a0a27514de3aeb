"""The documentation shows what petamap does now: commands, snippets, options, links, examples."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from commands import run_command

ROOT = Path(__file__).parents[2]


def _script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


refresh = _script("refresh")
# Those whose commands take longest.
_LONG = ("planning", "filter-and-bin", "splits", "components", "templates")
LONG = {"docs/petacomm/recording.md"} | {f"docs/petamap/{name}.md" for name in _LONG}


def _page(path):
    name = str(path.relative_to(ROOT))
    return pytest.param(path, id=name, marks=[pytest.mark.long] * (name in LONG))


PAGES = [_page(path) for path in refresh.pages()]


def _words(text):
    # versions of Python break the lines of usage texts differently
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("page", PAGES)
def test_page_shows_what_happens(page, tmp_path):
    text = page.read_text(encoding="utf-8")
    found = refresh.run_page(text, tmp_path)
    assert _words(found) == _words(text), "run python docs/refresh.py"


def test_refresh_sees_a_change(tmp_path):
    page = "```console\n$ petamap --version\npetamap 0.0.0\n```\n"
    assert "petamap 0.0.0" not in refresh.run_page(page, tmp_path)


def test_a_failing_snippet_fails(tmp_path):
    with pytest.raises(AssertionError):
        refresh.run_page("```python\nassert 1 == 2\n```\n", tmp_path)


@pytest.mark.parametrize("package", ["petamap", "petacomm"])
def test_every_command_has_a_section(package):
    build_parser = importlib.import_module(f"{package}.cli.main").build_parser
    page = (ROOT / "docs" / package / "command-line.md").read_text(encoding="utf-8")
    (commands,) = (action.choices for action in build_parser()._actions if action.dest == "command")
    shown = set(re.findall(rf"^## {package} (\w+)$", page, re.MULTILINE))
    assert shown == set(commands)
    for name in commands:
        assert f"$ {package} {name} --help" in page


def test_collectives_are_drawn_as_they_are():
    made = _script("make_collectives")
    text = made.PAGE.read_text(encoding="utf-8")
    assert made.page(text) == text, "run python docs/make_collectives.py"
    for path, picture in made.pictures().items():
        assert path.read_text(encoding="utf-8") == picture, "run python docs/make_collectives.py"
        assert f"images/{path.name}" in text


def test_the_transpose_is_drawn_as_it_is():
    made = _script("make_transpose")
    assert made.IMAGE.read_text(encoding="utf-8") == made.picture(), "run python docs/make_transpose.py"


def test_options_are_current():
    page = (ROOT / "docs" / "petamap" / "options.md").read_text(encoding="utf-8")
    assert page == _script("make_options").options_page(), "run python docs/make_options.py"


def _anchor(title):
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in map(_anchor, titles), f"{page.name} links to {target}"


def test_every_page_is_reached_from_the_guide():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs")
        assert str(name) == "index.md" or f"({name})" in index


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_example_runs(script, tmp_path):
    done = run_command([sys.executable, script], cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert script.name in _mentioned(), "mention it in the guide"


def _mentioned():
    return " ".join(page.read_text(encoding="utf-8") for page in refresh.pages())
