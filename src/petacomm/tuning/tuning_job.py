"""Jobs that measure, and what is made of them: choices, rules, and a check of these in jobs of their own."""

from __future__ import annotations

import json
import mmap
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError, DataError, ResourceError, printable, require_known
from petacomm.base.files import write_errors, write_text
from petacomm.base.jobs import run_to_end
from petacomm.base.phases import in_phase
from petacomm.base.progress import Progress, SilentProgress
from petacomm.tuning import mpich_rules, openmpi_rules
from petacomm.tuning.cells import Cell
from petacomm.tuning.choice import (
    DEFAULT,
    AlgorithmChoice,
    best_algorithms,
    geometric_mean,
    select_algorithm,
)
from petacomm.tuning.measurement import COLLECTIVES
from petacomm.tuning.prediction import predicted_seconds

SIZES = (8, 64, 512, 4096, 32768, 262144, 1048576)
# Pairs of jobs with and without rules, of a check. Jobs differ by tens of percent with where their ranks lie
# and what else the machine does, far more than rounds in a job: many short ones tell more than few long ones.
_PAIRS = 8
_ROUNDS = 4  # of a cell in such a job, at least
_CONTROLS = 8  # cells without a rule in such a job, which tell how fast the machine is in it
_LATER = 6  # jobs in which the best algorithms are timed again
_BEST = 3  # algorithms of a cell that are
_HEAD = ("ranks", "library", "kind", "settings", "wrong", "commutative")
_PROGRAM = "import sys; from petacomm.tuning.measurement import run_measurement as run; run(*sys.argv[1:])"


