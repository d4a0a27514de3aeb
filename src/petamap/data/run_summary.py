"""Results and provenance of a run, written to ``summary.json``.

The JSON schema in ``run_summary.schema.json`` next to this file is generated from these classes:
``python -m petamap.data.run_summary`` prints it.
"""

# ruff: noqa: RUF009  (`option` declares a field, as `dataclasses.field` does)

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.display import Displayed, some_names
from petacomm.base.errors import DataError
from petacomm.base.files import require_file, write_text
from petacomm.base.options import option
from petacomm.base.records import from_json, json_schema, to_json
from petacomm.base.typing import AnyArray

FILE_NAME = "summary.json"
PRODUCT_KINDS = (
    "map", "binned", "hits", "covariance", "rcond", "residual", "amplitudes", "pixel_covariance",
    "demodulated", "filtered", "observation_matrix", "sky",
    "part_map", "part_binned", "part_hits", "null",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RankStatistics:
    """Minimum, mean and maximum of a quantity over the ranks."""

    min: float = option(help="The least over the ranks.")
    mean: float = option(help="The mean over the ranks.")
    max: float = option(help="The greatest over the ranks.")

    @staticmethod
    def from_values(values: Sequence[float]) -> RankStatistics:
        """Return the statistics of one value per rank."""
        return RankStatistics(min=float(min(values)), mean=float(np.mean(values)), max=float(max(values)))


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Software and hardware environment of a run."""

    python: str = option(help="Version of Python.")
    numpy: str = option(help="Version of NumPy.")
    mpi: str | None = option(help="Name and version of the MPI library; null without MPI.")
    cpu: str = option(help="Model of the processor of rank 0.")
    kernels: str = option(
        "",
        help="Instruction set of the kernels of rank 0: v2, v3, v4 or baseline; empty in summaries of "
        "earlier versions.",
    )
    device: str = option("", help="Device of rank 0 that applied the operator; empty where the processor did")
    ranks: int = option(help="Number of MPI processes.", minimum=1)
    threads: int = option(help="Threads of each process.", minimum=1)
    hosts: int = option(help="Number of hosts.", minimum=1)
    distribution: str | None = option(help="How the data were dealt to ranks; null on one rank.")
    reduction: str | None = option(help="How ranks summed the pixels that they share; null on one rank.")


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Amount of data of a run."""

    observations: int = option(help="Number of observations.", minimum=0)
    detectors: int = option(help="Number of different detectors.", minimum=0)
    samples: int = option(help="Samples of all detectors.", minimum=0)
    samples_used: int = option(help="Samples in pixels that have a value in the map.", minimum=0)
    samples_flagged: int = option(
        help="Samples that are flagged, outside the map, or in pixels that are not solved for.", minimum=0
    )
    samples_unwritten: int = option(
        0, help="Samples in pixels that are solved for, but have no value in the map.", minimum=0
    )
    pixels: int = option(help="Pixels of the map.", minimum=1)
    pixels_observed: int = option(help="Pixels with at least one sample that is not flagged.", minimum=0)
    pixels_cut: int = option(help="Observed pixels that have no value in the map.", minimum=0)
    pixels_degenerate: int = option(help="Pixels whose Stokes matrix is too near to singular.", minimum=0)

    @property
    def samples_inside(self) -> int:
        """Samples in stationary intervals, used or not."""
        return self.samples_used + self.samples_flagged + self.samples_unwritten


@dataclass(frozen=True, kw_only=True)
class DetectorGlitches:
    """Glitches and steps that were found in the streams of a detector, in all observations."""

    detector: str = option(help="Name of the detector.")
    glitches: int = option(help="Glitches, whose samples are flagged.", minimum=0)
    steps: int = option(help="Steps of the level, solved for with the map.", minimum=0)
    samples: int = option(help="Samples flagged for both.", minimum=0)


@dataclass(frozen=True, kw_only=True)
class ModesTaken:
    """What templates take of the sky on an angular scale: the part of its square that they imitate."""

    l_first: int = option(help="First multipole.", minimum=0)
    l_last: int = option(help="Last multipole.", minimum=0)
    intensity: float | None = option(help="Of I; null where it is not mapped.")
    polarization: float | None = option(help="Of Q and U; null where they are not mapped.")


@dataclass(frozen=True, kw_only=True)
class NoiseKernel:
    """Parameters of the inverse noise filter."""

    n_lag: int = option(help="Lags of the banded Toeplitz inverse noise, the zeroth included.", minimum=1)
    n_fft: int = option(help="Length of the FFTs of its overlap-save convolution.", minimum=1)
    shortest: int | None = option(
        None, help="Lags of the stream that has fewest; null in summaries of earlier versions.", minimum=1
    )
    loss: float | None = option(
        None,
        help="Fraction of the information on an amplitude that the band of a stream loses at most; null "
        "without correlations.",
    )
    misstated: float | None = option(
        None, help="Relative error of a variance computed with it, at most; null without correlations."
    )
    rounds: int | None = option(
        None, help="How often the spectra were measured; null where they were not estimated.", minimum=1
    )
    change: float | None = option(
        None, help="Largest mean relative change of the spectra in an octave, in the last of several rounds."
    )


@dataclass(frozen=True, kw_only=True)
class SolverStep:
    """State of the solver after an iteration."""

    iteration: int = option(help="Number of the iteration; 0 is the start.", minimum=0)
    relative_residual: float = option(help="Norm of the residual over that of the right-hand side.")
    seconds: float = option(help="Wall seconds since the solver began.")
    error_bound: float | None = option(
        None,
        help="Upper bound of the map's error in units of its noise, in any mode; null where it is not known.",
    )
    coarse_error: float | None = option(
        None,
        help="The part of that error on large scales, estimated; null without a two-level preconditioner.",
    )


@dataclass(frozen=True, kw_only=True)
class Solver:
    """Convergence of the maximum-likelihood solution."""

    converged: bool = option(help="Whether the tolerance was reached.")
    reason: str = option(help="Why the solver stopped.")
    preconditioner: str = option("", help="The preconditioner, and what it holds.")
    undetermined: tuple[str, ...] = option(
        (), help="Modes of the map that templates imitate in all data, left at zero over all samples."
    )
    iterations: int = option(help="Number of iterations.", minimum=0)
    tolerance: float = option(help="What was asked for.")
    tolerance_of_noise: bool = option(
        False, help="Whether the tolerance is of the map's error in units of its noise, not of the residual."
    )
    relative_residual: float = option(help="Relative residual of the map.")
    error_bound: float | None = option(
        None,
        help="Upper bound of the map's error in units of its noise, in any mode; null where it is not known.",
    )
    coarse_error: float | None = option(
        None,
        help="The part of that error on large scales, estimated; null without a two-level preconditioner.",
    )
    history: tuple[SolverStep, ...] = option(help="Every iteration in order.")


@dataclass(frozen=True, kw_only=True)
class PhaseCost:
    """Time and communication of a phase of the run."""

    name: str = option(help="Name of the phase.")
    seconds: RankStatistics = option(help="Wall seconds.")
    cpu_seconds: RankStatistics | None = option(
        None, help="Processor seconds of all threads of a rank; null in summaries of earlier versions."
    )
    communication_seconds: RankStatistics | None = option(
        None,
        help="Wall seconds of sending, receiving and waiting for other ranks, part of `seconds`; null in "
        "summaries of earlier versions.",
    )
    calls: int = option(help="How often it was entered.", minimum=0)
    bytes: RankStatistics = option(help="Bytes that a rank sent to others.")
    messages: RankStatistics = option(
        help="Messages that a rank sent to single others, without those inside of MPI's collectives."
    )
    collectives: RankStatistics | None = option(
        None,
        help="MPI's collectives that a rank called, in which MPI sends as it pleases; null in summaries of "
        "earlier versions.",
    )


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Predicted and actual memory of the run."""

    predicted_bytes: int = option(help="Predicted before the run, for the rank that needs most.", minimum=0)
    peak_bytes: int = option(help="Peak resident size, for the rank that needed most.", minimum=0)
    bytes_per_sample: float = option(
        help="Bytes a sample of pointing and flags kept between iterations; not of the whole run."
    )


@dataclass(frozen=True, kw_only=True)
class Product:
    """Map file of the run."""

    name: str = option(help="Name of the product, for people.")
    file: str = option(help="File, relative to the folder of the summary.")
    kind: str = option(help="What the product is.", choices=PRODUCT_KINDS)
    unit: str = option(help="Unit of the pixels.")
    stokes: str = option(help="Components of the file in order, as I, QU or IQU; empty where it has none.")
    sha256: str = option(help="SHA-256 of the pixels: of maps, that of the SHA-256 of slabs of 4096.")
    of: str = option("", help="Band or component that it is of; empty where there are none, or it is of all.")


@dataclass(frozen=True, kw_only=True)
class MapComparison:
    """Comparison of a map with a reference."""

    name: str = option(help="What is compared.")
    reference: str = option(help="What it is compared with.")
    max_abs: float = option(help="Greatest absolute difference.")
    rms: float = option(help="Root mean square of the difference.")
    limit: float | None = option(help="Limit of max_abs; null where there is none.")
    unit: str = option(help="Unit of the difference.")

    @property
    def passed(self) -> bool:
        """Whether the difference is within the limit; False if it is nan."""
        return self.limit is None or self.max_abs <= self.limit


@dataclass(frozen=True, kw_only=True)
class NullTest:
    """Whether one map describes all parts of a split as well as a map for each."""

    chi_squared: float = option(help="Chi-squared of one map for all parts minus that of a map for each.")
    degrees_of_freedom: int = option(help="Unknowns that maps of parts have more.", minimum=0)
    probability: float = option(help="Of a larger value, if the noise is Gaussian and as modelled.")
    error_bound: float | None = option(
        None, help="By how much the solver's tolerance may change chi_squared; null where it is not known."
    )


@dataclass(frozen=True, kw_only=True)
class SplitPart:
    """Part of a split of the data."""

    name: str = option(help="Name of the part.")
    samples: int = option(help="Samples that its map is made of.", minimum=0)
    pixels: int = option(help="Pixels that it is solved for in.", minimum=0)


@dataclass(frozen=True, kw_only=True)
class Split:
    """Maps of parts of the data, solved for together."""

    name: str = option(help="Name of the split.")
    by: str = option(help="What the parts are, as in the configuration.")
    parts: tuple[SplitPart, ...] = option(help="The parts, in order.")
    solver: Solver | None = option(
        None, help="How the difference from the map of all parts was solved for; null for binning alone."
    )
    null: NullTest | None = option(None, help="Whether they differ; null for binning alone.")


@dataclass(frozen=True, kw_only=True)
class FrequencyBand:
    """Frequency band of a run."""

    name: str = option(help="Name of the band.")
    frequency: float | None = option(None, help="Its frequency, Hz; null where none is given.")
    detectors: int = option(help="Number of different detectors.", minimum=1)


@dataclass(frozen=True, kw_only=True)
class SkyComponent:
    """Component of the sky whose map was made."""

    name: str = option(help="Name of the component.")
    spectrum: str = option(help="Its spectrum, as in the configuration.")
    reference: float | None = option(
        None, help="Frequency at which its map shows it, Hz; null where it is the same at all, or as given."
    )
    factors: tuple[float, ...] = option(help="On its map in each band; of I, or of Q where I is not mapped.")
    polarization_factors: tuple[float, ...] = option(
        (), help="On Q and U in each band; empty where they are the same as factors, or not mapped."
    )


@dataclass(frozen=True, kw_only=True)
class ObservedRange:
    """Samples of an observation."""

    name: str = option(help="Name of the observation.")
    start: float = option(help="Unix time of its first sample, s.")
    samples: int = option(help="Samples of a detector.", minimum=0)
    sample_rate: float = option(help="Hz.")
    file: str = option("", help="File that it was read from; empty where it was simulated or in memory.")
    drawn: str = option("", help="What keys noise that was drawn for it; empty where none was.")


@dataclass(frozen=True, kw_only=True)
class ObservedData:
    """Observations of the same detectors."""

    detectors: tuple[str, ...] = option(help="Names of the detectors.")
    observations: tuple[ObservedRange, ...] = option(help="The observations, in order.")


@dataclass(frozen=True, kw_only=True)
class MonteCarlo:
    """Monte Carlo realizations of a run."""

    file: str = option(help="HDF5 file with what they gave, relative to the folder of the summary.")
    parts: tuple[str, ...] = option(help="Whose spectra the file has: of sky, noise, both.")
    solved: tuple[str, ...] = option(help="What was mapped in each realization.")
    first: int = option(help="Number of the first realization.", minimum=0)
    realizations: int = option(help="How many were asked for.", minimum=1)
    done: int = option(help="How many are done.", minimum=0)
    failed: int = option(help="How many failed.", minimum=0)
    not_converged: int = option(help="Maps whose solution did not reach the tolerance.", minimum=0)
    iterations: RankStatistics | None = option(help="Iterations of a map; null where none is done.")
    vectors: int = option(help="Vectors that sped up all solutions.", minimum=0)
    alone: float | None = option(None, help="Iterations of a map without vectors; null without vectors.")
    vectors_pay: int | None = option(
        None, help="After how many realizations vectors have paid for their finding; null where they do not."
    )
    groups: int = option(help="Groups that the ranks were split into.", minimum=1)
    batch: int = option(help="Realizations that a group made at once.", minimum=1)
    why: str = option(help="Why so many groups and no larger batch.")
    made: int = option(help="How many were made in the last run of the command.", minimum=0)
    seconds: float = option(help="Wall seconds of the last run after its set-up.")


@dataclass(frozen=True, kw_only=True, repr=False)
class Summary(Displayed):
    """Results and provenance of a run of petamap."""

    petamap: str = option(help="Version of petamap.")
    name: str = option(help="Name of the run.")
    title: str = option(help="Title of the run, for people.")
    run_id: str = option(help="Identifier of the run; the map files carry it too.")
    command: tuple[str, ...] = option(help="The command line, a word an item.")
    configuration: str = option(help="The run configuration in full, as TOML.")
    seed: int = option(help="Seed of the random numbers.", minimum=0)
    environment: Environment = option(help="Where the run took place.")
    totals: Totals = option(help="How much was worked on.")
    noise: NoiseKernel | None = option(help="How the inverse noise is applied; null for binning alone.")
    solver: Solver | None = option(help="How the map was solved for; null for binning alone.")
    phases: tuple[PhaseCost, ...] = option(help="What each phase cost, in order.")
    memory: Memory = option(help="What memory was predicted and needed.")
    products: tuple[Product, ...] = option(help="The map files.")
    comparisons: tuple[MapComparison, ...] = option(help="Maps held against what they should be.")
    warnings: tuple[str, ...] = option(help="What the user should know.")
    splits: tuple[Split, ...] = option((), help="Maps of parts of the data.")
    bands: tuple[FrequencyBand, ...] = option(
        (), help="Frequency bands, if each has a map or all see components."
    )
    components: tuple[SkyComponent, ...] = option((), help="Components of the sky that have a map each.")
    montecarlo: MonteCarlo | None = option(None, help="Its realizations; null for a run of one.")
    glitches: tuple[DetectorGlitches, ...] | None = option(
        None, help="Glitches and steps of each detector that has any; null where they were not looked for."
    )
    modes_taken: tuple[ModesTaken, ...] = option(
        (), help="What templates take of the sky, by scale, where products.modes_taken asked for it."
    )
    resumed: int = option(0, help="How often the run went on from a checkpoint.", minimum=0)
    folder: str = option("", help="Folder that relative paths of the configuration refer to.")
    data: tuple[ObservedData, ...] = option(
        (),
        help="What was observed; empty where observations or detectors are too many, and in summaries of "
        "earlier versions.",
    )

    def _facts(self) -> dict[str, object]:
        totals, solver = self.totals, self.solver
        ended = "converged" if solver and solver.converged else "NOT converged"
        return {
            "name": self.name,
            "samples": f"{totals.samples_used:,} of {totals.samples:,}",
            "pixels": f"{totals.pixels_observed:,} observed, {totals.pixels_cut:,} of them cut",
            "solver": f"{ended} in {solver.iterations} iterations" if solver else "binned only",
            "products": some_names([product.file or product.kind for product in self.products]),
            "ranks": self.environment.ranks,
            "warnings": len(self.warnings) or None,
        }

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``summary.json`` to `folder` atomically and return its path."""
        path = Path(folder) / FILE_NAME
        content = to_json(self)
        content["checksum"] = _checksum(content)
        write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
        return path

    @staticmethod
    def read(folder: str | os.PathLike[str]) -> Summary:
        """Read ``summary.json`` in `folder`.

        Raises
        ------
        DataError
            If the file is missing, is not a summary, or does not have the checksum that it names.
        """
        path = Path(folder) / FILE_NAME
        try:
            value = json.loads(require_file(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(
                f"cannot be read: {error.strerror}",
                where=str(path),
                mend="name the --out folder of a finished run",
            ) from error
        except (ValueError, RecursionError) as error:
            raise DataError(f"is not JSON: {error}", where=str(path)) from error
        checksum = value.pop("checksum", None) if isinstance(value, dict) else None
        if checksum is not None and checksum != _checksum(value):
            mend = 'put it back; or if it was edited, remove its line "checksum"'
            raise DataError("has changed since it was written", where=str(path), mend=mend)
        return from_json(Summary, value, f"{path}:")


def _checksum(content: dict[str, Any]) -> str:
    """Return the SHA-256 of the content of a summary, however the JSON of it is laid out."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def pixels_sha256(pixels: AnyArray) -> str:
    """Return the SHA-256 of pixel values as little-endian float64 in C order, equal on all machines."""
    return hashlib.sha256(np.ascontiguousarray(pixels, dtype="<f8").tobytes()).hexdigest()


def summary_schema() -> dict[str, Any]:
    """Return the JSON schema of ``summary.json``."""
    schema = json_schema(Summary, "Summary of a run of petamap")
    schema["$defs"]["Summary"]["properties"]["checksum"] = {
        "type": "string",
        "description": "SHA-256 of all else.",
    }
    return schema


if __name__ == "__main__":
    print(json.dumps(summary_schema(), indent=1))
