"""Position of a node in a Cray's cabinets, which determines its routers."""

from __future__ import annotations

import re
from pathlib import Path

# XT, XE, XC: /proc/cray_xt/cname, e.g. c3-0c2s15n3: column and row of the cabinet, chassis, slot, node.
_CNAME = re.compile(r"c(\d+)-(\d+)c(\d+)s(\d+)n(\d+)")
# EX: /etc/cray/xname, e.g. x1000c3s4b1n0: cabinet, chassis, slot, board, node.
_XNAME = re.compile(r"x(\d+)c(\d+)s(\d+)b(\d+)n(\d+)")


def cray_node_path(root: Path = Path("/")) -> tuple[str, ...] | None:
    """Return the groups that contain this node, outermost first, and the node; None if it is not a Cray.

    On an XC two neighbouring cabinets of a row are one group of its dragonfly, all routers of a chassis are
    linked with each other, and the nodes of a slot share one router; these are the levels. On an EX they are
    cabinet, chassis, slot, board.
    """
    cname = _CNAME.fullmatch(_read_word(root / "proc/cray_xt/cname"))
    if cname:
        column, row, chassis, slot, node = cname.groups()
        return f"row {row} pair {int(column) // 2}", f"c{column}-{row}c{chassis}", f"s{slot}", f"n{node}"
    xname = _XNAME.fullmatch(_read_word(root / "etc/cray/xname"))
    if xname:
        return tuple(letter + number for letter, number in zip("xcsbn", xname.groups(), strict=True))
    return None


def _read_word(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
