"""What the source published of its machines and its runs, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from petacomm.base.toml import parse

FILE = Path(__file__).with_name("published.toml")
# Of a run: ranks of one core or of several, and the sum over ranks.
VERSIONS = ("unthreaded allreduce", "unthreaded allgather", "threaded allreduce", "threaded allgather")


@dataclass(frozen=True)
class Host:
    """How runs were laid out on a machine.

    Attributes
    ----------
    ranks_per_node : int
        With a rank a core.
    threads : int
        Cores of a rank in the threaded versions.
    cores : tuple of int
        Concurrencies, increasing.
    """

    ranks_per_node: int
    threads: int
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Ratio:
    """Costs over costs, by machine, at the most cores.

    Attributes
    ----------
    figure : int
    name, section : str
        What it is, and where in the text the numbers stand.
    of : str
        The version in the numerator.
    to : str or None
        The version in the denominator on the same machine; without it, the same version on `machine`.
    machine : str or None
    set_up : bool
        Whether the costs hold the set-up.
    values : mapping of str to float
        By machine.
    """

    figure: int
    name: str
    section: str
    of: str
    set_up: bool
    values: Mapping[str, float]
    to: str | None = None
    machine: str | None = None


@dataclass(frozen=True)
class Published:
    """The numbers of the file; tables that are read once are left as they stand there.

    Attributes
    ----------
    title : str
    study, overlaps, overall : mapping
        Tables of the file.
    hosts : mapping of str to Host
        By machine.
    sustained : mapping of str to float
        Bytes a second of a process on Franklin, by version.
    threading_factor : float
        By which the text says that threads raise it.
    ratios : tuple of Ratio
    """

    title: str
    study: Mapping[str, Any]
    overlaps: Mapping[str, Any]
    overall: Mapping[str, Any]
    hosts: Mapping[str, Host]
    sustained: Mapping[str, float]
    threading_factor: float
    ratios: tuple[Ratio, ...]

    def up_to(self, cores: int) -> Published:
        """Return the same with the concurrencies that have no more cores, or the least one."""
        hosts = {
            name: replace(host, cores=tuple(n for n in host.cores if n <= cores) or host.cores[:1])
            for name, host in self.hosts.items()
        }
        return replace(self, hosts=hosts)

    def ratio(self, figure: int, of: str, to: str | None, set_up: bool = True) -> Ratio:
        """Return one of the ratios."""
        (found,) = (r for r in self.ratios if (r.figure, r.of, r.to, r.set_up) == (figure, of, to, set_up))
        return found


@cache
def published() -> Published:
    """Return the numbers of Sudarsan et al. 2011."""
    tree, _ = parse(FILE.read_text(encoding="utf-8"), str(FILE))
    cores = tree["concurrencies"]
    hosts = {
        name: Host(host["ranks_per_node"], host["threads"], tuple(cores[host["concurrencies"]]))
        for name, host in tree["machines"].items()
    }
    return Published(
        title=tree["title"],
        study=tree["study"],
        overlaps=tree["overlaps"],
        overall=tree["overall"],
        hosts=hosts,
        sustained={version: tree["sustained"]["franklin"][version] for version in VERSIONS},
        threading_factor=tree["sustained"]["threading_factor"],
        ratios=tuple(Ratio(**row) for row in tree["ratio"]),
    )
