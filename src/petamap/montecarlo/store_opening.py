"""Opening of the file of a Monte Carlo: new, continued, extended, and without what is damaged."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import Int64Array, UInt8Array
from petamap.data.run_summary import FILE_NAME, Summary
from petamap.montecarlo.store import DAMAGED, Store, StoreLayout, create_store

_SHOWN = 5  # damaged realizations that are named


def open_store(path: Path, layout: StoreLayout, force: bool) -> tuple[Store, str]:
    """Return the file of a layout: new, existing, or existing and extended by realizations.

    What is damaged in an existing file is made anew.

    Returns
    -------
    store : Store
    damage : str
        What was damaged, for the user; empty if nothing was.

    Raises
    ------
    ConfigError
        If there is a file of another configuration, or with realizations that are not in the layout.
    """
    old = existing_store(path, str(layout.attributes["run_id"]), layout.numbers, force)
    if old is None:
        create_store(path, layout)
        return Store(path), ""
    constants, status, computed = old.damaged_constants(), old.verified_status(), old.verified_computed()
    for name, array in layout.common.items():
        # By bytes: the header may be damaged, and name another type.
        if name in old and name not in constants and not old.has_bytes(name, array):
            raise ConfigError(
                f"was made with other {name}: the data have changed", where=str(path),
                mend="--force starts anew; or choose another --out",
            )  # fmt: skip
    damage = _damage(old, constants, status, computed)
    # A kill may come between checksum and status.
    stale = not np.array_equal(status, old.status) or computed != old.computed_status
    if not damage and not stale and np.array_equal(old.numbers, layout.numbers):
        return old, ""
    create_store(path, layout, old)
    old.close()
    return Store(path), damage


def _damage(store: Store, constants: Sequence[str], status: UInt8Array, computed: int) -> str:
    """Return what is damaged in a file, for the user; empty if nothing is."""
    rows = [str(number) for number in store.numbers[status == DAMAGED]]
    found = list(constants)
    if rows and "numbers" not in constants:  # else these are not their names
        found.append(f"{'realization' if len(rows) == 1 else 'realizations'} {_shortened(rows)}")
    if computed == DAMAGED:
        found.append("the fixed signals")
    return ", ".join(found)


def _shortened(words: list[str]) -> str:
    """Return words, or where they are many the first of them and how many more there are."""
    shown = words[:_SHOWN]
    more = f" and {len(words) - len(shown)} more" if len(words) > len(shown) else ""
    return ", ".join(shown) + more


def require_whole(path: Path) -> UInt8Array:
    """Return the status of each realization in a file of which nothing is damaged, uint8 (n,).

    Raises
    ------
    DataError
        If the file is not a Monte Carlo file, or damaged.
    """
    with Store(path, writes=False) as store:
        status = store.verified_status()
        damage = _damage(store, store.damaged_constants(), status, store.verified_computed())
    if damage:
        raise DataError(
            f"is damaged: {damage}", where=str(path),
            mend="the petamap mc that made it, called again, makes what is damaged anew",
        )  # fmt: skip
    return status


def existing_store(path: Path, run_id: str, numbers: Sequence[int] | Int64Array, force: bool) -> Store | None:
    """Return the existing file if it can be continued; None if there is none or `force` is set.

    Raises
    ------
    ConfigError
        If the file is of another configuration, or has realizations that are not in `numbers`.
    """
    if force or not path.exists():
        return None
    mend = "--force starts anew; or choose another --out"
    try:
        old = Store(path)
    except DataError as error:
        raise ConfigError(error.what, where=str(path), mend=mend) from None
    other_run = old.attributes.get("run_id") != run_id
    if (other_run or not np.isin(old.numbers, numbers).all()) and (damaged := old.damaged_constants()):
        if other_run or "numbers" not in damaged:
            raise ConfigError(f"is damaged: {', '.join(damaged)}", where=str(path), mend=mend)
        return old
    if other_run:
        raise ConfigError("is of another configuration", where=str(path), mend=mend)
    if not np.isin(old.numbers, numbers).all():
        raise ConfigError(
            f"holds realizations {old.numbers[0]} to {old.numbers[-1]}", where=str(path),
            mend="ask for these and more, or choose another --out",
        )  # fmt: skip
    return old


def require_no_other_run(path: Path) -> None:
    """Raise an error if the folder of a Monte Carlo's file has the summary of another run, to be replaced.

    Raises
    ------
    ConfigError
        If it has.
    """
    folder = path.parent
    if not (folder / FILE_NAME).exists():
        return
    is_own = path.exists()
    with suppress(DataError):  # what is damaged is written anew
        made = Summary.read(folder).montecarlo
        is_own = is_own and made is not None and made.file == path.name
    if not is_own:
        mend = "choose another --out; or --force replaces it"
        raise ConfigError("holds another run", where=str(folder), mend=mend)
