"""Run what the pages of this folder show, and write its present output into them.

    python docs/refresh.py

In a page, a fenced block may be

- ``console``: lines that begin with ``$`` are commands, the lines after each are its output;
- ``python``: run in one namespace a page;
- anything, right after a line ``<!-- file: NAME -->``: a file.

All of a page run in its order in one empty folder, which is shown as
/home/you/maps. The tests do the same and compare.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

FOLDER = Path(__file__).parent
_SHOWN_FOLDER = "/home/you/maps"  # instead of the scratch folder
_BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)```\n", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its kind, the file that it is, its text, and where the text stands in the page."""

    kind: str
    file: str | None
    text: str
    span: tuple[int, int]


def pages() -> list[Path]:
    """Return all pages."""
    return sorted([*FOLDER.rglob("*.md"), *FOLDER.parent.glob("*.md")])


def blocks(text: str) -> Iterator[Block]:
    """Iterate over the fenced blocks of a page."""
    for match in _BLOCK.finditer(text):
        yield Block(match["kind"], match["file"], match["text"], match.span("text"))


def commands(console: str) -> list[str]:
    """Return the commands of a console block."""
    return [line[2:] for line in console.splitlines() if line.startswith("$ ")]


def console(block: Block, folder: Path) -> str:
    """Return a console block with the output that its commands have now."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path, "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    lines = []
    for command in commands(block.text):
        with TemporaryFile("w+") as out:  # a pipe could be kept open by what a killed shell has started
            subprocess.run(
                ["sh", "-c", command], cwd=folder, env=environment, timeout=120, stdout=out, stderr=out
            )
            out.seek(0)
            said = out.read().rstrip("\n")
        lines += [f"$ {command}", said.replace(str(folder.resolve()), _SHOWN_FOLDER)]
    return "\n".join(line for line in lines if line) + "\n"


def run_page(text: str, folder: Path) -> str:
    """Run a page in an empty folder and return it with the present output of its commands."""
    here, names = Path.cwd(), {"__name__": "__main__"}
    out, end = [], 0
    os.chdir(folder)
    try:
        for block in blocks(text):
            out += [text[end : block.span[0]], block.text]
            end = block.span[1]
            if block.file:
                Path(block.file).write_text(block.text, encoding="utf-8")
            elif block.kind == "console":
                out[-1] = console(block, folder)
            elif block.kind == "python":
                exec(compile(block.text, "snippet", "exec"), names)
    finally:
        os.chdir(here)
    return "".join([*out, text[end:]])


if __name__ == "__main__":
    chosen = [Path(name) for name in sys.argv[1:]] or pages()
    for page in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            before = page.read_text(encoding="utf-8")
            after = run_page(before, Path(scratch))
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"wrote {page}")
