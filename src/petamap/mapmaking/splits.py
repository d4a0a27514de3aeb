"""Maps of parts of the data, beside the map of a run: all parts of a split are one system of equations.

Noise that parts share, as those of one stationary interval do, is so accounted for. A split is solved for as
the difference from the map of all its data (`petamap.mapmaking.null_test`): what the parts have in common
needs no iterations, and a tolerance of the residual is one of the difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.files import check_names
from petacomm.base.typing import FloatArray
from petacomm.mpi import agree_on_errors
from petamap.data import run_summary as summary
from petamap.data.config import SplitOptions
from petamap.data.parts import NO_PART, Parts
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.checkpoint import ColumnCheckpoint, JobCheckpoints
from petamap.mapmaking.checkpoint_pace import Pace
from petamap.mapmaking.map_outputs import SHORTER, part_file, part_files, part_kinds
from petamap.mapmaking.map_solver import MapSolver
from petamap.mapmaking.maps_in_memory import KeptProducts
from petamap.mapmaking.null_test import common_unknowns, null_test, residual_of
from petamap.mapmaking.products import MapWriter
from petamap.mapmaking.right_hand_side import RightHandSide, binned_map
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.solution import Solution
from petamap.mapmaking.split_parts import split_parts
from petamap.mapmaking.system import MapmakingSystem, set_up_parts
from petamap.mapmaking.target import map_frame
from petamap.mapmaking.vectors import Unknowns

_TITLES = {"part_map": "map", "part_binned": "binned map", "part_hits": "hits"}


@dataclass
class DataSplit:
    """A split of the data of a run.

    Attributes
    ----------
    options : SplitOptions
    parts : Parts
    system : MapmakingSystem
        Of the maps of all parts.
    whole : MapmakingSystem, optional
        Of one map for all parts, where it is not that of the run: if there are data in no part, or in pixels
        that their part cannot be solved for.
    """

    options: SplitOptions
    parts: Parts
    system: MapmakingSystem | None = None
    whole: MapmakingSystem | None = None

    @property
    def systems(self) -> list[MapmakingSystem]:
        """Systems that need right-hand sides."""
        return [one for one in (self.whole, self.system) if one is not None]


@dataclass
class Splits:
    """The splits of a run's data. Collective.

    Attributes
    ----------
    setup : RunSetup
        After `open`.
    folder : Path
        Of the products.
    kept : KeptProducts, optional
        Takes the products in the place of files.
    products : list of Product
        That were written, on rank 0.
    """

    setup: RunSetup
    folder: Path
    kept: KeptProducts | None = None
    products: list[summary.Product] = field(default_factory=list)

    def __post_init__(self) -> None:
        observations, options = self.setup.observations, self.setup.config.splits
        self.splits = [DataSplit(one, split_parts(one, observations)) for one in options]
        counts = Counter(path.name for path, _ in self.files())
        for name, count in counts.items():
            if count > 1:
                raise ConfigError(f"two products of splits are called {name}", mend="give other names")
        if self.kept is None:
            check_names((path for path, _ in self.files()), SHORTER)

    # --- files

    def files(self) -> Iterator[tuple[Path, str]]:
        """Yield the files of all products of splits, and their kinds."""
        for split in self.splits:
            yield from part_files(self.setup.config, split.options.name, split.parts.names, self.folder)

    def _kinds(self) -> list[str]:
        return part_kinds(self.setup.config)

    def _file(self, split: DataSplit, part: str, kind: str) -> Path:
        return part_file(self.folder, self.setup.config.run.name, split.options.name, part, kind)

    # --- systems

    @property
    def n_parts(self) -> tuple[int, ...]:
        """Number of parts of each split."""
        return tuple(split.parts.n for split in self.splits)

    @property
    def systems(self) -> list[MapmakingSystem]:
        """Systems that need right-hand sides, in the order in which `make` takes them."""
        return [system for split in self.splits for system in split.systems]

    def set_up(self, system: MapmakingSystem) -> None:
        """Make the systems of all splits beside that of the run. Collective.

        Raises
        ------
        ConfigError, DataError, ResourceError
            On all ranks, if a part has no samples, or memory does not suffice.
        """
        self._run = system
        setup, options = self.setup, self.setup.own_options()
        for split in self.splits:
            covers = self._covers(system, split)
            split.system = set_up_parts(system, split.parts, options, setup.timers, setup.progress)
            gaps = split.system.projection.gaps.bits
            if covers and not system.comm.max(float((gaps != system.projection.gaps.bits).any())):
                continue
            # well enough conditioned where its parts are
            less = replace(options, rcond_solved=options.rcond_solved / 2)
            joined = split.parts.joined()
            split.whole = set_up_parts(system, joined, less, setup.timers, setup.progress, gaps)
        for one in self.systems:
            system.memory += one.memory

    def _covers(self, system: MapmakingSystem, split: DataSplit) -> bool:
        """Return whether all samples of stationary intervals are in a part, of which none is empty."""
        projection, parts = system.projection, split.parts
        seen = np.zeros(parts.n + 1)  # the last one: samples in none
        with agree_on_errors(system.comm):
            for segment in projection.local.segments:
                one = system.layout.streams[segment.stream]
                runs = parts.of(one.observation, one.detector)
                seen[runs.among(*one.recorded_range(one.start, one.stop))] = 1
        seen = system.comm.allreduce(seen, "max")
        for name, there in zip(parts.names, seen[:-1], strict=True):
            if not there:
                raise ConfigError(
                    f"part '{name}' has no samples", where=f"split {split.options.name}",
                    mend="make fewer parts, or split the data by something else",
                )  # fmt: skip
        return not seen[NO_PART]

    # --- maps

    def make(
        self,
        solution: Solution | None,
        rhs: Sequence[RightHandSide],
        checkpoints: JobCheckpoints,
        pace: Pace,
    ) -> tuple[summary.Split, ...]:
        """Solve for the maps of all splits and write them; return what the summary says of them. Collective.

        Parameters
        ----------
        solution : Solution, optional
            Of the run; None for binning alone.
        rhs : sequence of RightHandSide
            Of `systems`.
        checkpoints, pace
            Of the job.
        """
        given, found = list(rhs), []
        for split in self.splits:
            own = [given.pop(0) for _ in split.systems]
            found.append(_SplitMaps(self, split, solution, own, checkpoints, pace).make())
        return tuple(found)


@dataclass
class _SplitMaps:
    """Maps of one split."""

    job: Splits
    split: DataSplit
    solution: Solution | None
    rhs: list[RightHandSide]
    checkpoints: JobCheckpoints
    pace: Pace

    def __post_init__(self) -> None:
        assert self.split.system is not None, "set up"
        self.setup, self.system, self.parts = self.job.setup, self.split.system, self.split.parts
        self.name = self.split.options.name
        self.common = self.split.whole or self.job._run
        projection = self.system.projection
        part_of, self.pixels = np.divmod(self.system.keys, projection.sky.n_pix)
        self.rows = [part_of == number for number in range(self.parts.n)]
        config = self.setup.config
        frame = map_frame(config.map, self.setup.observations)
        self.writers = [
            MapWriter(
                self.system.comm, projection.sky, self.pixels[rows], frame, self.setup.run_id(),
                config.map.ordering, kept=self.job.kept,
            )
            for rows in self.rows
        ]  # fmt: skip

    def make(self) -> summary.Split:
        """Return the record of the split, with its maps written."""
        binned, solved, solver, null = binned_map(self.system, self.rhs[-1]), None, None, None
        if self.solution is not None:
            solved, solver, null = self._solve(self._common_solution(self.solution))
        with self.setup.timers.phase("products"):
            self._write(binned, binned if solved is None else solved.pixels)
        parts = self._parts()
        for part in parts:
            if not part.samples:
                text = f"no sample of part '{part.name}' is used: its map is empty"
                self.setup.warn(f"split {self.name}: {text}")
        return summary.Split(name=self.name, by=self.split.options.by, parts=parts, solver=solver, null=null)

    def _common_solution(self, solution: Solution) -> Solution:
        """Return the solution of one map for all parts."""
        if self.split.whole is None:
            return solution
        whole = self.split.whole
        return MapSolver(self.setup, f"split {self.name}, all parts").solve(
            whole.solver(), self.rhs[0].unknowns, self._checkpoint(whole, "all")
        )

    def _solve(self, common: Solution) -> tuple[Unknowns, summary.Solver, summary.NullTest]:
        """Return the maps of all parts, and the records of their solution and of their null test."""
        system, solver = self.system, MapSolver(self.setup, f"split {self.name}")
        operator = system.operator()
        start = common_unknowns(self.common, system, common.map)
        whole = self.rhs[-1].unknowns
        residual, checkpoint = residual_of(operator, whole, start), self._checkpoint(system, "parts")
        found = solver.solve(ConjugateGradients(operator, system.preconditioner), residual, checkpoint, whole)
        error = common.error_bound**2 + found.error_bound**2
        null = null_test(self.common, system, residual, found.map, error)
        total = Unknowns(*(one + other for one, other in zip(start, found.map, strict=True)))
        return total, solver.record(found, system.preconditioner), null

    def _checkpoint(self, system: MapmakingSystem, of: str) -> ColumnCheckpoint:
        name = f"split_{self.name}_{of}"
        return ColumnCheckpoint(self.checkpoints, system.shared, name, self.pace, keep=True)

    def _parts(self) -> tuple[summary.SplitPart, ...]:
        statistics, comm = self.system.statistics, self.system.comm
        alive = [rows & ~statistics.dead for rows in self.rows]
        return tuple(
            summary.SplitPart(
                name=name,
                samples=comm.sum(int(statistics.hits[rows].sum())),
                pixels=comm.sum(int(rows.sum())),
            )
            for name, rows in zip(self.parts.names, alive, strict=True)
        )

    # --- products

    def _write(self, binned: FloatArray, best: FloatArray) -> None:
        setup, statistics = self.setup, self.system.statistics
        stokes = list(self.system.projection.stokes.value)
        kinds, files = self.job._kinds(), [path.name for path, _ in self.job.files()]
        for values in (binned, best):
            values[statistics.dead] = np.nan
        hits = statistics.hits[:, None].astype(np.float64)
        content = {
            "part_map": (best, stokes, setup.unit), "part_binned": (binned, stokes, setup.unit),
            "part_hits": (hits, ["HITS"], ""),
        }  # fmt: skip
        setup.progress.begin("products", float(len(files)), "files")
        for name, writer, rows in zip(self.parts.names, self.writers, self.rows, strict=True):
            for kind in kinds:
                values, names, unit = content[kind]
                path, title = self.job._file(self.split, name, kind), self._title(kind, name)
                self._note(writer.write(kind, path, title, values[rows], names, unit))
        if setup.config.products.maps:
            self._write_nulls(best, stokes)
        setup.progress.end("" if self.job.kept else str(self.job.folder))

    def _write_nulls(self, best: FloatArray, stokes: list[str]) -> None:
        """Write half the difference of the maps of each two parts that follow each other."""
        parts = list(zip(self.parts.names, self.writers, self.rows, strict=True))
        for (one, writer, rows), (other, other_writer, other_rows) in pairwise(parts):
            path = self.job._file(self.split, f"{one}-{other}", "null")
            title = f"split {self.name}: ({one} − {other}) / 2"
            self._note(
                writer.write_null(
                    path, title, best[rows], other_writer, best[other_rows], names=stokes,
                    unit=self.setup.unit,
                )
            )  # fmt: skip

    def _title(self, kind: str, part: str) -> str:
        return f"split {self.name}: {_TITLES[kind]} of {part}"

    def _note(self, product: summary.Product | None) -> None:
        if product is not None:
            self.setup.progress.advance(1, product.file)
            self.job.products.append(product)