@dataclass
class Tuning:
    """What was measured and chosen.

    Attributes
    ----------
    ranks : int
        Ranks of the jobs that measured.
    library : str
        Version of the MPI library, as it says itself.
    kind : str
        "mpich" or "open-mpi".
    library_path : str
        The library itself, which has MPICH's own table.
    settings : mapping of str to str
        Variables that were set for all that was measured, as there are more ranks than cores.
    times : mapping of Cell to (mapping of str to sequence of float)
        Seconds of each round by algorithm.
    choices : mapping of Cell to AlgorithmChoice
    later : mapping of Cell to (sequence of mapping of str to sequence of float)
        Seconds of rounds in later jobs, of the best algorithms.
    checked : mapping of Cell to sequence of float
        Time without the rules by that with them, for each pair of jobs after the choices, by the same of
        cells that no rule changes.
    refused : mapping of Cell to sequence of float
        The same for cells whose choice jobs with the rules did not confirm.
    wrong : sequence of str
        Algorithms whose results are wrong.
    commutative : bool
        Whether the rules are for programs all of whose operations commute.
    too_dear : sequence of Cell
        Those that would have taken too long, or too much memory, to measure.
    """

    ranks: int
    library: str
    kind: str
    library_path: str
    settings: Mapping[str, str]
    times: Mapping[Cell, Mapping[str, Sequence[float]]]
    choices: dict[Cell, AlgorithmChoice]
    checked: dict[Cell, list[float]] = field(default_factory=dict)
    refused: dict[Cell, list[float]] = field(default_factory=dict)
    later: dict[Cell, list[Mapping[str, Sequence[float]]]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    commutative: bool = False
    too_dear: list[Cell] = field(default_factory=list)

    @property
    def chosen(self) -> dict[Cell, str]:
        """Algorithm of each cell that has a rule."""
        return {cell: choice.name for cell, choice in self.choices.items() if choice.name != DEFAULT}

    def is_withdrawn(self, cell: Cell) -> bool:
        """Return whether a cell has no rule, as jobs did not confirm the one that it had."""
        return cell in self.refused

    def checked_gain(self, cell: Cell) -> float:
        """Return the median gain of a cell in jobs with the rules; 1 where no rule changes it."""
        return 1.0 if self.is_withdrawn(cell) else self._last_gain(cell)

    def _last_gain(self, cell: Cell) -> float:
        return float(np.median(self.checked[cell])) if cell in self.checked else 1.0

    def default_seconds(self, cell: Cell) -> float | None:
        """Return the seconds of the library's own choice: measured, or predicted where that can be."""
        return predicted_seconds(self.measured_defaults(), cell)

    def measured_defaults(self) -> dict[Cell, float]:
        """Return the seconds of the library's own choice of all cells that were measured."""
        return {cell: float(np.median(times[DEFAULT])) for cell, times in self.times.items()}

    def mean_gain(self) -> float:
        """Return the geometric mean of the gains in the last jobs over all cells that were measured.

        Those of rules that these jobs withdrew count as well, so that noise does not favour the mean.
        """
        return geometric_mean([self._last_gain(cell) for cell in self.times])

    def as_json(self) -> dict[str, Any]:
        """Return all measurements and choices as JSON data."""
        cells = [
            {
                "collective": cell.collective, "bytes": cell.size, "ranks": cell.ranks,
                "choice": asdict(self.choices[cell]),
                "checked": self.checked.get(cell, []), "refused": self.refused.get(cell, []),
                "seconds": times, "later": self.later.get(cell, []),
            }
            for cell, times in self.times.items()
        ]  # fmt: skip
        head = {name: getattr(self, name) for name in _HEAD}
        dear = [
            {"collective": cell.collective, "bytes": cell.size, "ranks": cell.ranks,
             "predicted_seconds": self.default_seconds(cell)}
            for cell in self.too_dear
        ]  # fmt: skip
        mean = self.mean_gain()
        return head | {"geometric mean of checked gains": mean, "cells": cells, "too_dear": dear}


def tune_collectives(
    launcher: Sequence[str],
    folder: Path,
    collectives: Sequence[str] = COLLECTIVES,
    sizes: Sequence[int] = SIZES,
    seconds: float = 2.0,
    progress: Progress | None = None,
    commutative: bool = False,
    ranks: Sequence[int] = (),
) -> Tuning:
    """Measure collectives under a launcher, write the rules of the better algorithms, and check them.

    Parameters
    ----------
    launcher : sequence of str
        Launcher and its arguments without a program, such as ``["mpiexec", "-n", "8"]``.
    folder : Path
        Folder of the rules, seen by all nodes.
    collectives : sequence of str
    sizes : sequence of int
        Bytes of a vector, or of a block where each rank has one for or from each other.
    seconds : float
        Time for the rounds of a cell, of which there are some at least.
    progress : Progress, optional
    commutative : bool
        Whether all operations of the programs commute. Open MPI's rules do not ask, so that algorithms that
        combine out of the order of ranks are tried only then; MPICH's rules ask.
    ranks : sequence of int
        Ranks of the communicators that are measured, of consecutive ones each; of none, all ranks.

    Returns
    -------
    Tuning

    Raises
    ------
    ConfigError
        If there is no launcher, or one rank alone, or an unknown collective, or a size that is no multiple
        of 8, or communicators of one rank or of more than there are.
    ResourceError
        If a job fails, or its MPI library has no algorithms to choose from.
    """
    progress = progress or SilentProgress()
    cells = _cells(launcher, collectives, sizes, ranks)
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="petacomm-tune-", dir=folder)).resolve()
    try:
        progress.begin("measure", None)
        request = {"cells": cells, "forced": True, "seconds": seconds, "commutative": commutative}
        with in_phase("measure"):
            result = _measured(launcher, scratch, request, {})
        progress.end()
        tuning = _measured_tuning(result, max(ranks, default=0))
        tuning.commutative = commutative and tuning.kind == "open-mpi"
        _measure_again(launcher, scratch, tuning, request, progress)
        gains = _compared(launcher, scratch, tuning, "check", list(tuning.chosen), seconds, progress)
        withdraw_choices(tuning, gains)
        # further pairs: of those that choices were made by, the ones that noise favoured are left
        cells = list(tuning.chosen)
        tuning.checked = _compared(launcher, scratch, tuning, "gains", cells, seconds, progress)
        withdraw_choices(tuning, tuning.checked)
        return tuning
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _cells(
    launcher: Sequence[str], collectives: Sequence[str], sizes: Sequence[int], ranks: Sequence[int]
) -> list[Cell]:
    if not launcher or shutil.which(launcher[0]) is None:
        what = f"'{launcher[0]}' is not found" if launcher else "no launcher"
        raise ConfigError(what, mend="write petacomm tune --out tuning -- mpiexec -n 8")
    for name in collectives:
        require_known("no algorithms of the collective", name, COLLECTIVES)
    for size in sizes:
        if size < 8 or size % 8:
            raise ConfigError(f"a size of {size} bytes", mend="give multiples of 8: doubles are sent")
    if ranks and min(ranks) < 2:
        raise ConfigError(
            f"communicators of {min(ranks)} ranks send nothing", mend="give 2 or more: --ranks 4,8"
        )
    return [
        Cell(name, size, n_ranks)
        for name in collectives
        for n_ranks in sorted(set(ranks)) or [0]
        for size in ((0,) if name == "barrier" else sorted(set(sizes)))
    ]


