"""Layout of a node (packages, NUMA domains, cores), from hwloc's XML or the operating system."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.files import require_file
from petacomm.base.typing import Int64Array

_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


@dataclass(frozen=True, eq=False)
class NodeLayout:
    """The cores of a node, in logical order: package by package.

    Attributes
    ----------
    package : int64 (n_cores,)
        Package of each core, counted from 0.
    numa : int64 (n_cores,)
        NUMA domain of each core, as numbered by the operating system.
    processors : tuple of tuple of int
        Hardware threads of each core, as numbered by the operating system.
    source : str
    """

    package: Int64Array
    numa: Int64Array
    processors: tuple[tuple[int, ...], ...]
    source: str

    @property
    def n_cores(self) -> int:
        """Number of cores of the node."""
        return len(self.processors)

    def core_of(self, processor: int) -> int:
        """Return the core of a hardware thread, as numbered by the operating system; -1 if there is none."""
        return next((core for core, threads in enumerate(self.processors) if processor in threads), -1)

    def package_slot(self, core: int) -> tuple[int, int]:
        """Return the package of a core and its number in it, as in ``slot=1:0`` of a rank file."""
        before = np.count_nonzero(self.package[:core] == self.package[core])
        return int(self.package[core]), int(before)


def read_hwloc(path: Path) -> NodeLayout:
    """Read the layout of a node from the XML that hwloc's ``lstopo --of xml`` writes.

    Raises
    ------
    ConfigError
        If it cannot be read or is not hwloc's XML.
    """
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(require_file(path).read_bytes(), parser)
    except (OSError, etree.XMLSyntaxError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.msg
        raise ConfigError(f"cannot be read: {reason}", where=str(path)) from None
    if root.tag != "topology":
        raise ConfigError(
            f"is not hwloc's XML: its root is <{root.tag}>", where=str(path), mend="lstopo --of xml"
        )
    packages: dict[int, int] = {}
    rows: list[tuple[int, int, tuple[int, ...]]] = []
    # Some virtual machines report processing units without cores.
    kind = "Core" if root.find(".//object[@type='Core']") is not None else "PU"
    for core in root.iter("object"):
        if core.get("type") == kind:
            above = [up for up in core.iterancestors("object") if up.get("type") in ("Package", "Socket")]
            package = packages.setdefault(id(above[0]) if above else 0, len(packages))
            rows.append((package, _lowest_bit(core.get("nodeset")), _processing_units(core)))
    if not rows:
        raise ConfigError("has no cores", where=str(path), mend="lstopo --of xml")
    return _layout(rows, f"hwloc's {path.name}")


def _processing_units(core: Any) -> tuple[int, ...]:
    units = [unit for unit in core.iter("object") if unit.get("type") == "PU"]
    return tuple(int(text) for unit in units if (text := unit.get("os_index", "")).isdecimal())


def _lowest_bit(mask: str | None) -> int:
    """Return the lowest bit of a mask such as ``0x00000002`` or ``0x1,0x00000000``; 0 if it is empty."""
    value = 0
    for word in (mask or "").split(","):
        value = value << 32 | (int(word, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", word) else 0)
    return (value & -value).bit_length() - 1 if value else 0


def read_sysfs(root: Path = Path("/")) -> NodeLayout:
    """Return the layout of this node from Linux's ``/sys``; without it, one package of all processors."""
    rows: dict[tuple[int, int], list[int]] = {}
    folder = root / "sys/devices/system"
    for path in folder.glob("cpu/cpu[0-9]*"):
        try:
            package = int((path / "topology/physical_package_id").read_text())
            core = int((path / "topology/core_id").read_text())
        except (OSError, ValueError):
            continue
        rows.setdefault((package, core), []).append(int(path.name[3:]))
    if not rows:
        count = os.cpu_count() or 1
        return _layout([(0, 0, (cpu,)) for cpu in range(count)], "the operating system")
    numa = _numa_domains(folder)
    packages = {name: index for index, name in enumerate(sorted({package for package, _ in rows}))}
    ordered = sorted(
        (packages[package], min(cpus), tuple(sorted(cpus))) for (package, _), cpus in rows.items()
    )
    return _layout([(p, numa.get(first, 0), cpus) for p, first, cpus in ordered], "the operating system")


def _numa_domains(folder: Path) -> dict[int, int]:
    """Return the NUMA domain of each processor."""
    domains: dict[int, int] = {}
    for path in folder.glob("node/node[0-9]*/cpulist"):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        for item in text.split(",") if _LIST.fullmatch(text) else []:
            first, _, last = item.partition("-")
            cpus = range(int(first), int(last or first) + 1)
            domains.update(dict.fromkeys(cpus, int(path.parent.name[4:])))
    return domains


def _layout(rows: Sequence[tuple[int, int, tuple[int, ...]]], source: str) -> NodeLayout:
    package, numa, processors = zip(*rows, strict=True)
    return NodeLayout(np.array(package, np.int64), np.array(numa, np.int64), tuple(processors), source)
