"""Write ``docs/petamap/options.md``: all options of a run configuration, from their dataclasses.

python docs/make_options.py
"""

from pathlib import Path

from petacomm.base.units import units_by_dimension
from petamap.data.config import REPEATED, SECTIONS
from petamap.data.config.fields import OptionField, option_fields
from petamap.data.config.source_kinds import all_source_kinds
from petamap.data.config.template import written_default
from petamap.data.config.writer import toml_value

PAGE = Path(__file__).parent / "petamap" / "options.md"

HEAD = """\
# Options

Written by `python docs/make_options.py`; do not edit. `petamap init --list` prints the same for the sources
that are installed, plug-ins included. A quantity is a number and a unit in one string: `"7.5 arcmin"`.
Names of units are understood as well as these symbols, as in `"2 hours"`.
"""

_REPEATED_HEADS = {
    "split": "## Splits\n\nEach `[[split]]` is one of [splits of the data](splits.md).",
    "band": "## Bands and components\n\nEach `[[band]]` has a map; with `[[component]]`, each of "
    "[these](components.md).",
    "component": "",
}


def options_page() -> str:
    """Return the page."""
    parts = [HEAD, _units(), "## Sections"]
    parts += [
        _table(f"`[{name}]`", _first_line(kind), option_fields(kind)) for name, kind in SECTIONS.items()
    ]
    for name, kind in REPEATED.items():
        parts += [_REPEATED_HEADS[name], _table(f"`[[{name}]]`", _first_line(kind), option_fields(kind))]
    parts += ["## Sources\n\nEach `[[source]]` says its `kind`; what follows are the options of that kind."]
    parts += [_table(f'`kind = "{kind.name}"`', kind.summary, kind.fields) for kind in all_source_kinds()]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _units() -> str:
    rows = [
        f"| {name} | {', '.join(f'`{unit}`' for unit in units)} |"
        for name, units in units_by_dimension().items()
    ]
    return "\n".join(["## Units", "", "| dimension | units |", "|---|---|", *rows])


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _table(title: str, summary: str, fields: dict[str, OptionField]) -> str:
    rows = [_row(field) for field in fields.values()]
    head = ["| option | meaning | value | default |", "|---|---|---|---|"]
    return "\n".join([f"### {title}", "", summary, "", *head, *rows])


def _row(field: OptionField) -> str:
    many = "" if field.length is None else "list of: "
    default = written_default(field)
    given = "" if default in (None, "", []) else f"`{toml_value(default)}`"
    cells = (f"`{field.name}`", field.help, many + field.allowed(), "required" if field.required else given)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(options_page(), encoding="utf-8")
    print(f"wrote {PAGE}")
