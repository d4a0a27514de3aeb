"""``petacomm net``: predict, simulate, draw and export collectives on a machine's network."""

from __future__ import annotations

import argparse
import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.errors import ConfigError, did_you_mean, require_known
from petacomm.cli.parser import refuse_options
from petacomm.cli.progress import progress_listener

if TYPE_CHECKING:
    from petacomm.network.query import CollectiveQuery

_EPILOG = """\
examples:
  petacomm net predict broadcast --machine bluegene-l --shape 8x8x8 --bytes 65536
  petacomm net predict allreduce --machine perlmutter --ranks 2048 --bytes 1000000
  petacomm net simulate alltoall --machine bluegene-l --shape 4x4x2 --bytes 960
  petacomm net draw barrier --machine bluegene-l --shape 4x4 --out barrier.svg
  petacomm net export allreduce --machine perlmutter --ranks 64 --bytes 1000000 --out allreduce.goal
  petacomm net paper --out paper
"""
_VERBS = ("predict", "simulate", "draw", "export", "paper")
_COLLECTIVE = _VERBS[:4]
_MOST_NODES = 4096  # of the paper's all-to-alls that are simulated
# Verbs that take an option; those that are not named here are of all.
_VERBS_OF = {
    **dict.fromkeys(("shape", "bytes", "type", "root", "nodes", "mode"), _COLLECTIVE),
    **dict.fromkeys(("policy", "routing", "seed"), ("simulate",)),
    "algorithm": ("simulate", "draw", "export"),
    "out": ("draw", "export", "paper"),
    "format": ("export",),
    "json": ("predict", "simulate", "paper"),
}