def write_rules(tuning: Tuning, folder: Path) -> dict[str, str]:
    """Write the rules of a tuning into a folder, and return variables that make MPI read them."""
    if tuning.kind == "open-mpi":
        path = folder.resolve() / openmpi_rules.RULES_FILE
        write_text(path, openmpi_rules.dynamic_rules(tuning.times, tuning.chosen))
        return openmpi_rules.RULES_VARIABLES | {openmpi_rules.RULES_VARIABLE: str(path)}
    path = folder.resolve() / mpich_rules.RULES_FILE
    base = mpich_rules.builtin_table(Path(tuning.library_path))
    table = mpich_rules.selection_table(base, tuning.times, tuning.chosen)
    text = json.dumps(table, separators=(",", ":")) + "\n"
    # MPICH maps the file and reads on to a zero, which is not there behind pages that are full.
    write_text(path, text + " " * (len(text) % mmap.PAGESIZE == 0))
    return {mpich_rules.RULES_VARIABLE: str(path)}


def remove_rules(folder: Path) -> None:
    """Remove the rules of an earlier tuning from a folder."""
    for name in (mpich_rules.RULES_FILE, openmpi_rules.RULES_FILE):
        (folder / name).unlink(missing_ok=True)


def _measured_tuning(result: Mapping[str, Any], most: int) -> Tuning:
    """Return what was measured, with the default chosen of each cell, if there are the `most` ranks asked."""
    if not result["kind"]:
        own = "export I_MPI_TUNING_MODE=auto: it tunes itself as a program runs"
        raise ResourceError(
            f"no algorithms to choose from are known of {printable(result['library'])}",
            mend=own if "Intel" in result["library"] else "tune MPICH or Open MPI",
        )
    if result["ranks"] == 1:
        raise ConfigError(
            "one rank has nobody to send to", mend="start more: petacomm tune ... -- mpiexec -n 8"
        )
    if most > result["ranks"]:
        raise ConfigError(
            f"communicators of {most} ranks, of {result['ranks']} that the launcher starts",
            mend="start more, or give fewer: --ranks",
        )
    rows = {_cell(row): row["times"] for row in result["cells"]}
    times = {cell: taken for cell, taken in rows.items() if taken}
    choices = {cell: AlgorithmChoice(DEFAULT) for cell in times}
    wrong = [f"{cell['collective']} {name}" for cell in result["cells"] for name in cell["wrong"]]
    names = ("ranks", "library", "kind", "library_path", "settings")
    head = {name: result[name] for name in names}
    return Tuning(
        **head, times=times, choices=choices, wrong=list(dict.fromkeys(wrong)),
        too_dear=[cell for cell in rows if cell not in times],
    )  # fmt: skip


def _cell(row: Mapping[str, Any]) -> Cell:
    return Cell(row["collective"], row["size"], row["ranks"])


