"""Launcher files: written, read back, rejected; and the ranks that a launcher started from them."""

import contextlib
import os

import numpy as np
import pytest
from commands import run_command
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import MPIEXEC, run_ranks
from open_mpi_hosts import run_on_hosts

from petacomm.base.errors import ConfigError
from petacomm.mapping.launchers import (
    FORMATS,
    LaunchTarget,
    get_format,
    new_ranks,
    read_launcher_file,
    reorder_communicator,
    write_launcher_file,
)
from petacomm.mapping.placement import Placement
from petacomm.mpi import world
from petacomm.topology import FatTree, Torus

GRID = Torus((2, 3, 2))
HOSTS = [f"node{number:02d}" for number in range(12)]


@st.composite
def placements(draw, full=False, turn=False):
    per_node = draw(st.integers(1, 4))
    n_places = GRID.n_nodes * per_node
    n = n_places if full else draw(st.integers(1, n_places))
    places = np.random.default_rng(draw(st.integers(0, 999))).permutation(n_places)[:n]
    if turn:
        return Placement.from_nodes(places // per_node, GRID, per_node)
    return Placement.from_slot_numbers(places, GRID, per_node)


def there_and_back(name, placement, **given):
    target = LaunchTarget(GRID, placement.ranks_per_node, **given)
    text = FORMATS[name].format(placement, target)
    assert FORMATS[name].parse(text, target, "file") == placement
    return text


@settings(deadline=None, max_examples=30)
@given(placements(), placements(full=True), placements(turn=True), st.integers(1, 3), st.booleans())
def test_every_format_is_read_back(any_one, full, turn, cores, by_package):
    package = 2 * cores if by_package else None
    there_and_back("openmpi", any_one, cores_per_rank=cores, cores_per_package=package)
    there_and_back("openmpi", any_one, hosts=HOSTS)
    there_and_back("hydra", turn, hosts=HOSTS)
    there_and_back("slurm", turn, hosts=HOSTS)
    there_and_back("fujitsu", turn)
    for name in ("cray", "bluegene", "split"):
        there_and_back(name, full)
    # Nodes are filled in order, the last one possibly in part.
    count = any_one.n_ranks
    order = np.random.default_rng(count).permutation(count)
    some = Placement.from_slot_numbers(order, GRID, any_one.ranks_per_node)
    there_and_back("cray", some)
    there_and_back("split", some)


def test_the_texts_are_those_that_launchers_read(tmp_path):
    grid = Torus((2, 2, 1))
    placement = Placement(np.array([3, 0, 3, 0]), np.array([0, 0, 1, 1]), 2, 4)
    target = LaunchTarget(grid, 2, list("abcd"), cores_per_rank=4, cores_per_package=4)
    texts = {name: FORMATS[name].format(placement, target) for name in ("openmpi", "slurm", "fujitsu")}
    assert texts == {
        "openmpi": "rank 0=d slot=0:0-3\nrank 1=a slot=0:0-3\nrank 2=d slot=1:0-3\nrank 3=a slot=1:0-3\n",
        "slurm": "d\na\nd\na\n",
        "fujitsu": "(1,1,0)\n(0,0,0)\n(1,1,0)\n(0,0,0)\n",
    }
    assert FORMATS["openmpi"].format(placement, LaunchTarget(grid, 2)).startswith("rank 0=+n3 slot=0\n")
    full = Placement.from_slot_numbers([0, 2, 4, 6, 1, 3, 5, 7], grid, 2)
    assert FORMATS["cray"].format(full, target) == "0,4\n1,5\n2,6\n3,7\n"
    assert FORMATS["bluegene"].format(full, target).splitlines()[:2] == ["0 0 0 0", "0 1 0 0"]
    # The process that runs first takes rank 0, the next one rank 4.
    assert FORMATS["split"].format(full, target) == "0\n4\n1\n5\n2\n6\n3\n7\n"
    path = tmp_path / "ranks.txt"
    assert (
        write_launcher_file("slurm", placement, path, target) == []
        and read_launcher_file("slurm", path, target) == placement
    )


def test_long_orders_of_ranks_are_warned_of(tmp_path):
    def warned(n):
        grid = Torus((n,))
        return write_launcher_file("cray", Placement.identity(grid), tmp_path / "order", LaunchTarget(grid))

    assert warned(200) == []
    assert "cray-mpich 9.1.0" in warned(400)[0]


@pytest.mark.parametrize(
    ("name", "places", "given_more", "message"),
    [
        ("slurm", [1, 0], {"hosts": HOSTS}, "rank 0: SLURM_HOSTFILE gives ranks of a node its slots in turn"),
        ("slurm", [0, 1], {}, "names hosts, and none are given"),
        ("hydra", [1, 0], {"hosts": HOSTS}, "rank 0: Hydra gives ranks of a node its slots in turn"),
        ("fujitsu", [1, 2], {}, "rank 0: a vcoordfile gives ranks"),
        ("cray", [0, 2], {}, "slot 1 of node 0 cannot be empty"),
        ("bluegene", [0, 1], {}, "whole partition: 24 places, not 2 ranks"),
        ("split", [0, 2], {}, "slot 1 of node 0, where the placement wants none"),
    ],
)
def test_placements_that_a_format_cannot_express_are_refused_and_nothing_is_written(
    tmp_path, name, places, given_more, message
):
    placement = Placement.from_slot_numbers(places, GRID, 2)
    path = tmp_path / "ranks.txt"
    with pytest.raises(ConfigError, match=message):
        write_launcher_file(name, placement, path, LaunchTarget(GRID, 2, **given_more))
    assert not path.exists()


@pytest.mark.parametrize("name", ["fujitsu", "bluegene"])
def test_networks_without_coordinates_are_refused(name):
    tree = FatTree([4, 3], [1, 1])
    with pytest.raises(ConfigError, match="a switched network"):
        FORMATS[name].format(Placement.identity(tree), LaunchTarget(tree))
    flat = Torus((2, 2, 2, 2))
    with pytest.raises(ConfigError, match="4 dimensions"):
        FORMATS[name].format(Placement.identity(flat), LaunchTarget(flat))


def test_the_partitions_of_blue_gene_q_have_five_dimensions():
    grid = Torus((2, 2, 2, 2, 2))
    placement, target = Placement.random(grid, 4), LaunchTarget(grid, 4)
    text = FORMATS["bluegene"].format(placement, target)
    assert len(text.splitlines()) == 128 and all(len(line.split()) == 6 for line in text.splitlines())
    assert FORMATS["bluegene"].parse(text, target, "file") == placement


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("openmpi", "rank 0=node01\n", "ranks.txt:1: 'rank 0=node01' is no line"),
        ("openmpi", "rank 0=node01 slot=0\nrank 0=node02 slot=0\n", "ranks.txt:2: rank 0 is placed twice"),
        ("openmpi", "rank 1=node01 slot=0\n", "rank 0 has no place"),
        ("openmpi", "rank 0=node01 slot=0\nrank 1=node01 slot=0\n", "already has rank 0"),
        ("openmpi", "rank 0=else slot=0\n", "host 'else' is not one of the job"),
        ("openmpi", "rank 0=node01 slot=0-1\n", "not those of a slot of 1"),
        ("openmpi", "rank 0=node01 slot=7\n", "a node has no slot 7"),
        ("openmpi", "rank 0=node01 slot=0:1\n", "say the cores of a package"),
        ("openmpi", "rank 0=+n12 slot=0\n", "there is no node 12"),
        ("slurm", "node01\nnode01,node01\n", "there is no slot 2"),
        ("slurm", "node01\nother\n", "ranks.txt:2: host 'other'"),
        ("hydra", "node01:1\nnode02:x\n", "ranks.txt:2: 'node02:x' is no host and number"),
        ("hydra", "node01:0\n", "ranks.txt:1: 'node01:0' is no host"),
        ("hydra", "node01:3\n", "there is no slot 2"),
        ("hydra", "other:1\n", "ranks.txt:1: host 'other'"),
        ("cray", "0,1,x\n", "ranks.txt:1: 'x' is no rank"),
        ("cray", "0,1\n1,2\n", "ranks.txt:2: rank 1 is placed twice"),
        ("cray", "0,2\n", "rank 1 has no place"),
        ("cray", "# nothing\n", "rank 0 has no place"),
        ("fujitsu", "(0,0,0)\n0,0,1\n", "ranks.txt:2: '0,0,1' is no place"),
        ("fujitsu", "(0,3,0)\n", r"\(0, 3, 0\) lies outside 2x3x2"),
        ("fujitsu", "(0,1)\n", "2 coordinates .*3 are needed"),
        ("bluegene", "0 0 0 0\n0 0 0 0\n", "already has rank 0"),
        ("bluegene", "0 0 0 2\n", "lies outside 2x3x2x2"),
        ("bluegene", "", "has no coordinates"),
        ("split", "0\n0\n", "not all ranks once"),
        ("split", "1\n-1\n", "ranks.txt:2: '-1' is no rank"),
    ],
)
def test_wrong_files_are_errors(tmp_path, name, text, message):
    path = tmp_path / "ranks.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as error:
        read_launcher_file(name, path, LaunchTarget(GRID, 2, HOSTS))
    assert str(path) in str(error.value) and error.value.exit_code == 2


