"""Position of a node in a Cray's cabinets, which determines its routers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

# XT, XE, XC: /proc/cray_xt/cname, e.g. c3-0c2s15n3: column and row of the cabinet, chassis, slot, node.
_CNAME = re.compile(r"c(\d+)-(\d+)c(\d+)s(\d+)n(\d+)")
# EX: /etc/cray/xname, or the host, e.g. x1000c3s4b1n0: cabinet, chassis, slot, board, node.
_XNAME = re.compile(r"x(\d{1,6})c(\d{1,6})s(\d{1,6})b(\d{1,6})n(\d{1,6})")


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
    return cray_host_path(_read_word(root / "etc/cray/xname"))


def cray_host_path(host: str) -> tuple[str, ...] | None:
    """Return the groups that contain a host whose name is its place, as above; None if it is not.

    Hosts of Polaris and Aurora are named so, e.g. ``x3005c0s37b1n0.hsn.cm.polaris.alcf.anl.gov``; in the
    racks of Polaris the slot is the height in the rack.
    """
    xname = _XNAME.fullmatch(host.split(".")[0])
    if xname is None:
        return None
    return tuple(letter + number for letter, number in zip("xcsbn", xname.groups(), strict=True))


def host_paths(hosts: Sequence[str]) -> tuple[list[tuple[str, ...]], str]:
    """Return the place of each host, by their names or else all under one switch, and which of them it is."""
    paths = [path for path in map(cray_host_path, hosts) if path is not None]
    if len(paths) == len(hosts):
        return paths, "places by names of hosts"
    return [("switch", host) for host in hosts], "one switch assumed"


def _read_word(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
