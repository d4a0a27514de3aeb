"""``petamap init``, ``check`` and ``convert``: templates, checks and conversion of run configurations."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.console import inform
from petacomm.base.errors import ConfigError
from petamap.cli.configuration_words import add_configuration_arguments, configuration_path, split_words
from petamap.examples import TO_PLAN

if TYPE_CHECKING:
    from petamap.data.config import RunConfig
    from petamap.data.config.fields import OptionField
    from petamap.data.observation import Observation

_FORMS = (".toml", ".xml")
USED_LITTLE = (
    "more than half of the samples would not be used: they are flagged, outside the map, or in pixels that "
    "are not seen at enough angles; more detectors, other angles or larger pixels help"
)


def add_commands(commands: Any) -> None:
    """Add ``init``, ``check`` and ``convert`` to the subparsers."""
    parser = commands.add_parser(
        "init",
        help="write a configuration to begin with",
        description="Write a starting configuration, every option with its meaning, to FILE or the screen.",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="a .toml or .xml file")
    parser.add_argument(
        "--kind", metavar="KIND", default="satellite",
        help="satellite, ground, files, madmap, or any kind of source [satellite]",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the kinds of source with their options")
    parser.add_argument("--xsd", action="store_true", help="write the schema of the XML form instead")
    parser.set_defaults(handler=_init)
    parser = commands.add_parser(
        "check",
        help="judge a configuration and say what would run",
        description="Read a configuration, open its sources, and say what would run; no signal is read.",
        usage="petamap check CONFIG|--example NAME [--hash LIST] [KEY=VALUE ...]",
    )
    add_configuration_arguments(parser, files=TO_PLAN)
    parser.add_argument(
        "--hash", metavar="LIST", type=Path,
        help="write the SHA-256 of all files that a run reads; where LIST exists, compare with it",
    )  # fmt: skip
    parser.set_defaults(handler=_check)
    parser = commands.add_parser(
        "convert",
        help="rewrite a configuration as TOML or XML",
        description="Rewrite a configuration as TOML or XML, by the suffix of OUT; paths keep their meaning.",
    )
    parser.add_argument("config", metavar="IN", type=Path)
    parser.add_argument("out", metavar="OUT", type=Path)
    parser.add_argument("--complete", action="store_true", help="write what equals the default, too")
    parser.set_defaults(handler=_convert)


def _init(arguments: argparse.Namespace) -> int:
    """Write a configuration template, the schema, or the list of kinds of sources."""
    if arguments.list:
        text = source_kinds_text()
    elif arguments.xsd:
        from petamap.data.config.xsd import config_xsd

        text = config_xsd()
    else:
        from petamap.data.config.template import config_template

        form = ".toml" if arguments.file is None else _form(arguments.file)
        text = config_template(arguments.kind, form)
    if arguments.file is None:
        print(text, end="")
        return 0
    _require_new(arguments.file)
    if not (arguments.list or arguments.xsd):
        _write_samples(arguments.kind, arguments.file.absolute().parent)
    _write_new(arguments.file, text)
    return 0


def _write_samples(start: str, folder: Path) -> None:
    """Write small files in the place of the user's own, where the sources of a template read files."""
    from petamap.data.config.template import find_template
    from petamap.simulation.sample_files import write_sample_files

    for kind, options in find_template(start).sources:
        for path in write_sample_files(kind, options, folder):
            inform(f"wrote {path.name}: a small sample, in the place of your own")


def _check(arguments: argparse.Namespace) -> int:
    """Check a configuration, and print a table of the run."""
    from petamap.data.config import load_config, open_sources
    from petamap.mapmaking.map_outputs import require_products

    file, settings = split_words(arguments.words)
    config = load_config(configuration_path(file, arguments.example, TO_PLAN), settings)
    if arguments.hash is not None:
        _compare_or_list(config, arguments.hash)
    observations = open_sources(config)
    require_products(config, observations)
    print(describe_config(config, observations))
    return 0


def _compare_or_list(config: RunConfig, listing: Path) -> None:
    """Compare the files that a run reads with a list of their SHA-256, or write it."""
    from petamap.data.input_files import check_hashes, input_files, write_hashes

    files = [path for path in input_files(config) if path.resolve() != listing.resolve()]
    if not (files or listing.exists()):
        raise ConfigError("no file is read", mend="leave --hash away")
    if listing.exists():
        check_hashes(listing, files)
        inform(f"{_count(len(files), 'file')} as {listing} says")
    else:
        write_hashes(listing, files)
        inform(f"wrote {listing}, of {_count(len(files), 'file')}")