def add_commands(commands: Any) -> None:
    """Add ``net`` to the subparsers."""
    parser = commands.add_parser(
        "net",
        help="predict, simulate, draw and export collectives on a machine's network",
        description="Model a collective on a machine without running on it: 'predict' the times of all "
        "algorithms by closed forms and exact link loads; 'simulate' it packet by packet; 'draw' its "
        "messages and link loads; 'export' its messages for LogGOPSim, SimGrid, MSCCL or MSCCL++. 'paper' "
        "reproduces the tables of Almasi et al. 2005, on screen and as a page.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petacomm net predict|simulate|draw|export COLLECTIVE --machine NAME --shape AxB [...]\n"
        "       petacomm net paper [--out DIR] [--ranks N]",
    )
    parser.add_argument(
        "words", metavar="VERB COLLECTIVE", nargs="*",
        help="what to do; broadcast, reduce, allreduce, alltoall or barrier",
    )  # fmt: skip
    parser.add_argument("--machine", metavar="NAME", help="a machine of the package, or a machine file")
    parser.add_argument("--shape", metavar="AxBxC", help="nodes of the partition in each dimension")
    parser.add_argument(
        "--ranks",
        metavar="N",
        type=int,
        help="ranks of a call without a shape, one a node; of 'paper', the most nodes",
    )
    parser.add_argument(
        "--bytes", metavar="N", help="of the vector; of an all-to-all, from each rank to each"
    )
    parser.add_argument(
        "--algorithm", metavar="NAME", default="auto",
        help="or 'published', for the published switching points [auto: the lowest predicted time]",
    )  # fmt: skip
    parser.add_argument("--type", metavar="TYPE", default="double", help="what is added: double or int")
    parser.add_argument("--root", metavar="N", type=int, default=0, help="of a broadcast or a reduce [0]")
    parser.add_argument("--nodes", metavar="LIST", help='a part of the shape, like "0-15,32-47"')
    parser.add_argument(
        "--mode", metavar="MODE", default="coprocessor", help="of BlueGene/L: coprocessor or virtual-node"
    )
    parser.add_argument(
        "--policy", metavar="NAME", help="of the simulated routers of a torus [transit-first]"
    )
    parser.add_argument(
        "--routing",
        metavar="NAME",
        help="of simulated switches: minimal, valiant or ugal [of the machine's file]",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="of what is random in them [1]")
    parser.add_argument(
        "--out", metavar="PATH", type=Path, help="what is drawn or exported; of 'paper' a folder [.]"
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        default="goal",
        help="of 'export': goal, simgrid, msccl or mscclpp [%(default)s]",
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
    parser.set_defaults(handler=functools.partial(_net, parser))


def _net(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    verb, *words = arguments.words or [""]
    if verb not in _VERBS:
        what = f"unknown word '{verb}'" if verb else "nothing to do"
        raise ConfigError(what, mend=did_you_mean(verb, list(_VERBS)))
    if len(words) > (verb != "paper"):
        raise ConfigError(f"unknown argument '{words[-1]}'", mend="see petacomm net --help")
    if verb != "paper" and not words:
        raise ConfigError("no collective", mend="known: allreduce, alltoall, barrier, broadcast, reduce")
    refuse_options(arguments, parser, verb, _VERBS_OF)
    verbs = {"predict": _predict, "simulate": _simulate, "draw": _draw, "export": _export, "paper": _paper}
    verbs[verb](arguments)
    return 0


def _query(arguments: argparse.Namespace) -> CollectiveQuery:
    from petacomm.network.query import CollectiveQuery, parse_bytes

    if arguments.machine is None:
        raise ConfigError("--machine is missing", mend="give --machine bluegene-l, or see petacomm topology")
    names = ("machine", "shape", "ranks", "root", "nodes", "mode", "algorithm")
    given = {name: getattr(arguments, name) for name in names}
    n_bytes = None if arguments.bytes is None else parse_bytes(arguments.bytes)
    return CollectiveQuery(arguments.words[1], n_bytes=n_bytes, element_type=arguments.type, **given)


def _predict(arguments: argparse.Namespace) -> None:
    from petacomm.network import prediction_table
    from petacomm.network.predictions import predict_algorithms

    call, model = _query(arguments).resolve()
    with progress_listener(0) as progress:
        predictions = predict_algorithms(call, model, progress)
    if arguments.json:
        print(json.dumps(prediction_table.predictions_json(call, model.machine, predictions), indent=2))
    else:
        print(prediction_table.prediction_table(call, model.machine, predictions))


def _simulate(arguments: argparse.Namespace) -> None:
    from petacomm.network import POLICIES, prediction_table
    from petacomm.network.simulations import simulate_collective

    policy = None
    if arguments.policy is not None:
        require_known("unknown policy", arguments.policy, POLICIES)
        policy = POLICIES[arguments.policy]
    call, model = _query(arguments).resolve()
    with progress_listener(0) as progress:
        simulated = simulate_collective(
            call, model, arguments.algorithm, policy, arguments.seed, progress, arguments.routing
        )
    if arguments.json:
        print(json.dumps(prediction_table.simulation_json(call, model.machine, simulated), indent=2))
    else:
        print(prediction_table.simulation_table(call, model.machine, simulated))


def _draw(arguments: argparse.Namespace) -> None:
    from petacomm.network.predictions import resolve_algorithm
    from petacomm.report.schedule_drawing import write_drawing
    from petacomm.schedule import make_schedule

    call, model = _query(arguments).resolve()
    schedule = make_schedule(call, resolve_algorithm(call, model, arguments.algorithm))
    path = arguments.out or Path(f"{schedule.collective}-{schedule.algorithm}.svg")
    print(write_drawing(schedule, call.grid, call.itemsize, path))


def _export(arguments: argparse.Namespace) -> None:
    from petacomm.network.predictions import resolve_algorithm
    from petacomm.schedule import make_schedule
    from petacomm.schedule.goal import write_goal
    from petacomm.schedule.msccl_steps import write_msccl
    from petacomm.schedule.mscclpp_plan import write_mscclpp
    from petacomm.schedule.simgrid_trace import write_simgrid

    suffix = {"goal": ".goal", "simgrid": ".tit", "msccl": ".xml", "mscclpp": ".json"}
    require_known("unknown format", arguments.format, suffix)
    call, model = _query(arguments).resolve()
    algorithm = resolve_algorithm(call, model, arguments.algorithm)
    if arguments.format.startswith("msccl") and call.collective != "alltoall":
        # programs are for any size: a chunk for each rank
        call = replace(call, n_elements=call.n_ranks)
    schedule = make_schedule(call, algorithm)
    path = arguments.out or Path(f"{schedule.collective}-{schedule.algorithm}{suffix[arguments.format]}")
    if arguments.format.startswith("msccl"):
        print((write_msccl if arguments.format == "msccl" else write_mscclpp)(schedule, path))
    else:
        write = write_goal if arguments.format == "goal" else write_simgrid
        print(write(schedule, call.itemsize, path))


def _paper(arguments: argparse.Namespace) -> None:
    from petacomm.papers.almasi2005.tables import reproduce_almasi2005
    from petacomm.papers.almasi2005.text import almasi2005_json, almasi2005_table
    from petacomm.report.almasi2005_page import write_almasi2005_page

    if arguments.machine not in (None, "bluegene-l"):
        raise ConfigError("--machine with 'paper'", mend="its machine is that of the source, bluegene-l")
    largest = _MOST_NODES if arguments.ranks is None else arguments.ranks
    if largest < 1:
        raise ConfigError(f"--ranks {largest}", mend="give 1 or more; all-to-alls on more nodes are left out")
    with progress_listener(0) as progress:
        results = reproduce_almasi2005(largest, progress)
    path = write_almasi2005_page(results, (arguments.out or Path()) / "network.html")
    print(
        json.dumps(almasi2005_json(results))
        if arguments.json
        else f"{almasi2005_table(results)}\n\npage: {path}"
    )
