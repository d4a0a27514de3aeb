"""``petamap compare``: differences of maps, spectra and runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from petacomm.base.errors import STOPS, ConfigError, DataError, UserError
from petacomm.base.text import table_lines

if TYPE_CHECKING:
    from petamap.data.run_summary import Product, Summary
    from petamap.sky.sky_map import SkyMap
    from petamap.spectra.map_differences import Difference, MapDifference

DIFFERENT = 1  # as diff and cmp have it
# Products that are maps with Stokes parameters or other columns of pixels.
_TABLES = ("amplitudes", "pixel_covariance", "observation_matrix")
_OTHER_BITS = "other bits, not compared further"
_SAME_BITS = ("same bits", "same bits, by their summaries")

# Folder and summary of a run, and one of its products.
_Written: TypeAlias = "tuple[Path, Summary, Product]"

_DESCRIPTION = """\
Hold a map, a file of bandpowers or a run (its folder or summary.json) against another: root mean square and
largest difference of each column, and the differences of I, and of Q and U, in octaves of l. Units are
converted, and HEALPix pixels compared in whatever order the files have them, where both maps have values.
A unit that one of the maps lacks is taken to be that of the other, which a line says.
Exit code 0 if all differences are within the tolerance, and both maps have the same pixels, 1 if not."""

_EPILOG = """\
examples:
  petamap compare maps other-maps                          all products of two runs
  petamap compare a_map.fits b_map.fits --tolerance 1e-9
  petamap compare a_map.fits b_map.fits --mask galaxy.fits --absolute "1 nK"
  petamap compare a_spectra.fits b_spectra.fits
