"""Text and JSON of recordings: sums by call, group, phase, size and distance, and the matrix in shades."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.text import format_bytes, table_lines
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.recording.collective_messages import CollectiveKey, default_algorithm
from petacomm.recording.recording import CALLS, Recording

_SIDE = 32  # characters of the picture, at most, twice that across
_SHADES = " .:-=+*#%@"
_NEAR = 4  # distances of ranks that have lines of their own


def recording_table(recording: Recording, algorithms: Mapping[str, str] | None = None) -> str:
    """Return a recording as text tables.

    Parameters
    ----------
    recording : Recording
    algorithms : mapping of str to str, optional
        As for `Recording.messages`.
    """
    rows = recording.messages(algorithms)
    tables = recording_tables(recording, rows, algorithms or {})
    pairs = len(np.unique(_pairs(rows[rows["source"] != rows["target"]], recording.n_ranks)))
    lines = [
        f"{recording.n_ranks:,} rank{'s' * (recording.n_ranks > 1)}, {recording.library}",
        f"{int(rows['messages'].sum()):,} messages of {format_bytes(float(rows['bytes'].sum()))} between "
        f"{pairs:,} pairs of ranks",
    ]
    for head, body in tables.items():
        if len(body) > (head in ("communicator", "phase")):  # of which one alone is not told
            cells = [[str(row.pop("name")), *map(_cell, row.items())] for row in map(dict, body)]
            names = [head, *(name for name in body[0] if name != "name")]
            lines += ["", *table_lines([names, *cells])]
    lines += ["", "bytes from rank (row) to rank (column)", "", *picture(rows, recording.n_ranks)]
    return "\n".join(lines)


def recording_json(recording: Recording, algorithms: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a recording as JSON data, in bytes."""
    rows = recording.messages(algorithms)
    return {
        "ranks": recording.n_ranks,
        "library": recording.library,
        "messages": int(rows["messages"].sum()),
        "bytes": int(rows["bytes"].sum()),
        "outside": {"messages": recording.outside[0], "bytes": recording.outside[1]},
        **{f"by {name}": body for name, body in recording_tables(recording, rows, algorithms or {}).items()},
    }


def recording_tables(
    recording: Recording, rows: npt.NDArray[Any], algorithms: Mapping[str, str]
) -> dict[str, list[dict[str, Any]]]:
    """Return sums of messages by what they have in common, a table for each: lists of rows with names."""
    distance = np.abs(rows["source"].astype(np.int64) - rows["target"])
    group_name = [
        f"{group.name or 'ranks'} ({group.size}{', inter' * group.inter})" for group in recording.groups
    ]
    return {
        "call": list(_call_rows(recording, rows, algorithms)),
        "communicator": list(_sums(rows, rows["group"], lambda group: group_name[group])),
        "phase": list(_sums(rows, rows["phase"], str)),
        "size": list(_sums(rows, rows["size_class"], _size_name)),
        "distance": list(_sums(rows, _distance_class(distance), _distance_name)),
    }


def _call_rows(
    recording: Recording, rows: npt.NDArray[Any], algorithms: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for number, call in enumerate(CALLS):
        mine = rows[rows["call"] == number]
        made = recording.collectives[recording.collectives["call"] == number]
        if not len(mine) and not len(made):
            continue
        names = {algorithms.get(call) or default_algorithm(key) for key in _keys(recording, call, made)}
        yield {
            "name": call,
            "calls": int(made["calls"].sum()) if len(made) else None,
            "messages": int(mine["messages"].sum()),
            "bytes": int(mine["bytes"].sum()),
            "by": ", ".join(sorted(names)),
        }


def _keys(recording: Recording, call: str, made: npt.NDArray[Any]) -> Iterator[CollectiveKey]:
    for row in made:
        group = recording.groups[row["group"]]
        if not group.inter and len(group.ranks) > 1:
            root, size, item = int(row["root"]), int(row["size"]), int(row["item"])
            yield CollectiveKey(call, len(group.ranks), root, size, item)


def _sums(rows: npt.NDArray[Any], by: npt.NDArray[Any], name_of: Any) -> Iterator[dict[str, Any]]:
    """Iterate over sums of rows with one number each, in the order of the numbers."""
    for number in np.unique(by):
        mine = rows[by == number]
        yield {
            "name": name_of(int(number)),
            "messages": int(mine["messages"].sum()),
            "bytes": int(mine["bytes"].sum()),
        }


def _size_name(size_class: int) -> str:
    if size_class < 2:
        return f"{size_class} B"
    return f"{2 ** (size_class - 1):,} to {2**size_class - 1:,} B"


def _distance_class(distance: Int64Array) -> Int64Array:
    """Return classes of distances: each of its own, or those up to a power of two."""
    bits = np.frexp(np.maximum(distance - 1, 0).astype(np.float64))[1]
    return np.where(distance <= _NEAR, distance, bits + _NEAR).astype(np.int64)


def _distance_name(number: int) -> str:
    if number <= _NEAR:
        return str(number) if number else "0 (itself)"
    bits = number - _NEAR
    return f"{2 ** (bits - 1) + 1:,} to {2**bits:,}"


def _cell(item: tuple[str, Any]) -> str:
    name, value = item
    if value is None:
        return ""
    if name == "bytes":
        return format_bytes(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _pairs(rows: npt.NDArray[Any], n_ranks: int) -> Int64Array:
    return np.asarray(rows["source"].astype(np.int64) * n_ranks + rows["target"])


def picture(rows: npt.NDArray[Any], n_ranks: int) -> list[str]:
    """Return lines that show the matrix of bytes, or of blocks of ranks, in shades on a logarithmic scale."""
    side = min(n_ranks, _SIDE)
    sums: FloatArray = np.zeros((side, side))
    ends = [rows[name].astype(np.int64) * side // n_ranks for name in ("source", "target")]
    np.add.at(sums, tuple(ends), rows["bytes"].astype(np.float64))
    sent = sums > 0
    if not sent.any():
        return ["no bytes were sent"]
    least, most = float(sums[sent].min()), float(sums.max())
    span = np.log(most / least) or 1.0
    with np.errstate(divide="ignore"):
        level = np.where(sent, 1 + (len(_SHADES) - 2) * np.log(sums / least) / span, 0)
    if most == least:
        level = np.where(sent, len(_SHADES) - 1, 0)
    lines = ["|" + "".join(_SHADES[round(one)] * 2 for one in row) + "|" for row in level]
    block = f", {n_ranks / side:.3g} ranks a block" if side < n_ranks else ""
    scale = f"{_SHADES[-1]} {format_bytes(most)}"
    if least < most:
        scale = f"{_SHADES[1]} {format_bytes(least)}  to  {scale}"
    return [*lines, "", f"{scale}{block}"]