def _convert(arguments: argparse.Namespace) -> int:
    """Write a configuration as TOML or XML."""
    from petamap.data.config import load_config, to_toml, to_xml

    write = to_xml if _form(arguments.out) == ".xml" else to_toml
    config = load_config(arguments.config)
    _write_new(arguments.out, write(config, arguments.out.absolute().parent, complete=arguments.complete))
    return 0


def _form(path: Path) -> str:
    form = path.suffix.lower()
    if form not in _FORMS:
        raise ConfigError("a run configuration is a .toml or an .xml file", where=str(path))
    return form


def _require_new(path: Path) -> None:
    if path.exists():
        raise ConfigError("exists already", where=str(path), mend="choose another name, or remove it")


def _write_new(path: Path, text: str) -> None:
    from petacomm.base.files import write_text

    _require_new(path)
    write_text(path, text)
    inform(f"wrote {path}")


def describe_config(config: RunConfig, observations: list[Observation]) -> str:
    """Return a table of a run: sections, sources and amount of data."""
    from petamap.data.demodulation import low_pass_note
    from petamap.data.input_files import unchecked_note

    rows = [("run", _run(config)), ("map", _map(config, observations))]
    rows += [("noise", _noise(config, observations)), ("solver", _solver(config))]
    rows += [(f"source.{index}", source.kind) for index, source in enumerate(config.sources)]
    rows += [("data", _data(observations))]
    rows += [("checksums", note)] if (note := unchecked_note(config)) else []
    rows += _bands(config, observations) + _splits(config, observations)
    metas = [o.meta for o in observations if "pointing_error_arcsec" in o.meta]
    if metas:
        rows += [("pointing", _pointing(metas))]
    rows += [("streams", note) for note in dict.fromkeys(map(low_pass_note, observations)) if note]
    if observations and all(o.pointing is not None for o in observations):
        rows += [] if config.bands else _pixels(config, observations)
        for band in config.bands:
            rows += _pixels(config, observations, band.detectors, f"pixels {band.name}")
    return "\n".join(f"{name:<10} {text}" for name, text in rows)


def _run(config: RunConfig) -> str:
    run = config.run
    title = f": {run.title}" if run.title else ""
    part = f", the first {run.fraction:.3g} of the samples" if run.fraction < 1 else ""
    return f"{run.name}, seed {run.seed}, realization {run.realization}{part}{title}"


def _map(config: RunConfig, observations: list[Observation]) -> str:
    from petamap.data.config.writer import format_quantity
    from petamap.mapmaking.target import map_frame

    chosen = config.map
    grid = chosen.pixelization
    if grid == "healpix":
        grid += f" n_side {chosen.n_side}, {chosen.ordering}"
    elif chosen.resolution is not None and grid != "numbered":
        grid += f" {format_quantity(chosen.resolution, 'angle')}"
    frame = None if grid == "numbered" else map_frame(chosen, observations) or "offsets"
    return ", ".join(word for word in (grid, chosen.stokes, frame) if word)


def _noise(config: RunConfig, observations: list[Observation]) -> str:
    from petamap.mapmaking.bands import planned_bands
    from petamap.mapmaking.intervals import split_intervals

    chosen = config.noise
    if chosen.kernel == "white":
        return "white, no correlations"
    if chosen.kernel == "estimate" and chosen.n_lag == "auto":
        return "estimate, lags chosen by it"
    if chosen.interval is not None:
        observations = [split_intervals(one, chosen.interval) for one in observations]
    return f"{chosen.kernel}, {planned_bands(config, observations).describe()}"


def _solver(config: RunConfig) -> str:
    solver = config.solver
    if solver.binned_only:
        return "none: binned map alone"
    tolerance = solver.tolerance if isinstance(solver.tolerance, str) else f"{solver.tolerance:g}"
    return f"to {tolerance} in {solver.max_iterations} iterations at most, {solver.preconditioner}"


def _data(observations: list[Observation]) -> str:
    detectors = {name for observation in observations for name in observation.detectors}
    samples = sum(observation.n_samp * observation.n_det for observation in observations)
    hours = sum(observation.n_samp / observation.sample_rate for observation in observations) / 3600
    return (
        f"{_count(len(observations), 'observation')}, {_count(len(detectors), 'detector')}, "
        f"{_count(samples, 'sample')}, {hours:.4g} h"
    )


