"""The products of a run as one: made aside where they replace those of an earlier run, then put in place."""

from __future__ import annotations

import shutil
from pathlib import Path

from petacomm.base.errors import DataError
from petacomm.base.files import sync_folder, write_errors
from petacomm.base.stop_request import StopRequest
from petamap.data.config import RunConfig
from petamap.data.run_summary import FILE_NAME, Summary
from petamap.mapmaking.checkpoint import JobCheckpoints
from petamap.mapmaking.setup import run_digest

_REPORT = "report.html"
_REPLACED = "replaced"  # where the summary of the earlier run is kept until its files are removed
_MEND = "the same command with --resume puts the rest in place"


def finished_run(config: RunConfig, out: Path) -> Summary | None:
    """Return the summary of a folder if it is that of this run, finished; else None."""
    if not (out / FILE_NAME).exists() or checkpoint_folder(config, out).exists():
        return None
    found = Summary.read(out)
    there = all((out / product.file).exists() for product in found.products)
    return found if found.run_id == run_digest(config) and there else None


def complete_replacement(config: RunConfig, out: Path) -> None:
    """Put the products of this run in place, if it has made all and was killed before that was done."""
    made = JobCheckpoints(checkpoint_folder(config, out), run_digest(config), 0.0, StopRequest({}), "")
    if made.all_made:
        put_in_place(made.products, out)
        made.remove()


def checkpoint_folder(config: RunConfig, out: Path) -> Path:
    """Return the folder that a run in progress or interrupted may have."""
    return out / f"{config.run.name}.checkpoint"


def put_in_place(made: Path, out: Path, mend: str = _MEND) -> None:
    """Put the products of a finished run in the place of those of an earlier one, and remove its folder.

    At any moment the summary in `out` is that of all that is there: it goes first and comes last. Called
    again after it was cut short, this goes on.

    Parameters
    ----------
    made : Path
        Folder of the new products, on the same file system.
    out : Path
        Folder of the earlier run. Files that its summary does not name stay, but for the report.
    mend : str
        What the user can do if files cannot be moved.

    Raises
    ------
    ResourceError
        If a file cannot be moved.
    """
    replaced = made / _REPLACED
    moved = {path.name for path in made.iterdir()} - {_REPLACED, FILE_NAME}
    with write_errors(out, mend):
        replaced.mkdir(exist_ok=True)
        if (out / FILE_NAME).exists():
            (out / FILE_NAME).replace(replaced / FILE_NAME)
        sync_folder(out)
        for name in sorted({_REPORT, *_products_of(replaced)} - _products_of(made) - moved):
            (out / name).unlink(missing_ok=True)
        sync_folder(out)
        for name in sorted(moved):
            (made / name).replace(out / name)
        sync_folder(out)
        (made / FILE_NAME).replace(out / FILE_NAME)
        sync_folder(out)
    shutil.rmtree(made, ignore_errors=True)


def _products_of(folder: Path) -> set[str]:
    """Return the names of the products of a run by the summary in a folder, as far as it can be read."""
    try:
        products = Summary.read(folder).products
    except DataError:
        return set()
    return {one.file for one in products if Path(one.file).name == one.file}
