"""Whether spectra are unbiased: many skies with noise behind weights, from pixels to bandpowers.

    python benchmarks/unbiased.py                       # 500 realizations of each case
    python benchmarks/unbiased.py --realizations 50 --cases cut --keep DIR

Cases: `cut`, WMAP's temperature mask (62 % of the sky) at N_side 64; `patch`, 3 % of the sky with edges of
8 degrees at N_side 128, B purified; `leakage`, skies of E alone on that patch; `pipeline`, from time streams
with 1/f noise to maps at N_side 32 behind that mask, monopole and dipole fitted (`petamap mc`). Skies are
Gaussian, from Planck's best fit of 2018, seen by a beam; noise that is not of time streams is drawn for each
pixel and varies over the sky. What holds, and by what margin, is printed; the exit status is 1 where
something does not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np

from petacomm.base.typing import ComplexArray, FloatArray, Int32Array
from petamap.data.config import load_config
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.reader import read_results
from petamap.montecarlo.realizations import Realizations
from petamap.montecarlo.run import run_montecarlo
from petamap.montecarlo.validation import ALL_SPECTRA, ConsistencyCheck, split_halves
from petamap.simulation.random_keys import Purpose, gaussians, random_stream
from petamap.simulation.sky_spectra import gaussian_alm, read_spectra, smooth_alm, synthesize
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map
from petamap.spectra.cross_spectra import pseudo_spectra, spectra_names
from petamap.spectra.masks import Apodization, apodize, sky_fraction
from petamap.spectra.measure import SpectraChoices
from petamap.spectra.pseudo_cl import PseudoClEstimator
from petamap.spectra.transforms import Harmonics

SEED, LEAST = 2018, 0.01
Result = TypeVar("Result")
NAMES = spectra_names("TEB")


@dataclass(frozen=True)
class Case:
    """Maps of one kind.

    Attributes
    ----------
    name : str
    n_side : int
    choices : SpectraChoices
        Skies end at its last multipole.
    mask : function
        Of the directions of the pixels, float64 (n_pix, 3).
    width : float
        Of its soft edges, degrees.
    level : float
        Noise of Q in a pixel where it is least, K.
    """

    name: str
    n_side: int
    choices: SpectraChoices
    mask: Callable[[FloatArray], FloatArray]
    width: float
    level: float

    @property
    def sky(self) -> Healpix:
        """The pixels."""
        return Healpix(self.n_side)

    @property
    def l_max(self) -> int:
        """Where skies end."""
        return 2 * self.n_side

    @cached_property
    def directions(self) -> FloatArray:
        """Of the pixels."""
        return self.sky.directions_of(np.arange(self.sky.n_pix))

    @cached_property
    def sigma(self) -> FloatArray:
        """The noise of I, Q and U, that of a scan in ecliptic rings."""
        pole = np.array([-0.096, -0.862, 0.497])  # of the ecliptic, in galactic coordinates
        hits = 1 / np.sqrt(1.02 - (self.directions @ pole) ** 2)
        return np.outer([1 / np.sqrt(2), 1, 1], self.level / np.sqrt(hits / hits.max()))

    @cached_property
    def weights(self) -> FloatArray:
        """Of I: the mask; of Q and U, with noise above the sky, by hits; where B is pure, the mask."""
        hard, pure = self.mask(self.directions), bool(self.choices.pure)
        soft = apodize(hard, self.sky, np.radians(self.width), self.choices.kind, band_limited=pure)
        by_hits = (self.sigma[1].min() / self.sigma[1]) ** 2
        return np.stack((soft, soft if self.choices.pure else soft * by_hits))

    @cached_property
    def sight(self) -> PseudoClEstimator:
        """How maps are seen."""
        return PseudoClEstimator(self.sky, self.weights, 3, keep_dipole=True, pure=self.choices.pure)


def galaxy(directions: FloatArray) -> FloatArray:
    """WMAP's mask of 7 years for temperature, as it comes with the example planck-lfi."""
    found = read_map(Path(str(files("petamap.examples") / "planck_lfi" / "wmap_mask_n32.fits")))
    places: Int32Array = np.empty(len(directions), np.int32)
    Healpix(32).pixels_of(directions, places)
    return np.asarray(found.values[0][places] > 0.5, np.float64)


def cap(directions: FloatArray) -> FloatArray:
    """3 % of the sky, around galactic longitude 250 and latitude -50 degrees."""
    lon, lat = np.radians(250), np.radians(-50)
    middle = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    return np.asarray(directions @ middle > 1 - 2 * 0.03, np.float64)


