"""``petamap spectra``: bandpowers of the maps of a finished run."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petacomm.base.errors import ConfigError, require_known

if TYPE_CHECKING:
    from petacomm.base.typing import FloatArray
    from petamap.sky.power_spectra import Spectra
    from petamap.spectra.bandpowers import Bandpowers
    from petamap.spectra.lowres_likelihood import LikelihoodMeasurement
    from petamap.spectra.measure import Measurement, SpectraChoices
    from petamap.spectra.run_maps import RunMaps

_DESCRIPTION = """\
Measure the power spectra of the map of a finished run, or the cross-spectra of two, write them and print a
table. Effects of mask, beam and pixels are corrected on average (MASTER); errors are those of a Gaussian sky.

With a Monte Carlo (petamap mc) of the same scan, the map is analysed as its realizations were; noise bias,
covariance and, with --transfer, the transfer function are theirs."""

_EPILOG = """\
examples:
  petamap spectra maps --mask galaxy.fits --apodize "5 deg"
  petamap spectra first-half second-half --fwhm "13.2 arcmin" --against planck2018
  petamap spectra maps --noise white --out maps/spectra.sacc
  petamap spectra maps --montecarlo mc --against planck2018 --fit amplitude,tilt
"""


def add_commands(commands: Any) -> None:
    """Add ``spectra`` to the subparsers."""
    parser = commands.add_parser(
        "spectra",
        help="measure the power spectra of a finished run",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run", metavar="OUT", type=Path, help="the --out folder of the run")
    add("other", metavar="OUT2", type=Path, nargs="?", help="another run, for cross-spectra")
    add(
        "--of", metavar="NAME", default="",
        help="band or component whose map is meant; NAME,NAME2 of two maps, for cross-spectra",
    )  # fmt: skip
    add("--out", metavar="FILE", type=Path, help=".fits, .sacc or text [OUT/NAME_spectra.fits]")
    add("--montecarlo", metavar="MC", type=Path, help="folder or file of a Monte Carlo that calibrates")
    add("--transfer", action="store_true", help="divide by the transfer function of the Monte Carlo")
    add("--weights", metavar="W", default="auto", help="auto, covariance, hits or uniform [auto]")
    add("--mask", metavar="FILE", type=Path, help="a HEALPix map, 0 where the sky is left out")
    add("--threshold", metavar="X", type=float, default=0.5, help="mask pixels below it are left out [0.5]")
    add("--apodize", metavar="ANGLE", default="0 deg", help='width of soft edges, as "5 deg" [none]')
    add("--apodization", metavar="KIND", default="C2", help="C1, C2 or smooth [C2]")
    add("--fwhm", metavar="ANGLE", default="0 deg", help="of the beam in the map, to be divided out [none]")
    add("--no-pixel-window", action="store_true", help="values of the map are no means over pixels")
    add("--l-min", metavar="L", type=int, help="first multipole [2]")
    add("--l-max", metavar="L", type=int, help="last multipole [2 n_side]")
    add("--width", metavar="N", type=int, help="multipoles in a bin [10, or a third of all]")
    add("--cl", action="store_true", help="mean C_l of bins instead of D_l = l (l + 1) C_l / 2 pi")
    add("--noise", metavar="N", default="none", help="bias taken off: none, or white (covariance) [none]")
    add("--purify", metavar="C", default="", nargs="?", const="B", help="pure B, or EB: no E leaks [none; B]")
    add(
        "--likelihood", metavar="E", nargs="?", const="quadratic",
        help="instead, the exact likelihood of large pixels: quadratic or maximum [quadratic]",
    )  # fmt: skip
    add("--n-side", metavar="N", type=int, help="of the likelihood [that of the map up to 16, else 8]")
    add("--keep-dipole", action="store_true", help="do not take monopole and dipole off I")
    add("--against", metavar="FILE", help="spectra to compare with: planck2018, CAMB's text or FITS")
    add("--fit", metavar="P", default="", help="some of amplitude, tilt and r, fitted to that theory; P,P2")
    add("--tensors", metavar="FILE", help="spectra of tensors for r = 1, as CAMB writes them")
    add("--pivot", metavar="L", type=float, default=80.0, help="multipole about which spectra tilt [80]")
    add("--threads", metavar="N", type=int, help="threads [all cores]")
    add("-q", "--quiet", action="store_true", help="print the name of the file alone")
    parser.set_defaults(handler=_spectra)


def _spectra(arguments: argparse.Namespace) -> int:
    from petamap.spectra.bandpower_files import write_bandpowers
    from petamap.spectra.measure import measure_bandpowers
    from petamap.spectra.run_maps import RunMaps

    choices = _choices(arguments)
    theory = None if arguments.against is None else _theory(arguments.against)
    if arguments.fit:
        _check_fit(arguments)
    _check_together(arguments)
    if arguments.montecarlo is not None:
        _check_no_analysis_options(arguments)
    of, both, of_other = arguments.of.partition(",")
    first = RunMaps(arguments.run, of)
    second = arguments.other or (arguments.run if both else None)
    measurement: LikelihoodMeasurement | Measurement
    if arguments.montecarlo is not None:
        from petamap.montecarlo.calibrated_bandpowers import measure_calibrated

        changes = _bins(arguments) | ({"of_d": False} if arguments.cl else {})
        measurement = measure_calibrated(
            first, arguments.montecarlo, arguments.transfer, choices.n_threads, **changes
        )
    elif arguments.likelihood is not None:
        measurement = _likelihood(first, arguments, choices, theory)
    else:
        measurement = measure_bandpowers(
            first, choices, None if second is None else RunMaps(second, of_other if both else of)
        )
    name = "_".join(one for one in (first.summary.name, *arguments.of.split(",")) if one)
    out = arguments.out or arguments.run / f"{name}_spectra.fits"
    write_bandpowers(out, measurement.bandpowers)
    if not arguments.quiet:
        print("\n".join(bandpower_table(measurement, theory)))
    if theory is not None and arguments.fit:
        _fit(measurement, theory, arguments, out.with_name(f"{out.stem}_fit.json"))
    print(out)
    return 0


def _choices(arguments: argparse.Namespace) -> SpectraChoices:
    from petacomm.base.threads import available_threads
    from petacomm.base.units import parse_quantity
    from petamap.spectra.masks import APODIZATIONS
    from petamap.spectra.measure import SpectraChoices
    from petamap.spectra.run_maps import WEIGHTINGS

    for option, value, known in (
        ("--weights", arguments.weights, WEIGHTINGS),
        ("--apodization", arguments.apodization, APODIZATIONS),
        ("--noise", arguments.noise, ("none", "white")),
        ("--purify", arguments.purify, ("", "B", "EB")),
    ):
        require_known(option, value, known)
    return SpectraChoices(
        weights=arguments.weights,
        mask=arguments.mask,
        threshold=arguments.threshold,
        apodization=parse_quantity(arguments.apodize, "angle"),
        kind=arguments.apodization,
        of_d=not arguments.cl,
        fwhm=parse_quantity(arguments.fwhm, "angle"),
        pixel_window=not arguments.no_pixel_window,
        noise=arguments.noise,
        keep_dipole=arguments.keep_dipole,
        pure=arguments.purify,
        n_threads=arguments.threads or available_threads(),
        **_bins(arguments),
    )


def _bins(arguments: argparse.Namespace) -> dict[str, int]:
    """Return the given options of the bins."""
    given = {name: getattr(arguments, name) for name in ("l_min", "l_max", "width")}
    return {name: value for name, value in given.items() if value is not None}


# options that a Monte Carlo determines, and their defaults
_ANALYSIS_DEFAULTS = {
    "other": None, "weights": "auto", "mask": None, "threshold": 0.5, "apodize": "0 deg", "apodization": "C2",
    "fwhm": "0 deg", "no_pixel_window": False, "noise": "none", "purify": "", "keep_dipole": False,
    "likelihood": None,
}  # fmt: skip


# those of them that are of no use to a likelihood, which has weights and noise of its own
# numbers from which on, and errors below which, bandpowers are shown in powers of ten
_HUGE, _TINY = 1e8, 1e-5
_OF_PSEUDO_SPECTRA = ("other", "weights", "apodize", "apodization", "noise", "purify", "keep_dipole")


def _first_given(arguments: argparse.Namespace, names: Iterable[str]) -> str | None:
    """Return the first of some options that has not its default, in words; None if there is none."""
    for name in names:
        if getattr(arguments, name) != _ANALYSIS_DEFAULTS[name]:
            return "a second run" if name == "other" else f"--{name.replace('_', '-')}"
    return None


def _check_no_analysis_options(arguments: argparse.Namespace) -> None:
    if (option := _first_given(arguments, _ANALYSIS_DEFAULTS)) is not None:
        raise ConfigError(
            f"{option} cannot be chosen with --montecarlo: the map is analysed as its realizations were",
            mend="choose it in the section spectra of the Monte Carlo",
        )


def _check_together(arguments: argparse.Namespace) -> None:
    """Raise the error of an option that is of no use without another one, which is not there, if any."""
    for option, given, other, there in (
        ("--transfer", arguments.transfer, "--montecarlo MC", arguments.montecarlo is not None),
        ("--n-side", arguments.n_side is not None, "--likelihood", arguments.likelihood is not None),
        ("--tensors", arguments.tensors is not None, "--fit r", "r" in arguments.fit.split(",")),
    ):
        if given and not there:
            raise ConfigError(f"{option} is of no use without {other}", mend=f"{other}, or leave it away")
    for option in ("likelihood", "montecarlo"):
        if "," in arguments.of and getattr(arguments, option) is not None:
            what = f"--{option} is of one map"
            raise ConfigError(what, where=f"--of {arguments.of}", mend="name one of them")


def _likelihood(
    maps: RunMaps, arguments: argparse.Namespace, choices: SpectraChoices, theory: Spectra | None
) -> LikelihoodMeasurement:
    from petamap.spectra.lowres_likelihood import ESTIMATORS, measure_likelihood

    require_known("--likelihood", arguments.likelihood, ESTIMATORS)
    if (option := _first_given(arguments, _OF_PSEUDO_SPECTRA)) is not None:
        raise ConfigError(f"{option} is of no use with --likelihood", mend="leave it away")
    fiducial = _theory("planck2018") if theory is None else theory
    report = _say_nothing if arguments.quiet else print
    return measure_likelihood(maps, choices, fiducial, arguments.n_side, arguments.likelihood, report)


def _say_nothing(line: str) -> None:
    pass


def _check_fit(arguments: argparse.Namespace) -> None:
    from petamap.spectra.parameter_fit import check_parameters

    if arguments.against is None:
        raise ConfigError("--fit is of a theory", mend="--against planck2018")
    check_parameters(arguments.fit.split(","), arguments.tensors is not None, arguments.pivot)


def _fit(
    measurement: Measurement | LikelihoodMeasurement,
    theory: Spectra,
    arguments: argparse.Namespace,
    out: Path,
) -> None:
    """Fit parameters to bandpowers, write the grid and print a line for each."""
    import json

    from petacomm.base.files import atomic_write
    from petamap.spectra.parameter_fit import fit_parameters

    found = fit_parameters(
        measurement.bandpowers, measurement.expected, theory, arguments.fit.split(","),
        tensors=None if arguments.tensors is None else _theory(arguments.tensors),
        pivot=arguments.pivot, n_realizations=measurement.n_realizations,
    )  # fmt: skip
    with atomic_write(out) as temporary:
        temporary.write_text(json.dumps(found.as_record(), allow_nan=False))
    if not arguments.quiet:
        for name in found.names:
            low, high = found.interval(name)
            mean, error = found.mean_and_error(name)
            limit = f", below {found.limit(name, 0.95):.3g} at 95%" if name == "r" else ""
            print(f"{name:<10}{_cell(mean, error)}, {low:.4g} to {high:.4g} at 68%{limit}")
        n_free = found.n_data - len(found.names)
        chi_squared = f"chi2 {found.chi_squared:.1f} of {n_free}, p {found.probability:.2g}"
        print(f"fit of {found.n_data} bandpowers: {chi_squared}")
    print(out)


def _theory(file: str) -> Spectra:
    from petamap.simulation.sky_spectra import read_spectra
    from petamap.sky.power_spectra import Spectra

    return Spectra(read_spectra(file), ("TT", "EE", "BB", "TE"))


def bandpower_table(measurement: Measurement | LikelihoodMeasurement, theory: Spectra | None) -> list[str]:
    """Return the lines of a table of bandpowers with errors, and of the chi-squared of the theory."""
    bandpowers = measurement.bandpowers
    kelvin = bandpowers.unit == "K_CMB^2"
    factor, unit = (1e12, "uK^2") if kelvin else (1.0, bandpowers.unit)
    errors = bandpowers.errors
    assert errors is not None, "a measurement has errors"
    power = "D_l" if bandpowers.binning.of_d else "C_l"
    kinds = (("TT", "T"), ("PP", "E, B"))
    f_sky = (
        f"{measurement.f_sky[kind]:.3f} of {what}" for kind, what in kinds if what[0] * 2 in bandpowers.names
    )
    lines = [f"{power} in {unit}; f_sky {', '.join(f_sky)}"]
    lines.append(f"{'l':>9}" + "".join(f"{name:>20}" for name in bandpowers.names))
    for b, (first, last) in enumerate(bandpowers.binning.ranges):
        cells = zip(bandpowers.values[:, b] * factor, errors[:, b] * factor, strict=True)
        lines.append(f"{f'{first}-{last}':>9}" + "".join(f"{_cell(*cell):>20}" for cell in cells))
    if theory is not None:
        lines += _against(bandpowers, measurement.expected(theory), measurement.n_realizations)
    return lines + [f"note: {note}" for note in measurement.notes]


def _cell(value: float, error: float) -> str:
    """Return a value with its error, rounded to two digits of it; of tiny or huge ones in powers of ten."""
    import math

    if max(abs(value), error) >= _HUGE or 0 < error < _TINY:
        return f"{value:.1e} ± {error:.1e}"
    digits = 0 if not error > 0 else max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def _against(bandpowers: Bandpowers, expected: Bandpowers, n_realizations: int | None) -> list[str]:
    lines = []
    for i, name in enumerate(bandpowers.names):
        assert bandpowers.covariance is not None, "a measurement has errors"
        difference = bandpowers.values[i] - expected.values[i]
        value, probability = _chi_squared(difference, bandpowers.covariance[i, :, i], n_realizations)
        lines.append(
            f"{name} against the theory: chi2 {value:.1f} of {len(difference)} bins, p {probability:.2g}"
        )
    return lines


def _chi_squared(
    difference: FloatArray, covariance: FloatArray, n_realizations: int | None
) -> tuple[float, float]:
    """Return chi-squared and its probability, with the uncertainty of a covariance from realizations."""
    import numpy as np
    from scipy.stats import chi2

    if n_realizations is None:
        value = float(np.sum(difference**2 / covariance.diagonal()))
        return value, float(chi2.sf(value, len(difference)))
    from petamap.montecarlo.statistics import can_invert, hotelling_probability, quadratic_form

    if not can_invert(n_realizations, len(difference)):
        return float("nan"), float("nan")
    value = float(quadratic_form(covariance, difference[None])[0])
    return value, float(hotelling_probability(np.array(value), n_realizations - 1, len(difference)))
