"""Typed options of a run configuration, common to TOML, XML and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

from petacomm.base.display import Displayed, some_names
from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petacomm.reduction import ALGORITHMS, AUTO
from petamap.data.config.band_options import BandOptions, ComponentOptions
from petamap.data.low_pass import LowPassOptions


@dataclass(frozen=True)
class RunOptions:
    """Name of the run, and keys of its random numbers."""

    name: str = option("run", help="name of the run; part of file names")
    title: str = option("", help="one line for the report")
    seed: int = option(1, help="key of all random numbers", minimum=0)
    realization: int = option(0, help="which realization of sky and noise", minimum=0, maximum=2**32 - 1)
    fraction: float = option(
        1.0, minimum=1e-9, maximum=1.0,
        help="part of the samples that is used, from the first on; less than 1 for trials",
    )  # fmt: skip


@dataclass(frozen=True)
class MapOptions:
    """The map to make."""

    pixelization: str = option(
        "healpix",
        choices=("healpix", "car", "flat", "numbered"),
        help="numbered: pixels as the files number them",
    )
    n_side: int | None = option(
        None, help="HEALPix resolution, a power of two; needed for healpix", minimum=1, maximum=8192
    )
    ordering: str = option("nest", choices=("nest", "ring"), help="order of HEALPix pixels in the files")
    stokes: str = option("IQU", choices=("I", "QU", "IQU"), help="components solved for")
    frame: str = option(
        "galactic", choices=("galactic", "equatorial", "ecliptic"), help="coordinates of the map"
    )
    resolution: float | None = option(
        None, dimension="angle", minimum=0.0, help="pixel size; needed for car and flat"
    )
    centre_lon: float | None = option(
        None, dimension="angle", help="longitude of the centre (car, flat); without it, from the data"
    )
    centre_lat: float | None = option(
        None, dimension="angle", help="latitude of the centre (car, flat); without it, from the data"
    )
    width: float | None = option(
        None,
        dimension="angle",
        minimum=0.0,
        help="extent along longitude (car, flat); default: from the data",
    )
    height: float | None = option(
        None, dimension="angle", minimum=0.0, help="extent along latitude (car, flat); default: from the data"
    )


@dataclass(frozen=True)
class GlitchOptions:
    """Glitches and steps of each detector's stream: found, and flagged or solved for."""

    find: str = option(
        "none",
        choices=("none", "glitches", "glitches-and-steps"),
        help="glitches: of cosmic rays, to be flagged; steps of the level: solved for with the map",
    )
    threshold: float = option(
        6.0, help="from which on, in standard deviations of the filtered stream", minimum=3.0, maximum=1e6
    )
    lag: int = option(
        2,
        help="samples to the neighbours on either side that a glitch stands out from",
        minimum=1,
        maximum=1000,
    )
    before: float = option(0.02, dimension="time", minimum=0.0, help="flagged before a glitch")
    after: float = option(0.2, dimension="time", minimum=0.0, help="flagged after a glitch, for its decay")
    step_length: int = option(
        32, help="samples before and after a step whose means are compared", minimum=4, maximum=10_000
    )


@dataclass(frozen=True)
class NoiseOptions:
    """The noise model of map-making."""

    kernel: str = option(
        "model",
        choices=("model", "estimate", "white"),
        help="model: as the sources say; estimate: from the data; white: no correlations",
    )
    max_rounds: int = option(
        5,
        help="estimates at most, each from what a map made with the one before leaves of the data; "
        "1: from what the binned map leaves, uncorrected",
        minimum=1,
        maximum=100,
    )
    tolerance: float = option(
        0.02,
        help="mean relative change of the spectra, in any octave, at which the estimates end",
        minimum=0.0,
        maximum=1.0,
    )
    n_lag: int | str = option(
        "auto",
        word="auto",
        help="lags kept of the inverse noise correlation; auto: as many as lose less than 0.1% of the "
        "information, for each stream",
        minimum=1,
        maximum=2**24,
    )
    common_modes: str = option(
        "declared",
        choices=("declared", "none"),
        help="noise that detectors share: declared: as the sources say; none: left out",
    )
    n_modes: int = option(
        0,
        help="modes of noise that the detectors of an observation share, estimated with their spectra "
        '(kernel = "estimate")',
        minimum=0,
        maximum=100,
    )
    ends: str = option(
        "auto",
        choices=("auto", "free", "zero"),
        help="noise beyond an interval: free: unknown; zero: none, as MADmap has it; auto: by its length",
    )
    interval: float | None = option(
        None, dimension="time", minimum=1.0, help="length of stationary intervals; without it, as in the data"
    )


