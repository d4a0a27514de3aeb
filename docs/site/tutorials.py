"""Run the tutorials of docs/tutorials as notebooks: python docs/site/tutorials.py [NAME ...]"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import jupytext
from nbconvert import MarkdownExporter
from nbconvert.preprocessors import ExecutePreprocessor

SOURCES = Path(__file__).parents[1] / "tutorials"


def executed_tutorials(folder: Path, names: list[str] | None = None) -> list[dict[str, str]]:
    """Run tutorials, write each to a folder as page, pictures and notebook; return titles and pages.

    A tutorial that fails ends in its own error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for source in sorted(SOURCES.glob("*.py")):
        if names and source.stem not in names:
            continue
        notebook = jupytext.read(source)
        with tempfile.TemporaryDirectory() as place:
            kernel = ExecutePreprocessor(
                timeout=600, kernel_name="python3", extra_arguments=["--log-level=ERROR"]
            )
            kernel.preprocess(notebook, {"metadata": {"path": place}})
        jupytext.write(notebook, folder / f"{source.stem}.ipynb")
        body, resources = MarkdownExporter().from_notebook_node(
            notebook, {"output_files_dir": source.stem, "unique_key": source.stem}
        )
        (folder / f"{source.stem}.md").write_text(
            body + f"\n---\n\nThis page is a notebook: [{source.stem}.ipynb]({source.stem}.ipynb).\n",
            encoding="utf-8",
        )
        for name, content in resources["outputs"].items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        entries.append({body.lstrip().splitlines()[0].removeprefix("# "): f"tutorials/{source.stem}.md"})
        print(f"ran {source.name}", flush=True)
    return entries


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        executed_tutorials(Path(scratch), sys.argv[1:])
