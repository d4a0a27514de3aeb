"""The command, and what it makes of measurements."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mpi import MPIEXEC
from recorded import petacomm

from petacomm.cli.main import main
from petacomm.cli.tune import _sourced
from petacomm.mpi.launch import OVERSUBSCRIBED
from petacomm.recording.recording import CALLS, COLLECTIVES, MESSAGES, RankGroup, Recording
from petacomm.tuning import AlgorithmChoice, Tuning
from petacomm.tuning.cells import Cell
from petacomm.tuning.measurement import _is_too_dear, oversubscription_settings
from petacomm.tuning.tool_interface import mapped_mpi_library
from petacomm.tuning.tuning_job import control_cells, controlled_gains, withdraw_choices
from petacomm.tuning.tuning_table import environment_text, job_savings, saving_table, tuning_table

NAMES = ("default", "ring", "tree k=2")


SHORT, LONG, BARRIER = Cell("allreduce", 8, 8), Cell("allreduce", 1024, 8), Cell("barrier", 0, 8)


def made_tuning():
    times = {
        SHORT: {"default": [1e-5] * 3, "ring": [2e-5] * 3},
        LONG: {"default": [4e-5] * 3, "ring": [2e-5] * 3},
        BARRIER: {"default": [1e-5] * 3},
    }
    choices = {cell: AlgorithmChoice("default") for cell in times}
    choices[LONG] = AlgorithmChoice("ring", 2.0, 1.8, 2.2)
    return Tuning(8, "MPICH 5", "mpich", "", {"A": "b c"}, times, choices, {LONG: [1.9, 2.0, 2.3]})


def test_the_table_has_a_row_for_each_cell():
    lines = tuning_table(made_tuning()).splitlines()
    assert lines[0] == "8 ranks, MPICH 5"
    row = next(line for line in lines if "ring" in line).split()
    assert " ".join(row) == "allreduce 8 1.02 kB 40 us ring 20 us 2.00 1.80 to 2.20 2.00"
    assert lines[-1].endswith(f"over all 3 rows: {2 ** (1 / 3):.2f}")


def test_variables_are_quoted_and_those_of_the_measurement_with_them():
    assert environment_text(made_tuning(), {"RULES": "/x"}) == "export A='b c'\nexport RULES=/x\n"


def recorded_collectives(calls, *sizes_of_groups):
    """Return a recording of collectives: name, group, size and number of calls of each."""
    groups = [RankGroup("", np.arange(n, dtype=np.int32)) for n in sizes_of_groups]
    rows = np.zeros(len(calls), COLLECTIVES)
    for row, (call, group, size, n) in zip(rows, calls, strict=True):
        row["call"], row["group"], row["size"], row["calls"] = CALLS.index(call), group, size, n
    return Recording(8, "", groups, np.zeros(0, MESSAGES), rows)


def test_savings_are_of_the_calls_that_were_measured():
    calls = [("allreduce", 0, 1000, 100), ("allreduce", 1, 1000, 7), ("allreduce", 0, 1 << 30, 2)]
    calls += [("scan", 0, 8, 1), ("allreduce", 2, 8, 1000)]  # alone, nobody sends
    savings = job_savings(made_tuning(), recorded_collectives(calls, 8, 4, 1))
    counted = {"calls": 100, "default_seconds": 4e-3, "tuned_seconds": pytest.approx(2e-3)}
    assert savings.pop("cells") == [{"collective": "allreduce", "bytes": 1024, "ranks": 8} | counted]
    assert savings.pop("all") == counted and savings.pop("not_measured") == 10
    assert not any(savings.values())
    lines = saving_table(job_savings(made_tuning(), recorded_collectives(calls, 8, 4, 1))).splitlines()
    assert " ".join(lines[1].split()) == "allreduce 8 1.02 kB 100 4 ms 2 ms 2 ms"
    assert lines[-1].startswith("10 calls") and len(lines) == 4


def test_calls_that_were_not_measured_are_predicted():
    tuning = made_tuning()
    four = {cell._replace(ranks=4): {"default": [5e-6]} for cell in (SHORT, LONG)}
    tuning.times = {**tuning.times, **four}
    calls = [("allreduce", 0, 1024, 1), ("allreduce", 1, 1024, 10), ("allreduce", 2, 2048, 10)]
    savings = job_savings(tuning, recorded_collectives(calls, 8, 2, 4))
    by_ranks = {row["ranks"]: row for row in savings["predicted"]}
    assert by_ranks[2]["default_seconds"] == pytest.approx(10 * 5e-6 * 5e-6 / 4e-5)  # an eighth, as 4 of 8
    assert by_ranks[2]["tuned_seconds"] == by_ranks[2]["default_seconds"]
    assert savings["cells"][0]["ranks"] == 8 and savings["all"]["calls"] == 21
    assert savings["prediction_ratios"][0] >= 1
    said = saving_table(savings)
    assert "predicted" in said and "--ranks 2 measures those" in said.replace("\n", " ")


def test_what_would_take_too_long_is_not_measured():
    node = SimpleNamespace(size=1, Free=lambda: None)
    world = SimpleNamespace(Split_type=lambda _: node, allreduce=lambda value, _: value)
    mpi = SimpleNamespace(COMM_WORLD=world, COMM_TYPE_SHARED=0, MAX=max)
    seconds = {64: 1e-3, 512: 1e-3, 4096: 5e-3, 32768: 40e-3}
    found = {Cell("alltoall", size, 8): {"times": {"default": [taken]}} for size, taken in seconds.items()}
    asked = [Cell("alltoall", size, 8) for size in (65536, 1 << 18)]
    assert [_is_too_dear(mpi, cell, found, 1.0) for cell in asked] == [False, True]  # 80 ms and 320 ms
    assert not _is_too_dear(mpi, asked[1], found, 3.0) and not _is_too_dear(mpi, asked[1], {}, 1.0)


def test_what_is_too_dear_is_told_with_what_is_predicted():
    tuning = made_tuning()
    tuning.too_dear = [LONG._replace(size=8192), LONG._replace(size=1 << 30)]
    near, far = (line for line in tuning_table(tuning).splitlines() if "too dear" in line)
    assert "about 250 us" in near and "about" not in far  # 40 us, and 30 us in 1016 bytes
    told = tuning.as_json()["too_dear"]
    assert told[0]["predicted_seconds"] == pytest.approx(40e-6 + 30e-6 / 1016 * 7168)
    assert told[1]["predicted_seconds"] is None


def test_the_command_measures_and_writes(tmp_path, monkeypatch, capfd):
    if not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    for name in ("_PAIRS", "_LATER"):  # each job takes a second
        monkeypatch.setattr(f"petacomm.tuning.tuning_job.{name}", 1)
    words = ["tune", "--out", str(tmp_path / "tuning"), "--collectives", "allreduce,barrier"]
    words += ["--sizes", f"64,{1 << 40}", "--ranks", "2,3"]  # of the larger one, no memory is taken
    rows = np.zeros(1, COLLECTIVES)
    rows["call"], rows["size"], rows["calls"] = CALLS.index("allreduce"), 64, 3
    groups = [RankGroup("", np.arange(2, dtype=np.int32))]
    Recording(2, "", groups, np.zeros(0, MESSAGES), rows).save(tmp_path / "graph.npz")
    words += ["--graph", str(tmp_path / "graph.npz")]
    launcher = ["--", str(MPIEXEC), "-n", "3"]
    code = main([*words, "--seconds", "0.01", "--json", *launcher])
    out, err = capfd.readouterr()
    if "no algorithms to choose from are known of Intel" in err:
        pytest.skip("the MPI at hand is Intel's, which tunes itself")
    assert code == 0, err
    said = json.loads(out)
    assert said == json.loads((tmp_path / "tuning/measurements.json").read_text())
    assert said["ranks"] == 3 and not said["wrong"] and said["kind"]
    measured = [(cell["collective"], cell["ranks"], cell["bytes"]) for cell in said["cells"]]
    assert measured == [("allreduce", 2, 64), ("allreduce", 3, 64), ("barrier", 2, 0), ("barrier", 3, 0)]
    assert [(cell["ranks"], cell["bytes"]) for cell in said["too_dear"]] == [(2, 1 << 40), (3, 1 << 40)]
    saved = said["savings"]["all"]
    assert saved["calls"] == 3 and saved["default_seconds"] >= saved["tuned_seconds"] > 0
    assert "of " + said["savings"]["recording"] in (tmp_path / "tuning/table.txt").read_text()
    assert len(said["cells"][0]["seconds"]) > 2  # the default and algorithms of the library
    names = {path.name for path in (tmp_path / "tuning").iterdir()}
    assert {"measurements.json", "table.txt"} <= names
    assert not any(name.startswith("petacomm") for name in names)
    assert main([*words, *launcher]) == 2
    assert "has a tuning (give --force" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--", "mpiexec"], "--out is missing"),
        (["--out", "x"], "no launcher (write petacomm tune --out tuning -- mpiexec -n 8)"),
        (["--out", "x", "--", "no-such-launcher"], "'no-such-launcher' is not found"),
        (["--out", "x", "--sizes", "8,x", "--", "true"], "--sizes 8,x"),
        (["--out", "x", "--sizes", "12", "--", "true"], "a size of 12 bytes"),
        (["--out", "x", "--seconds", "0", "--", "true"], "--seconds 0"),
        (["--out", "x", "--ranks", "2,four", "--", "true"], "--ranks 2,four (write numbers of ranks"),
        (["--out", "x", "--ranks", "4,1", "--", "true"], "communicators of 1 ranks send nothing"),
        (["--out", "x", "--collectives", "alreduce", "--", "true"], "did you mean 'allreduce'?"),
    ],
)
def test_wrong_words_are_told(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *words]) == 2
    assert said in capsys.readouterr().err and not any(tmp_path.iterdir())


def test_one_rank_is_not_tuned(tmp_path, capsys):
    measured = json.dumps({"kind": "mpich", "library": "MPICH 5", "ranks": 1, "cells": []})
    assert main(["tune", "--out", str(tmp_path / "x"), "--", launcher_of(tmp_path, measured)]) == 2
    assert "one rank has nobody to send to (start more" in capsys.readouterr().err


def test_communicators_of_more_ranks_than_there_are_are_told(tmp_path, capsys):
    measured = json.dumps({"kind": "mpich", "library": "MPICH 5", "ranks": 4, "cells": []})
    words = ["tune", "--out", str(tmp_path / "x"), "--ranks", "2,8"]
    assert main([*words, "--", launcher_of(tmp_path, measured)]) == 2
    assert "communicators of 8 ranks, of 4 that the launcher starts" in capsys.readouterr().err


def test_a_program_after_the_launcher_is_told(tmp_path, capsys):
    assert main(["tune", "--out", str(tmp_path / "x"), "--", "env", "true"]) == 2
    assert "'env true' has not started the program that measures" in capsys.readouterr().err


def test_the_file_of_variables_is_named_as_shells_find_it():
    assert _sourced(Path("environment.sh")) == "./environment.sh"
    assert _sourced(Path("my tuning/environment.sh")) == "'my tuning/environment.sh'"


def test_settings_are_those_of_the_library_for_more_ranks_than_cores(monkeypatch):
    for name in ("MPIR_CVAR_SUPPRESS_ABORT_MESSAGE", *OVERSUBSCRIBED):
        monkeypatch.setenv(name, "1")
    own = {"MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD": "1"}
    assert oversubscription_settings("mpich", own) == {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "1"}
    yielding = {"OMPI_MCA_mpi_yield_when_idle": "1", "PRTE_MCA_mpi_yield_when_idle": "1"}
    assert oversubscription_settings("open-mpi", own) == yielding
    assert not oversubscription_settings("", own)


def test_libraries_are_found_below_folders_with_spaces():
    head = "7f00-7f01 r-xp 00001000 fe:00 42                        "
    maps = f"{head}/usr/lib/libc.so.6\n{head}/home/me/my env/lib/libmpi.so.12.5\n"
    assert mapped_mpi_library(maps) == Path("/home/me/my env/lib/libmpi.so.12.5")
    assert mapped_mpi_library(f"{head}/usr/lib/libmpifort.so.12\n{head}[stack]\n") is None


def launcher_of(folder, measured):
    """Return a launcher that writes a measurement in the place of a job."""
    launcher = folder / "launch"
    launcher.write_text(f"#!/bin/sh\nfor result; do :; done\ncat >$result <<'END'\n{measured}\nEND\n")
    launcher.chmod(0o755)
    return str(launcher)


def test_a_signal_is_told_with_the_phase(tmp_path):
    launcher = tmp_path / "launch"
    launcher.write_text("#!/bin/sh\nkill -TERM $PPID\nexec sleep 30\n")
    launcher.chmod(0o755)
    ended = petacomm("tune", "--out", tmp_path / "x", "--", launcher, timeout=20)
    assert ended.returncode == 143 and "terminated in phase 'measure'" in ended.stderr
    assert not any((tmp_path / "x").iterdir())


def test_a_job_that_fails_is_told_and_leaves_nothing(tmp_path, capsys):
    assert main(["tune", "--out", str(tmp_path / "x"), "--", "false"]) == 5
    assert "ended with exit code 1" in capsys.readouterr().err and not any((tmp_path / "x").iterdir())


@pytest.mark.parametrize(
    ("library", "mend"),
    [
        ("Intel(R) MPI Library 2021.18.1 for Linux* OS", "export I_MPI_TUNING_MODE=auto: it tunes itself"),
        ("MPI VERSION : CRAY MPICH version 8.1", "tune MPICH or Open MPI"),
    ],
)
def test_libraries_whose_algorithms_are_not_known_are_told(library, mend, tmp_path, capsys):
    measured = json.dumps({"kind": "", "library": library, "ranks": 2, "cells": []})
    assert main(["tune", "--out", str(tmp_path / "x"), "--", launcher_of(tmp_path, measured)]) == 5
    said = capsys.readouterr().err
    assert library in said and mend in said and not any((tmp_path / "x").iterdir())


def test_choices_that_jobs_with_the_rules_do_not_confirm_are_withdrawn():
    tuning, cell = made_tuning(), LONG
    noisy = [1.5, 0.7, 1.2, 1.3, 0.9, 1.1, 1.4, 0.8]  # as pairs of jobs are where ranks share cores
    withdraw_choices(tuning, {cell: noisy})
    assert tuning.chosen == {cell: "ring"} and not tuning.is_withdrawn(cell)
    withdraw_choices(tuning, {cell: [1.5, 0.9, 0.98]})
    assert not tuning.chosen and tuning.is_withdrawn(cell) and tuning.refused == {cell: [1.5, 0.9, 0.98]}
    tuning.checked = {LONG: [0.25]}  # of the last jobs: it counts in the mean, and saves nothing
    assert tuning.checked_gain(LONG) == 1.0 and tuning.mean_gain() == pytest.approx(0.25 ** (1 / 3))
    assert "withdrawn" in tuning_table(tuning) and tuning.checked_gain(BARRIER) == 1.0


def test_gains_are_by_those_of_cells_that_no_rule_changes():
    cells = bcast, reduce, long = [Cell("bcast", 8, 8), Cell("reduce", 8, 8), Cell("reduce", 64, 8)]
    own = dict(zip([*cells, BARRIER], [4.0, 3.0, 8.0, 1.0], strict=True))
    ruled = dict(zip([*cells, BARRIER], [4.0, 3.0, 16.0, 2.0], strict=True))
    controls = [BARRIER, long]  # in a job that took twice as long
    assert controlled_gains(own, ruled, controls) == {bcast: 2.0, reduce: 2.0}
    assert controlled_gains(own, ruled, [])[long] == 0.5


def test_controls_are_cells_without_a_rule():
    tuning = made_tuning()
    ruled = set(tuning.chosen)
    controls = control_cells(tuning)
    assert set(controls) == set(tuning.times) - ruled
    tuning.times = {Cell("reduce", size, 8): {} for size in range(100)}
    controls = control_cells(tuning)
    assert len(controls) == 8 and [cell.size for cell in controls[::7]] == [0, 99]
