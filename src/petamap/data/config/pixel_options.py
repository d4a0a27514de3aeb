"""Options of the pixels of ``[map]``, of which each kind of pixelization heeds its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from petamap.data.config.model import MapOptions

T = TypeVar("T")

_IMAGES = ("car", "flat")
_KINDS: dict[str, tuple[str, ...]] = {
    "n_side": ("healpix",),
    **dict.fromkeys(("resolution", "centre_lon", "centre_lat", "width", "height"), _IMAGES),
}


def map_option_conflicts(options: MapOptions) -> Iterator[tuple[str, str, str | None]]:
    """Yield inconsistencies of ``[map]``: key, message, suggestion."""
    kind, n_side = options.pixelization, options.n_side
    if kind == "healpix" and n_side is None:
        yield "n_side", "map.n_side is missing; pixelization healpix needs it", "write e.g. n_side = 256"
    if n_side is not None and n_side & (n_side - 1):
        below = 1 << (n_side.bit_length() - 1)
        mend = f"{below} or {2 * below}" if below < 8192 else "8192 at most"
        yield "n_side", f"map.n_side must be a power of two, not {n_side}", mend
    if kind in ("car", "flat") and options.resolution is None:
        what = f"map.resolution is missing; pixelization {kind} needs it"
        yield "resolution", what, 'write e.g. resolution = "2 arcmin"'
    for key in ("resolution", "width", "height"):
        if getattr(options, key) == 0:
            yield key, f"map.{key} must be above 0", None
    yield from _unheeded_options(options)


def _unheeded_options(options: MapOptions) -> Iterator[tuple[str, str, str | None]]:
    kind = options.pixelization
    for key in _unheeded(kind):
        if getattr(options, key) is not None:
            of = " and ".join(_KINDS[key])
            yield key, f"map.{key} is of {of}, and map.pixelization is {kind}", _mend(key, kind)


def _mend(key: str, kind: str) -> str:
    if key == "n_side" and kind in _IMAGES:
        return 'pixels have map.resolution; remove n_side, or write pixelization = "healpix"'
    others = " or ".join(f'"{one}"' for one in _KINDS[key])
    return f"remove {key}, or write pixelization = {others}"


def without_replaced(values: Mapping[str, T], pixelization: object) -> dict[str, T]:
    """Return options of ``[map]`` without those that a pixelization, said with precedence, does not heed.

    So a file may include one of another pixelization, or the command line change it, without taking back what
    that said of its pixels.
    """
    replaced = _unheeded(pixelization)
    return {key: value for key, value in values.items() if key not in replaced}


def _unheeded(pixelization: object) -> list[str]:
    known = {kind for kinds in _KINDS.values() for kind in kinds} | {"numbered"}
    return [key for key, kinds in _KINDS.items() if pixelization in known and pixelization not in kinds]