@dataclass(frozen=True)
class SolverOptions:
    """How the map is solved for."""

    tolerance: float | str = option(
        1e-6, whole="noise", minimum=0.0, maximum=1.0,
        help="relative residual to stop at, or error of the map at every scale in units of its noise",
    )  # fmt: skip
    max_iterations: int = option(200, help="iterations at most", minimum=0, maximum=10**6)
    stall_iterations: int = option(
        0, minimum=0, maximum=10**6,
        help="stop after as many iterations without a smaller residual, which may be hundreds on the way "
        "down; 0: never",
    )  # fmt: skip
    flags: str = option(
        "exact",
        choices=("exact", "levels", "cut"),
        help="flagged samples: exact: each an unknown; levels: one for up to 64 (fewer unknowns, more "
        "iterations); cut: left out of N^-1",
    )
    preconditioner: str = option(
        AUTO,
        choices=(AUTO, "two-level", "block-diagonal", "diagonal", "none"),
        help="two-level: slow noise, gaps and large scales by a model of the noise; block-diagonal: one "
        "block of Stokes parameters a pixel; auto: two-level where the power of the noise spans more than "
        "a factor of 150 in most samples, and with templates",
    )
    rcond_min: float = option(
        1e-3, help="pixels with a smaller reciprocal condition are cut", minimum=0.0, maximum=1.0
    )
    rcond_solved: float = option(
        1e-6, minimum=0.0, maximum=1.0,
        help="samples of pixels with a smaller one are treated as flagged; pixels between it and rcond_min "
        "are solved for, but not written",
    )  # fmt: skip
    on_stall: str = option(
        "stop", choices=("stop", "error"), help="when the iterations end above the tolerance"
    )
    binned_only: bool = option(False, help="make the binned map alone")


@dataclass(frozen=True)
class CommOptions:
    """Communication between processes."""

    distribution: str = option(
        AUTO,
        choices=(AUTO, "streams", "time-major", "mixed", "detector-major"),
        help="how data are dealt to processes: stream by stream; all detectors for a short time; groups of "
        "detectors; a detector for a long time; auto: the fastest by the model of petamap plan",
    )
    reduction: str = option(
        AUTO,
        choices=(AUTO, *sorted(ALGORITHMS)),
        help="how shared pixels are summed; auto: the fastest here, by a model and measurements",
    )
    setup: str = option(
        "rendezvous",
        choices=("rendezvous", "gather-sift"),
        help="how shared pixels are found: at their owners (scales), or by gathering all",
    )
    buffer: int = option(
        64 * 1024**2,
        dimension="bytes",
        minimum=1024,
        maximum=2**40,
        help="communication buffer a process",
    )


@dataclass(frozen=True)
class ResourceOptions:
    """What the run may use."""

    threads: int = option(0, help="a process; 0: OMP_NUM_THREADS, or all it may use", minimum=0, maximum=4096)
    pointing: str = option(
        "auto",
        choices=("auto", "keep", "recompute"),
        help="keep: 4 to 12 bytes a sample; recompute: an eighth of one, slower; auto: by memory",
    )
    backend: str = option(
        "cpu", choices=("cpu", "cuda"), help="what applies the operator: the processor, or a device by CuPy"
    )
    memory: int | None = option(
        None, dimension="bytes", minimum=2**20, maximum=2**50, help="limit a process; default: what there is"
    )
    checkpoint_interval: float = option(
        600.0,
        dimension="time",
        minimum=0.0,
        help="between checkpoints of the solver; 0 s: only when the job is asked to stop",
    )
    time_limit: float | None = option(
        None,
        dimension="time",
        minimum=0.0,
        help="wall clock of the job, before whose end it stops with a checkpoint; default: what Slurm tells",
    )


@dataclass(frozen=True)
class ProductOptions:
    """What is written."""

    maps: bool = option(True, help="the maximum-likelihood map")
    hits: bool = option(True, help="samples a pixel")
    covariance: bool = option(True, help="covariance of the Stokes parameters of each pixel")
    pixel_covariance: bool = option(
        False, help="covariance of all pixels with all others, for maps of few pixels"
    )
    rcond: bool = option(True, help="reciprocal condition of each pixel")
    residual: bool = option(True, help="residual of the solution")
    amplitudes: bool = option(True, help="amplitudes of templates, where there are any")
    binned: bool = option(True, help="the binned map beside it")
    sky: bool = option(False, help="the sky that sources simulate, binned without anything else")
    demodulated: bool = option(
        False,
        help="the map of streams demodulated of a rotating plate, as [demodulation] says, templates fitted",
    )
    filtered: bool = option(
        False, help="the filter-and-bin map: templates fitted to the data alone, subtracted before binning"
    )
    modes_taken: bool = option(
        False, help="told by run, summary and report: what templates take of each scale of the sky"
    )
    observation_matrix: bool = option(
        False, help="what the filter-and-bin map has of each pixel of the sky, for maps of few pixels"
    )
    binned_weights: str = option(
        "noise", choices=("noise", "uniform"), help="weights of samples in the binned map"
    )
    report: bool = option(True, help="report.html")
    compare: str | None = option(None, path=True, help="map to compare the map with (FITS)")
    compare_limit: float | None = option(
        None, help="largest difference from it that is expected, in the unit of the map", minimum=0.0
    )
    compare_binned: str | None = option(None, path=True, help="map to compare the binned map with (FITS)")
    compare_binned_limit: float | None = option(
        None, help="largest difference from it that is expected, in the unit of the map", minimum=0.0
    )
    overwrite: bool = option(False, help="replace the products of an earlier run")