def _choices(width: int, fwhm: float, kind: Apodization, pure: str = "") -> SpectraChoices:
    return SpectraChoices(
        width=width, fwhm=np.radians(fwhm), kind=kind, pixel_window=False, keep_dipole=True, pure=pure
    )


CASES = {
    "cut": Case("cut", 64, _choices(10, 1.5, "C1"), galaxy, 2.0, 1e-6),
    "patch": Case("patch", 128, _choices(15, 0.8, "C2", "B"), cap, 8.0, 5e-7),
}


def draw(number: int, l_max: int, components: str = "TEB") -> ComplexArray:
    """Return the coefficients of a sky, complex128 (3, n_alm); others than `components` are 0."""
    words = np.stack([random_stream(Purpose.SKY, SEED, number, detector=k) for k in range(3)])
    alm = gaussian_alm(read_spectra("planck2018"), words, l_max)
    alm[["TEB".index(letter) for letter in "TEB" if letter not in components]] = 0
    return alm


def seen(case: Case, alm: ComplexArray) -> Harmonics:
    """Return the coefficients of the map of a sky behind beam and weights."""
    return case.sight.harmonics(
        synthesize(smooth_alm(alm, case.l_max, case.choices.fwhm), case.l_max, case.n_side)
    )


def realization(name: str, number: int) -> dict[str, FloatArray]:
    """Return the pseudo-spectra of a realization, and what its sky was drawn with."""
    case = CASES[name]
    alm, l_max = draw(number, case.l_max), case.l_max
    white = [
        gaussians(random_stream(Purpose.NOISE, SEED, number, detector=k), case.sky.n_pix) for k in range(3)
    ]
    sky, noise = seen(case, alm), case.sight.harmonics(case.sigma * np.stack(white))
    both = replace(sky, alm=sky.alm + noise.alm)  # coefficients of a sum, at two thirds of the time
    found = {part: pseudo_spectra(h).values for part, h in (("sky", sky), ("noise", noise), ("both", both))}
    true = pseudo_spectra(Harmonics(alm, "TEB", alm, l_max, l_max)).values
    return found | {"input": np.pad(true, ((0, 0), (0, sky.l_max - l_max)))}


def leaked(name: str, number: int) -> FloatArray:
    """Return the pseudo-spectra of a sky of E alone, float64 (n_spectra, l_max + 1)."""
    return pseudo_spectra(seen(CASES[name], draw(number, CASES[name].l_max, "E"))).values


def each(function: Callable[[str, int], Result], case: Case, n: int, processes: int) -> list[Result]:
    """Return the results of all numbers, from this process or from several."""
    work = partial(function, case.name)
    if processes == 1:
        return [work(number) for number in range(n)]
    # not forked: the kernels have started threads, and what these hold would never be let go in a child
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return list(pool.map(work, range(n)))


def realizations(case: Case, n: int, processes: int) -> Realizations:
    """Return many."""
    rows = each(realization, case, n, processes)
    arrays = {part: np.stack([row[part] for row in rows]) for part in rows[0]}
    true = arrays.pop("input")
    return Realizations(np.arange(n), NAMES, arrays, case.sky, case.weights, true, case.choices)


PIPELINE = """
[run]
name = "pipeline"
[map]
n_side = 32
[noise]
n_lag = 1024
[solver]
tolerance = 1e-6
[montecarlo]
vectors = 16
[spectra]
mask = "{mask}"
apodize = "4 deg"
weights = "uniform"
width = 10
l_max = 61
pixel_window = false
[[source]]
kind = "satellite"
focalplane = "planck-lfi"
detectors = ["LFI18", "LFI19", "LFI20", "LFI21", "LFI22", "LFI23"]
duration = "6 h"
year = "6 h"
sample_rate = "5 Hz"
spin_period = "1 min"
opening = "85 deg"
precession_angle = "7.5 deg"
precession_period = "1 h"
[[source]]
kind = "sky-spectra"
n_side = 32
fwhm = "2.5 deg"
[[source]]
kind = "noise"
"""


def through_the_pipeline(n: int, processes: int) -> Realizations:
    """Return realizations that were scanned and mapped."""
    mask = Path(str(files("petamap.examples") / "planck_lfi" / "wmap_mask_n32.fits"))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.toml"
        file.write_text(PIPELINE.format(mask=mask))
        config = load_config(file, [f"montecarlo.realizations={n}", f"resources.threads={processes}"])
        run_montecarlo(config, out=folder)
        return read_results(Path(folder)).realizations


