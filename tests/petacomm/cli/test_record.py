"""``petacomm record`` from the command line."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from graphs import as_dict
from mpi import MPIEXEC
from recorded import COMPILER, petacomm, require_compiler

from petacomm.cli.main import main
from petacomm.mapping.graph_files import read_graph
from petacomm.mapping.job import load_mapping_job
from petacomm.recording.recording import CALLS, COLLECTIVES, MESSAGES, RankGroup, Recording

PROGRAM = """\
from mpi4py import MPI
import numpy as np, os, sys
comm = MPI.COMM_WORLD
if comm.rank == 1 and "die" in sys.argv:
    os._exit(3)
comm.Sendrecv(np.zeros(4), (comm.rank + 1) % comm.size, recvbuf=np.zeros(4))
MPI.Finalize()
sys.exit(7 if "fail" in sys.argv else 0)
"""


@pytest.fixture
def program(tmp_path):
    require_compiler()
    (tmp_path / "program.py").write_text(PROGRAM)
    return [MPIEXEC, "-n", 2, sys.executable, "program.py"]


def test_a_program_is_run_and_what_it_sent_is_shown_and_written(program, tmp_path):
    said = petacomm("record", "--out", "graph.mtx", "--", *program, cwd=tmp_path, check=True).stdout
    assert "2 messages of 64 B between 2 pairs of ranks" in said
    assert said.endswith("recording: graph.npz\ngraph: graph.mtx\n")
    assert as_dict(read_graph(tmp_path / "graph.mtx")) == {(0, 1): 32, (1, 0): 32}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.mtx", "graph.npz", "program.py"]


def test_json_is_all_that_comes_out_beside_a_program_that_prints(program, tmp_path):
    script = tmp_path / "program.py"
    script.write_text("print('a line of the program', flush=True)\n" + script.read_text())
    ended = petacomm("record", "--out", "graph", "--json", "--", *program, cwd=tmp_path, check=True)
    assert json.loads(ended.stdout)["messages"] == 2
    assert ended.stderr.count("a line of the program") == 2


def test_a_job_that_dies_is_an_error_and_leaves_nothing(program, tmp_path):
    ended = petacomm("record", "--out", "graph", "--", *program, "die", cwd=tmp_path)
    assert ended.returncode == 3
    assert "the job ended with exit code" in ended.stderr.splitlines()[-1]
    assert "have not written what they sent" in ended.stderr or "no rank has written" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


def test_a_job_that_fails_after_its_end_is_recorded_and_its_code_is_kept(program, tmp_path):
    ended = petacomm("record", "--out", "graph", "--", *program, "fail", cwd=tmp_path)
    assert ended.returncode == 7 and "ended with exit code 7" in ended.stderr
    assert (tmp_path / "graph.npz").exists()


def test_jobs_of_one_command_are_not_taken_for_one(program, tmp_path):
    """The second job has as many ranks as the first."""
    words = ["sh", "-c", '"$@" && "$@"', "sh", *program]
    ended = petacomm("record", "--mpicc", COMPILER, "--out", "graph", "--", *words, cwd=tmp_path)
    assert (
        ended.returncode == 3 and "2 jobs of MPI have run, of 2, 2 ranks (write 'petacomm rec" in ended.stderr
    )
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


def test_a_program_without_mpi_is_an_error(tmp_path):
    require_compiler()
    ended = petacomm("record", "--out", "graph", "--", MPIEXEC, "-n", 2, "true", cwd=tmp_path)
    assert ended.returncode == 3 and "no rank has written what it sent (it must call MPI_Init" in ended.stderr


def test_a_compiler_that_fails_is_an_error(tmp_path):
    compiler = tmp_path / "mpicc"
    compiler.write_text("#!/bin/sh\necho 'mpi.h: fatal error: none' >&2\nexit 1\n")
    compiler.chmod(0o755)
    ended = petacomm("record", "--out", "g", "--mpicc", compiler, "--", "env", "true", cwd=tmp_path)
    assert ended.returncode == 5 and "cannot compile the library that counts: mpi.h: fatal" in ended.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mpicc", "mpicc"], "--mpicc is of a job that is run"),
        (["--folder", "."], "--folder is of a job that is run"),
        (["--algorithms", "bcast=binomial,bcast=streams"], "(name each collective once)"),
    ],
)
def test_options_that_show_would_not_heed_are_refused(recorded, capsys, words, said):
    assert main(["record", "show", "graph.npz", *words]) == 2
    assert said in capsys.readouterr().err


def test_what_cannot_be_written_is_told_before_the_job(recorded, capsys):
    (recorded / "file").write_text("")
    words = ["record", "--out", "file/graph", "--folder", ".", "--", "touch", "started"]
    assert main(words) == 5
    assert "cannot be written: " in capsys.readouterr().err and not (recorded / "started").exists()


@pytest.mark.parametrize(
    ("cache", "code", "said"),
    [
        ("my cache", 2, "from a path with spaces or colons (set XDG_CACHE_HOME"),
        ("a:b", 2, "from a path with spaces or colons (set XDG_CACHE_HOME"),
        ("file", 5, "cannot be written: Not a directory (set XDG_CACHE_HOME"),
    ],
)
def test_a_cache_that_cannot_hold_the_library_is_told_before_the_job(
    recorded, monkeypatch, capsys, cache, code, said
):
    require_compiler()
    (recorded / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(recorded / cache))
    assert main(["record", "--out", "g", "--mpicc", str(COMPILER), "--", "touch", "started"]) == code
    assert said in capsys.readouterr().err and not (recorded / "started").exists()


def made(n_ranks=64):
    """Return a recording of a ring in phase 0, and an all-reduce and an all-to-all in phase 2."""
    direct = np.zeros(n_ranks, MESSAGES)
    direct["source"], direct["messages"], direct["bytes"], direct["size_class"] = (
        np.arange(n_ranks),
        1,
        100,
        7,
    )
    direct["target"] = (direct["source"] + 1) % n_ranks
    collectives = np.array(
        [(2, CALLS.index("allreduce"), 0, 0, 8, 16, 3), (2, CALLS.index("alltoall"), 0, 0, 1, 24, 1)],
        COLLECTIVES,
    )
    everyone = RankGroup("MPI_COMM_WORLD", np.arange(n_ranks, dtype=np.int32))
    return Recording(n_ranks, "Some MPI", [everyone], direct, collectives)


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made().save("graph.npz")
    return tmp_path


def test_tables_add_up(recorded, capsys):
    words = ["record", "show", "graph.npz", "--json", "--algorithms", "alltoall=pairwise"]
    assert main(words) == 0
    data = json.loads(capsys.readouterr().out)
    calls = {row["name"]: row for row in data["by call"]}
    assert calls["send"]["bytes"] == 6400
    assert calls["allreduce"] == {
        "name": "allreduce", "calls": 3, "messages": 3 * 64 * 6, "bytes": 3 * 64 * 6 * 16,
        "by": "recursive-doubling",
    }  # fmt: skip
    assert calls["alltoall"]["bytes"] == 64 * 63 * 24
    for table in ("call", "communicator", "phase", "size", "distance"):
        for name in ("messages", "bytes"):
            assert sum(row[name] for row in data[f"by {table}"]) == data[name], table
    far = {row["name"]: row["messages"] for row in data["by distance"]}
    assert far["3"] == 2 * 61 and far["33 to 64"] == sum(2 * (64 - d) for d in range(33, 64)) + 1


def test_the_picture_shows_blocks_of_ranks(recorded, capsys):
    assert main(["record", "show", "graph.npz", "--phase", "0"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == 32 and {len(line) for line in lines} == {66}
    assert lines[0] == "|@@@@" + " " * 60 + "|" and lines[-1] == "|@@" + " " * 60 + "@@|"


def test_graphs_of_recordings_are_written(recorded, capsys):
    for out in ("a.csv", "b.mtx", "c.graph"):
        assert main(["record", "show", "graph.npz", "--phase", "0", "--out", out]) == 0
        graph = read_graph(recorded / out)
        assert graph.n_ranks == 64
        assert graph.total_bytes == (6400 if out != "c.graph" else 64 * 2 * 50)
    assert as_dict(read_graph("a.csv")) == as_dict(read_graph("b.mtx"))
    assert main(["record", "show", "graph.npz", "--phase", "2", "--out", "d"]) == 0
    assert read_graph("d.npz").total_bytes == read_graph("graph.npz").total_bytes - 6400


def test_a_job_of_map_takes_a_recording_with_its_phases(recorded, capsys):
    job = recorded / "job.toml"
    text = 'ranks = 64\n[graph]\nrecording = "graph.npz"\nalgorithms = {alltoall = "pairwise"}\n'
    job.write_text(text + '[machine]\nname = "bluegene-l"\nshape = [4, 4, 4]\n')
    read = load_mapping_job(job)
    assert list(read.phases) == ["phase 0", "phase 2"]
    assert read.graph.total_bytes == 6400 + 3 * 64 * 6 * 16 + 64 * 63 * 24
    job.write_text(
        job.read_text().replace("recording", "file").replace('algorithms = {alltoall = "pairwise"}', "")
    )
    assert load_mapping_job(job).graph.n_ranks == 64
    job.write_text(text.replace('{alltoall = "pairwise"}', '["pairwise"]') + '[machine]\nname = "fugaku"\n')
    assert main(["map", "job.toml"]) == 2
    assert "job.toml:4: 'graph.algorithms' must be a table" in capsys.readouterr().err


REPORT = str(Path(__file__).parents[1] / "recording" / "samples" / "halo.mpiP")


def test_reports_of_mpip_are_shown_and_become_halos(recorded, capsys):
    assert main(["record", "show", REPORT, "--halos", "2x2", "--out", "halos.csv"]) == 0
    said = capsys.readouterr().out
    assert "mpiP does not tell to which ranks" in said and said.endswith("graph: halos.csv\n")
    assert read_graph("halos.csv").total_bytes == 512056
    assert main(["record", "show", REPORT, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    for part in ("by call", "by rank"):
        sums = [row.get("bytes", 0) if part == "by call" else row["to single ranks"] + row["to collectives"]
                for row in data[part]]  # fmt: skip
        assert sum(sums) == data["bytes"] == 512056 + 4 * 1280


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", REPORT, "--out", "g.csv"], "halo.mpiP: a report of mpiP does not tell to which ranks"),
        (["show", REPORT, "--out", "g.csv", "--halos", "4x2"], "a grid of 4x2 has 8 ranks"),
        (["show", REPORT, "--phase", "0"], "--phase is for recordings"),
        (["show", "graph.npz", "--halos", "8x8"], "--halos is for reports of mpiP"),
        (["--out", "g", "--halos", "8x8", "--", "env"], "--halos is for reports of mpiP"),
        (["--", "env", "true"], "--out is missing"),
        (["--out", "g"], "no command"),
        (["--out", "g", "--", "no-launcher"], "'no-launcher' is not found"),
        (["--out", "g.png", "--", "env"], "g.png: no graph: the format is told by the ending"),
        (["--out", ".", "--", "env"], ".: is a folder (write --out graph)"),
        (["show", "graph.npz", "--out", ".."], "..: is a folder (write --out ../graph)"),
        (["--out", "g", "--mpicc", "no-mpicc", "--", "env"], "no-mpicc is not found"),
        (["--out", "g", "--phase", "1", "--", "env"], "--phase without 'show'"),
        (["show"], "no recording"),
        (["show", "graph.npz", "more"], "unknown argument 'more'"),
        (["show", "graph.npz", "--phase", "1"], "no phase 1 (there are 0, 2)"),
        (["show", "graph.npz", "--algorithms", "alltoall"], "--algorithms alltoall"),
        (["show", "graph.npz", "--algorithms", "alltoal=ring"], "did you mean 'alltoall'"),
        (["show", "graph.npz", "--algorithms", "allreduce=rign"], "did you mean 'ring'"),
        (["show", "graph.npz", "--algorithms", "allreduce=streams"], "ranks fill a rectangle"),
        (["show", "none.npz"], "none.npz: cannot be read"),
    ],
)
def test_bad_input_is_one_line(recorded, words, said, capsys):
    assert main(["record", *words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
