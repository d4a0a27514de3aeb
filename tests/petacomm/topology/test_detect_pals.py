"""Detection of allocations of PALS and PBS: places of ranks, names of hosts, and damaged files."""

import re
from pathlib import Path

import pytest
from apinfo_files import apinfo
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.topology.detect import cray, detect_allocation, gather_allocation

SAMPLES = Path(__file__).parent / "samples"
RACK = ["x3210c0s25b0n0", "x3210c0s37b1n0", "x3208c0s37b1n0"]
# As ALCF's guide shows them: 8 ranks by `mpiexec -n 8 -ppn 4`.
BLOCKS = [(node, slot) for node in range(2) for slot in range(4)]


def written(tmp_path, content):
    path = tmp_path / "apinfo"
    path.write_bytes(content)
    return {"PALS_APINFO": str(path), "PBS_NODEFILE": str(SAMPLES / "pbs-nodefile-polaris")}


@pytest.mark.parametrize("version", [1, 5])
def test_places_of_ranks_are_read_from_the_file_of_pals(tmp_path, version):
    manager = detect_allocation(written(tmp_path, apinfo(RACK[:2], BLOCKS, version)))
    assert manager.hosts == tuple(RACK[node] for node, _ in BLOCKS)
    assert manager.core_of(range(8)).tolist() == [0, 1, 2, 3] * 2
    assert manager.hops_between_ranks(0, [1, 4]).tolist() == [0, 6]
    assert manager.source == "PALS_APINFO; places by names of hosts"


def test_ranks_of_pals_may_be_anywhere(tmp_path):
    places = [(2, 1), (0, 0), (2, 0), (1, 0)]
    manager = detect_allocation(written(tmp_path, apinfo(["a", "b", "c"], places)))
    assert manager.hosts == ("c", "a", "c", "b") and manager.core_of([0, 2]).tolist() == [1, 0]
    assert manager.hops_between_ranks(0, [1, 2, 3]).tolist() == [2, 0, 2]
    assert "one switch assumed" in manager.source


def test_places_follow_from_names_of_hosts():
    full = RACK[0] + ".hsn.cm.polaris.alcf.anl.gov"
    assert cray.cray_host_path(full) == cray.cray_host_path(RACK[0]) == ("x3210", "c0", "s25", "b0", "n0")
    for name in ("x1000", "ax1c0s0b0n0", "x1c0s0b0n0x", "x1c0s0b0n0-hsn0", "nid001000", ""):
        assert cray.cray_host_path(name) is None
    paths, how = cray.host_paths([*RACK, "login"])
    assert {path[0] for path in paths} == {"switch"} and how == "one switch assumed"


class FakeCommunicator:
    """A communicator whose other rank contributes a given value."""

    size = 2

    def __init__(self, other):
        self.other = other

    def allgather(self, value):
        return [self.other, value]


def test_running_ranks_know_their_places_by_their_hosts(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: RACK[0])
    other = (cray.cray_host_path(RACK[2]), RACK[2], "Cray's names of nodes")
    manager = gather_allocation(FakeCommunicator(other), {}, Path("/nowhere"))
    assert manager.hosts == (RACK[2], RACK[0]) and manager.hops_between_ranks(0, 1) == 10


def test_a_job_of_pbs_has_a_rank_a_line(tmp_path):
    path = tmp_path / "nodes"
    path.write_text("n2\nn2\nn1\n\nn2\n")
    manager = detect_allocation({"PBS_NODEFILE": str(path)})
    assert manager.hosts == ("n2", "n2", "n1", "n2") and manager.core_of([0, 1, 2, 3]).tolist() == [
        0,
        1,
        0,
        2,
    ]
    assert manager.hops_between_ranks(0, [1, 2]).tolist() == [0, 2]
    assert manager.source == "PBS_NODEFILE; one switch assumed"


