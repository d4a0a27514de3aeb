"""Build the documentation as a site that opens from a disk: python docs/site/build.py

The pages are those of the repository, in the same folders, so that their links hold. Pages of public names
are made of their docstrings, and tutorials of docs/tutorials are run. The build fails where a link leads
nowhere, a public name has no page, or something would come from the network.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from site_checks import broken_links, failed_searches
from tutorials import executed_tutorials

ROOT = Path(__file__).parents[2]
PAGES, SITE = ROOT / "build" / "site-pages", ROOT / "site"
PACKAGES = ("petamap", "petacomm")
_LINK = re.compile(r"(?<!!)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)|!\[[^\]]*\]\(([^)\s]+)\)")


def copied_pages() -> None:
    """Copy all pages, and the files that they link to, into PAGES."""
    shutil.rmtree(PAGES, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.split():
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        for match in _LINK.finditer(text):
            target = (page.parent / (match[1] or match[3])).resolve()
            if target.is_file() and target.suffix != ".md":
                copied(target)
        written(name, text)


def made_folder(path: Path) -> Path:
    """Make a folder and return it."""
    path.mkdir(parents=True, exist_ok=True)
    return path


def copied(path: Path) -> None:
    """Copy a file to its place in PAGES."""
    target = PAGES / path.relative_to(ROOT)
    made_folder(target.parent)
    shutil.copyfile(path, target)


def written(name: str, text: str) -> None:
    """Write a page of PAGES."""
    target = PAGES / name
    made_folder(target.parent)
    target.write_text(text, encoding="utf-8")


def public_names(package: str) -> list[str]:
    """Return the public names of a package."""
    return sorted(name for name in dir(importlib.import_module(package)) if not name.startswith("_"))


def reference_pages(package: str) -> list[dict[str, str]]:
    """Write a page for each public name and one of them all; return their entries of the navigation."""
    entries, lines = [], [f"# Reference of {package}\n", "| name | what it is |", "|---|---|"]
    module = importlib.import_module(package)
    for name in public_names(package):
        thing = getattr(module, name)
        first = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
        path = f"{thing.__module__}.{thing.__qualname__}"
        # the errors of petacomm are petamap's too: links in docstrings lead to the first
        again = "" if path.startswith(f"{package}.") else "    options:\n      skip_local_inventory: true\n"
        title = f"# {package}.{name} {{ #{package}.{name} }}"
        written(f"reference/{package}/{name}.md", f"{title}\n\n::: {path}\n{again}")
        lines.append(f"| [`{name}`]({name}.md) | {first} |")
        entries.append({name: f"reference/{package}/{name}.md"})
    written(f"reference/{package}/index.md", "\n".join(lines) + "\n")
    return [{"All names": f"reference/{package}/index.md"}, *entries]


def interop_names() -> dict[str, str]:
    """Return the public names of petamap.interop, and what they are, without an import of peers."""
    found = {}
    for path in sorted((ROOT / "src" / "petamap" / "interop").glob("[a-z]*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                first = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
                found[f"petamap.interop.{path.stem}.{node.name}"] = first
    return found


def interop_pages() -> list[dict[str, str]]:
    """Write a page for each name of petamap.interop; return their entries of the navigation."""
    lines = ["# Reference of petamap.interop\n", "| name | what it is |", "|---|---|"]
    entries = []
    for path, first in interop_names().items():
        name = path.removeprefix("petamap.interop.")
        written(f"reference/petamap.interop/{name}.md", f"# {name}\n\n::: {path}\n")
        lines.append(f"| [`{name}`]({name}.md) | {first} |")
        entries.append({name: f"reference/petamap.interop/{name}.md"})
    written("reference/petamap.interop/index.md", "\n".join(lines) + "\n")
    return [{"All names": "reference/petamap.interop/index.md"}, *entries]


def guide_entries(heading: str) -> list[dict[str, str]]:
    """Return the numbered pages of a section of docs/index.md, in order."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}")[1].split("\n## ")[0]
    found = re.findall(r"^\d+\. .*?\[([^\]]+)\]\(([^)#]+)\)", section, flags=re.M)
    return [{title: f"docs/{path}"} for title, path in found]


