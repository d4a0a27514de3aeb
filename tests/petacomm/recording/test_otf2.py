"""OTF2 traces written by OTF2's library: bytes between ranks of MPI_COMM_WORLD, and damaged traces."""

import gc
import importlib.util
import weakref

import numpy as np
import pytest
from recorded import byte_matrix

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petacomm.base.progress import SilentProgress
from petacomm.mapping.graph_files import read_graph
from petacomm.mapping.graph_sources import grid_graph, subgrid_alltoall_graph
from petacomm.recording import otf2_trace, read_recording
from petacomm.recording.otf2_collectives import CollectiveEvent, block_bytes, block_message
from petacomm.recording.otf2_definitions import TraceDefinitions
from petacomm.recording.otf2_events import TraceEvents
from petacomm.recording.recording import CALLS

TO_ALL = ("allreduce", "alltoall", "allgather", "reduce_scatter_block")
NOBODY = 2**32 - 1
BLOCKS = (8, 16, 32, 40)


def counted(call, n, own, root, block, in_place):
    """Return the bytes that Score-P counts as sent and received: a block for each rank served."""
    to_all = (n - in_place) * block
    if call in ("scan", "exscan"):
        alone = in_place or call == "exscan"
        return (n - own - alone) * block, (own + 1 - alone) * block
    if call in TO_ALL:
        return to_all, to_all
    one, all_ = ((1 - in_place) * block, to_all) if own == root else (block, 0)
    return (all_, one) if call in ("bcast", "scatter") else (one, all_)


@pytest.mark.parametrize("call", [*TO_ALL, "bcast", "scatter", "gather", "reduce", "scan", "exscan"])
@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 16])
def test_blocks_follow_from_what_ranks_send_and_receive(call, n):
    for block in (8, 400, 1 << 20):
        for own in range(n) if call != "scan" else (0, n - 1):  # in the middle both are the same
            for root in {0, n - 1}:
                for in_place in (False, True) if call != "bcast" else (False,):
                    event = CollectiveEvent(call, n, own, root, *counted(call, n, own, root, block, in_place))
                    if call in TO_ALL and n == 2 and in_place:
                        continue  # a trace has the same of half the block elsewhere
                    assert block_bytes(event) == block, event


def test_blocks_of_ranks_go_to_the_root_or_round_a_ring():
    assert block_message(CollectiveEvent("gatherv", 4, 3, 1, 32, 0)) == (3, 1, 1, 32)
    assert block_message(CollectiveEvent("gatherv", 4, 1, 1, 16, 80)) is None
    assert block_message(CollectiveEvent("scatterv", 4, 2, 0, 0, 24)) == (0, 2, 1, 24)
    own = 40
    for in_place in (0, 1):
        event = CollectiveEvent("allgatherv", 4, 2, 0, (4 - in_place) * own, 96 - in_place * own)
        assert block_message(event) == (1, 2, 3, 96 - own)


otf2, _otf2 = ((importlib.import_module(name) if importlib.util.find_spec(name) else None)
               for name in ("otf2", "_otf2"))  # fmt: skip
needs_otf2 = pytest.mark.skipif(otf2 is None, reason="no package otf2: pip install otf2")


class Trace:
    """A trace of a program of MPI that is being written: definitions, and a writer of each rank's events."""

    def __init__(self, writer, n_ranks):
        self.made = made = writer.definitions
        node = made.system_tree_node("node")
        self.paradigm = otf2.Paradigm.MPI
        processes = [made.location_group(f"rank {rank}", system_tree_parent=node) for rank in range(n_ranks)]
        # Numbers of locations are not those of ranks, and each has a second thread.
        order = list(range(n_ranks))[::-1]
        threads = {rank: made.location(f"thread of {rank}", group=processes[rank]) for rank in order}
        locations = {rank: made.location(f"rank {rank}", group=processes[rank]) for rank in order}
        members = [locations[rank] for rank in range(n_ranks)]
        made.group("", group_type=otf2.GroupType.COMM_LOCATIONS, paradigm=self.paradigm, members=members)
        self.world = self.comm(range(n_ranks), "MPI_COMM_WORLD")
        self.work = made.region("work")
        self.events = [writer.event_writer_from_location(member) for member in members]
        self.threads = [writer.event_writer_from_location(threads[rank]) for rank in range(n_ranks)]
        self.time = 0

    def group(self, ranks, kind="COMM_GROUP"):
        kind = getattr(otf2.GroupType, kind)
        return self.made.group("", group_type=kind, paradigm=self.paradigm, members=list(ranks))

    def comm(self, ranks, name=""):
        return self.made.comm(name, group=self.group(ranks))

    def tick(self):
        self.time += 1
        return self.time

    def send(self, rank, target, n_bytes, comm=None, thread=False):
        writer = (self.threads if thread else self.events)[rank]
        writer.enter(self.tick(), self.work)
        comm = self.world if comm is None else comm
        if n_bytes % 2:
            writer.mpi_send(self.tick(), target, comm, 7, n_bytes)
        else:
            writer.mpi_isend(self.tick(), target, comm, 7, n_bytes, self.time)
        writer.leave(self.tick(), self.work)

    def collective(self, rank, call, sizes, comm=None, root=NOBODY):
        writer, operation = self.events[rank], getattr(otf2.CollectiveOp, call.upper())
        writer.mpi_collective_begin(self.tick())
        writer.mpi_collective_end(self.tick(), operation, self.world if comm is None else comm, root, *sizes)


