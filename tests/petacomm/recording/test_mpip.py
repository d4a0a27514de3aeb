"""Reports of mpiP: what ranks sent, by call and size; and the errors of what they do not tell."""

from pathlib import Path

import numpy as np
import pytest
from graphs import as_dict
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError, DataError
from petacomm.mapping.graph_files import read_graph
from petacomm.mapping.graph_sources import grid_graph
from petacomm.mapping.job import load_mapping_job
from petacomm.mapping.recorded_graph import halo_graph
from petacomm.recording.mpip import SITES, MpipReport, read_mpip

SAMPLES = Path(__file__).with_name("samples")


@pytest.fixture
def report():
    return read_mpip(SAMPLES / "halo.mpiP")


def test_a_report_has_what_the_program_sent(report):
    # Of samples/halo.c: ten times two faces of 500 numbers and two of 300; 7 numbers from rank 0.
    sent, collectives = report.sent_by_rank()
    assert sent.tolist() == [128056, 128000, 128000, 128000]
    assert collectives.tolist() == [10 * 8 + 800 + 400] * 4  # as mpiP counts: the count of the caller
    of = {call: report.sites[report.sites["call"] == number] for number, call in enumerate(report.calls)}
    assert list(of) == ["Allreduce", "Alltoall", "Bcast", "Isend", "Send"]
    assert of["Isend"]["calls"].sum() == 4 * 40 and set(of["Isend"]["most"]) == {2400, 4000}
    assert report.version == "3.5.0" and report.n_ranks == 4


def test_classes_of_sizes_are_read(report):
    assert [(row.call, row.communicator, row.size) for row in report.sizes] == [
        ("Isend", (0, 7), (2048, 4095)),
        ("Send", (0, 7), (32, 63)),
    ]
    named, given_ = report.sent_by_rank()
    everything = named.sum() + given_.sum()
    assert report.sizes[1].share == pytest.approx(56 / everything, rel=5e-3)  # of three digits


def test_halos_are_an_assumption_that_keeps_what_ranks_sent(report):
    graph = halo_graph(report, [2, 2])
    assert as_dict(graph)[0, 1] == as_dict(graph)[0, 2] == 64028 and graph.grid == (2, 2)
    rows = np.zeros(12, SITES)
    rows["rank"], rows["bytes"] = np.arange(12), 120.0 * np.arange(12)
    made = MpipReport(12, "", ("Isend",), rows, ())
    for shape, periodic in (([12], True), ([4, 3], False), ([3, 2, 2], True)):
        graph = halo_graph(made, shape, periodic)
        assert np.allclose(np.bincount(graph.sources, graph.n_bytes, 12), rows["bytes"], rtol=1e-14)
        assert set(as_dict(graph)) == {pair for pair in as_dict(grid_graph(shape, periodic)) if pair[0]}


def test_ranks_without_neighbours_and_other_grids_are_refused(report):
    with pytest.raises(ConfigError, match="a grid of 4x2 has 8 ranks, and the report 4"):
        halo_graph(report, [4, 2])
    rows = np.array([(0, 1, 0, 1, 8, 8, 8)], SITES)
    with pytest.raises(ConfigError, match="rank 0 sent 8 bytes, and has no neighbours"):
        halo_graph(MpipReport(1, "", ("Send",), rows, ()), [1])


def test_jobs_take_reports_with_their_grid(tmp_path):
    job = tmp_path / "job.toml"
    machine = '[machine]\nname = "fugaku"\nshape = "2x2x1"\n'
    text = f'ranks = 4\n[graph]\nmpip = "{SAMPLES / "halo.mpiP"}"\nhalos = "2x2"\n'
    job.write_text(text + machine)
    read = load_mapping_job(job)
    assert read.graph.total_bytes == 512056 and "as halos of a grid of 2x2" in read.title
    job.write_text(text.replace('halos = "2x2"\n', "") + machine)
    with pytest.raises(ConfigError, match=r"job\.toml:3: .*halo\.mpiP does not tell to which ranks"):
        load_mapping_job(job)
    with pytest.raises(ConfigError, match="does not tell to which ranks was sent"):
        read_graph(SAMPLES / "halo.mpiP")