def navigation(tutorials: list[dict[str, str]], reference: dict[str, list[dict[str, str]]]) -> list[object]:
    """Return the navigation: the guide in its own order, tutorials, reference."""
    return [
        {"Home": "README.md"},
        {"Tutorials": tutorials},
        {"petamap": [{"Guide": "docs/index.md"}, *guide_entries("petamap, in")]},
        {"petacomm": guide_entries("petacomm, from")},
        {"How to, and questions": [
            {"How to": "docs/how-to.md"}, {"Questions": "docs/faq.md"},
            {"Coming from other codes": "docs/petamap/peers.md"}, {"Conventions": "docs/conventions.md"},
            {"Glossary": "docs/glossary.md"}, {"Options": "docs/petamap/options.md"},
            {"Commands of petamap": "docs/petamap/command-line.md"},
            {"Commands of petacomm": "docs/petacomm/command-line.md"},
            {"Errors": "docs/petamap/errors.md"},
        ]},
        {"Reference": [{package: pages} for package, pages in reference.items()]},
        {"Project": [
            {"Changes": "CHANGELOG.md"}, {"Architecture": "ARCHITECTURE.md"},
            {"Contributing": "CONTRIBUTING.md"}, {"For developers": "docs/development.md"},
            {"The same bits": "docs/same-bits.md"}, {"Under faults": "docs/reliability.md"},
            {"Benchmarks": "benchmarks/README.md"},
        ]},
    ]  # fmt: skip


def check_site() -> None:
    """Raise SystemExit if a name has no page, a link or search finds nothing, or a page needs the network."""
    faults = [*broken_links(SITE), *failed_searches(SITE)]
    for package in PACKAGES:
        for name in public_names(package):
            page = SITE / "reference" / package / f"{name}.html"
            text = page.read_text(encoding="utf-8") if page.exists() else ""
            if f'id="{package}.{name}"' not in text or "doc-contents" not in text:
                faults.append(f"{package}.{name} has no page")
    for path in interop_names():
        page = SITE / "reference" / "petamap.interop" / f"{path.removeprefix('petamap.interop.')}.html"
        if not page.exists() or "doc-contents" not in page.read_text(encoding="utf-8"):
            faults.append(f"{path} has no page")
    for page in SITE.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="(https?:[^"]*)', text)
        loaded += re.findall(
            r'<link(?=[^>]*rel="(?:stylesheet|preconnect|icon)")[^>]*href="(https?:[^"]*)', text
        )
        faults += [f"{page.relative_to(SITE)} loads {url}" for url in loaded]
    if faults:
        raise SystemExit("\n".join(faults))


def main() -> None:
    """Build the site and check it."""
    copied_pages()
    tutorials = executed_tutorials(PAGES / "tutorials")
    reference = {package: reference_pages(package) for package in PACKAGES}
    reference["petamap.interop"] = interop_pages()
    shim = Path(__file__).with_name("iframe-worker.js")
    shutil.copyfile(shim, made_folder(PAGES / "assets") / shim.name)
    base = Path(__file__).with_name("mkdocs.yml")
    # inherited, so that the file keeps its tags
    settings = {"INHERIT": os.path.relpath(base, PAGES.parent), "nav": navigation(tutorials, reference),
                "docs_dir": str(PAGES), "site_dir": str(SITE)}  # fmt: skip
    config = PAGES.parent / "mkdocs.yml"
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    if subprocess.run(command, check=False, env=quiet).returncode:
        raise SystemExit("the site was not built")
    check_site()
    print(f"open {SITE / 'index.html'}")


if __name__ == "__main__":
    main()
