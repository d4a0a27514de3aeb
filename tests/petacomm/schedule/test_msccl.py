"""Schedules as programs of MSCCL: written and read back, run on numbers as GPUs would, and wrong files."""

from collections import Counter, defaultdict, deque

import numpy as np
import pytest
from schedules import pair_schedules

from petacomm.base.errors import ConfigError
from petacomm.schedule import CollectiveCall, Round, Schedule, ScheduleError, flat_messages, make_schedule
from petacomm.schedule.algorithms.combining_tree import tree_allreduce
from petacomm.schedule.algorithms.ring import ring_allreduce
from petacomm.schedule.chunk_division import COLLECTIVES
from petacomm.schedule.msccl import MAX_STEPS, parse_msccl, read_msccl
from petacomm.schedule.msccl_steps import msccl_program, write_msccl
from petacomm.topology import Torus

IN_FLIGHT = 2  # transfers of a connection that are not received yet: NCCL has no room for more


def told(grid, n_elements=11):
    """Iterate over schedules that MSCCL can run."""
    for schedule in pair_schedules(grid, n_elements):
        if schedule.collective in COLLECTIVES:
            yield schedule


class Gpus:
    """GPUs that run a program on integers; which thread block goes on is drawn by lot."""

    def __init__(self, program, seed):
        self.program, self.rng = program, np.random.default_rng(seed)
        values = self.rng.integers(1, 10**6, (program.n_ranks, program.chunks[0]))
        self.given = values.copy()
        self.memory = [
            {"i": values[rank], "o": np.zeros(program.chunks[1], int), "s": np.zeros(program.chunks[2], int)}
            for rank in range(program.n_ranks)
        ]
        self.on_the_way = defaultdict(deque)
        self.done = [[0] * len(blocks) for blocks in program.gpus]

    def run(self):
        """Run the steps until none can go on; return whether all are done."""
        left = [(rank, tb) for rank, blocks in enumerate(self.program.gpus) for tb in range(len(blocks))]
        while True:
            self.rng.shuffle(left)
            went_on = [self._step(*one) for one in left]
            if not any(went_on):
                break
        sizes = [[len(block.steps) for block in blocks] for blocks in self.program.gpus]
        return self.done == sizes and not any(self.on_the_way.values())

    def _step(self, rank, tb):
        block, number = self.program.gpus[rank][tb], self.done[rank][tb]
        if number == len(block.steps):
            return False
        step = block.steps[number]
        other, awaited = step.after
        if other >= 0 and self.done[rank][other] <= awaited:
            return False
        memory, n = self.memory[rank], step.count
        source, target = (
            memory[buffer][at : at + n] if at >= 0 else None for buffer, at in (step.source, step.destination)
        )
        if step.kind == "s":
            queue = self.on_the_way[rank, block.send]
            if len(queue) == IN_FLIGHT:
                return False
            queue.append(source.copy())
        elif step.kind in ("r", "rrc"):
            queue = self.on_the_way[block.receive, rank]
            if not queue:
                return False
            target[:] = queue.popleft() + (source if step.kind == "rrc" else 0)
        elif step.kind == "cpy":
            target[:] = source
        self.done[rank][tb] += 1
        return True


@pytest.mark.parametrize("shape", [(2,), (5,), (8,), (4, 2), (3, 3)])
def test_gpus_end_with_what_the_collective_makes(shape):
    schedules = list(told(Torus(shape), 24))
    assert {one.collective for one in schedules} == set(COLLECTIVES)
    for schedule in schedules:
        program = msccl_program(schedule)
        for seed in range(3):
            gpus = Gpus(program, seed)
            assert gpus.run(), schedule.algorithm
            if schedule.collective == "allreduce":
                for memory in gpus.memory:
                    np.testing.assert_array_equal(memory["i"], gpus.given.sum(axis=0))
            else:
                blocks = gpus.given.reshape(schedule.n_ranks, schedule.n_ranks, -1)
                for rank, memory in enumerate(gpus.memory):
                    np.testing.assert_array_equal(memory["o"], blocks[:, rank].ravel())


def of_one_round(source, destination, begin, to):
    """Return a schedule of a round of single elements, of which nobody says that it is an all-reduce."""
    part = Round.from_columns(source, destination, begin, 1, destination_begin=to)
    return Schedule("allreduce", "made", 2, 5, 1, lambda: iter([part]))


def test_ranks_read_before_they_write():
    """What is copied in memory, or sent as the second part, is what was there before the round."""
    program = msccl_program(of_one_round([1, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 3], [0, 1, 2, 4]))
    for seed in range(5):
        gpus = Gpus(program, seed)
        assert gpus.run()
        one, other = gpus.given
        np.testing.assert_array_equal(gpus.memory[0]["i"], [other[0], one[0], one[2], one[3], other[3]])
        np.testing.assert_array_equal(gpus.memory[1]["i"], [other[0], other[1], one[1], *other[3:]])


@pytest.mark.parametrize(
    "rows",
    [
        ([0, 0], [0, 0], [0, 1], [1, 2]),  # a copy of what another copy overwrites
        ([0, 0, 0, 0, 1], [1, 1, 1, 1, 0], [0, 1, 2, 3, 0], [1, 2, 3, 4, 3]),  # of the fourth part
    ],
)
def test_rounds_for_which_there_is_no_room_are_refused(rows):
    with pytest.raises(ScheduleError, match="no room"):
        msccl_program(of_one_round(*rows))