"""


def add_commands(commands: Any) -> None:
    """Add ``compare`` to the subparsers."""
    parser = commands.add_parser(
        "compare",
        help="hold maps, spectra or runs against each other",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "first",
        metavar="A",
        type=Path,
        help="a map, a file of bandpowers, or the folder or summary.json of a run",
    )
    parser.add_argument("second", metavar="B", type=Path, help="what is held against it")
    parser.add_argument(
        "--tolerance", metavar="X", type=float, default=1e-6,
        help="largest rms of a difference, in units of that of A, of a column and on each scale [1e-6]",
    )  # fmt: skip
    parser.add_argument("--absolute", metavar="T", default="0 K", help='added to it, as "1 nK" [0 K]')
    parser.add_argument("--mask", metavar="FILE", type=Path, help="HEALPix map, 0 where pixels are left out")
    parser.add_argument("-q", "--quiet", action="store_true", help="no table: the exit code tells")
    parser.set_defaults(handler=_compare)


@dataclass(frozen=True)
class _Tolerance:
    relative: float
    absolute: float
    mask: Path | None

    def holds(self, differences: Sequence[Difference]) -> bool:
        return all(one.within(self.relative, self.absolute) for one in differences)


def _compare(arguments: argparse.Namespace) -> int:
    from petacomm.base.units import parse_quantity
    from petamap.spectra.run_maps import require_mask

    absolute = parse_quantity(arguments.absolute, "temperature")
    if not (arguments.tolerance >= 0 and absolute >= 0):
        raise ConfigError("a tolerance is 0 or more", mend="0 asks for equal values")
    tolerance = _Tolerance(arguments.tolerance, absolute, arguments.mask)
    first, second = (_run_of_summary(path) for path in (arguments.first, arguments.second))
    if first.is_dir() != second.is_dir():
        raise ConfigError("one is a folder, the other a file", mend="compare two runs, or two files")
    if tolerance.mask is not None:
        require_mask(tolerance.mask)
    compare = _compare_runs if first.is_dir() else _compare_files
    lines, same = compare(first, second, tolerance)
    if not arguments.quiet:
        print("\n".join(lines))
    return 0 if same else DIFFERENT


def _run_of_summary(path: Path) -> Path:
    """Return the folder of a run for its summary; other paths as they are."""
    return path.parent if path.name == "summary.json" else path


def _compare_files(first: Path, second: Path, tolerance: _Tolerance) -> tuple[list[str], bool]:
    lines, same = _differences(first, second, tolerance)
    limit = f"{tolerance.relative:g} of A"
    if tolerance.absolute:
        limit += f" and {tolerance.absolute:g} K"
    verdict = (
        f"same within {limit}, in all columns and on all scales"
        if same
        else f"DIFFERENT by more than {limit}"
    )
    return [*lines, verdict], same


def _differences(first: Path, second: Path, tolerance: _Tolerance) -> tuple[list[str], bool]:
    """Return a table of the differences of two files, and whether they are within the tolerance."""
    from petamap.sky.map_file import read_map
    from petamap.spectra.bandpower_files import read_bandpowers
    from petamap.spectra.map_differences import compare_bandpowers

    if _has_bandpowers(first):
        found = compare_bandpowers(read_bandpowers(first), read_bandpowers(second))
        return _table(found, "spectrum", [""] * len(found)), tolerance.holds(found)
    try:
        maps = _map_difference(read_map(first), read_map(second), tolerance.mask)
    except DataError as error:
        where = error.where or f"{first} and {second}"
        raise DataError(error.what, where=where, mend=error.mend) from None
    same = tolerance.holds(maps.columns) and tolerance.holds(maps.scales)
    return _map_lines(maps), same and not (maps.n_first or maps.n_second or maps.missing)


def _has_bandpowers(path: Path) -> bool:
    from petamap.sky.checked_fits import open_fits

    with open_fits(path) as hdus:
        return "BANDPOWERS" in hdus


def _map_difference(one: SkyMap, other: SkyMap, mask: Path | None) -> MapDifference:
    from petacomm.base.threads import available_threads
    from petamap.sky.healpix import Healpix
    from petamap.spectra.map_differences import compare_maps
    from petamap.spectra.run_maps import read_mask

    values = None
    if mask is not None:
        if not isinstance(one.pixelization, Healpix):
            raise DataError("a mask is for HEALPix maps", mend="leave --mask away")
        values = read_mask(mask, one.pixelization, one.frame)
    return compare_maps(one, other, values, available_threads())


def _map_lines(found: MapDifference) -> list[str]:
    lines = [f"pixels: {found.n_both:,} in both, {found.n_first:,} in A alone, {found.n_second:,} in B alone"]
    if found.missing:
        lines.append(f"columns of one alone: {', '.join(found.missing)}")
    for which, unknown in zip("AB", found.assumed, strict=True):
        if unknown:
            lines.append(f"{which} has no unit of {', '.join(unknown)}: taken to be that of the other")
    lines += _table(found.columns, "column", found.units)
    if found.scales:
        names = list(dict.fromkeys(one.name for one in found.scales))
        by_name = [[one for one in found.scales if one.name == name] for name in names]
        rows = [["l", *(f"{' and '.join(name)}, relative" for name in names)]]
        for row in zip(*by_name, strict=True):
            rows.append([f"{row[0].l_first}-{row[0].l_last}", *(f"{one.relative:.2e}" for one in row)])
        lines += table_lines(rows)
    return lines


def _table(differences: Sequence[Difference], what: str, units: Sequence[str]) -> list[str]:
    rows = [[what, "largest", "rms", "relative", "unit"]]
    rows += [
        [one.name, f"{one.largest:.2e}", f"{one.rms:.2e}", f"{one.relative:.2e}", unit]
        for one, unit in zip(differences, units, strict=True)
    ]
    width = None if any(units) else -1
    return table_lines([row[:width] for row in rows])


def _compare_runs(first: Path, second: Path, tolerance: _Tolerance) -> tuple[list[str], bool]:
    """Return a table of the products of two runs, with its worst difference, and whether all are same."""
    from petamap.data.run_summary import Summary

    one, other = Summary.read(first), Summary.read(second)
    rows, all_same = [["product", "worst", ""]], True
    for product, its in _pairs(one, other):
        name = product.name  # which says of what it is
        if its is None:
            rows.append([name, "", "of one run alone"])
            same = False
        else:
            worst, said, same = _compare_products((first, one, product), (second, other, its), tolerance)
            rows.append([name, worst, said])
        all_same = all_same and same
    lines = [*_told(one, other), *table_lines(rows)]
    n_other = sum(row[2] not in ("", *_SAME_BITS, "within the tolerance") for row in rows)
    verdict = (
        f"same within {tolerance.relative:g} of A" if all_same else f"DIFFERENT: {n_other} of {len(rows) - 1}"
    )
    return [*lines, verdict], all_same


def _pairs(one: Summary, other: Summary) -> Iterator[tuple[Product, Product | None]]:
    """Yield the products of two runs, in pairs by kind, name and what they are of."""
    theirs = {(product.kind, product.name, product.of): product for product in other.products}
    for product in one.products:
        yield product, theirs.pop((product.kind, product.name, product.of), None)
    yield from ((product, None) for product in theirs.values())


def _compare_products(first: _Written, second: _Written, tolerance: _Tolerance) -> tuple[str, str, bool]:
    """Return the worst relative difference of two products, words on it, and whether it is tolerated."""
    from petamap.data.product_file import read_product

    same_bits = first[2].sha256 == second[2].sha256
    if first[2].kind in _TABLES:
        return ("0", _SAME_BITS[1], True) if same_bits else ("", _OTHER_BITS, False)
    try:
        maps = read_product(*first), read_product(*second)
        if same_bits:
            return "0", _SAME_BITS[0], True
        found = _map_difference(*maps, tolerance.mask)
    except STOPS:
        raise
    except UserError as error:
        return "", str(error), False
    differences = [*found.columns, *found.scales]
    worst = f"{max(one.relative for one in differences):.2e}"
    if alone := found.n_first + found.n_second:
        return worst, f"{alone:,} pixel{'s' * (alone > 1)} of one alone", False
    same = tolerance.holds(differences)
    return worst, "within the tolerance" if same else "DIFFERENT", same


def _told(one: Summary, other: Summary) -> list[str]:
    """Return a table of what summaries say of two runs, which is shown and not judged."""
    rows = [["", "A", "B"]]
    for name, say in (
        ("run", lambda s: f"{s.name}, petamap {s.petamap}"),
        ("samples used", lambda s: f"{s.totals.samples_used:,}"),
        ("iterations", lambda s: "none" if s.solver is None else f"{s.solver.iterations}"),
        ("seconds", lambda s: f"{sum(phase.seconds.max for phase in s.phases):.2f}"),
        ("ranks x threads", lambda s: f"{s.environment.ranks} x {s.environment.threads}"),
        ("kernels", lambda s: s.environment.kernels),
    ):
        rows.append([name, say(one), say(other)])
    return [*table_lines(rows, left=3), ""]
