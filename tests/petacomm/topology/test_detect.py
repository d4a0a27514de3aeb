"""Detection of allocations from recorded output of schedulers, hwloc and operating systems."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks

from petacomm.base.errors import ConfigError
from petacomm.topology import TopologyManager, Torus
from petacomm.topology.detect import (
    cray,
    detect_allocation,
    detect_node_layout,
    expand_hosts,
    expand_tasks,
    fujitsu,
    gather_allocation,
    read_coordinates,
    read_hwloc,
    read_sysfs,
    slurm,
    write_coordinates,
)

SAMPLES = Path(__file__).parent / "samples"
JOB = {"SLURM_JOB_NODELIST": "n[01-03,05]", "SLURM_TASKS_PER_NODE": "2(x3),1"}


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gnode[10,20,25,37]", ["gnode10", "gnode20", "gnode25", "gnode37"]),
        ("n[001-003,7],login", ["n001", "n002", "n003", "n7", "login"]),
        ("a[1-2]b[0-1]c", ["a1b0c", "a1b1c", "a2b0c", "a2b1c"]),
        ("r1[09-11]", ["r109", "r110", "r111"]),
        ("localhost.localdomain", ["localhost.localdomain"]),
        ("tiger-i19g3", ["tiger-i19g3"]),
    ],
)
def test_lists_of_hosts_are_expanded(text, hosts):
    assert expand_hosts(text) == hosts


@given(st.text("n[]0-9,x ", max_size=12))
@settings(deadline=None)
def test_any_text_is_a_list_of_hosts_or_an_error(text):
    try:
        hosts = expand_hosts(text)
    except ConfigError as error:
        assert "not a list of hosts" in str(error)
    else:
        assert hosts and not any(set("[],") & set(host) for host in hosts)


@pytest.mark.parametrize("text", ["", "n[", "n[1-", "n[3-1]", "n[1-99999999]", "n[[1]]", "a,,b", "n[a-b]"])
def test_an_invalid_list_of_hosts_is_an_error(text):
    with pytest.raises(ConfigError, match="not a list of hosts"):
        expand_hosts(text)


def test_tasks_of_nodes_are_expanded():
    assert expand_tasks("2(x3),1") == [2, 2, 2, 1] and expand_tasks("16") == [16]
    with pytest.raises(ConfigError, match="are not tasks"):
        expand_tasks("2(x3")


def test_a_slurm_job_without_topology_has_one_switch():
    manager = detect_allocation(JOB, Path("/nowhere"))
    assert manager.hosts == ("n01", "n01", "n02", "n02", "n03", "n03", "n05")
    assert manager.shape == (1, 4) and manager.ranks_per_node == 2
    assert manager.hops_between_ranks(0, [1, 2, 6]).tolist() == [0, 2, 2]
    cyclic = detect_allocation(JOB | {"SLURM_DISTRIBUTION": "cyclic"}, Path("/nowhere"))
    assert cyclic.hosts == ("n01", "n02", "n03", "n05", "n01", "n02", "n03")
    step = JOB | {"SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "n02", "SLURM_STEP_TASKS_PER_NODE": "3"}
    assert detect_allocation(step, Path("/nowhere")).hosts == ("n02",) * 3


def test_a_heterogeneous_job_of_slurm_is_refused_unless_it_has_one_component():
    # As sbatch with `#SBATCH hetjob` sets them: of the first component, and which there are.
    components = {"SLURM_HET_SIZE": "2", "SLURM_JOB_NODELIST_HET_GROUP_1": "g[1-2]"}
    with pytest.raises(ConfigError, match=r"heterogeneous job of 2 components, .*gather_allocation"):
        detect_allocation(JOB | components, Path("/nowhere"))
    assert detect_allocation(JOB | {"SLURM_HET_SIZE": "1"}, Path("/nowhere")).n_ranks == 7


def test_hops_follow_from_the_switches_of_a_topology_conf(tmp_path):
    conf = tmp_path / "etc/slurm/topology.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text((SAMPLES / "topology-tree.conf").read_text())
    manager = detect_allocation({"SLURM_JOB_NODELIST": "n[03-06]", "SLURM_TASKS_PER_NODE": "1(x4)"}, tmp_path)
    assert manager.shape == (1, 2, 2) and "topology.conf" in manager.source
    assert manager.hops_between_ranks(0, [0, 1, 2, 3]).tolist() == [0, 2, 4, 4]
    blocks = slurm.read_topology_conf(SAMPLES / "topology-block.conf")
    assert blocks.paths(["gb18", "gb19"]) == [("b1", "gb18"), ("b2", "gb19")]
    near = slurm.slurm_allocation(
        {"SLURM_JOB_NODELIST": "gb[17-19]", "SLURM_TASKS_PER_NODE": "1(x3)"}, blocks
    )
    assert near.hops_between_ranks(0, [1, 2]).tolist() == [2, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SwitchName=a\n", "topology.conf:1: names no switch and what is below it"),
        ("\nNodes=n[1-2]\n", "topology.conf:2"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Switches=b\nSwitchName=b Switches=a\n", "is above itself"),
        ("SwitchName=a Nodes=n2\n", "node 'n1' is under no switch"),
        ("SwitchName=a Nodes=n[1-\n", "not a list of hosts"),
    ],
)
def test_a_wrong_topology_conf_is_an_error(tmp_path, text, message):
    path = tmp_path / "topology.conf"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        slurm.read_topology_conf(path).paths(["n1"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"SLURM_TASKS_PER_NODE": ""}, "SLURM_TASKS_PER_NODE is not set"),
        ({"SLURM_TASKS_PER_NODE": "2(x3)"}, "names 4 nodes and SLURM_TASKS_PER_NODE 3"),
        ({"SLURM_DISTRIBUTION": "arbitrary"}, "deals ranks by 'arbitrary'"),
    ],
)
def test_wrong_variables_of_slurm_are_errors(changed, message):
    with pytest.raises(ConfigError, match=message):
        detect_allocation(JOB | changed, Path("/nowhere"))


def test_the_switches_above_a_node_are_read_from_its_address():
    two = {
        "SLURM_TOPOLOGY_ADDR": "sh04.sh04-isw-16.sh04-16n05",
        "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node",
    }
    assert slurm.slurm_switch_path(two) == ("sh04", "sh04-isw-16", "sh04-16n05")
    spines = {
        "SLURM_TOPOLOGY_ADDR": "opasw[06,14-15,07,11].opasw13.cn-0256",
        "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node",
    }
    assert slurm.slurm_switch_path(spines) == ("opasw[06,14-15,07,11]", "opasw13", "cn-0256")
    flat = {"SLURM_TOPOLOGY_ADDR": "localhost.localdomain", "SLURM_TOPOLOGY_ADDR_PATTERN": "node"}
    assert slurm.slurm_switch_path(flat) is None and slurm.slurm_switch_path({}) is None


class FakeCommunicator:
    """A communicator whose other ranks contribute given values."""

    def __init__(self, others):
        self.others, self.size = others, len(others) + 1

    def allgather(self, value):
        return [*self.others, value]


def test_switch_paths_of_ranks_make_a_tree():
    source = "Slurm's topology address"
    others = [(("top", "s1", "n1"), "n1", source)] * 2 + [(("top", "s1", "n2"), "n2", source)]
    environ = {
        "SLURM_TOPOLOGY_ADDR": "top.s2.n3", "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node",
        "SLURMD_NODENAME": "n3",
    }  # fmt: skip
    manager = gather_allocation(FakeCommunicator(others), environ, Path("/nowhere"))
    assert manager.hosts == ("n1", "n1", "n2", "n3")
    assert manager.hops_between_ranks(0, [1, 2, 3]).tolist() == [0, 2, 4]
    assert manager.core_of([0, 1]).tolist() == [0, 1]
    with pytest.raises(ConfigError, match="know their places by"):
        gather_allocation(FakeCommunicator(others), {}, Path("/nowhere"))


def test_routers_follow_from_cray_node_names(tmp_path):
    def node(path, text):
        (tmp_path / text / path).parent.mkdir(parents=True)
        (tmp_path / text / path).write_text(text + "\n")
        return cray.cray_node_path(tmp_path / text)

    cnames = ["c0-0c1s2n1", "c0-0c1s2n3", "c0-0c1s15n3", "c1-0c0s0n0", "c2-0c1s2n1"]
    places = [node("proc/cray_xt/cname", name) for name in cnames]
    others = [(place, "nid", "Cray's names of nodes") for place in places[1:]]
    manager = gather_allocation(FakeCommunicator(others), {}, tmp_path / cnames[0])
    # The last rank is on c0-0c1s2n1; the others share its router, its chassis, its group, or none of them.
    assert manager.hops_between_ranks(4, [0, 1, 2, 3]).tolist() == [2, 4, 6, 8]
    assert node("etc/cray/xname", "x1000c3s4b1n0") == ("x1000", "c3", "s4", "b1", "n0")
    assert cray.cray_node_path(tmp_path / "nowhere") is None


def test_the_shape_of_a_job_on_fugaku_is_read_from_its_variables():
    environ = {"PJM_NODE_X": "4", "PJM_NODE_Y": "6", "PJM_NODE_Z": "2", "PJM_MPI_PROC": "192"}
    manager = detect_allocation(environ)
    assert manager.shape == (4, 6, 2) and manager.ranks_per_node == 4 and not any(manager.wrap)
    # Each node filled before the next, x fastest.
    assert manager.rank_to_coordinates([0, 3, 4, 16, 96]).tolist() == [
        [0, 0, 0, 0], [0, 0, 0, 3], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0],
    ]  # fmt: skip
    assert fujitsu.pjm_allocation(environ | {"PJM_MPI_SHAPE_X": "4"}, wrap=True).shape == (4,)
    with pytest.raises(ConfigError, match="PJM_NODE_Y is 'x'"):
        detect_allocation(environ | {"PJM_NODE_Y": "x"})
    with pytest.raises(ConfigError, match="100 ranks on 48 nodes"):
        detect_allocation(environ | {"PJM_MPI_PROC": "100"})


def test_packages_and_cores_are_read_from_hwloc():
    layout = read_hwloc(SAMPLES / "hwloc-two-packages.xml")
    assert layout.n_cores == 8 and layout.package.tolist() == [0] * 4 + [1] * 4
    assert layout.numa.tolist() == [0] * 4 + [1] * 4
    assert layout.processors[5] == (10, 11) and layout.core_of(11) == 5 and layout.core_of(99) == -1
    assert layout.package_slot(5) == (1, 1)
    named = detect_node_layout({"HWLOC_XMLFILE": str(SAMPLES / "hwloc-two-packages.xml")})
    assert named.processors == layout.processors


def test_a_file_that_is_not_of_hwloc_is_an_error(tmp_path):
    path = tmp_path / "x.xml"
    for text, message in (
        ("<a/>", "root is <a>"),
        ("<topology>", "cannot be read"),
        ("<topology/>", "no cores"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_hwloc(path)


def test_cores_are_read_from_the_operating_system(tmp_path):
    # Two packages of two cores with two threads each, in the common numbering: threads last.
    for cpu in range(8):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{cpu // 2 % 2}\n")
        (folder / "core_id").write_text(f"{cpu % 2}\n")
    for node, cpus in ((0, "0-1,4-5"), (1, "2-3,6-7")):
        folder = tmp_path / f"sys/devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus + "\n")
    layout = read_sysfs(tmp_path)
    assert layout.processors == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert layout.package.tolist() == layout.numa.tolist() == [0, 0, 1, 1]
    assert detect_allocation({}, tmp_path).n_ranks == 4
    assert read_sysfs(tmp_path / "nowhere").n_cores >= 1


def test_without_a_scheduler_there_is_one_node():
    manager = detect_allocation({}, n_ranks=3)
    assert manager.n_ranks == 3 and not manager.hops_between_ranks(0, [1, 2]).any()


@pytest.mark.parametrize("hosts", [None, ["a", "b", "c"]])
def test_files_of_coordinates_are_read_back(tmp_path, hosts):
    path = tmp_path / "places.txt"
    before = TopologyManager(Torus((4, 2)), [7, 0, 7], [1, 0, 0], hosts=hosts)
    write_coordinates(before, path)
    after = read_coordinates(path)
    assert after.network == before.network and after.hosts == before.hosts
    assert np.array_equal(after.nodes, before.nodes) and np.array_equal(after.slots, before.slots)
    with pytest.raises(ConfigError, match="only ranks on a torus or a mesh"):
        write_coordinates(TopologyManager.from_network(Torus((4, 2), (True, False))), path)


def test_coordinates_without_a_machine_are_those_of_a_mesh(tmp_path):
    path = tmp_path / "places.txt"
    path.write_text("# by hand\n0 0 1 0\n2 1 1 0  # far\n")
    manager = read_coordinates(path)
    assert manager.network == Torus((3, 2, 2), False) and manager.hops_between_ranks(0, 1) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no coordinates"),
        ("0 0 0\n0 0\n", "places.txt:2: 2 numbers after 3"),
        ("0 0 -1\n", "places.txt:1: '0 0 -1' is no place"),
        ("0 0 0 host\n1 0 0\n", "names the hosts of some"),
        ("torus 2x2\n0 2 0\n", "rank 0 lies outside"),
        ("torus 2x2\n0 0 0 0\n", "rank 0 lies outside"),
        ("0 0 0\n0 0 0\n", "ranks 0 and 1 have one place"),
    ],
)
def test_a_wrong_file_of_coordinates_is_an_error(tmp_path, text, message):
    path = tmp_path / "places.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_coordinates(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_coordinates(tmp_path / "none.txt")


def on_one_host(comm):
    manager = gather_allocation(comm)
    assert manager.n_ranks == comm.size and len(set(manager.hosts)) == 1
    assert manager.core_of(comm.rank) == comm.rank
    assert manager.hops_between_ranks(comm.rank, np.arange(comm.size)).max() == 0


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_running_ranks_gather_their_allocation(n_ranks):
    run_ranks(on_one_host, n_ranks)