@dataclass(frozen=True)
class SpectraOptions:
    """Power spectra of maps, as by `petamap spectra`."""

    weights: str = option(
        "auto",
        choices=("auto", "covariance", "hits", "uniform"),
        help="of pixels; auto: 1 / (noise + sky) by their variances",
    )
    mask: str | None = option(None, path=True, help="a HEALPix map, 0 where the sky is left out")
    threshold: float = option(0.5, help="mask pixels below it are left out", minimum=0.0, maximum=1.0)
    apodize: float = option(0.0, dimension="angle", minimum=0.0, help="width of soft edges")
    apodization: str = option("C2", choices=("C1", "C2", "smooth"), help="shape of soft edges")
    l_min: int = option(2, help="first multipole", minimum=0)
    l_max: int | None = option(None, help="last multipole; default: 2 n_side", minimum=2)
    width: int | None = option(
        None, help="multipoles in a bin; default: 10, or a third of them where they are few", minimum=1
    )
    power: str = option(
        "D", choices=("D", "C"), help="D: bandpowers of D_l = l (l + 1) C_l / 2 pi; C: of C_l"
    )
    fwhm: float | None = option(
        None,
        dimension="angle",
        minimum=0.0,
        help="of the beam in the map, to be divided out; default: that of the sky drawn, or none",
    )
    pixel_window: bool = option(True, help="whether the values of the map are means over pixels")
    keep_dipole: bool = option(False, help="leave monopole and dipole of I where they are")
    purify: str = option("none", choices=("none", "B", "EB"), help="components that no E leaks into")


@dataclass(frozen=True)
class MonteCarloOptions:
    """Monte Carlo realizations of a run, as by `petamap mc`."""

    realizations: int = option(100, help="how many", minimum=1, maximum=10**7)
    first: int = option(0, help="number of the first", minimum=0, maximum=2**32 - 1)
    parts: str = option(
        "apart",
        choices=("apart", "together", "sky", "noise"),
        help="what is mapped: sky and noise each, both as one, or one of them",
    )
    estimator: str = option(
        "maximum-likelihood",
        choices=("maximum-likelihood", "filter-and-bin"),
        help="of the maps; filter-and-bin finds its transfer function",
    )
    noise: str = option(
        "auto",
        choices=("auto", "sources", "model"),
        help="sources: what the noise sources draw; model: drawn by the model that the map-maker assumes, "
        "estimated from the data with noise.kernel estimate; auto: sources, where there are any",
    )
    fixed: str = option(
        "leave",
        choices=("leave", "apart", "add"),
        help="signals that no realization draws, as files and sky maps: left out; mapped once and kept "
        "apart; or added to sky and noise, too",
    )
    maps: bool = option(False, help="keep the maps, not their spectra alone")
    vectors: int = option(0, help="found once to speed up all solutions; 0: none", minimum=0, maximum=1000)
    vectors_from: int = option(
        2, help="additional realizations that vectors are found from", minimum=1, maximum=8
    )
    batch: int = option(0, help="realizations at once; 0: by memory", minimum=0, maximum=1000)
    groups: int = option(
        0, help="groups of processes, a batch each; 0: the fastest", minimum=0, maximum=10**6
    )