def test_unknown_hosts_are_errors():
    for name, text in (("slurm", "node01\n"), ("openmpi", "rank 0=node01 slot=0\n")):
        with pytest.raises(ConfigError, match="those of the job are not given"):
            FORMATS[name].parse(text, LaunchTarget(GRID), "file")


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(sorted(FORMATS)), st.text("rank 012=,+nslot(x)#\n:-", max_size=40))
def test_any_text_is_a_placement_or_an_error(name, text):
    with contextlib.suppress(ConfigError):
        FORMATS[name].parse(text, LaunchTarget(GRID, 2, HOSTS), "file")


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: get_format("opnmpi"), "did you mean 'openmpi'"),
        (lambda: LaunchTarget(GRID, 1, ["a"]), "1 hosts for the 12 nodes"),
        (lambda: LaunchTarget(Torus((2,)), 1, ["a", "a"]), "host 'a' is named twice"),
        (lambda: LaunchTarget(Torus((1,)), 1, ["a b"]), "no name of a host"),
        (lambda: LaunchTarget(GRID, 1, cores_per_rank=3, cores_per_package=4), "do not fit packages of 4"),
        (
            lambda: write_launcher_file("cray", Placement.identity(GRID), "never", LaunchTarget(GRID, 2)),
            "12 nodes of 1 places",
        ),
        (lambda: new_ranks(Placement.identity(GRID), Placement.identity(GRID, 1, 3)), "12 ranks for 3 proc"),
        (lambda: reorder_communicator(world(), np.array([1])), "not all ranks once"),
    ],
)
def test_wrong_targets_are_errors(action, message):
    with pytest.raises(ConfigError, match=message):
        action()


