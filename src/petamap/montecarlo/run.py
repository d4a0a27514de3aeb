"""Monte Carlo: realizations of a run made, mapped and reduced to spectra, through one system set up once."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, UserError
from petacomm.base.progress import Progress, Silent
from petacomm.base.threads import over_threads
from petacomm.base.timers import Timers
from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petacomm.mpi import Communicator, agree, together, world
from petamap.data import run_summary as summary
from petamap.data.config import Parts, RunConfig, open_parts
from petamap.data.observation import Observation
from petamap.data.run_summary import Spread, Summary, pixels_sha256
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.setup import Stage, unwritable
from petamap.mapmaking.system import System
from petamap.montecarlo.draws import Draws, Realization
from petamap.montecarlo.file_layout import file_of, layout_of, run_id
from petamap.montecarlo.mapper import Gathering, Mapped, Mapper
from petamap.montecarlo.rank_groups import Sharing, kept_vectors, share_out
from petamap.montecarlo.store import DONE, FAILED, TO_DO, Store, existing, opened
from petamap.montecarlo.weights import mask_of, pixel_weights
from petamap.sky.healpix import Healpix
from petamap.spectra.measure import bins_of
from petamap.spectra.options import choices_of
from petamap.spectra.pseudo_cl import Sight

# Realizations that no user can ask for: what speeds up all others is learnt on them.
_RESERVED = 2**33
# Failed realizations that are told one by one.
_TOLD = 5


def simulate(
    config: RunConfig,
    *,
    out: str | os.PathLike[str],
    comm: Communicator | None = None,
    progress: Progress | None = None,
    command: Sequence[str] = (),
) -> Summary:
    """Make the realizations of a run, write their spectra and ``summary.json`` into `out`. Collective.

    The file ``NAME_mc.h5`` is the same to the byte whatever ranks, groups, batches and interruptions there
    were. One that is there is gone on with, unless ``products.overwrite`` is set.

    Parameters
    ----------
    config : RunConfig
        Whose sections ``montecarlo`` and ``spectra`` say what to make.
    out : path
        Folder; made if it is not there.
    comm : Communicator, optional
        By default all processes of the launcher.
    progress : Progress, optional
        Told what happens, on rank 0.
    command : sequence of str
        The words of the command line, for the summary.

    Raises
    ------
    ConfigError, DataError, ResourceError
        On all ranks, before any work where possible. A realization that fails is not among them: it is
        recorded, and the others go on.
    """
    job = _MonteCarlo(config, Path(out), comm or world(), progress or Silent())
    return job.run(command)


class _MonteCarlo:
    def __init__(self, config: RunConfig, out: Path, comm: Communicator, progress: Progress) -> None:
        self.config = config
        self.options = config.montecarlo
        self.comm = comm
        self.progress = progress
        self.path = out / file_of(config)
        self.stage = Stage(config, comm, progress)
        first = self.options.first
        self.numbers: Int64Array = np.arange(first, first + self.options.realizations)

    def run(self, command: Sequence[str]) -> Summary:
        """Run the phases in order."""
        self._open()
        self.sharing = share_out(self.config, self.stage)
        self.stage.comm = self.comm if self.sharing.groups == 1 else self.comm.group(self.sharing.group)
        with _whole_job_ends(self.comm, self.stage.comm):
            system = self.stage.set_up(len(self.draws.solved), kept_vectors(self.config))
            self.draws.model_of = self.stage.model_of
            memory = self.stage.choices().memory
            self.sharing = self.sharing.fitted(self.config, system, memory, self.comm)
            self._prepare(system)
            self._open_file()
            begin = time.perf_counter()
            made = self._make()
        self.comm.barrier()
        seconds = time.perf_counter() - begin
        return self._finish(system, command, made, seconds)

    # --- before the first realization

    def _open(self) -> None:
        """Open the sources, and find what cannot work before any work is done."""
        chosen = self.config.map
        if chosen.pixelization != "healpix":
            raise ConfigError(
                f"spectra need HEALPix pixels, not {chosen.pixelization}", mend='map.pixelization = "healpix"'
            )
        parts: list[Parts] = []

        def opened_parts(config: RunConfig) -> list[Observation]:
            observations, found = open_parts(config)
            parts.append(found)
            return observations

        self.stage.open(opened_parts)
        self.draws = Draws(self.options, parts[0], self.stage.observations, self.config.run.seed)
        self._check_fixed()
        self.ring = Healpix(chosen.n_side or 1)
        self.choices = choices_of(self.config.spectra, self.config.folder, self.draws.fwhm)
        bins_of(self.choices, self.ring.n_side, 3 * self.ring.n_side - 1)
        if self.choices.pure and chosen.stokes == "I":
            raise ConfigError("an I map has no B that could be pure", mend='spectra.purify = "none"')
        with together(self.comm):
            self.mask = mask_of(self.choices, self.ring, chosen.frame)
        error: UserError | None = None
        if self.comm.rank == 0:
            error = self._refusal()
        agree(self.comm, error)

    def _check_fixed(self) -> None:
        fixed, parts = self.options.fixed, self.options.parts
        if fixed == "add" and parts in ("sky", "noise"):
            raise ConfigError(
                f"fixed signals cannot be added to the {parts} alone", mend='montecarlo.parts = "apart"'
            )
        self.fixed = fixed if self.draws.has_fixed else "leave"

    def _refusal(self) -> UserError | None:
        try:
            force = self.config.products.overwrite
            old = existing(self.path, run_id(self.config), self.numbers, force)
            if old is not None:
                old.close()
        except UserError as error:
            return error
        return unwritable(self.path.parent)

    def _prepare(self, system: System) -> None:
        """Make what all realizations have in common."""
        self.mapper = Mapper(system, self.config, self.stage.timers, self._solving)
        self.gathering = Gathering(system)
        self.weights = pixel_weights(system, self.gathering, self.draws, self.choices, self.mask)
        self.sight = Sight(
            self.ring, self.weights, system.projection.stokes.n, self.choices.keep_dipole,
            self.choices.pure, self.choices.iterations,
        )  # fmt: skip

    def _open_file(self) -> None:
        """Lay out the file, or find what is to do of the one that is there."""
        layout = layout_of(
            self.config, self.stage, self.draws, self.sight, self.choices, self.numbers, self.fixed
        )
        with together(self.comm):
            if self.comm.rank == 0:
                opened(self.path, layout, self.config.products.overwrite).close()
        with together(self.comm):
            self.store = Store(self.path)
        self.parts = layout.parts
        status = self.comm.bcast(self.store.status)
        self.to_do: Int64Array = self.numbers[status == TO_DO]

    # --- realizations

    def _make(self) -> int:
        """Make all realizations that are to do, and return how many."""
        if len(self.to_do):
            self._learn()
        self.progress.begin("realizations", float(len(self.to_do)), "realizations")
        self.there = len(self.numbers) - len(self.to_do)
        self.said, self.finished, self.n_batch, self.n_made = 0.0, 0, 0, 0
        self.fixed_map = self._map_fixed()
        for batch in self.sharing.batches(self.to_do):
            self.n_batch = len(batch)
            self._make_batch([Realization(self.draws, int(number)) for number in batch])
            self.n_made += len(batch)
            self._say_finished()
        return len(self.to_do)

    def _solving(self, part: float, note: str) -> None:
        """Tell how far a batch is, as if all groups were as far."""
        if self.comm.rank == 0:
            self._say(self.finished + part * self.n_batch * self.sharing.groups, note)

    def _say_finished(self) -> None:
        """Tell how many are finished, by all groups."""
        if self.comm.rank == 0:
            self.finished = int(np.count_nonzero(self.store.status)) - self.there
            self._say(float(self.finished))

    def _say(self, done: float, note: str = "") -> None:
        done = min(done, float(len(self.to_do)))
        self.progress.advance(done - self.said, note)
        self.said = done

    def _learn(self) -> None:
        if self.options.vectors and not self.config.solver.binned_only:
            self.progress.begin("vectors")
            solved = self.draws.solved
            numbers = range(_RESERVED, _RESERVED + self.options.vectors_from)
            with self.stage.timers.phase("vectors"):
                learnt = [Realization(self.draws, number) for number in numbers]
                self.mapper.learn(
                    [one.signals(part) for one in learnt for part in solved], self.options.vectors,
                    self.sharing.learnt * len(solved),
                )  # fmt: skip
            assert self.mapper.space is not None, "just learnt"
            found = self.mapper.space
            self.progress.end(f"{found.n_vectors} that {found.alone:.1f} iterations a map found")

    def _map_fixed(self) -> FloatArray | None:
        """Return the map of the fixed signals on all ranks, float64 (n_stokes, n_pix); made once a file."""
        if self.fixed == "leave":
            return None
        if self.comm.bcast(int(self.store.read("fixed/status")[0])) == DONE:
            return self.store.read("fixed/map")
        with self.stage.timers.phase("fixed signals"):
            (mapped,) = self.mapper.maps([self.draws.fixed], Timers())
            if mapped.error:
                raise ConfigError(f"the fixed signals have no map: {mapped.error}")
            values = self.gathering.to_all(mapped.values, np.nan)
            with together(self.stage.comm):
                if self.comm.rank == 0:
                    pseudo = self.sight.pseudo(values).values
                    self.store.write_once({"fixed/map": values, "fixed/pseudo": pseudo})
        return values

    def _make_batch(self, batch: Sequence[Realization]) -> None:
        """Map realizations and write their rows, each on one of the ranks."""
        solved, comm = self.draws.solved, self.stage.comm
        found = self.mapper.maps([one.signals(part) for one in batch for part in solved])
        mine: list[tuple[Realization, list[Mapped], list[FloatArray]]] = []
        with self.stage.timers.phase("spectra"):
            for place, one in enumerate(batch):
                mapped = found[place * len(solved) : (place + 1) * len(solved)]
                maps = [self.gathering.to(place % comm.size, each.values) for each in mapped]
                if place % comm.size == comm.rank:
                    mine.append((one, mapped, [values for values in maps if values is not None]))
            with together(comm):
                over_threads(lambda item: self._write(*item), mine, self.stage.n_threads)

    def _write(self, one: Realization, mapped: Sequence[Mapped], maps: Sequence[FloatArray]) -> None:
        errors = [each.error for each in mapped if each.error]
        if errors:
            self.store.fail(one.number, errors[0])
            return
        by_part = dict(zip(self.draws.solved, maps, strict=True))
        if "both" in self.parts and "both" not in by_part:
            by_part["both"] = by_part["sky"] + by_part["noise"]
        if self.fixed == "add" and self.fixed_map is not None:
            by_part["both"] = by_part["both"] + self.fixed_map
        row: dict[str, AnyArray] = {
            "iterations": np.array([each.iterations for each in mapped]),
            "residual": np.array([each.residual for each in mapped]),
            "hash": np.array([pixels_sha256(values).encode() for values in maps]),
        }
        for part in self.parts:
            row[f"pseudo/{part}"] = self.sight.pseudo(by_part[part]).values
            if self.options.maps:
                row[f"maps/{part}"] = by_part[part]
        if "input" in self.store.rows:
            row["input"] = one.input(self.sight.names, self.sight.l_max)
        self.store.write(one.number, row)

    # --- after the last

    def _finish(self, system: System, command: Sequence[str], made: int, seconds: float) -> Summary:
        status = self.comm.bcast(self.store.status)
        self._warn(status)
        told = self.stage.told(system, command)
        result = replace(told, montecarlo=self._told(self.sharing, status, made, seconds))
        with together(self.comm):
            if self.comm.rank == 0:
                result.write(self.path.parent)
        self.progress.end(str(self.path))
        self.store.close()
        return result

    def _warn(self, status: AnyArray) -> None:
        failed = np.flatnonzero(status == FAILED)
        for row in failed[:_TOLD]:
            text = bytes(self.store.read_row("error", int(row)).item()).decode(errors="replace")
            self.stage.warn(f"realization {self.numbers[row]} failed: {text}")
        if len(failed) > _TOLD:
            self.stage.warn(f"{len(failed)} of {len(status)} realizations failed")

    def _told(self, sharing: Sharing, status: AnyArray, made: int, seconds: float) -> summary.MonteCarlo:
        done = status == DONE
        iterations, residuals = (self.store.read(name)[done] for name in ("iterations", "residual"))
        over = int(np.count_nonzero(residuals > 2 * self.config.solver.tolerance))
        if over:
            self.stage.warn(
                f"{over} maps are not converged: more solver.max_iterations, or a larger tolerance"
            )
        found = Spread.of(iterations.ravel()) if iterations.size else None
        space = self.mapper.space
        return summary.MonteCarlo(
            file=self.path.name,
            parts=self.parts,
            solved=self.draws.solved,
            first=int(self.numbers[0]),
            realizations=len(self.numbers),
            done=int(np.count_nonzero(done)),
            failed=int(np.count_nonzero(status == FAILED)),
            not_converged=over,
            iterations=found,
            vectors=0 if space is None else space.n_vectors,
            alone=space.alone if space is not None and space.n_vectors else None,
            vectors_pay=self._vectors_pay(found, space),
            groups=sharing.groups,
            batch=sharing.batch,
            why=sharing.why,
            made=made,
            seconds=seconds,
        )

    def _vectors_pay(self, iterations: Spread | None, space: Deflation | None) -> int | None:
        """Return after how many realizations of the whole job the vectors have paid for their finding."""
        if space is None or not space.n_vectors or not self.n_made or not (iterations and iterations.mean):
            return None
        phases = self.stage.timers.phases
        each = phases["iterations"].seconds / self.n_made
        saved = each * (space.alone / iterations.mean - 1)
        return math.ceil(self.sharing.groups * phases["vectors"].seconds / saved) if saved > 0 else None


@contextmanager
def _whole_job_ends(whole: Communicator, group: Communicator) -> Iterator[None]:
    """Let an error that ranks of one group agree on be one that ends all groups."""
    try:
        yield
    except Exception as error:
        if group is not whole:
            error.__dict__.pop("_agreed", None)
        raise