def written(path: Path, n_ranks: int, rows, numbers="{:9.4g}") -> Path:
    lines = ["@ mpiP", "@ Version : 3.5.0"]
    lines += [f"@ MPI Task Assignment      : {rank} host{rank}" for rank in range(n_ranks)]
    lines += ["-" * 75, "@--- Callsite Message Sent statistics (all, sent bytes) ---", "-" * 75]
    lines += ["Name Site Rank Count Max Mean Min Sum"]
    for call, site, rank, calls, least, most, total in rows:
        ends = " ".join(numbers.format(x) for x in (most, total / calls, least, total))
        lines += [f"{call:17} {site:4} {rank:4} {calls:7} {ends}", ""]
    lines += ["-" * 75, "@--- End of Report ---", "-" * 75, ""]
    path.write_text("\n".join(lines))
    return path


ROW = st.tuples(
    st.sampled_from(["Isend", "Send", "Allreduce"]), st.integers(1, 99), st.integers(0, 4),
    st.integers(1, 10**6), st.integers(1, 10**9), st.integers(0, 10**6),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=8), st.booleans())
def test_sums_are_exact_where_mpip_writes_them_so(tmp_path_factory, drawn, fixed):
    rows = []
    for call, site, rank, calls, least, more in drawn:
        more = more if calls > 1 else 0
        total = calls * least + more * (calls - 1)
        rows.append((call, site, rank, calls, least, least + more, total))
    path = tmp_path_factory.mktemp("mpip") / "a.mpiP"
    read = read_mpip(written(path, 5, rows, "{:9.4f}" if fixed else "{:9.4g}")).sites
    for row, (call, site, rank, calls, least, most, total) in zip(read, rows, strict=True):
        assert (row["site"], row["rank"], row["calls"]) == (site, rank, calls), call
        exact = fixed or (least == most and least < 10**4)
        assert row["bytes"] == total if exact else abs(row["bytes"] - total) <= 5.1e-4 * total


TEXT = (SAMPLES / "halo.mpiP").read_text()
SENT = "Send                13    0       1        56        56        56        56"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: no report of mpiP"),
        ("@ mpip\n", ":1: no report of mpiP"),
        (TEXT[: TEXT.index("@--- End")], "the report ends too early"),
        ((SAMPLES / "concise.mpiP").read_text(), "a concise report has no bytes by rank"),
        (TEXT.replace("Callsite Message Sent", "Callsite I/O"), "no section 'Callsite Message Sent"),
        (
            TEXT.replace("Assignment      : 2", "Assignment      : 7"),
            "4 ranks have a task assignment, or some have none",
        ),
        (TEXT.replace(SENT, SENT.replace("   0  ", "   x  ", 1)), ":264: 'Send"),
        (TEXT.replace(SENT, SENT.replace("   0  ", "   4  ", 1)), ":264: rank 4 of 4"),
        (TEXT.replace(SENT, SENT + " 5"), ":264: "),
        (TEXT.replace(SENT, SENT[:-2] + "55"), ":264: rank 0 of 4, 1 calls, 56 to 56 of 55 bytes"),
        (TEXT.replace(SENT, SENT[:-2] + "1e99"), ":264: rank 0"),
        (TEXT.replace(SENT, SENT[:-2] + "nan"), ":264: rank 0"),
    ],
)
def test_what_is_no_whole_report_is_refused_with_its_line(tmp_path, text, said):
    path = tmp_path / "a.mpiP"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_mpip(path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_report_without_a_version_is_read(tmp_path):
    path = tmp_path / "a.mpiP"
    path.write_text(TEXT.replace("@ Version                  :", "@ Version;"))
    assert read_mpip(path).version == ""
