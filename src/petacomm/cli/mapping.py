"""``petacomm map``: place the ranks of a job on the nodes of a machine."""

from __future__ import annotations

import argparse
import functools
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.errors import ConfigError
from petacomm.cli.parser import refuse_options
from petacomm.cli.progress import progress_listener

if TYPE_CHECKING:
    from petacomm.base.progress import Progress
    from petacomm.mapping.comparison import MeasuredPlacement
    from petacomm.mapping.job import MappingJob

_EPILOG = """\
examples:
  petacomm map job.toml --out ranks.txt                    place the ranks, write the launcher's file
  petacomm map job.toml --machine fugaku --shape 8x8x16 --format fujitsu --out vcoord.txt
  petacomm map compare job.toml                            all strategies beside identity and random
  petacomm map job.toml --report job.html                  see what it does to the links

docs/petacomm/mapping.md has the keys of job.toml.
"""
_VERBS = ("compare", "gallery")
# Verbs that take an option; a job alone has none.
_VERBS_OF = {
    **dict.fromkeys(("machine", "shape", "report", "boxfish", "json"), ("", "compare")),
    **dict.fromkeys(("strategy", "no_refine", "format"), ("",)),
    **dict.fromkeys(("strategies", "simulate"), ("compare",)),
    "out": ("", "gallery"),
}


def add_commands(commands: Any) -> None:
    """Add ``map`` to the subparsers."""
    parser = commands.add_parser(
        "map",
        help="place the ranks of a job on the nodes of a machine",
        description="Place the ranks of a job such that the busiest link carries little, compare the link "
        "loads with the launcher's default and the best of ten random placements, and write the file that "
        "the launcher reads.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petacomm map JOB.toml [--machine NAME] [--shape AxBxC] [--strategy NAME] [--out FILE] [...]\n"
        "       petacomm map compare JOB.toml [--strategies A,B] [...]\n"
        "       petacomm map gallery --out FILE",
    )
    parser.add_argument(
        "words", metavar="JOB", nargs="*", help="a job as TOML; 'compare' or 'gallery' before"
    )
    parser.add_argument("--machine", metavar="NAME", help="a machine of the package, or a machine file")
    parser.add_argument("--shape", metavar="AxBxC", help="nodes of the torus or mesh in each dimension")
    parser.add_argument("--strategy", metavar="NAME", help="auto, greedy, recursive, ... [auto]")
    parser.add_argument("--strategies", metavar="A,B", help="of 'compare' [all that can be used]")
    parser.add_argument("--no-refine", action="store_true", help="take what the strategy finds as it is")
    parser.add_argument(
        "--format", metavar="NAME", help="of the file: openmpi, hydra, slurm, cray, fujitsu, ..."
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="the launcher's file; the page of 'gallery'")
    parser.add_argument("--report", metavar="FILE", type=Path, help="a page with the loads of links")
    parser.add_argument("--boxfish", metavar="DIR", type=Path, help="the same as Boxfish's tables")
    parser.add_argument("--simulate", action="store_true", help="of 'compare', packets too, on a torus")
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
    parser.set_defaults(handler=functools.partial(_map, parser))