def test_without_what_steps_wait_for_gpus_end_with_something_else():
    """The test above would see it."""
    program = msccl_program(make_schedule(CollectiveCall("allreduce", 8, 24), "recursive-doubling"))
    for block in (block for blocks in program.gpus for block in blocks):
        for step in block.steps:
            step.after = (-1, -1)
    wrong = 0
    for seed in range(10):
        gpus = Gpus(program, seed)
        gpus.run()
        wrong += any((one["i"] != gpus.given.sum(axis=0)).any() for one in gpus.memory)
    assert wrong


@pytest.mark.parametrize("shape", [(2,), (5,), (4, 2)])
def test_programs_are_read_back(shape, tmp_path):
    for schedule in told(Torus(shape)):
        path = write_msccl(schedule, tmp_path / "a.xml")
        found = read_msccl(path)
        assert found == msccl_program(schedule)
        assert found.text() == path.read_text()
        flat, sent = flat_messages(schedule, 1), Counter()
        unit = schedule.n_elements // sum(found.chunks)
        for source, destination, size in zip(flat.source, flat.destination, flat.bytes, strict=True):
            sent[int(source), int(destination)] += int(size) // unit
        assert found.messages() == sent


def test_text_of_a_small_program():
    assert msccl_program(ring_allreduce(2, 2), "mine").text().splitlines()[:5] == [
        '<algo name="mine" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" '
        'inplace="1" outofplace="0" minBytes="0" maxBytes="0">',
        '  <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="0">',
        '    <tb id="0" send="1" recv="1" chan="0">',
        '      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" '
        'hasdep="0"/>',
        '      <step s="1" type="rrc" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" '
        'deps="-1" hasdep="0"/>',
    ]


def test_long_parts_are_sent_in_several_steps():
    program = msccl_program(ring_allreduce(3, 3 * 100 + 1))
    assert max(step.count for block in program.gpus[0] for step in block.steps) == 71
    assert Gpus(program, 0).run()


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (make_schedule(CollectiveCall("broadcast", 4, 8)), "there is none of a broadcast"),
        (tree_allreduce(8, 8), "MSCCL cannot say"),
        (ring_allreduce(MAX_STEPS, MAX_STEPS), "steps of one, and MSCCL has 256"),
        (make_schedule(CollectiveCall("alltoall", 40, 1), "pairwise"), "thread blocks, and MSCCL has 32"),
        (ring_allreduce(3, 10**6), "no chunks of one size"),
    ],
)
def test_what_it_cannot_run_is_refused(schedule, said):
    with pytest.raises(ScheduleError, match=said):
        msccl_program(schedule)


TEXT = msccl_program(ring_allreduce(3, 3)).text()


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("<algo", "<algos", 38, "'algo' ends here"),
        ("</algo>", "", 1, "'algo' does not end"),
        ('ngpus="3"', 'ngpus="4"', 1, "3 of 4 gpus"),
        ('ngpus="3"', 'ngpus="x"', 1, "no number from 1"),
        ('gpu id="1"', 'gpu id="0"', 14, "a second gpu 0"),
        ('send="1"', 'send="0"', 3, "speaks to its own rank"),
        ('type="rrc"', 'type="sum"', 5, "no type of a step: 'sum'"),
        ('s="1" type="rrc"', 's="2" type="rrc"', 5, "step 1 of the thread block"),
        ('srcoff="2"', 'srcoff="3"', 5, "1 chunks from 3 of 3 in 'i'"),
        ('srcbuf="i"', 'srcbuf="x"', 4, "no buffer: 'x'"),
        ('depid="-1" deps="-1"', 'depid="0" deps="9"', 4, "no step 9 of a thread block 0"),
        ('depid="-1" deps="-1"', 'depid="0" deps="1"', 4, "hasdep=0"),
        (' cnt="1"', "", 4, "'step' lacks 'cnt'"),
        ('cnt="1"', 'cnt="4"', 4, "4 chunks from 0 of 3"),
        ('type="s"', 'type="nop"', 1, "gpu 1 does not receive what gpu 0 sends"),
        ("  <gpu", "  text <gpu", 2, "'t' is no element"),
        ('recv="2"', 'recv="-1"', 5, "no rank to receive with"),
    ],
)
def test_wrong_files_are_told_by_their_line(old, new, line, said, tmp_path):
    path = tmp_path / "a.xml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(ConfigError, match=rf"a\.xml:{line}: .*{said}"):
        read_msccl(path)


def test_programs_of_others_are_read():
    """With comments, sums in scratch memory, and steps that wait for several others."""
    lines = """    <!-- by
    hand -->
    <algo name="pairs" proto="LL" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1">
      <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="2">
        <tb id="0" send="1" recv="1" chan="0">
          <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
          <step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
        </tb>
        <tb id="1" send="-1" recv="-1" chan="0">
          <step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="0" deps="1" hasdep="0"/>
          <step s="1" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="0" deps="1" hasdep="0"/>
        </tb>
      </gpu>
      <gpu id="1" i_chunks="2" o_chunks="0" s_chunks="2">
        <tb id="0" send="0" recv="0" chan="0">
          <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
          <step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
        </tb>
      </gpu>
    </algo>"""  # noqa: E501
    found = parse_msccl("pairs.xml", lines)
    assert found.messages() == {(0, 1): 2, (1, 0): 2}
    assert found.chunks == (2, 0, 2) and [len(blocks) for blocks in found.gpus] == [2, 1]
