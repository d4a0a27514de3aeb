"""Profiles of IPM: bytes between ranks, to the byte where IPM keeps them; and damaged profiles."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import byte_matrix

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.progress import SilentProgress
from petacomm.mapping.graph_files import read_graph
from petacomm.mapping.graph_sources import grid_graph
from petacomm.mapping.job import load_mapping_job
from petacomm.recording import read_recording
from petacomm.recording.ipm import read_ipm
from petacomm.recording.recording import CALLS

SAMPLES = Path(__file__).with_name("samples")


def of_call(rows, call):
    return rows[rows["call"] == CALLS.index(call)]


def halo_matrix(faces):
    """Return what samples/halo.c sends between two ranks each: ten times two faces, and 7 numbers."""
    graph = grid_graph([2, 2], n_bytes=[10 * n for n in faces])
    matrix = np.zeros((4, 4), np.int64)
    matrix[graph.sources, graph.targets] = graph.n_bytes
    matrix[0, 3] += 56
    return matrix


@pytest.mark.parametrize(
    ("name", "faces", "warned"),
    [("halo", (4000, 2400), []), ("rounded", (3584, 2048), ["sizes may be rounded down, by up to 20 %"])],
)
def test_a_halo_exchange(name, faces, warned):
    progress = SilentProgress()
    recording = read_recording(SAMPLES / f"{name}.ipm.xml", progress)
    assert np.array_equal(byte_matrix(recording.direct, 4), halo_matrix(faces))
    assert recording.direct["messages"].sum() == 4 * 40 + 1 and recording.library == "IPM 2.0.6"
    assumed = ["collectives are taken to be of MPI_COMM_WORLD", *warned]
    assert len(progress.warnings) == len(assumed)
    assert all(one.startswith(other) for one, other in zip(progress.warnings, assumed, strict=True))
    calls = {CALLS[row["call"]]: (int(row["root"]), int(row["size"]), int(row["calls"]))
             for row in recording.collectives}  # fmt: skip
    exact = name == "halo"
    assert calls == {"allreduce": (0, 8, 10), "alltoall": (0, 800 if exact else 768, 1), "barrier": (0, 0, 1),
                     "bcast": (1, 400 if exact else 384, 1)}  # fmt: skip


def test_blocks_of_ranks_and_communicators_in_another_order():
    recording = read_ipm(SAMPLES / "calls.ipm.xml")
    assert recording.phases.tolist() == [0, 1]  # IPM's region is the second
    ranks = np.arange(4)
    expected = np.zeros((4, 4), np.int64)
    expected[ranks, ranks - 1] = 8 * (100 + ranks)  # to the next in the order from rank 3 down to 0
    assert np.array_equal(byte_matrix(recording.of_phase(0).direct, 4), expected)
    gathered, scattered, ring = (np.zeros((4, 4), np.int64) for _ in range(3))
    gathered[:, 2], scattered[1] = 8 * (ranks + 1), 8 * (ranks + 1)
    gathered[2, 2] = scattered[1, 1] = 0
    ring[ranks - 1, ranks] = 3 * 8 * (10 - (ranks + 1))
    for call, matrix in (("gatherv", gathered), ("scatterv", scattered), ("allgatherv", ring)):
        assert np.array_equal(byte_matrix(of_call(recording.direct, call), 4), matrix), call
    (reduced,) = recording.collectives
    assert (CALLS[reduced["call"]], reduced["root"], reduced["size"]) == ("reduce", 3, 56)


def profile(n_ranks, entries):
    """Return a profile of entries: rank, call, partner, bytes, region and count."""
    lines = ['<?xml version="1.0" encoding="iso-8859-1"?>', "<ipm_job_profile>"]
    for rank in range(n_ranks):
        lines += [
            f'<task ipm_version="2.0.6" mpi_rank="{rank}" mpi_size="{n_ranks}" >',
            "<cmdline >a & <b</cmdline>",
        ]
        lines += ['<hash nlog="1" nkey="1" >']
        lines += [
            f'<hent key="{0:016X}{size:08X}{partner:08X}" call="MPI_{call}" bytes="{size}" orank="{partner}" '
            f'region="{region}" callsite="0" count="{count}" tid="0" >1 1 1</hent>'
            for at, call, partner, size, region, count in entries
            if at == rank
        ]
        lines += ["</hash>", "</task>"]
    return "\n".join([*lines, "</ipm_job_profile>", ""])


ENTRY = st.tuples(
    st.integers(0, 4), st.sampled_from(["Send", "Isend", "Ibsend", "Sendrecv", "Irecv", "Recv", "Wait"]),
    st.integers(0, 4), st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(1, 10**6),
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(ENTRY, max_size=12))
def test_sends_of_each_rank_are_added(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("ipm") / "a.ipm.xml"
    path.write_text(profile(5, entries))
    recording = read_ipm(path)
    expected = np.zeros((5, 5), np.int64)
    for rank, call, partner, size, _, count in entries:
        if call not in ("Irecv", "Recv", "Wait"):
            expected[rank, partner] += size * count
    assert np.array_equal(byte_matrix(recording.direct, 5), expected)


def test_what_ipm_does_not_tell_is_said(tmp_path):
    path = tmp_path / "a.ipm.xml"
    entries = [(rank, call, 0, size, 0, 2 + rank * (call == "Allgatherv"))
               for rank in range(2) for call, size in
               (("Alltoallv", 72), ("Send_init", 0), ("Ireduce_scatter", 8), ("Allgatherv", 8))]  # fmt: skip
    path.write_text(profile(2, entries))
    progress = SilentProgress()
    recording = read_ipm(path, progress)
    for said in ("blocks of alltoallv are taken to be", "blocks of reduce_scatter are taken to be",
                 "what persistent requests send is not counted", "allgatherv is left out"):  # fmt: skip
        assert any(said in warning for warning in progress.warnings), said
    assert [CALLS[row["call"]] for row in recording.collectives] == ["alltoall", "reduce_scatter_block"]
    path.write_text(profile(2, [(rank, "Allreduce", 0, 8, 0, 1 + rank) for rank in range(2)]))
    read_ipm(path, progress)
    assert "ranks of 'MPI_COMM_WORLD' count different calls" in progress.warnings[-1]


TEXT = profile(3, [(0, "Isend", 1, 8, 0, 2)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: no profile of IPM"),
        ("<xml>\n", ":1: no profile of IPM"),
        (TEXT[: len(TEXT) // 2], "the profile ends too early"),
        (TEXT.replace("<hash", "<hsh").replace("</hash>", ""), "3 of 3 ranks have no <hash> of calls by"),
        (TEXT.replace('mpi_rank="2"', 'mpi_rank="1"'), ":14: rank 1 of 3, after 2 of 3"),
        (TEXT.replace('mpi_rank="2" mpi_size="3"', 'mpi_rank="9" mpi_size="12"'), ":14: rank 9 of 12"),
        (TEXT.replace('mpi_rank="2"', ""), ":14: a <task> without mpi_rank"),
        (TEXT.replace('count="2"', 'count="x"'), ":6: no call, region, orank, bytes and count"),
        (TEXT.replace('count="2"', f'count="{2**63}"'), f":6: {2**63} calls of 8 bytes"),
        (TEXT.replace("00000001", "00000003"), ":6: 2 calls of 8 bytes with rank 3 of 3"),
        (TEXT.replace("<cmdline", '<taskcopy mpi_rank="1">\n<cmdline', 1), "ranks are copies of others"),
        (TEXT.replace("a & <b", "a" * 70000), "a line is longer than IPM writes them"),
    ],
)  # fmt: skip
def test_what_is_no_whole_profile_is_refused_with_its_line(tmp_path, text, said):
    path = tmp_path / "a.ipm.xml"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_ipm(path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_graphs_and_commands_take_profiles(tmp_path, capsys):
    from petacomm.cli.main import main

    graph = read_graph(SAMPLES / "halo.ipm.xml")
    assert graph.n_ranks == 4
    assert main(["record", "show", str(SAMPLES / "halo.ipm.xml"), "--out", str(tmp_path / "a")]) == 0
    assert "264 messages" in capsys.readouterr().out
    assert read_graph(tmp_path / "a.npz").total_bytes == graph.total_bytes
    job = tmp_path / "job.toml"
    text = f'ranks = 4\n[graph]\nrecording = "{SAMPLES / "calls.ipm.xml"}"\n'
    job.write_text(text + '[machine]\nname = "fugaku"\nshape = "2x2x1"\n')
    assert list(load_mapping_job(job).phases) == ["phase 0", "phase 1"]
    with pytest.raises(ConfigError, match=r"none\.ipm\.xml: cannot be read"):
        read_graph(tmp_path / "none.ipm.xml")


@pytest.mark.parametrize("key", ["recording", "file"])
def test_what_had_to_be_assumed_is_told_by_commands_that_read_graphs(key, tmp_path, capsys):
    from petacomm.cli.main import main

    profile = SAMPLES / "halo.ipm.xml"
    job = tmp_path / "job.toml"
    text = f'ranks = 4\n[graph]\n{key} = "{profile}"\n[machine]\nname = "fugaku"\nshape = "2x2x1"\n'
    job.write_text(text)
    assert main(["map", str(job)]) == 0
    assert capsys.readouterr().err.count("collectives are taken to be of MPI_COMM_WORLD") == 1
    tune = ["tune", "--out", str(tmp_path / "out"), "--graph", str(profile), "--", "no-such-launcher"]
    assert main(tune) == 2
    assert "collectives are taken to be of MPI_COMM_WORLD" in capsys.readouterr().err