def told(case: str, found: Realizations) -> list[tuple[str, bool]]:
    """Return what holds, in words."""
    calibration = Calibration.from_realizations(found)
    check = ConsistencyCheck.from_realizations(found, calibration)
    lines = []
    for name in (ALL_SPECTRA, *check.names):
        test, uniform = check.deviations[name], check.probabilities.get(name)
        p_uniform = float("nan") if uniform is None else uniform.probability
        good = not min(test.probability, p_uniform, test.chance(test.worst)) < LEAST
        lines.append((
            f"{case:8} {name:4} {len(test.mean):4} bins  worst mean {test.worst:4.2f} sigma "
            f"(beyond 3: {100 * test.chance():4.1f} % by chance)  chi2 {test.chi_squared:6.1f}  "
            f"p {test.probability:6.3f}  uniform p {p_uniform:6.3f}", good,
        ))  # fmt: skip
    transfer = calibration.transfer
    assert transfer is not None
    one = transfer.against_one
    lines.append((
        f"{case:8} F    {transfer.values.size:4} bins  of TT, EE against 1: worst {one.worst:.2f} "
        f"sigma, p {one.probability:.3f}; errors {transfer.errors.min():.1e} to {transfer.errors.max():.1e}",
        one.probability > LEAST,
    ))  # fmt: skip
    raw = replace(calibration, noise=None)
    bias = ConsistencyCheck.from_realizations(
        replace(found, pseudo={"both": found.pseudo["both"]}), raw
    ).deviations["BB"]
    lines.append((f"{case:8} with its noise bias left in, BB would lie {bias.worst:.0f} sigma off", True))
    one_half, other = split_halves(found)
    split = ConsistencyCheck.from_realizations(
        other, Calibration.from_realizations(one_half, divide=True)
    ).deviations
    lines.append((
        f"{case:8} divided by F of the other half: TT p {split['TT'].probability:.3f}, EE p "
        f"{split['EE'].probability:.3f}", not min(split[name].probability for name in ("TT", "EE")) < LEAST,
    ))  # fmt: skip
    c = check.convergence
    lines.append((
        f"{case:8} covariance: a variance to {100 * c.error:.1f} %, halves differ by "
        f"{100 * c.halves:.1f} % ({100 * c.expected_halves:.1f} if Gaussian), Hartlap {c.hartlap:.3f}", True,
    ))  # fmt: skip
    return lines


def leakage(case: Case, n: int, processes: int) -> list[tuple[str, bool]]:
    """Return how much of E is in B, bin by bin, on average over skies."""
    rows = np.stack(each(leaked, case, n, processes))
    nothing = Realizations(np.arange(n), NAMES, {"sky": rows}, case.sky, case.weights, choices=case.choices)
    found = Calibration.from_realizations(nothing).values(rows, noisy=False)
    ratio = np.abs(found[:, NAMES.index("BB")]).mean(axis=0) / found[:, NAMES.index("EE")].mean(axis=0)
    first = case.choices.l_min + case.choices.width - 1
    return [(
        f"leakage of {n} skies of E: |BB| / EE {ratio[0]:.1e} at l {case.choices.l_min} to {first}, at most "
        f"{ratio[1:].max():.1e} in the {len(ratio) - 1} bins beyond", bool(ratio.max() < 1e-4),
    )]  # fmt: skip


def main() -> int:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--realizations", type=int, default=500)
    parser.add_argument("--skies", type=int, default=20, help="of the leakage")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--cases", default="cut,patch,leakage,pipeline")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where spectra are kept, as NumPy files")
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.cases.split(","):
        begin = time.perf_counter()
        if name == "leakage":
            lines = leakage(CASES["patch"], arguments.skies, arguments.processes)
        else:
            if name == "pipeline":
                found = through_the_pipeline(arguments.realizations, arguments.processes)
            else:
                found = realizations(CASES[name], arguments.realizations, arguments.processes)
            weight, n_side = sky_fraction(found.weights[0]), found.pixelization.n_side
            print(f"{name}: mean weight {weight:.3f}, N_side {n_side}", flush=True)
            if arguments.keep:
                np.savez(arguments.keep / f"{name}.npz", input=found.input, **found.pseudo)
            lines = told(name, found)
        for text, good in lines:
            print(f"{'  ' if good else '! '}{text}")
        failed += sum(not good for _, good in lines)
        print(f"  {name}: {time.perf_counter() - begin:.0f} s", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
