"""Options of tables of time streams, and what they say of pixels that have numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petamap.data.formats.csv_table import DELIMITERS
from petamap.data.formats.madmap1 import read_image_layout
from petamap.data.selection import detectors_option, observations_option
from petamap.data.source import SourceContext
from petamap.pointing.frames import FRAMES, OFFSET
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization

HORIZONTAL = "horizontal"


@dataclass(frozen=True)
class TableOptions:
    """Text (CSV) and FITS tables with a row for each sample."""

    path: str = option(path=True, help="a table, or a folder with one for each observation")
    observations: tuple[str, ...] = observations_option()
    detectors: tuple[str, ...] = detectors_option()
    format: str = option("auto", choices=("auto", "text", "fits"), help="auto: fits where the suffix says so")
    table: str = option("", help="FITS: name of the extension; empty: the first table")
    delimiter: str = option(
        "auto", choices=("auto", *DELIMITERS), help="text: between columns; auto: as in the line of names"
    )
    time: str = option("time", help="column of times; empty: none, then give sample_rate")
    time_format: str = option(
        "unix", choices=("unix", "mjd", "jd"), help="seconds since 1970, or since start; or days, UTC"
    )
    start: str = option("", help="UTC from which seconds count, as 2026-01-01T00:00:00; empty: 1970")
    sample_rate: float = option(0.0, dimension="frequency", minimum=0.0, help="0: that of the times")
    frame: str = option(
        "equatorial",
        choices=(*FRAMES, HORIZONTAL, OFFSET),
        help="coordinates of the pointing; horizontal: azimuth and elevation, turned to equatorial",
    )
    lon: str = option(
        "", help="column of longitudes; default: ra, glon, elon, az or lon by the frame, phi with colatitude"
    )
    lat: str = option(
        "",
        help="column of latitudes; default: dec, glat, elat, el or lat by the frame, theta with colatitude",
    )
    psi: str = option("psi", help="column of polarization angles; empty: unpolarized")
    colatitude: bool = option(False, help="latitudes count from the pole: theta of HEALPix")
    angle_unit: str = option(
        "",
        choices=("", "deg", "rad", "arcmin", "arcsec"),
        help="of all angles; empty: as FITS says, else deg",
    )
    polarization: str = option(
        "COSMO", choices=("COSMO", "IAU"), help="psi counts from south to east, or (IAU) from north to east"
    )
    thin: float = option(
        0.0, dimension="angle", minimum=0, help="thin the pointing out to this accuracy; 0 keeps all samples"
    )
    site_latitude: float | None = option(None, dimension="angle", help="of the site, where horizontal")
    site_longitude: float | None = option(None, dimension="angle", help="of the site, east positive")
    focalplane: str = option(
        "",
        path_or_name=True,
        help="places and noise of detectors about the pointing: planck-lfi, a .toml, .xml or RIMO .fits file",
    )
    signal: str = option("signal", help="column of the signal, signal_* for several; empty: none")
    flags: str = option("flags", help="column of flags, not 0 where bad; the default may be missing")
    mask: int = option(0, minimum=0, maximum=2**31 - 1, help="bits of the flags that say bad; 0: all")
    pixel: str = option("", help="column of pixel numbers, pixel_* for several, instead of lon and lat")
    pixels: str = option(
        "",
        choices=("", "ring", "nested", "numbered"),
        help="what is numbered: HEALPix in its order, or bare numbers",
    )
    n_side: int = option(0, minimum=0, maximum=2**13, help="of HEALPix pixels")
    n_pix: int = option(0, minimum=0, maximum=2**31 - 1, help="of bare numbers: 0 to n_pix - 1")
    image: str = option(
        "", path=True, help="a FITS image whose finite pixels, row by row, bare numbers number"
    )
    response_i: str = option("", help="column of the response to I, wI of pointing weights; empty: 1")
    response_q: str = option("", help="column of the response to Q, wQ; with response_u, instead of psi")
    response_u: str = option("", help="column of the response to U, wU")
    gain: str = option("", help="column of gains, by which the signal is divided; empty: none")
    weight: str = option(
        "", help="column of weights, 1 / variance of white noise, 0 where bad; empty: no noise is known"
    )
    unit: str = option("", help="of the signal; empty: as FITS says, else K_CMB")


def check_combination(options: TableOptions, places: Mapping[str, str]) -> None:
    """Raise ConfigError if options exclude each other, or one lacks another; names the line of the option."""
    for wrong, key, what, mend in _faults(options, places):
        if wrong:
            raise ConfigError(what, where=places.get(key), mend=mend)


def _faults(options: TableOptions, places: Mapping[str, str]) -> list[tuple[bool, str, str, str]]:
    """Return what may be wrong: whether it is, the option, the fault, and what mends it."""
    polarized = (bool(options.response_q), bool(options.response_u))
    horizontal, healpix = options.frame == HORIZONTAL, options.pixels in ("ring", "nested")
    numbered = options.pixels == "numbered"
    sized = bool(options.n_pix) + bool(options.image)
    two = next((key for key in ("lon", "lat", "colatitude", "thin") if key in places), "")
    response = next((key for key in ("response_i", "response_q") if getattr(options, key)), "")
    return [
        (
            horizontal and not options.pixel and None in (options.site_latitude, options.site_longitude),
            "frame", "azimuth and elevation need a site",
            'give site_latitude and site_longitude, as "-22.96 deg"',
        ),
        (bool(options.pixel and two), two, f"{two} is given beside pixel", "leave one of them out"),
        (bool(options.pixel and horizontal), "frame", "pixels are not horizontal", "give their frame"),
        (
            bool(options.pixel) and not options.pixels, "pixel", "nobody says what pixels are numbered",
            'give pixels = "ring", "nested" (HEALPix) or "numbered"',
        ),
        (bool(options.pixels) and not options.pixel, "pixels", "there is no column of pixels", "give pixel"),
        (healpix and options.n_side < 1, "pixels", "nobody says how many pixels there are", "give n_side"),
        (numbered and sized != 1, "pixels", "nobody says how many pixels there are", "give n_pix or image"),
        (polarized[0] != polarized[1], "response_q", "response_q and response_u go together", "give both"),
        (all(polarized) and "psi" in places, "psi", "psi is given beside response_q", "leave one out"),
        (
            bool(response and options.focalplane and not options.pixel), response,
            f"{response} is given beside a focal plane, which tells the response", "leave one of them out",
        ),
    ]  # fmt: skip


def given_pixelization(options: TableOptions, context: SourceContext) -> Pixelization | None:
    """Return the pixelization of pixel numbers, or None if there are none.

    Raises
    ------
    ConfigError, DataError
        If n_side or n_pix is none, or the image cannot be read.
    """
    if not options.pixel:
        return None
    if options.pixels != "numbered":
        return Healpix(options.n_side, nest=options.pixels == "nested")
    if options.image:
        layout = context.read(read_image_layout, context.folder / options.image)
        return NumberedPixels(layout.index.size, layout)
    return NumberedPixels(options.n_pix)