def written(folder, n_ranks, write):
    """Return the path of a trace of some ranks."""
    with otf2.writer.open(str(folder / "trace"), timer_resolution=10**6) as writer:
        write(Trace(writer, n_ranks))
    return folder / "trace" / "traces.otf2"


def halo(trace):
    """Exchange halos on a grid of 4 x 2 ranks, three times; all-to-alls of rows, and all-reduces."""
    shape = (4, 2)
    rows = [trace.comm(range(2 * i, 2 * i + 2), "row") for i in range(4)]
    for rank in range(8):
        at = np.unravel_index(rank, shape)
        for step in range(3):
            for dimension, n_bytes in ((0, 4000), (1, 2401)):
                for to in (1, -1):
                    there = list(at)
                    there[dimension] = (there[dimension] + to) % shape[dimension]
                    target = int(np.ravel_multi_index(there, shape))
                    trace.send(rank, target, n_bytes, thread=step == 2)
            trace.collective(rank, "allreduce", (8 * 8, 8 * 8))
        trace.collective(rank, "alltoall", (2 * 800, 2 * 800), rows[rank // 2])
        trace.collective(rank, "barrier", (0, 0))


@needs_otf2
def test_a_halo_exchange_and_sub_communicators(tmp_path):
    path = written(tmp_path, 8, halo)
    recording = read_recording(path)
    expected = grid_graph([4, 2], n_bytes=[3 * 4000, 3 * 2401])
    matrix = np.zeros((8, 8), np.int64)
    matrix[expected.sources, expected.targets] = expected.n_bytes
    assert np.array_equal(byte_matrix(recording.direct, 8), matrix)
    assert recording.direct["messages"].sum() == 8 * 12
    calls = sorted((CALLS[row["call"]], recording.groups[row["group"]].ranks.tolist(), int(row["size"]),
                    int(row["calls"])) for row in recording.collectives)  # fmt: skip
    everyone = list(range(8))
    rows = [("alltoall", [2 * i, 2 * i + 1], 800, 1) for i in range(4)]
    assert calls == [("allreduce", everyone, 8, 3), *rows, ("barrier", everyone, 0, 1)]
    rows = recording.messages({"alltoall": "pairwise"})
    rows = rows[rows["call"] == CALLS.index("alltoall")]
    lines = subgrid_alltoall_graph([4, 2], [1], 800)
    matrix = np.zeros((8, 8), np.int64)
    matrix[lines.sources, lines.targets] = lines.n_bytes
    assert np.array_equal(byte_matrix(rows, 8), matrix)
    assert read_graph(path, 8).total_bytes > expected.total_bytes


def write_between(comm, writer, registry):
    """Write an intercommunicator: otf2's own class (3.2) has too many fields to be written."""
    sides = comm.group._ref, comm.groupB._ref
    _otf2.GlobalDefWriter_WriteInterComm(writer._handle, comm._ref, 0, *sides, NOBODY, otf2.CommFlag.NONE)


def other_orders(trace):
    """Send in a communicator in reverse, to itself alone, between two groups, and into windows."""
    ranks = range(4)
    reverse = trace.comm(list(ranks)[::-1], "reverse")
    alone = trace.made.comm("alone", group=trace.group([], "COMM_SELF"))
    sides = [trace.group(side) for side in ([1, 0], [2, 3])]
    between = trace.made.inter_comm("between", group=sides[0], groupA=sides[0], groupB=sides[1])
    window = trace.made.rma_win("window", comm=reverse)
    for rank in ranks:
        trace.send(rank, (3 - rank + 1) % 4, 100 + rank, reverse)
        trace.send(rank, 0, 5, alone)
        trace.collective(rank, "allreduce", (8, 8), alone)
        trace.send(rank, 1, 6, between)
        events = trace.events[rank]
        if rank == 1:
            events.rma_put(trace.tick(), window, 0, 30, 1)
            events.rma_get(trace.tick(), window, 1, 40, 2)
            kind = otf2.RmaAtomicType.FETCH_AND_ADD
            events.rma_atomic(trace.tick(), window, 3, kind, 8, 16, 3)
        trace.collective(rank, "gatherv", (8 * (rank + 1), 80 if rank == 2 else 0), root=2)
        trace.collective(rank, "scatterv", (80 if rank == 3 else 0, 8 * (rank + 1)), reverse, root=0)
        trace.collective(rank, "allgatherv", (4 * BLOCKS[rank], 96))
        trace.collective(rank, "alltoallv", (400, 400))


@needs_otf2
def test_ranks_are_those_of_the_world_whatever_the_communicator(tmp_path, monkeypatch):
    monkeypatch.setattr(otf2.definitions.InterComm, "write", write_between)
    progress = SilentProgress()
    recording = read_recording(written(tmp_path, 4, other_orders), progress)
    assert progress.warnings == ["blocks of alltoallv are taken to be equal: a trace has but their sums"]
    ranks, rows = np.arange(4), recording.direct
    inter = np.array([group.inter for group in recording.groups])
    sends = rows[rows["call"] == CALLS.index("send")]
    alone = sends[sends["source"] == sends["target"]]
    between = sends[inter[sends["group"]]]
    reverse = sends[sends["group"] == [group.name for group in recording.groups].index("reverse")]
    expected = np.zeros((4, 4), np.int64)
    expected[ranks, ranks - 1] = 100 + ranks
    assert np.array_equal(byte_matrix(reverse, 4), expected)
    assert np.array_equal(byte_matrix(alone, 4), np.diag([5] * 4))
    # Of sides of ranks 1, 0 and of 2, 3: each sends to the second of the other side.
    assert np.array_equal(byte_matrix(between, 4), [[0, 0, 0, 6], [0, 0, 0, 6], [6, 0, 0, 0], [6, 0, 0, 0]])
    sums = {call: byte_matrix(rows[rows["call"] == CALLS.index(call)], 4) for call in CALLS}
    assert sums["put"][1, 3] == 30 and sums["get"][2, 1] == 40
    assert sums["accumulate"][1, 0] == 8 and sums["get"][0, 1] == 16
    assert np.array_equal(sums["gatherv"][:, 2], [8, 16, 0, 32])
    assert np.array_equal(sums["scatterv"][3], [8, 16, 24, 0])
    assert np.array_equal(sums["allgatherv"][ranks - 1, ranks], 96 - np.array(BLOCKS))
    assert [(CALLS[row["call"]], int(row["size"])) for row in recording.collectives] == [("alltoall", 100)]


@needs_otf2
def test_damaged_traces_are_refused(tmp_path):
    path = written(tmp_path, 8, halo)
    events = sorted((path.parent / "traces").glob("*.evt"))
    whole = events[3].read_bytes()
    events[3].write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"traces\.otf2: "):
        read_recording(path)
    events[3].unlink()
    with pytest.raises(DataError, match=r"traces\.otf2: "):
        read_recording(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match=r"traces\.otf2: "):
        read_recording(path)


@needs_otf2
def test_a_rank_that_is_not_defined_is_an_error(tmp_path):
    path = written(tmp_path, 2, lambda trace: trace.send(1, 5, 8))
    with pytest.raises(DataError, match="an event of rank 1 does not fit the definitions"):
        read_recording(path)


@needs_otf2
def test_a_trace_without_mpi_is_refused(tmp_path):
    with otf2.writer.open(str(tmp_path / "trace"), timer_resolution=10**6) as writer:
        node = writer.definitions.system_tree_node("node")
        process = writer.definitions.location_group("one", system_tree_parent=node)
        location = writer.definitions.location("one", group=process)
        writer.event_writer_from_location(location).enter(1, writer.definitions.region("work"))
    with pytest.raises(DataError, match="no processes of MPI are defined"):
        read_recording(tmp_path / "trace" / "traces.otf2")


def test_callbacks_live_as_long_as_the_library_may_call_them():
    events = TraceEvents(TraceDefinitions())
    callback = weakref.ref(events.guarded(events.send))
    gc.collect()
    assert callback() is not None


def test_a_library_that_ends_its_process_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "traces.otf2"
    path.write_text("")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(otf2_trace, "_MODULE", "no_such_module")
    with pytest.raises(DataError, match=r"OTF2's library ended with code 1, and said: .*no_such_module"):
        read_recording(path)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    path = tmp_path / "traces.otf2"
    path.write_text("")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"package otf2, which is not installed \(pip install otf2"):
        read_recording(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_recording(tmp_path / "none.otf2")