def test_new_ranks_lead_from_any_places_to_any_others():
    for seed in range(5):
        wanted, now = Placement.random(GRID, 2, seed=seed), Placement.random(GRID, 2, seed=seed + 10)
        ranks = new_ranks(wanted, now)
        assert np.array_equal(wanted.slot_numbers[ranks], now.slot_numbers)


def takes_its_new_rank(comm):
    grid = Torus((comm.size,))
    placement = Placement.random(grid, seed=3)
    made = reorder_communicator(comm, new_ranks(placement, Placement.identity(grid)))
    # The process with rank r of the new communicator is the one where the placement has r.
    assert placement.nodes[made.rank] == comm.rank
    assert made.allgather(comm.rank) == placement.nodes.tolist()


@pytest.mark.parametrize("n_ranks", [1, 3, 5])
def test_running_ranks_take_new_numbers(n_ranks):
    run_ranks(takes_its_new_rank, n_ranks)


_WHO = """
import os, socket
from mpi4py import MPI
comm = MPI.COMM_WORLD
print(comm.rank, socket.gethostname(), *sorted(os.sched_getaffinity(0)))
"""


def test_hydra_starts_ranks_where_a_host_file_puts_them(tmp_path):
    if not MPIEXEC.with_name("mpichversion").exists():
        pytest.skip("no MPICH beside this Python: pip install mpich")
    hosts = ["localhost", "127.0.0.1"]  # one machine under two names
    grid = Torus((2,))
    placement = Placement.from_nodes([1, 0, 0, 1, 0], grid, 3)
    path = tmp_path / "hosts.txt"
    write_launcher_file("hydra", placement, path, LaunchTarget(grid, 3, hosts))
    assert path.read_text() == "127.0.0.1:1\nlocalhost:2\n127.0.0.1:1\nlocalhost:1\n"
    who = ["sh", "-c", "echo $PMI_RANK $PMI_HOSTNAME"]
    ended = run_command([MPIEXEC, "-launcher", "fork", "-f", path, "-n", 5, *who], check=True)
    started = dict(line.split() for line in ended.stdout.splitlines())
    assert started == {str(rank): hosts[node] for rank, node in enumerate(placement.nodes)}


def test_open_mpi_starts_ranks_where_a_rank_file_puts_them(tmp_path):
    hosts = ["alpha", "beta", "gamma"]
    grid = Torus((3,))
    placement = Placement.from_slot_numbers([4, 1, 2, 5, 0], grid, 2)
    path = tmp_path / "ranks.txt"
    write_launcher_file("openmpi", placement, path, LaunchTarget(grid, 2, hosts))
    said = run_on_hosts(_WHO, hosts, 2, tmp_path, ["--map-by", f"rankfile:file={path}"])
    started = {int(line.split()[0]): line.split()[1:] for line in said.splitlines()}
    assert {rank: place[0] for rank, place in started.items()} == dict(
        enumerate(hosts[node] for node in placement.nodes)
    )
    if {0, 1} <= os.sched_getaffinity(0):
        assert [started[rank][1:] for rank in range(5)] == [[str(slot)] for slot in placement.slots]