def _bands(config: RunConfig, observations: list[Observation]) -> list[tuple[str, str]]:
    """Return the detectors of each band, and the factors of each component."""
    from petamap.data.config.writer import format_quantity
    from petamap.mapmaking.frequency_bands import (
        band_parts,
        band_records,
        component_records,
        mixing_factors,
    )

    parts = band_parts(config.bands, observations) if config.bands else None
    rows = []
    for band in band_records(config, parts, observations):
        at = f", {format_quantity(band.frequency, 'frequency')}" if band.frequency else ""
        rows.append(("band", f"{band.name}: {_count(band.detectors, 'detector')}{at}"))
    factors = mixing_factors(config, observations[0].unit) if config.components else None
    for one in component_records(config, factors):
        at = f", 1 at {format_quantity(one.reference, 'frequency')}" if one.reference else ""
        text = ", ".join(f"{factor:.5g}" for factor in one.factors)
        more = ", ".join(f"{factor:.5g}" for factor in one.polarization_factors)
        of = f"; of Q and U {more}" if more else ""
        rows.append(("component", f"{one.name}: factors {text}{of}{at}"))
    return rows


def _splits(config: RunConfig, observations: list[Observation]) -> list[tuple[str, str]]:
    """Return the parts of each split; scans are not looked at."""
    from petacomm.base.display import some_names
    from petacomm.base.files import check_names
    from petamap.mapmaking.map_outputs import SHORTER, part_files
    from petamap.mapmaking.split_parts import split_parts

    rows = []
    for one in config.splits:
        names = split_parts(one, observations).names
        check_names((path for path, _ in part_files(config, one.name, names, Path())), SHORTER)
        rows.append(("split", f"{one.name}: by {one.by}, parts {some_names(names)}"))
    return rows


def _pointing(metas: list[dict[str, Any]]) -> str:
    """Return spacing and largest error of the boresight knots."""
    smallest = min(meta["knot_spacing"][0] for meta in metas)
    largest = max(meta["knot_spacing"][1] for meta in metas)
    spacing = " to ".join(dict.fromkeys((f"{smallest:.0f}", f"{largest:.0f}")))
    error = max(meta["pointing_error_arcsec"] for meta in metas)
    return f"a knot every {spacing} samples, within {error:.2g} arcsec of the pointing of every sample"


def _pixels(
    config: RunConfig, observations: list[Observation], detectors: tuple[str, ...] = (), name: str = "pixels"
) -> list[tuple[str, str]]:
    """Return what part of a map of detectors is seen and not cut, and a warning where that is little."""
    from petamap.data.selection import select_observations
    from petamap.data.source import SourceContext
    from petamap.mapmaking.coverage import estimate_coverage
    from petamap.mapmaking.target import prepare_observations, target_pixelization
    from petamap.sky.stokes import Stokes

    prepared = prepare_observations(config, observations)
    pixelization = target_pixelization(config.map, prepared)
    of_band = select_observations(
        prepared, SourceContext(config.folder), observations=(), detectors=detectors
    )
    found = estimate_coverage(of_band, pixelization, Stokes(config.map.stokes), config.solver.rcond_min)
    if found.is_exact:
        text = (
            f"{found.n_seen:,} of {found.n_pix:,} seen, {found.n_mapped:,} can be mapped "
            f"({found.n_mapped / found.n_pix:.1%} of the map), from {found.used:.1%} of the samples"
        )
    else:
        text = (
            f"about {found.n_seen / found.n_pix:.0%} of {pixelization.n_pix:,} seen, "
            f"{found.n_mapped / found.n_pix:.0%} can be mapped, from {found.used:.0%} of the samples "
            f"(by {_count(found.n_looked_at, 'sample')}, on pixels {found.merged:,} times as large)"
        )
    rows = [(name, text)]
    if found.used < 0.5:
        rows.append(("WARNING", USED_LITTLE))
    return rows


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def source_kinds_text() -> str:
    """Return the kinds of sources with their options, one per line."""
    from petamap.data.config.source_kinds import all_source_kinds

    blocks = []
    for kind in all_source_kinds():
        options = [_option_line(field) for field in kind.fields.values()]
        blocks.append("\n".join([f"{kind.name}: {kind.summary}", *options]))
    return "\n\n".join(blocks) + "\n"


def _option_line(field: OptionField) -> str:
    from petamap.data.config.template import written_default
    from petamap.data.config.writer import toml_value

    default = written_default(field)
    given = "optional" if default in (None, "", []) else f"default {toml_value(default)}"
    ending = "required" if field.required else given
    many = "" if field.length is None else "list; each: "
    return f"  {field.name:<16} {field.help} [{many}{field.allowed()}; {ending}]"