def _map(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    words = list(arguments.words)
    verb = words.pop(0) if words and words[0] in _VERBS else ""
    refuse_options(arguments, parser, verb, _VERBS_OF)
    if verb == "gallery":
        _gallery(arguments, words)
        return 0
    if len(words) != 1:
        what = f"unknown argument '{words[1]}'" if words else "no job"
        raise ConfigError(what, mend="give a job as TOML, or see petacomm map --help")
    job = _job(arguments, words[0])
    if arguments.boxfish is not None:
        from petacomm.mapping.boxfish import require_grid

        require_grid(job.resources.network)
    _compare(arguments, job) if verb else _place(arguments, job)
    return 0


def _job(arguments: argparse.Namespace, path: str) -> MappingJob:
    from petacomm.mapping.job import load_mapping_job

    names = ("machine", "shape", "strategy", "format")
    given = {name: getattr(arguments, name) for name in names}
    given["refine"] = False if arguments.no_refine else None
    with progress_listener(0) as progress:
        return load_mapping_job(path, given, progress)


def _place(arguments: argparse.Namespace, job: MappingJob) -> None:
    from petacomm.mapping.comparison import map_ranks
    from petacomm.mapping.launchers import get_format, write_launcher_file

    if (arguments.out is None) != (job.format is None):
        missing = "--out" if arguments.out is None else "--format"
        raise ConfigError(f"{missing} is missing", mend="give both for a launcher's file, or neither")
    with progress_listener(0) as progress:
        result = map_ranks(job.task, job.strategy, refined=job.refine, progress=progress)
        if job.format is not None and get_format(job.format).fills_nodes:
            result = replace(result, chosen=job.task.with_filled_nodes(result.chosen))
        notes = []
        if not result.improves:
            notes.append("no better than a default or random placement: take the best of these rows")
        if job.format is not None:
            for warning in write_launcher_file(
                job.format, result.chosen.placement, arguments.out, job.target
            ):
                progress.warn(warning)
            words = {"file": shlex.quote(str(arguments.out)), "ranks": job.graph.n_ranks}
            notes.append(f"{arguments.out}: {get_format(job.format).usage.format(**words)}")
        notes += _write_pictures(arguments, job, result.rows, progress)
    more = {"nodes_of_ranks": result.chosen.placement.nodes.tolist(), "gains": result.improves}
    _print(arguments, job, result.rows, notes, more)


def _compare(arguments: argparse.Namespace, job: MappingJob) -> None:
    from petacomm.mapping.comparison import compare_strategies

    names = None if arguments.strategies is None else arguments.strategies.split(",")
    with progress_listener(0) as progress:
        rows, unusable = compare_strategies(job.task, names, progress=progress)
        notes = [f"{name} cannot be used: {what}" for name, what in unusable.items()]
        seconds = _simulate(job, rows, progress) if arguments.simulate else None
        if seconds:
            notes += [
                f"simulated, {row.label}: {1e3 * t:.4g} ms" for row, t in zip(rows, seconds, strict=True)
            ]
        best = min(rows, key=lambda row: row.objectives)
        notes += _write_pictures(arguments, job, [rows[0], rows[1], best], progress)
    _print(arguments, job, rows, notes, {"unusable": unusable, "simulated": seconds})


def _print(
    arguments: argparse.Namespace,
    job: MappingJob,
    rows: list[MeasuredPlacement],
    notes: list[str],
    more: dict[str, Any],
) -> None:
    """Print placements as JSON, with further entries, or as a table, with notes."""
    from petacomm.mapping.mapping_table import mapping_json, mapping_table

    if arguments.json:
        print(json.dumps(mapping_json(job, rows, more), indent=2))
    else:
        print(mapping_table(job, rows, notes))


def _simulate(job: MappingJob, rows: list[MeasuredPlacement], progress: Progress) -> list[float]:
    """Return the simulated seconds of each placement."""
    from petacomm.mapping.packet_time import simulate_placement

    progress.begin("packets", len(rows), "placements")
    seconds = []
    for row in rows:
        run = simulate_placement(job.graph, row.placement, job.resources.network, job.machine, job.seed + 1)
        seconds.append(run.seconds)
        progress.advance(1, row.label)
    progress.end()
    return seconds


def _write_pictures(
    arguments: argparse.Namespace, job: MappingJob, rows: list[MeasuredPlacement], progress: Progress
) -> list[str]:
    """Write the report page and the Boxfish tables, if requested; return notes with their paths."""
    notes = []
    if arguments.report is not None:
        from petacomm.mapping.mapping_table import phase_rows
        from petacomm.report.placement_page import LabeledPlacement, PlacementComparison, write_placement_page

        placements = [LabeledPlacement(row.label, row.placement, row.metrics) for row in rows]
        tables = {}
        if len(job.phases) > 1:
            head, *cells = phase_rows(job, rows)
            tables["Busiest link of each phase"] = (head, [list(row) for row in cells])
        comparison = PlacementComparison(
            "Placement", f"{job.title}.", job.graph, job.resources.network, placements, tables, job.routing
        )
        page = write_placement_page([comparison], arguments.report, f"A map of {job.title}")
        notes.append(f"page: {page}")
    if arguments.boxfish is not None:
        from petacomm.mapping.boxfish import write_boxfish
        from petacomm.mapping.metrics import placement_link_loads

        network = job.resources.network
        for name, row in (("before", rows[0]), ("after", rows[-1])):
            loads = placement_link_loads(job.graph, row.placement, network, job.routing)
            write_boxfish(arguments.boxfish / name, network, row.placement, loads)
        notes.append(f"Boxfish: {arguments.boxfish / 'before'}, {arguments.boxfish / 'after'}")
    return notes


def _gallery(arguments: argparse.Namespace, words: list[str]) -> None:
    from petacomm.report.gallery import write_gallery

    if words:
        raise ConfigError(f"unknown argument '{words[0]}'", mend="see petacomm map --help")
    with progress_listener(0) as progress:
        path = write_gallery(arguments.out or Path("gallery.html"), progress)
    print(f"page: {path}")
