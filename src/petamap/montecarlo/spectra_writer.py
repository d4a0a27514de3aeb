"""Spectra of the maps of realizations: of each on one rank, or on all, and its row in the file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from petacomm.base.stop_request import StopRequest
from petacomm.base.threads import map_threads
from petacomm.base.typing import AnyArray, FloatArray
from petacomm.base.weak_method import weak_method
from petacomm.mpi import agree, agree_on_errors
from petamap.mapmaking.setup import RunSetup
from petamap.montecarlo.draws import Draws, Realization
from petamap.montecarlo.file_layout import UNFILTERED
from petamap.montecarlo.mapper import MapGatherer, MappedDataset
from petamap.montecarlo.store import Store
from petamap.spectra.pseudo_cl import PseudoClEstimator

Mapped = tuple[Realization, Sequence[MappedDataset]]


class SpectraWriter:
    """Maker of the spectra of realizations, which writes them to the file.

    Parameters
    ----------
    stage : RunSetup
        Of the ranks of the group.
    stop : StopRequest
        Ends what one rank does alone at once, and what all do between parts of their transforms.
    draws : Draws
    gatherer : MapGatherer
        Decides whether maps are whole, each on one rank, or dealt to all.
    estimator : PseudoClEstimator
    store : Store
    fixed_map : float64 (n_stokes, n), optional
        Of signals that all realizations have in common, of the pixels of the gatherer's maps.
    added : bool
        Whether it is added to sky and noise.
    keep_maps : bool
        Whether the file has maps, too.
    report : callable
        Called before the spectra of each map, with the part of a call of `write` that this rank has done and
        which spectra are next.
    """

    def __init__(
        self, stage: RunSetup, stop: StopRequest, draws: Draws, gatherer: MapGatherer,
        estimator: PseudoClEstimator, store: Store, fixed_map: FloatArray | None, *, added: bool,
        keep_maps: bool, report: Callable[[float, str], None],
    ) -> None:  # fmt: skip
        self.stage, self.stop, self.draws = stage, stop, draws
        self.gatherer, self.estimator, self.store = gatherer, estimator, store
        self.parts: tuple[str, ...] = store.attributes["parts"]
        self.added = fixed_map if added else None
        self.keep_maps = keep_maps
        self._report = report
        self._made, self._to_make = itertools.count(), 1
        self._n_spectra = len(self.parts) + self._has_unfiltered
        if gatherer.distributed:
            gatherer.rings.between = weak_method(self._end_if_stopped)

    def write(self, made: Sequence[Mapped]) -> None:
        """Make and write the spectra of realizations, of each on one rank or on all. Collective."""
        comm = self.stage.comm
        self._made = itertools.count()
        if self.gatherer.distributed:
            self._to_make = len(made) * self._n_spectra
            for item in made:
                self._make_on_all(*item)
            return
        to_write: list[tuple[Realization, Sequence[MappedDataset], list[FloatArray]]] = []
        for k, (realization, mapped) in enumerate(made):
            maps = [self.gatherer.gather(k % comm.size, each) for each in self._values(mapped)]
            if k % comm.size == comm.rank:
                to_write.append((realization, mapped, [values for values in maps if values is not None]))
        self._to_make = len(to_write) * self._n_spectra
        with agree_on_errors(comm), self.stop.ending_at_once():
            map_threads(lambda item: self._make_on_one(*item), to_write, self.stage.n_threads)

    def _make_on_all(self, realization: Realization, mapped: Sequence[MappedDataset]) -> None:
        """Make the spectra of a realization on all ranks of the group, and write them on one."""
        row: dict[str, AnyArray] = {}
        if not any(each.error for each in mapped):
            hashes = [self.gatherer.sha256(each.values) for each in mapped]
            row = self._row(mapped, [self.gatherer.to_rings(each) for each in self._values(mapped)], hashes)
        with agree_on_errors(self.stage.comm), self.stop.ending_at_once():
            if self.stage.comm.rank == 0:
                self._write(realization, mapped, row)

    def _make_on_one(
        self, realization: Realization, mapped: Sequence[MappedDataset], maps: Sequence[FloatArray]
    ) -> None:
        row: dict[str, AnyArray] = {}
        if not any(each.error for each in mapped):
            row = self._row(mapped, maps, [self.gatherer.sha256_of(one) for one in maps[: len(mapped)]])
        self._write(realization, mapped, row)

    @property
    def _has_unfiltered(self) -> bool:
        """Whether the file has spectra of the sky without the filter, too."""
        return f"pseudo/{UNFILTERED}" in self.store.rows

    def _end_if_stopped(self) -> None:
        """End on all ranks of the group if one is to. Collective."""
        agree(self.stage.comm, self.stop.interruption())

    def _values(self, mapped: Sequence[MappedDataset]) -> list[FloatArray]:
        """Return the maps of a realization, then that of its unfiltered sky, where it is kept."""
        values = [each.values for each in mapped]
        sky = dict(zip(self.draws.solved, mapped, strict=True)).get("sky")
        if self._has_unfiltered and sky is not None:
            values.append(sky.values if sky.unfiltered is None else sky.unfiltered)
        return values

    def _row(
        self, mapped: Sequence[MappedDataset], maps: Sequence[FloatArray], hashes: Sequence[str]
    ) -> dict[str, AnyArray]:
        """Return the row of a realization of its maps or the rank's parts of them, which are overwritten."""
        n = len(mapped)
        row: dict[str, AnyArray] = {
            "iterations": np.array([each.iterations for each in mapped]),
            "residual": np.array([each.residual for each in mapped]),
            "error_bound": np.array([each.error_bound for each in mapped]),
            "hash": np.array([one.encode() for one in hashes]),
        }
        if len(maps) > n:
            self._tell(f"{UNFILTERED} sky")
            row[f"pseudo/{UNFILTERED}"] = self.estimator.pseudo(maps[n]).values
        for part, values in self._parts_of(maps[:n]):
            self._tell(part)
            row[f"pseudo/{part}"] = self.estimator.pseudo(values).values
            if self.keep_maps:
                row[f"maps/{part}"] = self._kept(values)
        return row

    def _tell(self, name: str) -> None:
        """Report that the spectra of a map begin, which may take minutes."""
        self._report(next(self._made) / self._to_make, f"spectra of {name}")

    def _kept(self, values: FloatArray) -> FloatArray:
        """Return a copy of a map for the file: where ranks have parts, on rank 0 and not in its memory."""
        if self.gatherer.distributed:
            return self.gatherer.to_disk(values, self.store.path.parent)
        return values.copy()

    def _parts_of(self, maps: Sequence[FloatArray]) -> Iterator[tuple[str, FloatArray]]:
        """Yield the parts of a realization and their maps, (n_stokes, n_pix), which are overwritten."""
        by_part = dict(zip(self.draws.solved, maps, strict=True))
        yield from ((part, by_part[part]) for part in self.parts if part != "both")
        if "both" in self.parts:
            both = by_part.get("both")
            if both is None:
                both = by_part["sky"]
                both += by_part["noise"]
            if self.added is not None:
                both += self.added
            yield "both", both

    def _write(
        self, realization: Realization, mapped: Sequence[MappedDataset], row: dict[str, AnyArray]
    ) -> None:
        if not row:
            self.store.fail(realization.number, next(each.error for each in mapped if each.error))
            return
        if "input" in self.store.rows:
            row["input"] = realization.input(self.estimator.names, self.estimator.l_max)
        self.store.write(realization.number, row)
