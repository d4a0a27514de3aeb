"""Published numbers of the machines and runs of Sudarsan et al. 2011, read from ``published.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from petacomm.base.toml import parse_toml

PUBLISHED_FILE = Path(__file__).with_name("published.toml")
# Versions of a run: ranks of one core or of several (threaded), and the collective of the reduction.
VERSIONS = ("unthreaded allreduce", "unthreaded allgather", "threaded allreduce", "threaded allgather")


@dataclass(frozen=True)
class MachineRuns:
    """Runs on a machine.

    Attributes
    ----------
    ranks_per_node : int
        Ranks per node of the unthreaded versions.
    threads : int
        Cores of a rank in the threaded versions.
    cores : tuple of int
        Numbers of cores of the runs, increasing.
    """

    ranks_per_node: int
    threads: int
    cores: tuple[int, ...]


@dataclass(frozen=True)
class CostRatio:
    """Ratios of communication costs at the largest number of cores, by machine.

    Attributes
    ----------
    figure : int
    name, section : str
        Description, and section of the paper with the numbers.
    numerator : str
        Version of the numerator.
    denominator : str or None
        Version of the denominator, on the same machine. None: the version of the numerator on `machine`.
    machine : str or None
    set_up : bool
        Whether the costs include the set-up.
    values : mapping of str to float
        Ratio by machine.
    """

    figure: int
    name: str
    section: str
    numerator: str
    set_up: bool
    values: Mapping[str, float]
    denominator: str | None = None
    machine: str | None = None


@dataclass(frozen=True)
class Sudarsan2011Data:
    """Published numbers of the paper.

    Attributes
    ----------
    title : str
    study, overlaps, overall : mapping
        Tables of the file ``published.toml``.
    hosts : mapping of str to MachineRuns
        Runs by machine.
    sustained : mapping of str to float
        Sustained bandwidth of a process on Franklin in bytes per second, by version.
    threading_factor : float
        Factor by which threading increases it, according to the text.
    ratios : tuple of CostRatio
    """

    title: str
    study: Mapping[str, Any]
    overlaps: Mapping[str, Any]
    overall: Mapping[str, Any]
    hosts: Mapping[str, MachineRuns]
    sustained: Mapping[str, float]
    threading_factor: float
    ratios: tuple[CostRatio, ...]

    def up_to(self, cores: int) -> Sudarsan2011Data:
        """Return the data with only the runs on at most `cores` cores, or the smallest run."""
        hosts = {
            name: replace(host, cores=tuple(n for n in host.cores if n <= cores) or host.cores[:1])
            for name, host in self.hosts.items()
        }
        return replace(self, hosts=hosts)

    def ratio(self, figure: int, numerator: str, denominator: str | None, set_up: bool = True) -> CostRatio:
        """Return the ratio of two versions in a figure."""
        key = figure, numerator, denominator, set_up
        (ratio,) = (r for r in self.ratios if (r.figure, r.numerator, r.denominator, r.set_up) == key)
        return ratio


@cache
def published_sudarsan2011() -> Sudarsan2011Data:
    """Return the published numbers, read from ``published.toml``."""
    tree, _ = parse_toml(PUBLISHED_FILE.read_text(encoding="utf-8"), str(PUBLISHED_FILE))
    cores = tree["concurrencies"]
    hosts = {
        name: MachineRuns(host["ranks_per_node"], host["threads"], tuple(cores[host["concurrencies"]]))
        for name, host in tree["machines"].items()
    }
    return Sudarsan2011Data(
        title=tree["title"],
        study=tree["study"],
        overlaps=tree["overlaps"],
        overall=tree["overall"],
        hosts=hosts,
        sustained={version: tree["sustained"]["franklin"][version] for version in VERSIONS},
        threading_factor=tree["sustained"]["threading_factor"],
        ratios=tuple(CostRatio(**row) for row in tree["ratio"]),
    )
