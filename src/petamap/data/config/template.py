"""Configuration templates: all options with their meanings, those with a default commented out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.sax.saxutils import escape

from petacomm.base.errors import ConfigError, did_you_mean
from petamap.data.config.fields import OptionField, option_fields
from petamap.data.config.model import REPEATED, SECTIONS
from petamap.data.config.source_kinds import source_kind
from petamap.data.config.writer import toml_value, written_value, xml_text


@dataclass(frozen=True)
class ConfigTemplate:
    """What a template sets: options of sections, "section.option"; sources and other tables with theirs."""

    settings: Mapping[str, object]
    sources: tuple[tuple[str, Mapping[str, object]], ...]
    tables: tuple[tuple[str, Mapping[str, object]], ...] = ()


_HEALPIX = {"run.name": "first", "map.n_side": 64}
_PATCH = {
    "run.name": "first", "map.pixelization": "car", "map.resolution": "15 arcmin", "map.frame": "equatorial",
}  # fmt: skip
_SATELLITE = ("satellite", {
    "n_det": 4, "spacing": "4 deg", "sample_rate": "5 Hz", "duration": "1 day", "opening": "50 deg",
    "precession_period": "96 min", "precession_angle": "45 deg",
})  # fmt: skip
_SHORT = ("satellite", {**_SATELLITE[1], "duration": "6 h"})
_GROUND = ("ground", {
    "n_det": 8, "spacing": "1 deg", "sample_rate": "20 Hz", "duration": "2 h", "n_observations": 2,
    "azimuth_min": "160 deg", "azimuth_max": "200 deg",
})  # fmt: skip
_PLATE = ("ground", {**_GROUND[1], "hwp_frequency": "2 Hz"})
_RASTER = ("raster", {
    "n_det": 4, "spacing": "10 arcmin", "sample_rate": "20 Hz", "duration": "20 min", "n_observations": 2,
    "width": "5 deg", "height": "5 deg", "row_spacing": "10 arcmin", "frame": "equatorial",
})  # fmt: skip
_SKY = ("sky-spectra", {"fwhm": "1 deg"})
_NOISE = ("noise", {"net": "60 uK s^0.5", "fknee": "50 mHz", "fmin": "1 mHz"})
_COMMON = ("common-mode", {"net": "20 uK s^0.5", "fknee": "100 mHz", "fmin": "5 mHz"})
_COARSE = {**_HEALPIX, "map.n_side": 32}
_SMALL = {**_HEALPIX, "map.n_side": 16}
_EIGHT = ("satellite", {**_SHORT[1], "n_det": 8})
_BANDS = (
    ("band", {"name": "90", "detectors": ["0000", "0001"], "frequency": "90 GHz"}),
    ("band", {"name": "220", "detectors": ["0002", "0003"], "frequency": "220 GHz"}),
)
# Templates by name. Files are those that `petamap init` writes, in the place of the user's.
TEMPLATES: dict[str, ConfigTemplate] = {
    "satellite": ConfigTemplate(_HEALPIX, (_SATELLITE, _SKY, _NOISE)),
    "ground": ConfigTemplate(_PATCH, (_GROUND, _SKY, _NOISE, _COMMON)),
    "raster": ConfigTemplate(_PATCH, (_RASTER, _SKY, _NOISE)),
    "recorded": ConfigTemplate(_PATCH, (
        ("recorded", {"path": "sample.ant", "n_det": 4, "spacing": "10 arcmin", "turnarounds": "keep"}),
        _SKY, _NOISE,
    )),
    "files": ConfigTemplate(_SMALL, (("volume", {"path": "sample.h5"}),)),
    "volume": ConfigTemplate(_SMALL, (("volume", {"path": "sample.h5"}),)),
    "toast": ConfigTemplate({**_SMALL, "map.frame": "equatorial"}, (("toast", {"path": "sample-toast"}),)),
    "table": ConfigTemplate({**_SMALL, "noise.kernel": "estimate"}, (
        ("table", {"path": "sample.csv", "frame": "galactic", "psi": "psi_*", "signal": "signal_*"}),
    )),
    "madmap": ConfigTemplate({**_SMALL, "map.stokes": "I"}, (
        ("madmap1", {"tod": "sample.tod", "filters": "sample-filters", "healpix": "nested",
                     "frame": "galactic", "sample_rate": "5 Hz"}),
    )),
    "sky-map": ConfigTemplate(_COARSE, (_SHORT, ("sky-map", {"map": "sample-sky.fits"}), _NOISE)),
    "sky-pysm": ConfigTemplate(_COARSE, (
        _SHORT, ("sky-pysm", {"models": ["d1", "s1"], "frequency": "150 GHz", "fwhm": "2 deg"}), _NOISE,
    )),
    "point-sources": ConfigTemplate(_PATCH, (
        _RASTER, ("point-sources", {"sources": ["0.5 deg, 0.3 deg, 10 mK, 30 arcmin"]}), _NOISE,
    )),
    "moving-frame": ConfigTemplate({**_PATCH, "map.stokes": "I"}, (
        _GROUND, ("moving-frame", {
            "centre": "horizon", "site_latitude": "-22.96 deg", "site_longitude": "-67.79 deg",
        }), _NOISE,
    )),
    "dipole": ConfigTemplate(_COARSE, (_SHORT, ("dipole", {}), _SKY, _NOISE)),
    "cuts": ConfigTemplate(_COARSE, (
        _SHORT, _SKY, _NOISE, ("cuts", {"gap_every": "20 min", "gap_length": "30 s"}),
    )),
    "cosmic-rays": ConfigTemplate({**_COARSE, "glitches.find": "glitches"}, (
        _SHORT, _SKY, _NOISE, ("cosmic-rays", {"every": "2 min", "amplitude": "5 mK"}),
    )),
    "steps": ConfigTemplate({**_COARSE, "glitches.find": "glitches-and-steps"}, (
        _SHORT, _SKY, _NOISE, ("steps", {"every": "1 h", "height": "2 mK"}),
    )),
    "offsets": ConfigTemplate(_PATCH, (_GROUND, _SKY, _NOISE, ("offsets", {}))),
    "baselines": ConfigTemplate(_PATCH, (_GROUND, _SKY, _NOISE, ("baselines", {"length": "60 s"}))),
    "polynomials": ConfigTemplate(_PATCH, (_GROUND, _SKY, _NOISE, ("polynomials", {"order": 1}))),
    "azimuth-synchronous": ConfigTemplate(_PATCH, (
        _GROUND, _SKY, _NOISE, ("offsets", {}), ("azimuth-synchronous", {"order": 4}),
    )),
    "plate-synchronous": ConfigTemplate(_PATCH, (
        _PLATE, _SKY, _NOISE, ("plate-synchronous", {"last": 4}),
    )),
    "gain-drift": ConfigTemplate(_COARSE, (
        _SHORT, _SKY, ("dipole", {}), _NOISE, ("gain-drift", {"length": "1 h", "rms": 0.01}),
    )),
    "leakage": ConfigTemplate(_COARSE, (
        _SHORT, ("sky-map", {"map": "sample-sky.fits"}), _NOISE,
        ("leakage", {"map": "sample-sky.fits", "rms": 0.01}),
    )),
    "noise-table": ConfigTemplate(_COARSE, (
        _SHORT, _SKY, ("noise-table", {"path": "sample-noise.csv", "psd": "psd_*"}), ("noise", {}),
    )),
    "time-constants": ConfigTemplate(_PATCH, (
        _GROUND, _SKY, ("time-constants", {"tau": "30 ms", "simulate": True}), _NOISE,
        ("time-constants", {"tau": "30 ms"}),
    )),
    "demodulation": ConfigTemplate(_PATCH, (_PLATE, _SKY, _NOISE, ("demodulation", {}))),
    "solved-templates": ConfigTemplate(_COARSE, (
        _SHORT, _SKY, _NOISE, ("offsets", {}), ("solved-templates", {"path": "sample-amplitudes.fits"}),
    )),
    "common-mode": ConfigTemplate(_COARSE, (_SHORT, _SKY, _NOISE, _COMMON)),
    "splits": ConfigTemplate(_PATCH, (_GROUND, _SKY, _NOISE), (
        ("split", {"name": "halves", "by": "time"}), ("split", {"name": "scans", "by": "direction"}),
    )),
    "bands": ConfigTemplate(_SMALL, (_EIGHT, _SKY, _NOISE), _BANDS),
    "components": ConfigTemplate(_SMALL, (_EIGHT, _SKY, _NOISE), (
        *_BANDS, ("component", {"name": "cmb", "spectrum": "cmb"}),
        ("component", {"name": "dust", "spectrum": "dust"}),
    )),
}  # fmt: skip
TEMPLATES |= {"madmap1": TEMPLATES["madmap"], "noise": TEMPLATES["satellite"]}
TEMPLATES |= {"sky-spectra": TEMPLATES["satellite"]}
_HEAD = (
    "A run configuration of petamap. Options that are commented out show their defaults, or an example.",
    "Check it with 'petamap check FILE', make the map with 'petamap run FILE'.",
)
_SOURCES = "Sources, applied in order: each adds observations, or parts of those before it."


class TemplateLine(NamedTuple):
    """Option of a template: comment, key, value, and whether it is active or commented out."""

    comment: str
    key: str
    value: object
    active: bool


class TemplateBlock(NamedTuple):
    """Section of a template, or source if `kind` is given."""

    name: str
    kind: str | None
    comment: str
    lines: tuple[TemplateLine, ...]


def config_template(start: str = "satellite", form: str = ".toml") -> str:
    """Return a configuration template.

    Parameters
    ----------
    start : str
        Name in `TEMPLATES`, or a kind of source.
    form : str
        ".toml" or ".xml".

    Raises
    ------
    ConfigError
        If there is no such template.
    """
    blocks = list(_blocks(find_template(start)))
    return _xml(blocks) if form == ".xml" else _toml(blocks)


def find_template(start: str) -> ConfigTemplate:
    """Return the template of a name, or a bare one of a kind of source from another package.

    Raises
    ------
    ConfigError
        If there is no such template.
    """
    from petamap.data.source import source_kinds

    if start in TEMPLATES:
        return TEMPLATES[start]
    if start in source_kinds():
        return ConfigTemplate(_HEALPIX, ((start, {}),))
    raise ConfigError(
        f"nothing starts with '{start}'", mend=did_you_mean(start, [*TEMPLATES, *source_kinds()])
    )


def _blocks(template: ConfigTemplate) -> Iterator[TemplateBlock]:
    for name, options in SECTIONS.items():
        fields = option_fields(options).values()
        lines = tuple(_line(field, template.settings.get(f"{name}.{field.name}")) for field in fields)
        yield TemplateBlock(name, None, (options.__doc__ or "").partition("\n")[0], lines)
    for kind, chosen in template.sources:
        source = source_kind(kind)
        lines = tuple(_line(field, chosen.get(field.name)) for field in source.fields.values())
        yield TemplateBlock("source", kind, source.summary, lines)
    for name, chosen in template.tables:
        fields = option_fields(REPEATED[name]).values()
        lines = tuple(_line(field, chosen.get(field.name)) for field in fields)
        yield TemplateBlock(name, None, (REPEATED[name].__doc__ or "").partition("\n")[0], lines)


def _line(field: OptionField, chosen: object = None) -> TemplateLine:
    default = written_default(field)
    if chosen is not None:
        return TemplateLine(_comment(field), field.name, chosen, active=True)
    if default is not None:
        return TemplateLine(_comment(field), field.name, default, active=False)
    item = _placeholder(field)
    example = item if field.length is None else [item] * (field.length or 1)
    ending = "" if field.required else "; no default"
    return TemplateLine(_comment(field) + ending, field.name, example, active=field.required)


def _comment(field: OptionField) -> str:
    """Return the help text, with the allowed values unless the example value makes them obvious."""
    plain = field.dimension or field.path or field.scalar is bool or field.allowed() in ("text", "a path")
    allowed = "" if plain else f" [{field.allowed()}]"
    return field.help + allowed


def written_default(field: OptionField) -> object:
    """Return the default of an option in written form; None if it has no default."""
    if field.required or field.default is None:
        return None
    return written_value(field, field.default)


def _placeholder(field: OptionField) -> object:
    if field.choices:
        return field.choices[0]
    if field.dimension:
        return field.example
    if field.is_path:
        return "PATH"
    if field.scalar is bool:
        return False
    if field.scalar in (int, float):
        return field.scalar(max(field.minimum or 1, min(field.maximum or 1, 1)))
    return "NAME" if field.is_name or field.is_pattern else "TEXT"


def _toml(blocks: Sequence[TemplateBlock]) -> str:
    lines = [f"# {text}" for text in _HEAD]
    seen_source = False
    for block in blocks:
        if block.kind and not seen_source:
            lines += ["", f"# {_SOURCES}"]
            seen_source = True
        repeated = block.name in ("source", *REPEATED)
        lines += ["", f"# {block.comment}", f"[[{block.name}]]" if repeated else f"[{block.name}]"]
        lines += [f"kind = {toml_value(block.kind)}"] if block.kind else []
        for line in block.lines:
            mark = "" if line.active else "#"
            lines += [f"# {line.comment}", f"{mark}{line.key} = {toml_value(line.value)}"]
    return "\n".join(lines) + "\n"


def _xml(blocks: Sequence[TemplateBlock]) -> str:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<petamap>"]
    lines += [_xml_comment(text, 1) for text in (*_HEAD, _SOURCES)]
    for block in blocks:
        lines += ["", _xml_comment(block.comment, 1)]
        lines.append(f'  <source kind="{escape(block.kind)}">' if block.kind else f"  <{block.name}>")
        for line in block.lines:
            element = f"<{line.key}>{_xml_content(line.value)}</{line.key}>"
            lines.append(_xml_comment(line.comment, 2))
            lines.append(f"    {element}" if line.active else _xml_comment(element, 2))
        lines.append(f"  </{block.name}>")
    return "\n".join([*lines, "</petamap>"]) + "\n"


def _xml_comment(text: str, depth: int) -> str:
    return f"{'  ' * depth}<!-- {text.replace('--', '- -')} -->"


def _xml_content(value: object) -> str:
    if isinstance(value, list):
        return "".join(f"<item>{_xml_content(item)}</item>" for item in value)
    return escape(xml_text(value))