def test_ranks_of_a_host_are_those_that_mpiexec_is_told():
    job = {"PBS_NODEFILE": str(SAMPLES / "pbs-nodefile-polaris")}
    assert detect_allocation(job).n_ranks == detect_allocation(job | {"PALS_PPN": "0"}).n_ranks == 2
    blocks = detect_allocation(job | {"PALS_PPN": "4"})
    assert [host.split(".")[0] for host in blocks.hosts] == [RACK[node] for node, _ in BLOCKS]
    assert blocks.source == "PBS_NODEFILE and PALS_PPN; places by names of hosts"
    fewer = detect_allocation(job | {"PALS_PPN": "4", "PALS_NRANKS": "5"})
    assert fewer.hosts == blocks.hosts[:5]
    for changed, message in (
        ({"PALS_PPN": "x\n"}, r"PALS_PPN is 'x\\n'"),
        ({"PALS_PPN": "4", "PALS_NRANKS": "9"}, "PALS_NRANKS is 9, and PALS_PPN 4: 8 on 2 hosts"),
        ({"PALS_PPN": "-1"}, "PALS_PPN is '-1'"),
        ({"PALS_PPN": "99999999"}, "199999998 ranks"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            detect_allocation(job | changed)
        assert caught.value.mend


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n1\nn2 slots=4\n", "nodes:2: 'n2 slots=4' is no name of a host"),
        ("n1\n\x1b[2J\n", r"nodes:2: '\\x1b\[2J' is no name"),
        ("-n1\n", "nodes:1"),
        ("\n\n", "nodes: names 0 hosts"),
    ],
)
def test_a_wrong_file_of_hosts_is_an_error(tmp_path, text, message):
    path = tmp_path / "nodes"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        detect_allocation({"PBS_NODEFILE": str(path)})
    assert caught.value.mend


def test_files_that_are_not_there_are_errors(tmp_path):
    for name in ("PBS_NODEFILE", "PALS_APINFO"):
        for path in (tmp_path / "none", tmp_path, "a\0b"):
            with pytest.raises(ConfigError, match=r"none|folder|a\\x00b") as caught:
                detect_allocation({name: str(path)})
            assert "gather_allocation" in caught.value.mend


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes, fewer than its header"),
        (apinfo(["a"], [(0, 0)])[:200], "entries of 68 bytes"),
        (apinfo(["a"], [(0, 0)], version=6), "is of version 6, not 1 and 5"),
        (apinfo(["a"], []), "0 process entries"),
        (apinfo([], [(0, 0)]), "0 node entries"),
        (apinfo(["a"], [(0, 0)], sizes=[40, 12, 8, 68, 48]), "1 process entries of 8 bytes"),
        (apinfo(["a"], [(0, 0)], counts=[0, 1, -1, 1, 0]), "-1 process entries"),
        (apinfo(["a"], [(0, 0)], counts=[0, 1, 1, 2**30, 0]), "1073741824 node entries"),
        (apinfo(["a"], [(1, 0)]), "rank 0 is process 0 of node 1, of 1 nodes"),
        (apinfo(["a"], [(0, 0), (0, -2)]), "rank 1 is process -2"),
        (apinfo(["a"], [(0, 0), (0, 0)]), "two ranks are one process"),
        (apinfo(["a", "b", "a"], [(0, 0)]), "host 'a' is two nodes"),
        (apinfo(["a", ""], [(0, 0)]), "node 1 is '', no name of a host"),
        (apinfo(["a\x07"], [(0, 0)]), r"node 0 is 'a\\x07'"),
        (apinfo(["é"], [(0, 0)]), "no name of a host"),
    ],
)
def test_a_damaged_file_of_pals_is_an_error(tmp_path, content, message):
    with pytest.raises(ConfigError, match=message) as caught:
        detect_allocation(written(tmp_path, content))
    assert re.match(r".*/apinfo: ", str(caught.value)) and "gather_allocation" in caught.value.mend


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_any_bytes_are_a_placement_or_an_error(tmp_path_factory, data):
    content = bytearray(apinfo(RACK, BLOCKS))
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        manager = detect_allocation({"PALS_APINFO": str(path)})
    except ConfigError as error:
        assert error.mend
    else:
        assert manager.n_ranks >= 1 and len(manager.hosts) == manager.n_ranks
