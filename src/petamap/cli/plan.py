"""``petamap plan``: prediction of memory, communication and time of a run on a machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from petacomm.base.errors import ConfigError
from petamap.cli.configuration_words import add_configuration_arguments, configuration_path, split_words
from petamap.examples import TO_PLAN

_EPILOG = """\
examples:
  petamap plan --machines
  petamap plan run.toml --ranks 128 --machine perlmutter
  petamap plan --example planck-year --ranks 16384 --machine jaguar
  petamap plan year.toml --ranks 1024 --machine perlmutter --like week
  petamap plan mc run.toml --ranks 4096 --machine perlmutter montecarlo.realizations=10000
  petamap plan paper --out paper.html
"""


def add_commands(commands: Any) -> None:
    """Add ``plan`` to the subparsers."""
    parser = commands.add_parser(
        "plan",
        help="predict what a run would ask of a machine",
        description="Tell without a machine what each rank of a run would hold and send on it, and how long "
        "its reductions take: for all distributions of the data, algorithms, and ranks a node. With the word "
        "'mc' in front, what a Monte Carlo takes in groups of ranks. With the word "
        "'paper' in front, make the figures of Sudarsan et al. 2011 again, as tables and as a page.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petamap plan CONFIG|--example NAME --ranks N --machine NAME [options] [KEY=VALUE ...]\n"
        "       petamap plan mc CONFIG|--example NAME --ranks N --machine NAME [--json] [KEY=VALUE ...]\n"
        "       petamap plan paper [CONFIG] [--out FILE] [--timings FILE] [--ranks N] [KEY=VALUE ...]",
    )
    add_configuration_arguments(parser, files=TO_PLAN)
    parser.add_argument("--ranks", metavar="N", type=int, help="cores of the run, one or several a rank")
    parser.add_argument("--machine", metavar="NAME", help="a machine of the package, or a machine file")
    parser.add_argument(
        "--sample", metavar="F", type=float, help="part of the sky to look at, 1 for all [by size]"
    )
    parser.add_argument(
        "--like",
        metavar="DIR",
        help="products of a run whose time and flags for a sample, and iterations, are taken",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="the page of 'paper' [paper.html]")
    parser.add_argument("--timings", metavar="FILE", help="timings for 'paper' to fit, as CSV")
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
    parser.add_argument("--machines", action="store_true", help="list the machines of the package")
    parser.set_defaults(handler=_plan)


def _plan(arguments: argparse.Namespace) -> int:
    if arguments.machines:
        _list_machines()
        return 0
    if arguments.words[:1] == ["paper"]:
        from petamap.cli.plan_paper import reproduce_figures

        return reproduce_figures(arguments)
    montecarlo = arguments.words[:1] == ["mc"]
    for name in ("ranks", "machine"):
        if getattr(arguments, name) is None:
            raise ConfigError(f"--{name} is missing", mend="see petamap plan --help")
    from petacomm.topology import load_machine

    machine = load_machine(arguments.machine)
    from petamap.data.config import load_config

    file, settings = split_words(arguments.words[montecarlo:])
    config = load_config(configuration_path(file, arguments.example, TO_PLAN), settings)
    if montecarlo:
        from petamap.cli.plan_mc import print_montecarlo_plan

        return print_montecarlo_plan(config, arguments.ranks, machine, arguments.json)
    from petacomm.cli.progress import progress_listener
    from petamap.data.run_summary import Summary
    from petamap.planning.plan import plan
    from petamap.planning.plan_table import plan_json, plan_table
    from petamap.planning.run_time import measured_times

    measured = None if arguments.like is None else measured_times(Summary.read(arguments.like))
    with progress_listener(0) as progress:
        prediction = plan(
            config, arguments.ranks, machine, sample=arguments.sample, progress=progress,
            flagged=measured.flagged if measured else 0.0,
        )  # fmt: skip
    if arguments.json:
        import json

        print(json.dumps(plan_json(prediction, measured), indent=2))
    else:
        print(plan_table(prediction, measured))
    return 0


def _list_machines() -> None:
    from petacomm.cli.topology import machine_summary
    from petacomm.topology import load_machine, machine_names

    for name in machine_names():
        print(machine_summary(load_machine(name)))
