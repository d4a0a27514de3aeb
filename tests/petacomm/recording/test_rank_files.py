"""Files of ranks: merged, and refused if they are damaged or missing."""

import numpy as np
import pytest

from petacomm.base.errors import ConfigError, DataError
from petacomm.recording import load_recording
from petacomm.recording.rank_files import read_rank_files
from petacomm.recording.recording import CALLS
from petacomm.recording.recording_table import recording_table

FILE = """\
petacomm-record 1 {rank} 2 00000000000000bb
library Some MPI 1.0
group 0 00000000000000aa 2 {rank} 0 MPI_COMM_WORLD
group 1 00000000000000aa 2 {rank} 0 copy
messages 0 send 0 {other} 4 3 30
messages 0 get 1 {other} 4 1 8
collective 1 allreduce 0 0 8 16 5
collective 1 allreduce 1 0 8 16 2
spawned {rank}
outside 1 100
end
"""


def written(folder, *texts):
    for rank, text in enumerate(texts):
        (folder / f"rank-{rank:08d}.txt").write_text(text)
    return folder


def texts():
    return [FILE.format(rank=rank, other=1 - rank) for rank in (0, 1)]


def test_files_are_merged(tmp_path):
    recording, warnings = read_rank_files(written(tmp_path, *texts()), "a program")
    assert recording.n_ranks == 2 and recording.library == "Some MPI 1.0"
    assert [group.ranks.tolist() for group in recording.groups] == [[0, 1]]  # both of the same ranks
    assert recording.collectives["calls"].tolist() == [7]
    rows = {(CALLS[row["call"]], int(row["source"]), int(row["target"])): int(row["bytes"])
            for row in recording.direct}  # fmt: skip
    assert rows == {("send", 0, 1): 30, ("send", 1, 0): 30, ("get", 0, 1): 8, ("get", 1, 0): 8}
    assert recording.outside == (2, 200) and warnings == [
        "1 processes that the job spawned are not recorded",
        "2 messages went to processes outside of MPI_COMM_WORLD",
    ]


def test_collectives_with_processes_of_other_jobs_are_left_out_and_told_of(tmp_path):
    first, second = texts()
    more = "group 2 00000000000000dd 3 0 0 both\nranks 2 0 1 -32766\ncollective 0 bcast 2 1 0 8 4\n"
    first = first.replace("messages 0 send", more + "messages 0 send")
    recording, warnings = read_rank_files(written(tmp_path, first, second), "a program")
    assert recording.collectives["calls"].tolist() == [7]
    assert "collectives with processes outside of MPI_COMM_WORLD are not recorded" in warnings
    recording.save(tmp_path / "graph.npz")
    assert load_recording(tmp_path / "graph.npz").groups[1].ranks.tolist() == [0, 1]


def test_a_communicator_whose_first_rank_sends_nothing_has_its_size(tmp_path):
    first, second = texts()
    second = second.replace("group 1 00000000000000aa 2 1 0 copy", "group 1 00000000000000dd 2 1 0 pair")
    recording, _ = read_rank_files(written(tmp_path, first, second), "a program")
    recording.save(tmp_path / "graph.npz")
    for one in (recording, load_recording(tmp_path / "graph.npz")):
        assert [group.size for group in one.groups] == [2, 2] and len(one.groups[1].ranks) == 0
    assert "pair (2)" in recording_table(recording)


def test_a_job_that_sends_nothing_has_no_empty_tables(tmp_path):
    text = "petacomm-record 1 0 1 00000000000000bb\nlibrary Some MPI 1.0\nspawned 0\noutside 0 0\nend\n"
    recording, _ = read_rank_files(written(tmp_path, text), "a program")
    assert recording_table(recording).splitlines() == [
        "1 rank, Some MPI 1.0", "0 messages of 0 B between 0 pairs of ranks", "",
        "bytes from rank (row) to rank (column)", "", "no bytes were sent",
    ]  # fmt: skip


def test_ranks_that_count_differently_are_told_of(tmp_path):
    first, second = texts()
    second = second.replace("16 5", "16 6")
    recording, warnings = read_rank_files(written(tmp_path, first, second), "a program")
    assert recording.collectives["calls"].tolist() == [7]
    assert "ranks of 'MPI_COMM_WORLD' count different calls" in warnings[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[:-4], "ends too early"),
        (lambda text: text[: len(text) // 2], "ends too early"),
        (lambda text: text.replace("send", "sned"), r"txt:5: no record of a rank"),
        (lambda text: text.replace("4 3 30", "4 x 30"), r"txt:5: no record"),
        (lambda text: text.replace("send 0", "send 9"), "no record"),
        (lambda text: text.replace("record 1", "record 2"), r"txt:1: no record"),
        (lambda text: "end\n", "no record of a rank"),
        (
            lambda text: text.replace("2 00000000000000bb", "2 00000000000000cc"),
            "2 jobs of MPI have run, of 2, 2",
        ),
        (
            lambda text: text.replace("2 00000000000000bb", "3 00000000000000cc"),
            "2 jobs of MPI have run, of 2, 3",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, said):
    first, second = texts()
    with pytest.raises(DataError, match=said):
        read_rank_files(written(tmp_path, first, change(second)), "a program")


def test_missing_ranks_are_named(tmp_path):
    with pytest.raises(DataError, match="a program: no rank has written what it sent"):
        read_rank_files(tmp_path, "a program")
    with pytest.raises(DataError, match=r"a program: 1 of 2 ranks have not written what they sent: 1 "):
        read_rank_files(written(tmp_path, texts()[0]), "a program")


def test_recordings_come_back_from_their_file(tmp_path):
    recording, _ = read_rank_files(written(tmp_path, *texts()), "a program")
    recording.save(tmp_path / "graph.npz")
    again = load_recording(tmp_path / "graph.npz")
    assert np.array_equal(again.messages(), recording.messages()) and again.outside == recording.outside
    assert again.groups[0].name == "MPI_COMM_WORLD" and again.phases.tolist() == [0, 1]


def test_files_that_are_no_recordings_are_refused(tmp_path):
    recording, _ = read_rank_files(written(tmp_path, *texts()), "a program")
    path = tmp_path / "graph.npz"
    recording.save(path)
    whole = path.read_bytes()
    for n in (0, 10, len(whole) // 2, len(whole) - 30):
        path.write_bytes(whole[:n])
        with pytest.raises(DataError, match=r"graph\.npz: no recording"):
            load_recording(path)
    with open(path, "wb") as file:
        np.savez(file, other=np.zeros(3))
    with pytest.raises(DataError, match="no recording"):
        load_recording(path)
    wrong = recording.direct.copy()
    wrong["target"] = 2
    type(recording)(2, "", recording.groups, wrong, recording.collectives).save(path)
    with pytest.raises(DataError, match="2 to 2 are not within 0 to 1"):
        load_recording(path)
    with pytest.raises(ConfigError, match=r"none\.npz: cannot be read"):
        load_recording(tmp_path / "none.npz")