@dataclass(frozen=True)
class SplitOptions:
    """Split of the data into parts; maps of all parts are solved for together."""

    name: str = option(help="name of the split; part of file names")
    by: str = option(
        choices=("detectors", "detector", "observations", "observation", "time", "direction", "subscans"),
        help="what the parts are; detector, observation: a part each; direction: left- and right-going scans",
    )
    groups: tuple[str, ...] = option(
        (), help="names or patterns of each part, separated by spaces (detectors, observations)"
    )
    n_parts: int = option(
        2,
        help="parts of equal time; or parts that detectors, observations or subscans go to in turn",
        minimum=2,
        maximum=1000,
    )
    whole_intervals: bool = option(False, help="cut time between stationary intervals only")
    names: tuple[str, ...] = option((), help="names of the parts; by default odd, even or numbers, or theirs")

    def __post_init__(self) -> None:
        """Find options that do not belong together."""
        if self.groups and self.by not in ("detectors", "observations"):
            raise ConfigError(f"groups are of detectors or observations, not by = '{self.by}'")
        if self.whole_intervals and self.by != "time":
            raise ConfigError(f"whole_intervals is of by = 'time', not by = '{self.by}'")
        if len(self.groups) == 1:
            raise ConfigError("a single group is no split", mend="give two groups or more")
        if self.names and self.by in ("detector", "observation"):
            raise ConfigError("parts have the names of what they are", mend="leave names away")
        n = len(self.groups) or (2 if self.by == "direction" else self.n_parts)
        if self.names and len(self.names) != n:
            raise ConfigError(f"{len(self.names)} names for {n} parts")
        if len(set(self.names)) < len(self.names):
            raise ConfigError("two parts have the same name")


@dataclass(frozen=True)
class SourceConfig:
    """Entry ``[[source]]`` of a run configuration.

    Attributes
    ----------
    kind : str
        Kind of the source, as registered in `petamap.data.source`.
    options : object
        Instance of the ``options`` dataclass of the source class.
    line : int
        Line in the file; 0 if there is no file.
    places : dict of str to str
        File and line of each option that is set, for messages.
    """

    kind: str
    options: Any
    line: int = field(default=0, compare=False)
    places: dict[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, repr=False)
class RunConfig(Displayed):
    """Validated run configuration with values in internal units.

    Attributes
    ----------
    run, map, glitches, noise, demodulation, solver, comm, resources, products, spectra, montecarlo
        Options of the sections.
    sources : tuple of SourceConfig
        Sources in the order in which they are applied.
    splits : tuple of SplitOptions
        Splits of the data that maps are made of as well.
    bands : tuple of BandOptions
        Bands that have a map each, instead of one for all data.
    components : tuple of ComponentOptions
        Components that have a map each, instead of the bands that see them.
    folder : Path
        Folder that relative paths refer to: that of the file.
    file : Path, optional
        File that the configuration was read from.
    """

    run: RunOptions = field(default_factory=RunOptions)
    map: MapOptions = field(default_factory=MapOptions)
    glitches: GlitchOptions = field(default_factory=GlitchOptions)
    noise: NoiseOptions = field(default_factory=NoiseOptions)
    demodulation: LowPassOptions = field(default_factory=LowPassOptions)
    solver: SolverOptions = field(default_factory=SolverOptions)
    comm: CommOptions = field(default_factory=CommOptions)
    resources: ResourceOptions = field(default_factory=ResourceOptions)
    products: ProductOptions = field(default_factory=ProductOptions)
    spectra: SpectraOptions = field(default_factory=SpectraOptions)
    montecarlo: MonteCarloOptions = field(default_factory=MonteCarloOptions)
    sources: tuple[SourceConfig, ...] = ()
    splits: tuple[SplitOptions, ...] = ()
    bands: tuple[BandOptions, ...] = ()
    components: tuple[ComponentOptions, ...] = ()
    folder: Path = field(default=Path(), compare=False)
    file: Path | None = field(default=None, compare=False)

    def _facts(self) -> dict[str, object]:
        n_side = f" n_side {self.map.n_side}" if self.map.n_side else ""
        return {
            "name": self.run.name,
            "map": f"{self.map.stokes} on {self.map.pixelization}{n_side}, {self.map.frame}",
            "sources": some_names([source.kind for source in self.sources], 8),
            "splits": some_names([split.by for split in self.splits]),
            "bands": some_names([band.name for band in self.bands]),
            "components": some_names([component.name for component in self.components]),
            "file": self.file,
        }


# options by section, in the order of `RunConfig`
SECTIONS: dict[str, type] = {
    name: type(options) for name, options in vars(RunConfig()).items() if is_dataclass(options)
}

# options of tables that may be given several times, beside [[source]], by their name
REPEATED: dict[str, type] = {"split": SplitOptions, "band": BandOptions, "component": ComponentOptions}


def noise_option_conflicts(options: NoiseOptions) -> Iterator[tuple[str, str, str | None]]:
    """Yield inconsistencies of ``[noise]``: key, message, suggestion."""
    if options.n_modes and options.kernel != "estimate":
        what = f'noise.n_modes are estimated, and noise.kernel = "{options.kernel}" estimates nothing'
        yield "n_modes", what, 'write kernel = "estimate"'