def _measure_again(
    launcher: Sequence[str],
    scratch: Path,
    tuning: Tuning,
    first: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Time the best algorithms of each cell in more jobs, and choose by all of these."""
    best = {cell: best_algorithms(times, _BEST) for cell, times in tuning.times.items()}
    tuning.later = {cell: [] for cell, names in best.items() if names}
    names = [best[cell] for cell in tuning.later]
    request = {**first, "cells": list(tuning.later), "names": names}
    request |= {"seconds": first["seconds"] / 8, "rounds": _ROUNDS}
    if not names:
        return
    progress.begin("measure again", _LATER, "jobs")
    for _ in range(_LATER):
        with in_phase("measure again"):
            result = _measured(launcher, scratch, request, {})
        for cell, found in zip(tuning.later, result["cells"], strict=True):
            tuning.later[cell].append(found["times"])
        progress.advance(1)
    progress.end()
    for cell, later in tuning.later.items():
        tuning.choices[cell] = select_algorithm(later)


def _compared(
    launcher: Sequence[str],
    scratch: Path,
    tuning: Tuning,
    phase: str,
    cells: Sequence[Cell],
    seconds: float,
    progress: Progress,
) -> dict[Cell, list[float]]:
    """Return gains of the rules in pairs of jobs, for some cells that they change."""
    gains: dict[Cell, list[float]] = {cell: [] for cell in cells}
    if not gains:
        return gains
    variables = write_rules(tuning, scratch)
    controls = control_cells(tuning)
    request = {"cells": [*cells, *controls], "forced": False, "seconds": seconds / 16, "rounds": _ROUNDS}
    progress.begin(phase, 2 * _PAIRS, "jobs")
    for pair in range(_PAIRS):
        taken = {}
        for with_rules in (bool(pair % 2), not pair % 2):
            with in_phase(phase):
                result = _measured(launcher, scratch, request, variables if with_rules else {})
            taken[with_rules] = {
                _cell(row): float(np.median(row["times"][DEFAULT])) for row in result["cells"]
            }
            progress.advance(1)
        for cell, gain in controlled_gains(taken[False], taken[True], controls).items():
            gains[cell].append(gain)
    progress.end()
    return gains


def control_cells(tuning: Tuning) -> list[Cell]:
    """Return cells without a rule, evenly of all."""
    without = [cell for cell in tuning.times if cell not in tuning.chosen]
    places = np.linspace(0, len(without) - 1, min(_CONTROLS, len(without)))
    return [without[round(place)] for place in places]


def controlled_gains(
    own: Mapping[Cell, float], ruled: Mapping[Cell, float], controls: Sequence[Cell]
) -> dict[Cell, float]:
    """Return the gains of rules in a pair of jobs, by the median gain of cells that no rule changes.

    Of two jobs, one may be slower in all that it does, for what else the machine does meanwhile.

    Parameters
    ----------
    own, ruled : mapping of Cell to float
        Seconds of each cell in the job without rules and in that with them.
    controls : sequence of Cell
        Cells that no rule changes.
    """
    gains = {cell: own[cell] / ruled[cell] for cell in own}
    control = float(np.median([gains[cell] for cell in controls] or [1.0]))
    return {cell: gain / control for cell, gain in gains.items() if cell not in controls}


def withdraw_choices(tuning: Tuning, gains: Mapping[Cell, Sequence[float]]) -> None:
    """Take the default for cells whose choice jobs with the rules do not confirm."""
    for cell, ratios in gains.items():
        if np.median(ratios) < 1:
            tuning.refused[cell] = list(ratios)
            tuning.choices[cell] = AlgorithmChoice(DEFAULT)


def _measured(
    launcher: Sequence[str],
    scratch: Path,
    request: Mapping[str, Any],
    variables: Mapping[str, str],
) -> dict[str, Any]:
    """Return what a job of the measurement has written."""
    asked, written = scratch / "request.json", scratch / "result.json"
    written.unlink(missing_ok=True)
    write_text(asked, json.dumps(request))
    program = [sys.executable, "-c", _PROGRAM, str(asked), str(written)]
    code, said = _ended([*launcher, *program], os.environ | variables)
    if not code and not written.exists():
        raise ConfigError(
            f"'{shlex.join(launcher)}' has not started the program that measures",
            mend="give the launcher and its arguments alone, no program, and an --out that all nodes see",
        )
    if code:
        first = printable(said.strip().splitlines()[0]) if said.strip() else "without a word"
        raise ResourceError(
            f"the job that measures ended with exit code {code}: {first}",
            mend=f"try the launcher: {shlex.join(launcher)} {sys.executable} -m mpi4py.bench helloworld",
        )
    try:
        return dict(json.loads(written.read_text(encoding="utf-8")))
    except ValueError:
        raise DataError("no result of a measurement", where=str(written), mend="tune again") from None


def _ended(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run a command, and return its exit code and what it said."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        code = run_to_end(
            command, environment, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        )
        said.seek(0)
        return code, said.read()
