"""Checkpoints of a job: when the state of its solver is saved, where, and from which one it goes on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError, DataError, Interruption
from petacomm.base.files import write_text
from petacomm.base.stop_request import StopRequest
from petacomm.base.typing import FloatArray
from petacomm.mpi import Communicator, agree, agree_on_errors
from petamap import __version__
from petamap.data.run_summary import FILE_NAME
from petamap.mapmaking.checkpoint_file import Head, KeyedRows, read_head, read_rows, write_rows
from petamap.mapmaking.checkpoint_pace import Pace
from petamap.mapmaking.solution import ColumnState
from petamap.mapmaking.vector_digest import vector_digest
from petamap.mapmaking.vectors import SharedUnknowns, Unknowns

_SUFFIX = ".checkpoint"
_FORCE = "--force begins anew"
# Bytes a second of a first checkpoint, before one was written and timed.
_ASSUMED_SPEED = 50e6


@dataclass
class JobCheckpoints:
    """Checkpoints of a job, files of a folder. Collective where a communicator is given.

    Attributes
    ----------
    folder : Path
        On a file system that all ranks see.
    run_id : str
        Of the configuration that the bits depend on.
    interval : float
        Seconds between checkpoints; 0: only when the job is asked to stop.
    stop : StopRequest
    how : str
        How to go on, for the user.
    resume : bool
        Whether to go on from files that are there.
    data : str
        Digest of the data, where the job has one right-hand side.
    resumed : int
        How often the job was resumed.
    """

    folder: Path
    run_id: str
    interval: float
    stop: StopRequest
    how: str
    resume: bool = True
    data: str = ""
    resumed: int = field(default=0, init=False)

    @property
    def exist(self) -> bool:
        """Whether a checkpoint is there."""
        return any(self.folder.glob(f"[!.]*{_SUFFIX}"))

    @property
    def replacing(self) -> bool:
        """Whether this run is to replace the products of another one."""
        return self._begun.is_file() and self._begun.read_bytes() == self.run_id.encode()

    @property
    def products(self) -> Path:
        """Folder for the products of a run that replaces another one, until all are made."""
        return self.folder / "products"

    @property
    def all_made(self) -> bool:
        """Whether all products of a run that replaces another one are made; its summary is the last."""
        return self.replacing and (self.products / FILE_NAME).exists()

    @property
    def _begun(self) -> Path:
        return self.folder / "replacing"

    def prepare(self, overwrite: bool, replacing: bool = False) -> str:
        """Check what is there, or remove it if it is to be replaced. Not collective: for one rank.

        With `replacing`, there are products of another run, which stay until those of this one are all made,
        also if it is interrupted: a file in the folder says so.

        Returns
        -------
        str
            For the user: where the job goes on.

        Raises
        ------
        ConfigError
            If a checkpoint is there and neither `resume` nor `overwrite`.
        DataError
            If one is damaged.
        """
        if overwrite:
            self.remove()
            if replacing:
                write_text(self._begun, self.run_id)
        elif self.exist and not self.resume:
            raise ConfigError(
                "holds the checkpoint of an interrupted run", where=str(self.folder),
                mend=f"--resume goes on, {_FORCE}",
            )  # fmt: skip
        note = "none is there: the job begins"
        for path in sorted(self.folder.glob(f"[!.]*{_SUFFIX}")):
            head = read_head(path, _FORCE)
            self.require_same(head, path)
            note = str(head["note"])
        return note

    def require_same(self, head: Head, path: Path) -> None:
        """Raise the error of a checkpoint that is not of this job, if it is not."""
        if head["petamap"] != __version__:
            what, mend = f"is of petamap {head['petamap']}", f"go on with that version; {_FORCE}"
        elif head["run_id"] != self.run_id:
            what, mend = "is of another run configuration", f"go on with that one; {_FORCE}"
        elif self.data and head["data"] != self.data:
            what, mend = "is of other data: the right-hand side differs", _FORCE
        else:
            return
        raise ConfigError(what, where=str(path), mend=mend)

    def path(self, name: str) -> Path:
        """Return the path of a checkpoint."""
        return self.folder / f"{name}{_SUFFIX}"

    def write(self, name: str, comm: Communicator, state: Head, kinds: Mapping[str, KeyedRows]) -> None:
        """Write a checkpoint of this job. Collective."""
        head = {
            "petamap": __version__, "run_id": self.run_id, "data": self.data, "resumed": self.resumed,
            **state,
        }  # fmt: skip
        write_rows(self.path(name), comm, head, kinds)

    def read_head(self, name: str, comm: Communicator) -> Head | None:
        """Return the head of a checkpoint of this job, None if there is none to go on from. Collective."""
        head: Head | None = None
        with agree_on_errors(comm):
            if comm.rank == 0 and self.resume and self.path(name).exists():
                head = read_head(self.path(name), _FORCE)
                self.require_same(head, self.path(name))
        head = comm.bcast(head)
        if head is not None:
            self.resumed = max(self.resumed, int(head["resumed"]) + 1)
        return head

    def read(
        self, name: str, comm: Communicator, head: Head, keys: Mapping[str, Any]
    ) -> dict[str, FloatArray]:
        """Return the rows of a checkpoint that this rank owns. Collective."""
        return read_rows(self.path(name), comm, head, keys, _FORCE)

    def pace(self, comm: Communicator) -> Pace:
        """Return the decisions of some ranks when to save and to stop."""
        return Pace(comm, self.stop, self.interval)

    def interruption(self, why: str) -> Interruption:
        """Return the end of a job whose state is saved."""
        return Interruption(f"stopped {why}, after a checkpoint", where=str(self.folder), mend=self.how)

    def discard(self, name: str) -> None:
        """Remove a checkpoint that is needed no more. Not collective."""
        self.path(name).unlink(missing_ok=True)

    def give_up(self) -> None:
        """Leave nothing behind after an error, unless there is what to go on from. Not collective."""
        if not self.exist and not self.all_made:
            self.remove()

    def remove(self) -> None:
        """Remove all checkpoints. Not collective."""
        shutil.rmtree(self.folder, ignore_errors=True)


class NoCheckpoints(JobCheckpoints):
    """Checkpoints of a job without a folder: it saves nothing, and goes on from nothing."""

    def __init__(self) -> None:
        super().__init__(Path(), "", 0.0, StopRequest({}), "", resume=False)

    @property
    def exist(self) -> bool:
        """Whether a checkpoint is there: never."""
        return False

    def prepare(self, overwrite: bool, replacing: bool = False) -> str:
        return ""

    def write(self, name: str, comm: Communicator, state: Head, kinds: Mapping[str, KeyedRows]) -> None:
        pass

    def discard(self, name: str) -> None:
        pass

    def remove(self) -> None:
        pass


class ColumnCheckpoint:
    """Checkpoint of a solver's columns: the `SolverCheckpoint` of one call of it. Collective.

    Parameters
    ----------
    job : JobCheckpoints
    shared : SharedUnknowns
        Who owns which rows.
    name : str
        Of the file.
    pace : Pace
    label : sequence of int
        What is solved for; a file with another label is not that of this call, and is left alone.
    keep : bool
        Whether to save the solutions as well, for work that follows and takes long.
    also : callable
        Saves what else belongs to the state; collective.
    """

    def __init__(
        self,
        job: JobCheckpoints,
        shared: SharedUnknowns,
        name: str,
        pace: Pace,
        label: Sequence[int] = (),
        keep: bool = False,
        also: Callable[[], None] = lambda: None,
    ) -> None:
        self.job = job
        self.shared = shared
        self.name = name
        self.pace = pace
        self.label = list(label)
        self.keep = keep
        self.also = also
        self._digests: list[str] = []
        self._finished: list[ColumnState] = []
        self._saved: list[ColumnState] | None = None

    def restore(self, rhs: Sequence[Unknowns]) -> list[ColumnState] | None:
        """Return the saved states of the next right-hand sides, if they had been begun."""
        first, stop = len(self._digests), len(self._digests) + len(rhs)
        self._digests += [vector_digest(self.shared, one) for one in rhs]
        if self._saved is None:
            self._saved = self._read(rhs[0])
        self.pace.begin()
        states = self._saved[first:stop]
        self._saved[first:stop] = [ColumnState({}, {})] * len(states)  # memory is the solver's now
        return states or None

    def step(self, states: Callable[[], list[ColumnState]]) -> None:
        """Save at the interval; save and raise an Interruption where the job is to stop."""
        if self.pace.step():
            self._write(self._finished + states())
        if self.pace.stops:
            raise self._interruption()

    def finish(self, states: Callable[[], list[ColumnState]]) -> None:
        """Keep the solutions for the checkpoints of right-hand sides to come."""
        self._finished += states()
        if self.pace.look() or self.keep:
            self._write(self._finished)
        if self.pace.stops:
            raise self._interruption()

    def _interruption(self) -> Interruption:
        error = self.job.interruption(self.pace.why)
        agree(self.shared.comm, error)
        return error

    # --- the file

    def _write(self, states: Sequence[ColumnState]) -> None:
        begin = time.perf_counter()
        vectors = [vector for state in states for vector in state.vectors.values()]
        columns = [
            {"digest": digest, "scalars": state.scalars, "vectors": list(state.vectors)}
            for digest, state in zip(self._digests, states, strict=False)
        ]
        kinds = {
            kind: KeyedRows(keys, [getattr(vector, kind) for vector in vectors])
            for kind, keys in self._keys().items()
        }
        head = {"note": self._note(states), "label": self.label, "columns": columns}
        self.also()
        self.job.write(self.name, self.shared.comm, head, kinds)
        self.pace.saved(time.perf_counter() - begin)

    @staticmethod
    def _note(states: Sequence[ColumnState]) -> str:
        """Return where iterations go on, for the user."""
        done = max((len(state.scalars["history"]) for state in states), default=0)
        return f"goes on after iteration {done - 1}" if done > 0 else "goes on before the first iteration"

    def _keys(self) -> dict[str, Any]:
        """Return the keys of the rows of a vector; gaps that no rank has are not written."""
        keys = {"pixels": self.shared.pixels.keys}
        if self.shared.gaps.comm is self.shared.pixels.comm:
            keys["gaps"] = self.shared.gaps.keys
        return keys

    def _read(self, like: Unknowns) -> list[ColumnState]:
        comm = self.shared.comm
        rows = sum(part.size for part in like.owned)
        self.pace.expect_write(4 * 8 * rows / _ASSUMED_SPEED)
        head = self.job.read_head(self.name, comm)
        if head is None or head["label"] != self.label:
            return []
        path = self.job.path(self.name)
        # The digests of right-hand sides to come are those of the same data.
        for saved, digest in zip(head["columns"], self._digests, strict=False):
            if saved["digest"] != digest:
                what = "is of other data: the right-hand side differs"
                raise ConfigError(what, where=str(path), mend=_FORCE)
        keys = self._keys()
        if set(head["widths"]) != set(keys):
            raise DataError("has other rows", where=str(path), mend=_FORCE)
        rows_by_kind = self.job.read(self.name, comm, head, keys)
        return [self._state(one, rows_by_kind, like) for one in self._placed(head["columns"])]

    @staticmethod
    def _placed(columns: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
        """Return columns, each with the number of vectors before its own."""
        n_before = np.cumsum([0, *(len(column["vectors"]) for column in columns)])
        return [(column, int(n)) for column, n in zip(columns, n_before, strict=False)]

    def _state(
        self, placed: tuple[Mapping[str, Any], int], rows: Mapping[str, FloatArray], like: Unknowns
    ) -> ColumnState:
        column, first = placed
        vectors = {}
        for place, name in enumerate(column["vectors"], first):
            parts = [np.zeros_like(like.pixels), np.zeros_like(like.gaps)]
            for part, kind in zip(parts, ("pixels", "gaps"), strict=True):
                if kind in rows:
                    width = part.shape[1]
                    part[...] = rows[kind][:, place * width : (place + 1) * width]
            vectors[name] = self.shared.with_ghosts(Unknowns(*parts))
        return ColumnState(dict(column["scalars"]), vectors)
